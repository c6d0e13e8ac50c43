/* SPDX-License-Identifier: MIT */
/* The keys that must wait in a replay because a record of theirs stays dead. A key is known by 64
 * bits of it: two that meet there wait for each other, which costs a second replay and breaks
 * nothing. Pure; one thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_KEYS_H
#define CONSUMER_DEAD_DEAD_KEYS_H

#include "common/err.h"
#include "consumer/dead/dead_row.h"

#include <stddef.h>
#include <stdint.h>

struct dead_keys {
    struct dead_wait *slots; /* open addressing */
    size_t size;             /* a power of two, or 0 */
    size_t count;
};

/* A key, and the first record that stays in front of its others. */
struct dead_wait {
    uint64_t key; /* 0: a free slot */
    int64_t id;
};

/* A zeroed dead_keys is empty. */
void dead_keys_done(struct dead_keys *keys);

/* The 64 bits of an item's key, which belong to its topic and partition; 0: it has no key, and thus
 * no order. */
uint64_t dead_key_of(const struct dead_item *item);

/* The record that the key waits for, or 0. */
int64_t dead_keys_find(const struct dead_keys *keys, uint64_t key);

/* Notes the key; of several records the first counts. RC_FATAL: no memory. */
enum rc dead_keys_add(struct dead_keys *keys, uint64_t key, int64_t id, struct err *err);

#endif
