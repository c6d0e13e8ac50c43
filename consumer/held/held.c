/* SPDX-License-Identifier: MIT */
#include "consumer/held/held.h"

#include "consumer/ingest/record.h"

#include <stdlib.h>
#include <string.h>

#define CONTENTS_FIRST 64

void held_done(struct held *held)
{
    free(held->contents);
    buf_done(&held->reasons);
    memset(held, 0, sizeof(*held));
}

/* Returns the index of content_id among the contents, or the index where it belongs. */
static size_t find_content_index(const struct held *held, int64_t content_id)
{
    size_t from = 0;
    size_t to = held->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (held->contents[middle] < content_id)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_held(const struct held *held, int64_t content_id)
{
    size_t at = find_content_index(held, content_id);

    return at < held->count && held->contents[at] == content_id;
}

static void add_content(void *ctx, int64_t content_id)
{
    struct held *held = ctx;
    size_t at = find_content_index(held, content_id);

    if (held->failed || is_held(held, content_id))
        return;
    if (held->count == held->size) {
        size_t size = held->size > 0 ? held->size * 2 : CONTENTS_FIRST;
        int64_t *contents = realloc(held->contents, size * sizeof(*contents));

        held->failed = !contents;
        if (!contents)
            return;
        held->contents = contents;
        held->size = size;
    }
    memmove(held->contents + at + 1, held->contents + at,
            (held->count - at) * sizeof(*held->contents));
    held->contents[at] = content_id;
    held->count++;
}

static enum rc check_memory(const struct held *held, struct err *err)
{
    if (held->failed || held->reasons.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the contents that are held");
    return RC_OK;
}

enum rc held_read(struct held *held, const struct sink *sink, const struct place *place,
                  struct err *err)
{
    enum rc rc;

    held->count = 0;
    held->failed = false;
    rc = sink->read_held(sink->ctx, place, add_content, held, err);
    return rc == RC_OK ? check_memory(held, err) : rc;
}

static void mark_refused(struct held *held, struct vote_row *row, const struct err *why)
{
    row->hold = HOLD_REFUSED;
    row->reason_at = held->reasons.len;
    record_put_reason(&held->reasons, why->text);
    buf_char(&held->reasons, '\0');
}

/* Halves a refused list of votes until single votes are left. A duplicate is refused too, and votes
 * after it may also be refused. */
static enum rc probe_votes(struct held *held, const struct sink *sink, struct vote_row *rows,
                           size_t count, size_t *found, struct err *err)
{
    bool duplicate = false;
    struct err why = {0};
    enum rc rc = sink->insert_votes(sink->ctx, rows, count, &duplicate, &why);

    if (rc == RC_OK && !duplicate)
        return RC_OK;
    if (rc == RC_RETRY || rc == RC_FATAL) {
        *err = why;
        return rc;
    }
    if (count == 1) {
        if (rc == RC_REJECT) {
            mark_refused(held, rows, &why);
            ++*found;
        }
        return RC_OK;
    }
    rc = probe_votes(held, sink, rows, count / 2, found, err);
    return rc == RC_OK ? probe_votes(held, sink, rows + count / 2, count - count / 2, found, err)
                       : rc;
}

enum rc held_probe(struct held *held, const struct sink *sink, struct vote_row *rows, size_t count,
                   size_t *found, struct err *err)
{
    enum rc rc;

    *found = 0;
    buf_reset(&held->reasons);
    rc = count > 0 ? probe_votes(held, sink, rows, count, found, err) : RC_OK;
    return rc == RC_OK ? check_memory(held, err) : rc;
}

enum rc held_mark(struct held *held, struct vote_row *rows, size_t count, size_t *marked,
                  struct err *err)
{
    *marked = 0;
    for (size_t i = 0; i < count; i++) {
        struct vote_row *row = &rows[i];

        if (row->skip || row->ends)
            continue;
        /* Invariant C5: a vote that was refused just now does not pass older votes of its content
         * that are held. */
        if (is_held(held, row->event.content_id))
            row->hold = HOLD_BEHIND;
        else if (row->hold == HOLD_REFUSED)
            add_content(held, row->event.content_id);
        else
            continue;
        row->skip = true;
        ++*marked;
    }
    return check_memory(held, err);
}

const char *held_class(const struct vote_row *row)
{
    return row->hold == HOLD_REFUSED ? REASON_REFUSED : REASON_BEHIND;
}

const char *held_reason(const struct held *held, const struct vote_row *row)
{
    if (row->hold == HOLD_REFUSED)
        return held->reasons.data + row->reason_at;
    return "an older vote on its content was refused by the database and waits to be tried again";
}
