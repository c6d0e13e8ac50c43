/* SPDX-License-Identifier: MIT */
/* The seqs that were read and have not come back yet, deleted or given up: a row met again while
 * it is in the window is on its way already. Bounded, no allocation per row. Pure; one thread at a
 * time. */
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

/* RC_FATAL: no memory. */
enum rc window_init(struct window *window, size_t count_max, struct err *err);
void window_done(struct window *window);

bool window_has(const struct window *window, int64_t seq);

/* The seq must be new and room left. */
void window_add(struct window *window, int64_t seq);

/* The seq must be inside. */
void window_remove(struct window *window, int64_t seq);

#endif
