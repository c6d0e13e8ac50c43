/* SPDX-License-Identifier: MIT */
/* The ordering key of an outbox row in two forms: the text of retry_task.ordering_key, and the
 * 64-bit hash that the relay uses for the same key. The text is the topic, a slash, and the
 * aggregateid. An aggregateid that is not UTF-8 text, contains a NUL byte, or starts with "hex:" or
 * "hash:" is written as "hex:" and hexadecimal digits. One that does not fit is written as "hash:"
 * and the hash of the whole key. Pure; any thread. */
#ifndef OUTBOX_RELAY_ORDERING_KEY_H
#define OUTBOX_RELAY_ORDERING_KEY_H

#include "outbox/relay/relay_ops.h"
#include "outbox/relay/relay_row.h"

#include <stdint.h>

/* Returns the hash of the key, never 0. topic_hash is the FNV-1a hash of the topic's name, or
 * HASH_START when the row has no topic. */
uint64_t ordering_hash(uint64_t topic_hash, struct bytes aggregate_id);

/* Writes the text of the key, terminated by NUL. An empty topic means that the row has none. */
void ordering_key_make(char key[ORDERING_KEY_SIZE], const char *topic, struct bytes aggregate_id);

/* Returns ordering_hash() of a key that ordering_key_make() wrote. For any other text the result is
 * a hash without meaning, never 0. */
uint64_t ordering_key_hash(const char *key);

#endif
