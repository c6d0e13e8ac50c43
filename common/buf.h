/* SPDX-License-Identifier: MIT */
/* Growing bytes with a ceiling: SQL statements, JSON answers, row arenas. A failed append (no
 * memory, or above the ceiling) marks the buf as `failed`, later appends do nothing, and the caller
 * checks once at the end. One thread at a time. */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* not terminated; buf_text() terminates */
    size_t len;
    size_t size;     /* capacity in bytes, without the one that ends a C string */
    size_t size_max; /* ceiling; 0 = BUF_SIZE_MAX */
    bool failed;
};

#define BUF_SIZE_MAX ((size_t)1 << 30)

/* A zeroed buf is ready to use; buf_init() also sets the ceiling. */
void buf_init(struct buf *buf, size_t size_max);
void buf_done(struct buf *buf);

/* Empties the buf and resets `failed`; the memory is kept. */
void buf_reset(struct buf *buf);

/* Cuts back to an earlier length; `failed` stays. */
void buf_cut(struct buf *buf, size_t len);

/* Gives back the memory behind the bytes that are there; without memory for a copy it stays. */
void buf_trim(struct buf *buf);

/* Reserves more bytes after len and returns their place, or NULL on failure. The caller adds the
 * number of bytes that it wrote to len. Pointers into the buf are valid until the next append. */
char *buf_reserve(struct buf *buf, size_t more);

void buf_put(struct buf *buf, const void *bytes, size_t len);
void buf_text_put(struct buf *buf, const char *text);
void buf_char(struct buf *buf, char c);
void buf_u64(struct buf *buf, uint64_t value);
void buf_i64(struct buf *buf, int64_t value);
void buf_hex(struct buf *buf, const void *bytes, size_t len);
/* The number in `bytes` (1 to 8) bytes, the lowest first. */
void buf_le(struct buf *buf, uint64_t value, unsigned bytes);
void buf_print(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The bytes as a C string, valid until the next append; "" when failed. */
const char *buf_text(struct buf *buf);

#endif
