/* SPDX-License-Identifier: MIT */
/* The key of an outbox row as the retry queue knows it, retry_task.ordering_key: the topic, a
 * slash, and the aggregateid; and the number the relay knows the same key by. What is no text, and
 * what looks like one of the forms below, stands behind "hex:" in hexadecimal digits; what is too
 * long stands behind "hash:" as that number. Pure; any thread. */
#ifndef OUTBOX_RELAY_ORDERING_KEY_H
#define OUTBOX_RELAY_ORDERING_KEY_H

#include "outbox/relay/relay_ops.h"
#include "outbox/relay/relay_row.h"

#include <stdint.h>

/* The key's number, never 0. topic_hash: of the topic's name, or HASH_START when the row has
 * none. */
uint64_t ordering_hash(uint64_t topic_hash, struct bytes aggregate_id);

/* topic "": none. */
void ordering_key_make(char key[ORDERING_KEY_SIZE], const char *topic, struct bytes aggregate_id);

/* The number of a key that was made above; of any other text, some number. */
uint64_t ordering_key_hash(const char *key);

#endif
