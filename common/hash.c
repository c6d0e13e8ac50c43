/* SPDX-License-Identifier: MIT */
#include "common/hash.h"

static uint64_t mix_bits(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t hash_fnv1a(uint64_t start, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t hash = start;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t hash_bytes(uint64_t start, const void *bytes, size_t len)
{
    return mix_bits(hash_fnv1a(start, bytes, len));
}

uint64_t rng_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix_bits(*state);
}
