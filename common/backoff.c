/* SPDX-License-Identifier: MIT */
#include "common/backoff.h"

#include <assert.h>

#define TRIES_MAX 30 /* 2^30 times any base is past every cap */

int64_t backoff_next_ms(struct backoff *backoff, uint64_t random_bits)
{
    int64_t limit = backoff->base_ms;

    assert(backoff->base_ms > 0 && backoff->cap_ms > 0);
    for (unsigned i = 0; i < backoff->tries && limit < backoff->cap_ms; i++)
        limit *= 2;
    if (limit > backoff->cap_ms)
        limit = backoff->cap_ms;
    if (backoff->tries < TRIES_MAX)
        backoff->tries++;
    return 1 + (int64_t)(random_bits % (uint64_t)limit);
}

void backoff_reset(struct backoff *backoff)
{
    backoff->tries = 0;
}

bool breaker_allows(struct breaker *breaker, int64_t now_ms)
{
    if (!breaker->open)
        return true;
    if (breaker->probing || now_ms < breaker->open_until_ms)
        return false;
    breaker->probing = true;
    return true;
}

int64_t breaker_wait_ms(const struct breaker *breaker, int64_t now_ms)
{
    if (!breaker->open)
        return 0;
    if (now_ms < breaker->open_until_ms)
        return breaker->open_until_ms - now_ms;
    /* The end of the probe is unknown: try again after a first wait. */
    return breaker->probing ? breaker->backoff.base_ms : 0;
}

bool breaker_failed(struct breaker *breaker, int64_t now_ms, uint64_t random_bits)
{
    bool opened = !breaker->open;

    if (breaker->open && !breaker->probing && now_ms < breaker->open_until_ms)
        return false;
    breaker->open = true;
    breaker->probing = false;
    breaker->open_until_ms = now_ms + backoff_next_ms(&breaker->backoff, random_bits);
    return opened;
}

bool breaker_worked(struct breaker *breaker)
{
    bool closed = breaker->open;

    breaker->open = false;
    breaker->probing = false;
    backoff_reset(&breaker->backoff);
    return closed;
}
