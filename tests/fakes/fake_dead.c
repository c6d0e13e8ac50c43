/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_dead.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static bool is_listed(const int64_t *ids, size_t count, int64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static bool is_held(const struct dead_filter *filter, const struct sink_dead *row)
{
    return filter->partition == row->partition && strcmp(filter->key, row->key) == 0 &&
           (strcmp(row->reason_class, "refused") == 0 || strcmp(row->reason_class, "behind") == 0);
}

static bool is_selected(const struct dead_filter *filter, const struct sink_dead *row)
{
    return (filter->id_count == 0 || is_listed(filter->ids, filter->id_count, row->id)) &&
           (filter->id_max == 0 || row->id <= filter->id_max) &&
           (!filter->reason_class || strcmp(filter->reason_class, row->reason_class) == 0) &&
           (!filter->held || is_held(filter, row));
}

static bool is_behind(const struct sink_dead *row, const struct dead_cursor *after)
{
    return after->topic[0] == '\0' || row->partition > after->partition ||
           (row->partition == after->partition && row->offset > after->offset);
}

/* The next row behind the cursor that is dead, or NULL. */
static const struct sink_dead *row_next(const struct sink_data *data,
                                        const struct dead_cursor *after)
{
    const struct sink_dead *best = NULL;

    for (size_t i = 0; i < data->dead_count; i++) {
        const struct sink_dead *row = &data->dead[i];

        if (row->decision[0] == '\0' && is_behind(row, after) &&
            (!best || row->partition < best->partition ||
             (row->partition == best->partition && row->offset < best->offset)))
            best = row;
    }
    return best;
}

static enum rc give(const struct sink_dead *row, bool selected,
                    enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                       struct err *err),
                    void *item_ctx, struct err *err)
{
    struct dead_item item = {
        .id = row->id,
        .topic = "votes",
        .partition = row->partition,
        .offset = row->offset,
        .selected = selected,
        .key = row->has_key ? row->key : NULL,
        .key_len = strlen(row->key),
        .value = row->has_value ? row->value : NULL,
        .value_len = strlen(row->value),
        .reason_class = row->reason_class,
        .reason = row->reason,
    };

    return on_item(item_ctx, &item, err);
}

static enum rc fake_lock_page(void *ctx, const struct dead_filter *filter,
                              const struct dead_cursor *after, size_t rows_max, bool others,
                              enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                                 struct err *err),
                              void *item_ctx, struct err *err)
{
    struct fake_dead *fake = ctx;
    struct dead_cursor cursor = *after;
    enum rc rc = fake_sink_called(fake->sink, err);

    assert_true(rc != RC_OK || fake->sink->open);
    for (size_t given = 0; rc == RC_OK && given < rows_max;) {
        const struct sink_dead *row = row_next(&fake->sink->data, &cursor);
        bool selected = row && is_selected(filter, row);

        if (!row)
            break;
        cursor = (struct dead_cursor){.partition = row->partition, .offset = row->offset};
        snprintf(cursor.topic, sizeof(cursor.topic), "votes");
        if (!selected && (!others || filter->held))
            continue;
        rc = give(row, selected, on_item, item_ctx, err);
        given++;
    }
    return rc;
}

static struct sink_dead *row_of(struct fake_dead *fake, int64_t id)
{
    assert_in_range(id, 1, fake->sink->data.dead_count);
    return &fake->sink->data.dead[id - 1];
}

static enum rc fake_write_reason(void *ctx, int64_t id, const char *reason_class,
                                 const char *reason, size_t reason_len, struct err *err)
{
    struct fake_dead *fake = ctx;
    struct sink_dead *row = row_of(fake, id);
    enum rc rc = fake_sink_called(fake->sink, err);

    if (rc != RC_OK)
        return rc;
    assert_true(fake->sink->open);
    snprintf(row->reason_class, sizeof(row->reason_class), "%s", reason_class);
    snprintf(row->reason, sizeof(row->reason), "%.*s", (int)reason_len, reason);
    return RC_OK;
}

static enum rc fake_decide(void *ctx, const int64_t *ids, size_t count, enum dead_decision decision,
                           const void *value, size_t value_len, struct err *err)
{
    static const char *const words[] = {"applied", "duplicate", "stale", "dropped"};
    struct fake_dead *fake = ctx;
    enum rc rc = fake_sink_called(fake->sink, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sink_dead *row = row_of(fake, ids[i]);

        assert_true(fake->sink->open);
        assert_string_equal(row->decision, "");
        snprintf(row->decision, sizeof(row->decision), "%s", words[decision]);
        snprintf(row->mended_value, sizeof(row->mended_value), "%.*s", value ? (int)value_len : 0,
                 value ? (const char *)value : "");
    }
    return rc;
}

static enum rc fake_count_ids(void *ctx, const int64_t *ids, size_t count, size_t *left,
                              struct err *err)
{
    struct fake_dead *fake = ctx;
    const struct sink_data *data = &fake->sink->db->data;
    enum rc rc = fake_sink_called(fake->sink, err);

    assert_false(fake->sink->open);
    *left = 0;
    for (size_t i = 0; rc == RC_OK && i < data->dead_count; i++)
        *left += data->dead[i].decision[0] == '\0' && is_listed(ids, count, data->dead[i].id);
    return rc;
}

void fake_dead_init(struct fake_dead *fake, struct fake_sink *sink)
{
    fake->sink = sink;
    fake->store = (struct dead_store){
        .ctx = fake,
        .lock_page = fake_lock_page,
        .write_reason = fake_write_reason,
        .decide = fake_decide,
        .count_ids = fake_count_ids,
    };
}
