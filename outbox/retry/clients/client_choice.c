/* SPDX-License-Identifier: MIT */
#include "outbox/retry/clients/client_choice.h"

#include "common/hash.h"

#include <assert.h>
#include <string.h>

static size_t choose_by_hash(const struct client_candidate *candidates, size_t count,
                             const char *key)
{
    uint64_t most = 0;
    size_t best = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t hash = hash_bytes(HASH_START, key, strlen(key) + 1);

        hash = hash_bytes(hash, candidates[i].address, strlen(candidates[i].address));
        if (i == 0 || hash > most) {
            most = hash;
            best = i;
        }
    }
    return best;
}

static size_t choose_least_recent(const struct client_candidate *candidates, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        if (candidates[i].used < candidates[best].used)
            best = i;
    return best;
}

static size_t choose_of_two(const struct client_candidate *candidates, size_t count,
                            uint64_t random_bits)
{
    size_t one = (size_t)(random_bits & UINT32_MAX) % count;
    size_t two;

    if (count == 1)
        return one;
    two = (one + 1 + (size_t)(random_bits >> 32) % (count - 1)) % count;
    return candidates[two].in_flight < candidates[one].in_flight ? two : one;
}

size_t client_choose(enum client_route route, const struct client_candidate *candidates,
                     size_t count, const char *key, uint64_t *turn, uint64_t random_bits)
{
    assert(count > 0);
    switch (route) {
    case CLIENT_RANDOM:
        return (size_t)(random_bits % count);
    case CLIENT_ROUND_ROBIN:
        break;
    case CLIENT_CONSISTENT_HASH:
        return choose_by_hash(candidates, count, key);
    case CLIENT_LRU:
        return choose_least_recent(candidates, count);
    case CLIENT_TWO_CHOICES:
        return choose_of_two(candidates, count, random_bits);
    }
    return (size_t)((*turn)++ % count);
}
