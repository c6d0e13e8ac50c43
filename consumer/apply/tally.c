/* SPDX-License-Identifier: MIT */
#include "consumer/apply/tally.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Returns the slot of content_id, or the free slot where it belongs. */
static uint32_t *find_content_slot(struct tally *tally, int64_t content_id)
{
    uint64_t hash = (uint64_t)content_id * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & tally->mask;

    while (tally->slots[at] != 0 && tally->rows[tally->slots[at] - 1].content_id != content_id)
        at = (at + 1) & tally->mask;
    return &tally->slots[at];
}

static struct tally_row *find_row(struct tally *tally, int64_t content_id)
{
    uint32_t index = *find_content_slot(tally, content_id);

    assert(index != 0);
    return &tally->rows[index - 1];
}

static void clear_slots(struct tally *tally)
{
    memset(tally->slots, 0, (tally->mask + 1) * sizeof(*tally->slots));
}

static int compare_tallies(const void *left, const void *right)
{
    const struct tally_row *a = left;
    const struct tally_row *b = right;

    return (a->content_id > b->content_id) - (a->content_id < b->content_id);
}

/* Hashes both halves, because the first bytes of some UUIDs are a clock and those of others
 * random. */
static size_t hash_event(const struct id *event_id)
{
    uint64_t halves[2];
    uint64_t hash;

    memcpy(halves, event_id->bytes, sizeof(halves));
    hash = (halves[0] ^ (halves[1] << 31 | halves[1] >> 33)) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32);
}

static uint32_t *find_event_slot(struct event_set *set, const struct id *event_id)
{
    size_t at = hash_event(event_id) & set->mask;

    while (set->slots[at] != 0 && memcmp(set->votes[set->slots[at] - 1].event.event_id.bytes,
                                         event_id->bytes, ID_BYTES) != 0)
        at = (at + 1) & set->mask;
    return &set->slots[at];
}

static int compare_lasts(const void *left, const void *right)
{
    const struct last_row *a = left;
    const struct last_row *b = right;

    if (a->content_id != b->content_id)
        return a->content_id < b->content_id ? -1 : 1;
    return (a->voter_id > b->voter_id) - (a->voter_id < b->voter_id);
}

static struct last_row make_last_key(const struct vote_event *event)
{
    return (struct last_row){.content_id = event->content_id, .voter_id = event->voter_id};
}

/* Invariant C9: a vote counts only if it changes its voter's last vote. Unless it is older it
 * becomes the last one, even if it is a repeat or takes back a vote that was not given: an older
 * event that comes later must then be recognized as stale. */
static bool decide_last(struct last_row *last, const struct vote_event *event)
{
    bool counts = event->voting != (last->found ? last->voting : 0);

    if (last->found && event->occurred_ms < last->occurred_ms)
        return false;
    if (counts || !last->found || event->occurred_ms > last->occurred_ms)
        last->changed = true;
    last->found = true;
    last->voting = event->voting;
    last->occurred_ms = event->occurred_ms;
    return counts;
}

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

void tally_collect(struct tally *tally, const struct vote_row *votes, size_t count)
{
    clear_slots(tally);
    tally->count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t *slot;

        if (votes[i].skip)
            continue;
        slot = find_content_slot(tally, votes[i].event.content_id);
        if (*slot != 0)
            continue;
        assert(tally->count < tally->rows_max);
        tally->rows[tally->count++] = (struct tally_row){.content_id = votes[i].event.content_id};
        *slot = (uint32_t)tally->count;
    }
    qsort(tally->rows, tally->count, sizeof(*tally->rows), compare_tallies);
    clear_slots(tally);
    for (size_t i = 0; i < tally->count; i++)
        *find_content_slot(tally, tally->rows[i].content_id) = (uint32_t)(i + 1);
}

/* Invariant C13: called before the votes are searched for duplicates, compared and counted, with
 * the rows locked. */
size_t tally_end(struct tally *tally, struct vote_row *votes, size_t count, size_t *stale)
{
    size_t ends = 0;

    *stale = 0;
    for (size_t i = 0; i < count; i++) {
        struct tally_row *row;

        if (votes[i].skip)
            continue;
        row = find_row(tally, votes[i].event.content_id);
        if (votes[i].ends && !row->ended) {
            row->ended = true;
            row->ends = true;
            ends++;
        }
        votes[i].skip = row->ended;
        votes[i].stale = row->ended && !votes[i].ends;
        *stale += votes[i].stale;
    }
    return ends;
}

void tally_count(struct tally *tally, struct vote_row *votes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tally_row *row;

        if (votes[i].skip)
            continue;
        row = find_row(tally, votes[i].event.content_id);
        row->votes += votes[i].event.voting ? 1 : -1;
        row->seq++;
        row->changed = true;
        votes[i].votes = row->votes;
        votes[i].content_seq = row->seq;
    }
}

enum rc event_set_init(struct event_set *set, size_t votes_max, struct err *err)
{
    size_t slots = 16;

    while (slots < votes_max * 2)
        slots *= 2;
    memset(set, 0, sizeof(*set));
    set->mask = slots - 1;
    set->slots = calloc(slots, sizeof(*set->slots));
    if (!set->slots)
        return err_fail(err, RC_FATAL, 0, "no memory for the events of %zu votes", votes_max);
    return RC_OK;
}

void event_set_done(struct event_set *set)
{
    free(set->slots);
    memset(set, 0, sizeof(*set));
}

size_t event_set_collect(struct event_set *set, struct vote_row *votes, size_t count)
{
    size_t skipped = 0;

    memset(set->slots, 0, (set->mask + 1) * sizeof(*set->slots));
    set->votes = votes;
    for (size_t i = 0; i < count; i++) {
        uint32_t *slot;

        if (votes[i].skip)
            continue;
        slot = find_event_slot(set, &votes[i].event.event_id);
        if (*slot == 0) {
            *slot = (uint32_t)(i + 1);
            continue;
        }
        votes[i].skip = true;
        skipped++;
    }
    return skipped;
}

size_t event_set_skip(struct event_set *set, const struct id *event_id)
{
    uint32_t index = *find_event_slot(set, event_id);

    if (index == 0 || set->votes[index - 1].skip)
        return 0;
    set->votes[index - 1].skip = true;
    return 1;
}

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

void lasts_collect(struct lasts *lasts, const struct vote_row *votes, size_t count)
{
    size_t kept = 0;

    lasts->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (votes[i].skip)
            continue;
        assert(lasts->count < lasts->rows_max);
        lasts->rows[lasts->count++] = make_last_key(&votes[i].event);
    }
    qsort(lasts->rows, lasts->count, sizeof(*lasts->rows), compare_lasts);
    for (size_t i = 0; i < lasts->count; i++) {
        if (kept > 0 && compare_lasts(&lasts->rows[kept - 1], &lasts->rows[i]) == 0)
            continue;
        lasts->rows[kept++] = lasts->rows[i];
    }
    lasts->count = kept;
}

size_t lasts_decide(struct lasts *lasts, struct vote_row *votes, size_t count)
{
    size_t stale = 0;

    for (size_t i = 0; i < count; i++) {
        struct last_row key = make_last_key(&votes[i].event);
        struct last_row *last;

        if (votes[i].skip)
            continue;
        last = bsearch(&key, lasts->rows, lasts->count, sizeof(key), compare_lasts);
        assert(last);
        if (decide_last(last, &votes[i].event))
            continue;
        votes[i].skip = true;
        votes[i].stale = true;
        stale++;
    }
    return stale;
}
