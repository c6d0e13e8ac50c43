/* SPDX-License-Identifier: MIT */
#include "consumer/singleton_lease.h"

#include <string.h>

bool singleton_lease_is_implausible(int64_t lease_until_ms, int64_t now_ms, int64_t lease_ms)
{
    return lease_until_ms > now_ms + lease_ms * SINGLETON_LEASE_LENGTHS_MAX;
}

bool singleton_lease_is_anothers(const char *owner, int64_t lease_until_ms, int64_t now_ms,
                                 int64_t lease_ms, const char *me)
{
    return owner[0] && lease_until_ms > now_ms &&
           !singleton_lease_is_implausible(lease_until_ms, now_ms, lease_ms) &&
           strcmp(owner, me) != 0;
}

int64_t singleton_due_ms(int64_t done_until_ms, int64_t now_ms, int64_t interval_ms)
{
    if (done_until_ms > now_ms)
        return now_ms;
    return (done_until_ms / interval_ms + 1) * interval_ms;
}
