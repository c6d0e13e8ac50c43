/* SPDX-License-Identifier: MIT */
/* Rows of a batch that the broker refused: one of them is bad, the others may be good. Each is sent
 * alone once. Bounded: what finds no room is simply sent as before and, if it is refused again,
 * suspected then. Pure; one thread at a time. */
#ifndef OUTBOX_RELAY_SUSPECTS_H
#define OUTBOX_RELAY_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUSPECTS_MAX 1024

struct suspects {
    int64_t seqs[SUSPECTS_MAX]; /* ascending */
    size_t count;
};

void suspects_add(struct suspects *suspects, int64_t seq);
bool suspects_has(const struct suspects *suspects, int64_t seq);
void suspects_remove(struct suspects *suspects, int64_t seq);

#endif
