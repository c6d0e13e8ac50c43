/* SPDX-License-Identifier: MIT */
/* `tallybox retry scene list|show|set`, `pause` and `resume`: shows and changes policies and
 * options of scenes, and whether their tasks run. Main thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_SCENE_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_SCENE_COMMAND_H

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"

/* lease_ms: a retry process with an older heartbeat is dead. Returns an enum exit_code. */
int retry_scene(struct db *db, const struct retry_request *request, int64_t lease_ms);

/* Appends a sentence for each scene that is paused or has an invalid policy. */
enum rc retry_scene_notes(struct db *db, const char *group, const char *scene, struct buf *out,
                          struct err *err);

#endif
