/* SPDX-License-Identifier: MIT */
#include "outbox/lease/leased.h"

int64_t leased_epoch(const struct leased *leased, int64_t now_ms)
{
    if (now_ms >= atomic_load(&leased->valid_until_ms) || atomic_load(&leased->strange))
        return 0;
    return atomic_load(&leased->epoch);
}
