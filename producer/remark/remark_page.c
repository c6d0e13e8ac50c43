/* SPDX-License-Identifier: MIT */
#include "producer/remark/remark_page.h"

#include "common/id.h"
#include "common/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cursor: the order, then the numbers of its place. */
#define CURSOR_NEWEST "n1"
#define CURSOR_VOTES "v1"

void remark_cursor_write(const struct remark_place *place, char cursor[REMARK_CURSOR_SIZE])
{
    assert(place->after);
    if (place->sort == REMARK_NEWEST)
        snprintf(cursor, REMARK_CURSOR_SIZE, CURSOR_NEWEST ".%" PRId64 ".%" PRId64, place->item_id,
                 place->id);
    else
        snprintf(cursor, REMARK_CURSOR_SIZE,
                 CURSOR_VOTES ".%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64, place->item_id,
                 place->id, place->votes, place->window);
}

/* A number after a dot, as remark_cursor_write() writes it; *at moves behind it. */
static bool read_number(const char **at, int64_t *number)
{
    char text[24];
    size_t len;
    char *end;

    if (**at != '.')
        return false;
    ++*at;
    len = strcspn(*at, ".");
    if (len == 0 || len >= sizeof(text))
        return false;
    memcpy(text, *at, len);
    text[len] = '\0';
    *number = strtoll(text, &end, 10);
    if (*end != '\0')
        return false;
    *at += len;
    return true;
}

bool remark_cursor_read(const char *cursor, int64_t item_id, enum remark_sort sort,
                        struct remark_place *place)
{
    const char *at = cursor + strlen(CURSOR_NEWEST);
    char again[REMARK_CURSOR_SIZE];

    *place = (struct remark_place){.sort = sort, .after = true};
    if (strncmp(cursor, sort == REMARK_NEWEST ? CURSOR_NEWEST : CURSOR_VOTES,
                strlen(CURSOR_NEWEST)) != 0)
        return false;
    if (!read_number(&at, &place->item_id) || !read_number(&at, &place->id))
        return false;
    if (sort == REMARK_VOTES &&
        (!read_number(&at, &place->votes) || !read_number(&at, &place->window)))
        return false;
    /* Only the one spelling that was given out: no other text is a key of the cache. */
    remark_cursor_write(place, again);
    return place->item_id == item_id && strcmp(cursor, again) == 0;
}

bool remark_window_is_kept(int64_t window, const struct remark_windows *seen)
{
    bool at_work = seen->started > seen->finished;

    return window == seen->finished || (!at_work && window == seen->finished - 1);
}

struct remark_page *remark_page_new(const struct remark_place *place, size_t rows_max)
{
    struct remark_page *page = calloc(1, sizeof(*page) + rows_max * sizeof(page->rows[0]));

    assert(rows_max > 0 && rows_max <= REMARK_PAGE_ROWS_MAX);
    if (!page)
        return NULL;
    atomic_init(&page->holders, 1);
    page->place = *place;
    page->rows_max = rows_max;
    return page;
}

void remark_page_hold(struct remark_page *page)
{
    atomic_fetch_add(&page->holders, 1);
}

void remark_page_release(struct remark_page *page)
{
    if (!page || atomic_fetch_sub(&page->holders, 1) > 1)
        return;
    buf_done(&page->json);
    free(page);
}

void remark_page_clear(struct remark_page *page)
{
    page->count = 0;
    page->has_next = false;
    page->expired = false;
    buf_reset(&page->json);
}

static void put_number(struct buf *out, const char *head, int64_t number)
{
    buf_text_put(out, head);
    buf_i64(out, number);
}

static void put_text(struct buf *out, const char *head, const char *text)
{
    buf_text_put(out, head);
    if (text)
        json_text_put(out, text);
    else
        buf_text_put(out, "null");
}

static void put_row(struct buf *out, const struct remark_row *row)
{
    put_number(out, "{\"id\":", row->id);
    put_number(out, ",\"itemId\":", row->item_id);
    put_number(out, ",\"consumerId\":", row->consumer_id);
    put_number(out, ",\"orderId\":", row->order_id);
    put_number(out, ",\"score\":", row->score);
    put_text(out, ",\"header\":", row->header);
    put_text(out, ",\"content\":", row->content);
    put_text(out, ",\"images\":", row->images);
    put_text(out, ",\"userName\":", row->user_name);
    put_text(out, ",\"userFace\":", row->user_face);
    put_number(out, ",\"status\":", row->status);
    put_number(out, ",\"createdAt\":", row->created_ms);
}

enum rc remark_page_add(struct remark_page *page, const struct remark_row *row, struct err *err)
{
    size_t len = page->json.len;

    assert(page->count <= page->rows_max);
    if (page->has_next)
        return RC_OK;
    if (page->count == page->rows_max) {
        page->has_next = true;
        return RC_OK;
    }
    put_row(&page->json, row);
    if (page->json.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a page of remarks");
    if (page->count > 0 && page->json.len > REMARK_PAGE_BYTES_MAX) {
        buf_cut(&page->json, len);
        page->has_next = true;
        return RC_OK;
    }
    page->rows[page->count].id = row->id;
    page->rows[page->count].votes = row->votes;
    page->rows[page->count].end = page->json.len;
    page->count++;
    page->next = page->place;
    page->next.after = true;
    page->next.id = row->id;
    page->next.votes = page->place.sort == REMARK_VOTES ? row->votes : 0;
    return RC_OK;
}

void remark_page_trim(struct remark_page *page)
{
    buf_trim(&page->json);
}

size_t remark_page_bytes(const struct remark_page *page)
{
    return sizeof(*page) + page->rows_max * sizeof(page->rows[0]) + page->json.size;
}

/* The position in the list, from 1; the remarks of a page are in the order of the listed ones. */
static int64_t find_rank(const struct remark_page *page, size_t i)
{
    size_t place = i;

    while (place < page->listed_count && page->rows[place].listed != page->rows[i].id)
        place++;
    return page->place.id + (int64_t)place + 1;
}

static void put_remark(struct buf *out, const struct remark_page *page, size_t i,
                       const struct remark_totals *totals)
{
    size_t begin = i > 0 ? page->rows[i - 1].end : 0;

    buf_put(out, page->json.data + begin, page->rows[i].end - begin);
    put_number(out, ",\"votes\":", totals->rows ? totals->rows[i].votes : page->rows[i].votes);
    if (totals->voter_id > 0 && totals->rows)
        put_number(out, ",\"voting\":", totals->rows[i].voting == 1);
    if (page->place.sort == REMARK_RECOMMENDED)
        put_number(out, ",\"rank\":", find_rank(page, i));
    buf_char(out, '}');
}

static void put_next(struct buf *out, const struct remark_page *page)
{
    char cursor[REMARK_CURSOR_SIZE];

    if (!page->has_next) {
        buf_text_put(out, ",\"next\":null");
        return;
    }
    remark_cursor_write(&page->next, cursor);
    buf_print(out, ",\"next\":\"%s\"", cursor);
}

/* The position where the rest of a recommended list begins. */
static void put_next_start(struct buf *out, const struct remark_page *page)
{
    int64_t next = page->has_next ? find_rank(page, page->count - 1)
                                  : page->place.id + (int64_t)page->listed_count;

    if (next < (int64_t)page->list.count)
        put_number(out, ",\"next\":", next);
    else
        buf_text_put(out, ",\"next\":null");
}

static void put_list(struct buf *out, const struct remark_list *list)
{
    put_number(out, ",\"count\":", (int64_t)list->count);
    if (list->building)
        buf_text_put(out, ",\"building\":true,\"list\":null,\"window\":null");
    else
        buf_print(out, ",\"building\":false,\"list\":\"%016" PRIx64 "\",\"window\":%" PRId64,
                  list->version, list->window);
}

void remark_page_put(struct buf *out, const struct remark_page *page,
                     const struct remark_totals *totals)
{
    buf_text_put(out, "{\"remarks\":[");
    for (size_t i = 0; i < page->count; i++) {
        if (i > 0)
            buf_char(out, ',');
        put_remark(out, page, i, totals);
    }
    buf_char(out, ']');
    if (page->place.sort == REMARK_RECOMMENDED) {
        put_list(out, &page->list);
        put_next_start(out, page);
    } else {
        put_next(out, page);
    }
    if (totals->age_ms >= 0)
        put_number(out, ",\"totalsAgeMs\":", totals->age_ms);
    else
        buf_text_put(out, ",\"totalsAgeMs\":null");
    buf_text_put(out, totals->stale ? ",\"stale\":true}" : ",\"stale\":false}");
}
