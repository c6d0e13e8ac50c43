/* SPDX-License-Identifier: MIT */
/* `tallybox retry scene list|show|set`, `pause` and `resume`: shows and changes policies and
 * options of scenes, and whether their tasks run. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_SCENE_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_SCENE_COMMAND_H

#include "common/buf.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/cli/retry_request.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns an enum exit_code. */
int retry_scene(struct db *db, const struct retry_request *request);

/* Appends a sentence for each scene that is paused or has an invalid policy. */
enum rc retry_scene_notes(struct db *db, const char *group, const char *scene, struct buf *out,
                          struct err *err);

/* Appends a policy that an operator gives: the text itself, that of FILE for "@FILE" ("@-":
 * standard input), or the one of "preset:NAME". RC_REJECT: err names what cannot be read. */
enum rc retry_scene_take_policy(struct buf *text, const char *word, struct err *err);

/* Waits until a change of the scenes is in force in every live retry process, and names the
 * processes that lack it. A process that died counts until its heartbeat is too old; a process
 * that starts reads the scenes before it claims anything, and counts as soon as it has recorded
 * them. */
#define SCENE_WAIT_NAMES_MAX 10 /* named processes without the change; more are counted */

struct scene_wait {
    const struct scene_processes *processes;
    int64_t change;
    int64_t until_ms;
    /* Of the last step. */
    enum rc rc; /* of the query; live and behind are valid only if it is RC_OK */
    struct err err;
    size_t live;
    size_t behind;    /* live processes without the change */
    struct buf names; /* their names, separated by ", " */
};

/* Borrows processes. */
void scene_wait_init(struct scene_wait *wait, const struct scene_processes *processes,
                     int64_t change, int64_t until_ms);
void scene_wait_done(struct scene_wait *wait);

/* Reads the processes once. Returns false when the caller should call again later. A database that
 * cannot be reached is asked again until the time is over; the last call is made then. */
bool scene_wait_step(struct scene_wait *wait, int64_t now_ms);

/* Appends a sentence about the last step; true: the change is in force wherever it has to be. */
bool scene_wait_text(const struct scene_wait *wait, struct buf *out);

#endif
