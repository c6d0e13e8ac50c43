/* SPDX-License-Identifier: MIT */
/* Which part of a task's lease is believed, and when it is lengthened. Pure. */
#ifndef OUTBOX_RETRY_LEASE_PART_H
#define OUTBOX_RETRY_LEASE_PART_H

#include <stdint.h>

/* An eighth is left unused: for a pause between the look at the clock and the work. */
static inline int64_t lease_believed_ms(int64_t lease_ms)
{
    return lease_ms - lease_ms / 8;
}

static inline int64_t lease_beat_ms(int64_t lease_ms)
{
    return lease_ms / 3;
}

#endif
