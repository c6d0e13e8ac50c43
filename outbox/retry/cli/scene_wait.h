/* SPDX-License-Identifier: MIT */
/* Waits until a change of the scenes is in force in every live retry process, and tells which ones
 * lack it. A process that dies is waited for until its heartbeat is too old; one that starts reads
 * the scenes before it claims anything, and counts as soon as it has recorded them. One thread. */
#ifndef OUTBOX_RETRY_CLI_SCENE_WAIT_H
#define OUTBOX_RETRY_CLI_SCENE_WAIT_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCENE_WAIT_NAMES_MAX 10 /* named of those that lack the change; the others are counted */

struct scene_wait {
    const struct scene_processes *processes;
    int64_t change;
    int64_t until_ms;
    /* Of the last step. */
    enum rc rc; /* of asking; live and behind tell nothing unless it is RC_OK */
    struct err err;
    size_t live;
    size_t behind;    /* live, and without the change */
    struct buf names; /* of those, separated by ", " */
};

/* Borrows processes. */
void scene_wait_init(struct scene_wait *wait, const struct scene_processes *processes,
                     int64_t change, int64_t until_ms);
void scene_wait_done(struct scene_wait *wait);

/* Asks once. False: there is a reason and time to ask again. A database that is away is asked again
 * until the time is up; the last question is asked when it is. */
bool scene_wait_step(struct scene_wait *wait, int64_t now_ms);

/* Appends a sentence about the last step; true: the change is in force wherever it has to be. */
bool scene_wait_text(const struct scene_wait *wait, struct buf *out);

#endif
