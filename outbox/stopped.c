/* SPDX-License-Identifier: MIT */
#include "outbox/stopped.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TRY_EXPONENT_MAX 4 /* 2^4 passes between two tries at most */

enum rc stopped_init(struct stopped *stopped, size_t count_max, struct err *err)
{
    size_t slots = 16;

    memset(stopped, 0, sizeof(*stopped));
    while (slots < 2 * count_max)
        slots *= 2;
    stopped->slots = calloc(slots, sizeof(*stopped->slots));
    if (!stopped->slots)
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu stopped keys", count_max);
    stopped->mask = slots - 1;
    stopped->count_max = count_max;
    return RC_OK;
}

void stopped_done(struct stopped *stopped)
{
    free(stopped->slots);
    memset(stopped, 0, sizeof(*stopped));
}

void stopped_clear(struct stopped *stopped)
{
    memset(stopped->slots, 0, (stopped->mask + 1) * sizeof(*stopped->slots));
    stopped->count = 0;
}

/* The slot of key, or the empty one where it would go. Keys are hashes already. */
static size_t find(const struct stopped *stopped, uint64_t key)
{
    size_t at = (size_t)key & stopped->mask;

    assert(key != 0);
    while (stopped->slots[at].key != 0 && stopped->slots[at].key != key)
        at = (at + 1) & stopped->mask;
    return at;
}

/* As window_remove(): closes the hole. */
static void take_out(struct stopped *stopped, size_t hole)
{
    size_t at = hole;

    for (;;) {
        size_t home;

        at = (at + 1) & stopped->mask;
        if (stopped->slots[at].key == 0)
            break;
        home = (size_t)stopped->slots[at].key & stopped->mask;
        if (((at - home) & stopped->mask) >= ((at - hole) & stopped->mask)) {
            stopped->slots[hole] = stopped->slots[at];
            hole = at;
        }
    }
    stopped->slots[hole].key = 0;
    stopped->count--;
}

void stopped_begin_pass(struct stopped *stopped, uint64_t pass)
{
    size_t at = 0;

    while (at <= stopped->mask) {
        const struct stopped_key *slot = &stopped->slots[at];

        /* What moves into the hole is looked at next. What wraps around was looked at before. */
        if (slot->key != 0 && slot->seen_pass < stopped->pass)
            take_out(stopped, at);
        else
            at++;
    }
    stopped->pass = pass;
}

enum stopped_say stopped_ask(struct stopped *stopped, uint64_t key, int64_t seq)
{
    struct stopped_key *slot;

    if (stopped->count == 0)
        return STOPPED_NOT;
    slot = &stopped->slots[find(stopped, key)];
    if (slot->key == 0 || seq < slot->seq)
        return STOPPED_NOT;
    if (slot->seen_pass == stopped->pass)
        return STOPPED_SKIP;
    /* A later row, and this pass came by without meeting the refused one: that one is gone. */
    if (seq > slot->seq || slot->try_pass <= stopped->pass)
        return STOPPED_TRY;
    slot->seen_pass = stopped->pass;
    return STOPPED_SKIP;
}

bool stopped_add(struct stopped *stopped, uint64_t key, int64_t seq, bool *news)
{
    struct stopped_key *slot = &stopped->slots[find(stopped, key)];

    *news = slot->key == 0 || slot->seq != seq;
    if (slot->key == 0) {
        if (stopped->count == stopped->count_max)
            return false;
        stopped->count++;
    }
    if (*news)
        *slot = (struct stopped_key){.key = key, .seq = seq};
    slot->seen_pass = stopped->pass;
    slot->try_pass = stopped->pass + ((uint64_t)1 << slot->tries);
    if (slot->tries < TRY_EXPONENT_MAX)
        slot->tries++;
    return true;
}

void stopped_meet(struct stopped *stopped, uint64_t key)
{
    struct stopped_key *slot = &stopped->slots[find(stopped, key)];

    if (slot->key != 0)
        slot->seen_pass = stopped->pass;
}

bool stopped_free(struct stopped *stopped, uint64_t key, int64_t seq)
{
    size_t at;

    if (stopped->count == 0)
        return false;
    at = find(stopped, key);
    if (stopped->slots[at].key == 0 || seq < stopped->slots[at].seq)
        return false;
    take_out(stopped, at);
    return true;
}
