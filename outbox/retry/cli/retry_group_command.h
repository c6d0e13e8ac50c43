/* SPDX-License-Identifier: MIT */
/* `tallybox retry group ...`: shows and changes what the tasks of each group may do. Main
 * thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_GROUP_COMMAND_H
#define OUTBOX_RETRY_CLI_RETRY_GROUP_COMMAND_H

#include "common/db/db.h"
#include "outbox/retry/cli/retry_request.h"
#include "outbox/retry/retry.h"

/* Appends one line why a client's task of this group, scene and handler does not run; nothing if
 * it runs. Any result but RC_OK is that of db_query(). */
enum rc retry_group_note(struct db *db, const struct retry_view *view, struct buf *out,
                         struct err *err);

/* Returns an enum exit_code. */
int retry_group(struct db *db, const struct retry_request *request);

#endif
