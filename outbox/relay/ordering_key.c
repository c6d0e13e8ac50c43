/* SPDX-License-Identifier: MIT */
#include "outbox/relay/ordering_key.h"

#include "common/hash.h"
#include "common/utf8.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX "hex:"
#define HASH "hash:"

static const char digits[] = "0123456789abcdef";

uint64_t ordering_hash(uint64_t topic_hash, struct bytes aggregate_id)
{
    uint64_t key = hash_bytes(topic_hash, aggregate_id.data, aggregate_id.len);

    return key + (key == 0);
}

static bool has_prefix(struct bytes bytes, const char *word)
{
    size_t len = strlen(word);

    return bytes.len >= len && memcmp(bytes.data, word, len) == 0;
}

static bool is_plain_text(struct bytes id)
{
    if (id.len == 0)
        return true;
    return utf8_fits(id.data, id.len) && !memchr(id.data, '\0', id.len) && !has_prefix(id, HEX) &&
           !has_prefix(id, HASH);
}

static uint64_t hash_topic(const char *topic, size_t len)
{
    return len == 0 ? HASH_START : hash_bytes(HASH_START, topic, len);
}

void ordering_key_make(char key[ORDERING_KEY_SIZE], const char *topic, struct bytes aggregate_id)
{
    size_t len_max = ORDERING_KEY_SIZE - 1;
    size_t used = (size_t)snprintf(key, ORDERING_KEY_SIZE, "%s/", topic);
    bool plain = is_plain_text(aggregate_id);

    if (plain && used + aggregate_id.len <= len_max) {
        if (aggregate_id.len > 0)
            memcpy(key + used, aggregate_id.data, aggregate_id.len);
        key[used + aggregate_id.len] = '\0';
        return;
    }
    if (plain || used + strlen(HEX) + 2 * aggregate_id.len > len_max) {
        snprintf(key + used, ORDERING_KEY_SIZE - used, HASH "%016" PRIx64,
                 ordering_hash(hash_topic(topic, strlen(topic)), aggregate_id));
        return;
    }
    memcpy(key + used, HEX, strlen(HEX));
    used += strlen(HEX);
    for (size_t i = 0; i < aggregate_id.len; i++) {
        unsigned char byte = (unsigned char)aggregate_id.data[i];

        key[used++] = digits[byte >> 4];
        key[used++] = digits[byte & 15];
    }
    key[used] = '\0';
}

static unsigned hex_value(char c)
{
    const char *at = memchr(digits, c, sizeof(digits) - 1);

    return at ? (unsigned)(at - digits) : 0;
}

uint64_t ordering_key_hash(const char *key)
{
    size_t len = strcspn(key, "/");
    uint64_t topic = hash_topic(key, len);
    const char *id = key + len + (key[len] == '/');
    struct bytes bytes = {id, strlen(id)};
    char raw[ORDERING_KEY_SIZE];

    if (has_prefix(bytes, HASH)) {
        uint64_t hash = strtoull(id + strlen(HASH), NULL, 16);

        return hash + (hash == 0);
    }
    if (!has_prefix(bytes, HEX))
        return ordering_hash(topic, bytes);
    id += strlen(HEX);
    len = strlen(id) / 2;
    if (len > sizeof(raw))
        len = sizeof(raw);
    for (size_t i = 0; i < len; i++)
        raw[i] = (char)(hex_value(id[2 * i]) << 4 | hex_value(id[2 * i + 1]));
    return ordering_hash(topic, (struct bytes){raw, len});
}
