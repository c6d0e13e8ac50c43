/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_dead.h"

#include <assert.h>
#include <string.h>

static struct dead_item show_item(const struct fake_dead *fake, const struct fake_dead_row *dead)
{
    struct dead_item item = {
        .id = dead->id, .topic = fake->topic, .partition = dead->partition, .offset = dead->offset};

    fake->show(fake->ctx, dead, &item);
    return item;
}

/* It is of the filter's key, or the filter is of any. */
static bool is_of_key(const struct dead_filter *filter, const struct dead_item *item)
{
    return !filter->key || (item->key && strlen(filter->key) == item->key_len &&
                            memcmp(filter->key, item->key, item->key_len) == 0);
}

static bool is_listed(const struct dead_filter *filter, int64_t id)
{
    for (size_t i = 0; i < filter->id_count; i++)
        if (filter->ids[i] == id)
            return true;
    return filter->id_count == 0;
}

/* As put_others(): what a replay must see for its order. */
static bool is_seen(const struct dead_filter *filter, const struct fake_dead_row *dead)
{
    return (filter->id_max == 0 || dead->id <= filter->id_max) &&
           (!filter->held || fake_dead_is_held(&dead->now));
}

/* As put_filter(). */
static bool is_selected(const struct dead_filter *filter, const struct fake_dead_row *dead,
                        const struct dead_item *item)
{
    return is_seen(filter, dead) && is_listed(filter, dead->id) &&
           (!filter->reason_class || strcmp(filter->reason_class, item->reason_class) == 0);
}

/* A page on its way. */
struct page {
    struct fake_dead *fake;
    const struct dead_filter *filter;
    size_t rows_max;
    size_t rows;
    bool others;
    enum rc (*on_item)(void *ctx, const struct dead_item *item, struct err *err);
    void *ctx;
};

/* Locks a record, and shows it if it is in the page. */
static enum rc lock_record(struct page *page, struct fake_dead_row *dead, struct err *err)
{
    struct fake_dead *fake = page->fake;
    struct dead_item item = show_item(fake, dead);
    enum rc rc;

    if (!is_of_key(page->filter, &item))
        return RC_OK;
    rc = fake_lock(&fake->sink->session, &dead->row, err);
    if (rc != RC_OK || !dead->now.found)
        return rc;
    item = show_item(fake, dead);
    item.selected = is_selected(page->filter, dead, &item);
    if (!item.selected && (!page->others || !is_seen(page->filter, dead)))
        return RC_OK;
    page->rows++;
    return page->on_item(page->ctx, &item, err);
}

static enum rc lock_partition(struct page *page, int32_t partition, int64_t after_offset,
                              struct err *err)
{
    const struct fake_sink_tables *tables = page->fake->sink->tables;
    enum rc rc = RC_OK;

    while (rc == RC_OK && page->rows < page->rows_max) {
        struct fake_dead_row *dead = tables->next_dead(tables->ctx, partition, after_offset);

        if (!dead)
            break;
        after_offset = dead->offset;
        if (dead->now.found || dead->old.found)
            rc = lock_record(page, dead, err);
    }
    return rc;
}

/* SELECT ... ORDER BY partition_id, record_offset LIMIT rows_max FOR UPDATE */
static enum rc fake_lock_page(void *ctx, const struct dead_filter *filter,
                              const struct dead_cursor *after, size_t rows_max, bool others,
                              enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                                 struct err *err),
                              void *item_ctx, struct err *err)
{
    struct fake_dead *fake = ctx;
    struct page page = {fake, filter, rows_max, 0, others, on_item, item_ctx};
    int32_t first = after->topic[0] ? after->partition : 0;
    enum rc rc = fake_call(&fake->sink->session, err);

    for (int32_t partition = first; rc == RC_OK && partition < fake->sink->tables->partition_count;
         partition++)
        if (filter->partition == DEAD_NUMBER_ANY || filter->partition == partition)
            rc = lock_partition(&page, partition,
                                after->topic[0] && partition == first ? after->offset : -1, err);
    return rc == RC_OK ? fake_answer(&fake->sink->session, err) : rc;
}

static enum rc fake_write_reason(void *ctx, int64_t id, const char *reason_class,
                                 const char *reason, size_t reason_len, struct err *err)
{
    struct fake_dead *fake = ctx;
    struct fake_dead_row *dead = fake->find(fake->ctx, id);
    enum rc rc = fake_call(&fake->sink->session, err);

    if (rc != RC_OK)
        return rc;
    assert(dead->now.found);
    fake_dead_write(fake->sink->tables, &fake->sink->session, dead);
    dead->now.class = fake_dead_class_of(reason_class);
    if (fake->on_reason)
        fake->on_reason(fake->ctx, dead, reason_class, reason, reason_len);
    return fake_answer(&fake->sink->session, err);
}

static enum rc fake_decide(void *ctx, const int64_t *ids, size_t count, enum dead_decision decision,
                           const void *value, size_t value_len, struct err *err)
{
    struct fake_dead *fake = ctx;
    enum rc rc = fake_call(&fake->sink->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_dead_row *dead = fake->find(fake->ctx, ids[i]);

        assert(dead->now.found);
        fake_dead_write(fake->sink->tables, &fake->sink->session, dead);
        dead->now.found = false;
        if (fake->on_decide)
            fake->on_decide(fake->ctx, dead, decision, value, value_len);
    }
    return rc == RC_OK ? fake_answer(&fake->sink->session, err) : rc;
}

static enum rc fake_count_ids(void *ctx, const int64_t *ids, size_t count, size_t *left,
                              struct err *err)
{
    struct fake_dead *fake = ctx;
    enum rc rc = fake_call(&fake->sink->session, err);

    *left = 0;
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        *left += fake->find(fake->ctx, ids[i])->old.found;
    return rc == RC_OK ? fake_answer(&fake->sink->session, err) : rc;
}

struct dead_store fake_dead_ops(struct fake_dead *fake)
{
    return (struct dead_store){
        .ctx = fake,
        .lock_page = fake_lock_page,
        .write_reason = fake_write_reason,
        .decide = fake_decide,
        .count_ids = fake_count_ids,
    };
}
