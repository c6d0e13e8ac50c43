/* SPDX-License-Identifier: MIT */
/* Hashes of bytes, and a random number generator. Pure; any thread. */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a, 64 bits (G. Fowler, L. C. Noll, K.-P. Vo). Feed one result into the next call to hash
 * several pieces. The result may be stored: it never changes. */
uint64_t hash_fnv1a(uint64_t start, const void *bytes, size_t len);

/* The same with a last mix, so that every bit depends on all bytes; for tables of the process. */
uint64_t hash_bytes(uint64_t start, const void *bytes, size_t len);

/* The next 64 random bits of the sequence of *state (G. L. Steele, D. Lea, C. H. Flood, SplitMix,
 * 2014). */
uint64_t rng_next(uint64_t *state);

#endif
