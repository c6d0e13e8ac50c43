/* SPDX-License-Identifier: MIT */
#include "consumer/apply/tally.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum rc tally_init(struct tally *tally, size_t votes_max, struct err *err)
{
    size_t slots = 16;

    while (slots < votes_max * 2)
        slots *= 2;
    memset(tally, 0, sizeof(*tally));
    tally->rows_max = votes_max;
    tally->mask = slots - 1;
    tally->rows = calloc(votes_max, sizeof(*tally->rows));
    tally->slots = calloc(slots, sizeof(*tally->slots));
    if (tally->rows && tally->slots)
        return RC_OK;
    tally_done(tally);
    return err_fail(err, RC_FATAL, 0, "no memory for the totals of %zu votes", votes_max);
}

void tally_done(struct tally *tally)
{
    free(tally->rows);
    free(tally->slots);
    memset(tally, 0, sizeof(*tally));
}

/* The slot of content_id, or the free one where it belongs. */
static uint32_t *slot_find(struct tally *tally, int64_t content_id)
{
    uint64_t hash = (uint64_t)content_id * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & tally->mask;

    while (tally->slots[at] != 0 && tally->rows[tally->slots[at] - 1].content_id != content_id)
        at = (at + 1) & tally->mask;
    return &tally->slots[at];
}

static void slots_clear(struct tally *tally)
{
    memset(tally->slots, 0, (tally->mask + 1) * sizeof(*tally->slots));
}

static int rows_compare(const void *left, const void *right)
{
    const struct tally_row *a = left;
    const struct tally_row *b = right;

    return (a->content_id > b->content_id) - (a->content_id < b->content_id);
}

void tally_collect(struct tally *tally, const struct vote_row *votes, size_t count)
{
    slots_clear(tally);
    tally->count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t *slot;

        if (votes[i].skip)
            continue;
        slot = slot_find(tally, votes[i].event.content_id);
        if (*slot != 0)
            continue;
        assert(tally->count < tally->rows_max);
        tally->rows[tally->count++] = (struct tally_row){.content_id = votes[i].event.content_id};
        *slot = (uint32_t)tally->count;
    }
    qsort(tally->rows, tally->count, sizeof(*tally->rows), rows_compare);
    slots_clear(tally);
    for (size_t i = 0; i < tally->count; i++)
        *slot_find(tally, tally->rows[i].content_id) = (uint32_t)(i + 1);
}

void tally_count(struct tally *tally, struct vote_row *votes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tally_row *row;
        uint32_t index;

        if (votes[i].skip)
            continue;
        index = *slot_find(tally, votes[i].event.content_id);
        assert(index != 0);
        row = &tally->rows[index - 1];
        row->votes += votes[i].event.voting ? 1 : -1;
        row->seq++;
        row->changed = true;
        votes[i].votes = row->votes;
        votes[i].content_seq = row->seq;
    }
}
