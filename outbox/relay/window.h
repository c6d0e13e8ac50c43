/* SPDX-License-Identifier: MIT */
/* The window of a lane: the seqs of the rows that the reader has passed to the sender and that
 * neither the sender nor the deleter has returned. The reader skips a row whose seq is in the
 * window. The window is bounded and allocates nothing per row. Pure; the reader's thread. */
#ifndef OUTBOX_RELAY_WINDOW_H
#define OUTBOX_RELAY_WINDOW_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window {
    int64_t *slots; /* open addressing, 0 = empty: seqs are > 0 */
    size_t mask;
    unsigned shift;
    size_t count;
    size_t count_max;
};

/* Allocates an empty window for up to count_max seqs. Returns RC_FATAL when memory is exhausted;
 * the window is then zeroed. */
enum rc window_init(struct window *window, size_t count_max, struct err *err);
/* Frees the memory. A zeroed window is allowed. */
void window_done(struct window *window);

/* Returns whether seq is in the window. */
bool window_has(const struct window *window, int64_t seq);

/* Adds seq, which must be above 0 and not in the window. The window must not be full. */
void window_add(struct window *window, int64_t seq);

/* Removes seq, which must be in the window. */
void window_remove(struct window *window, int64_t seq);

#endif
