/* SPDX-License-Identifier: MIT */
#include "consumer/apply/lasts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum rc lasts_init(struct lasts *lasts, size_t votes_max, struct err *err)
{
    memset(lasts, 0, sizeof(*lasts));
    lasts->rows = calloc(votes_max, sizeof(*lasts->rows));
    if (!lasts->rows)
        return err_fail(err, RC_FATAL, 0, "no memory for the voters of %zu votes", votes_max);
    lasts->rows_max = votes_max;
    return RC_OK;
}

void lasts_done(struct lasts *lasts)
{
    free(lasts->rows);
    memset(lasts, 0, sizeof(*lasts));
}

static int rows_compare(const void *left, const void *right)
{
    const struct last_row *a = left;
    const struct last_row *b = right;

    if (a->content_id != b->content_id)
        return a->content_id < b->content_id ? -1 : 1;
    return (a->voter_id > b->voter_id) - (a->voter_id < b->voter_id);
}

static struct last_row row_of(const struct vote_event *event)
{
    return (struct last_row){.content_id = event->content_id, .voter_id = event->voter_id};
}

void lasts_collect(struct lasts *lasts, const struct vote_row *votes, size_t count)
{
    size_t kept = 0;

    lasts->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (votes[i].skip)
            continue;
        assert(lasts->count < lasts->rows_max);
        lasts->rows[lasts->count++] = row_of(&votes[i].event);
    }
    qsort(lasts->rows, lasts->count, sizeof(*lasts->rows), rows_compare);
    for (size_t i = 0; i < lasts->count; i++) {
        if (kept > 0 && rows_compare(&lasts->rows[kept - 1], &lasts->rows[i]) == 0)
            continue;
        lasts->rows[kept++] = lasts->rows[i];
    }
    lasts->count = kept;
}

/* Whether the vote changes its voter's last one, which it becomes unless it is older. A repeat is
 * the last vote too, and so is one taken back that was not given, or not yet: what is older and
 * comes later must not pass for news. */
static bool changes(struct last_row *last, const struct vote_event *event)
{
    bool change = event->voting != (last->found ? last->voting : 0);

    if (last->found && event->occurred_ms < last->occurred_ms)
        return false;
    if (change || !last->found || event->occurred_ms > last->occurred_ms)
        last->changed = true;
    last->found = true;
    last->voting = event->voting;
    last->occurred_ms = event->occurred_ms;
    return change;
}

size_t lasts_judge(struct lasts *lasts, struct vote_row *votes, size_t count)
{
    size_t aside = 0;

    for (size_t i = 0; i < count; i++) {
        struct last_row key = row_of(&votes[i].event);
        struct last_row *last;

        if (votes[i].skip)
            continue;
        last = bsearch(&key, lasts->rows, lasts->count, sizeof(key), rows_compare);
        assert(last);
        if (changes(last, &votes[i].event))
            continue;
        votes[i].skip = true;
        votes[i].aside = true;
        aside++;
    }
    return aside;
}
