/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_keys.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64

void dead_keys_done(struct dead_keys *keys)
{
    free(keys->slots);
    memset(keys, 0, sizeof(*keys));
}

/* FNV-1a. */
static uint64_t hash_add(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t dead_key_of(const struct dead_item *item)
{
    size_t len = item->key_len < DEAD_KEY_BYTES_MAX ? item->key_len : DEAD_KEY_BYTES_MAX;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (!item->key)
        return 0;
    hash = hash_add(hash, item->topic, strlen(item->topic) + 1);
    hash = hash_add(hash, &item->partition, sizeof(item->partition));
    hash = hash_add(hash, item->key, len);
    return hash != 0 ? hash : 1;
}

static struct dead_wait *slot_find(const struct dead_keys *keys, uint64_t key)
{
    size_t at = (size_t)(key ^ key >> 32) & (keys->size - 1);

    while (keys->slots[at].key != 0 && keys->slots[at].key != key)
        at = (at + 1) & (keys->size - 1);
    return &keys->slots[at];
}

int64_t dead_keys_find(const struct dead_keys *keys, uint64_t key)
{
    return keys->size > 0 && key != 0 ? slot_find(keys, key)->id : 0;
}

static enum rc grow(struct dead_keys *keys, struct err *err)
{
    struct dead_keys grown = {.size = keys->size > 0 ? keys->size * 2 : SLOTS_FIRST,
                              .count = keys->count};

    grown.slots = calloc(grown.size, sizeof(*grown.slots));
    if (!grown.slots)
        return err_fail(err, RC_FATAL, 0, "no memory for the keys of %zu dead records",
                        keys->count);
    for (size_t i = 0; i < keys->size; i++)
        if (keys->slots[i].key != 0)
            *slot_find(&grown, keys->slots[i].key) = keys->slots[i];
    free(keys->slots);
    *keys = grown;
    return RC_OK;
}

enum rc dead_keys_add(struct dead_keys *keys, uint64_t key, int64_t id, struct err *err)
{
    struct dead_wait *slot;
    enum rc rc = keys->count * 2 >= keys->size ? grow(keys, err) : RC_OK;

    if (rc != RC_OK || key == 0)
        return rc;
    slot = slot_find(keys, key);
    if (slot->key != 0)
        return RC_OK;
    *slot = (struct dead_wait){key, id};
    keys->count++;
    return RC_OK;
}
