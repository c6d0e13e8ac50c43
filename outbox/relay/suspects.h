/* SPDX-License-Identifier: MIT */
/* The suspects of a lane: rows that the broker refused together with others, so that one of them is
 * bad and the others may be good. The sender sends each suspect once as a single record. Pure; the
 * sender's thread. */
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

/* Adds seq. If the list is full, the highest seq is left out; its row is sent with others and, if
 * it is refused again, added then. */
void suspects_add(struct suspects *suspects, int64_t seq);

/* Returns whether seq is in the list. */
bool suspects_has(const struct suspects *suspects, int64_t seq);

/* Removes seq if it is in the list. */
void suspects_remove(struct suspects *suspects, int64_t seq);

#endif
