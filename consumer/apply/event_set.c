/* SPDX-License-Identifier: MIT */
#include "consumer/apply/event_set.h"

#include <stdlib.h>
#include <string.h>

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

/* Both halves count: in one kind of UUID the first bytes are a clock, in another they are dice. */
static size_t event_hash(const struct id *event_id)
{
    uint64_t halves[2];
    uint64_t hash;

    memcpy(halves, event_id->bytes, sizeof(halves));
    hash = (halves[0] ^ (halves[1] << 31 | halves[1] >> 33)) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32);
}

static uint32_t *slot_find(struct event_set *set, const struct id *event_id)
{
    size_t at = event_hash(event_id) & set->mask;

    while (set->slots[at] != 0 && memcmp(set->votes[set->slots[at] - 1].event.event_id.bytes,
                                         event_id->bytes, ID_BYTES) != 0)
        at = (at + 1) & set->mask;
    return &set->slots[at];
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
        slot = slot_find(set, &votes[i].event.event_id);
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
    uint32_t index = *slot_find(set, event_id);

    if (index == 0 || set->votes[index - 1].skip)
        return 0;
    set->votes[index - 1].skip = true;
    return 1;
}
