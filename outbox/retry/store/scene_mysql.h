/* SPDX-License-Identifier: MIT */
/* Reads and changes the rows of retry_scene for operators, and reads which change each retry
 * process has in force. A repeated change has no effect. One thread at a time. */
#ifndef OUTBOX_RETRY_STORE_SCENE_MYSQL_H
#define OUTBOX_RETRY_STORE_SCENE_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stdint.h>

/* The rows of this group and scene, NULL: of any, by their names; RETRY_SCENES_MAX at most. */
enum rc scene_mysql_each(struct db *db, const char *group, const char *scene,
                         enum rc (*on_scene)(void *ctx, const struct scene_row *row,
                                             struct err *err),
                         void *ctx, struct err *err);

/* *changed: it was not so before. Each change is one transaction, which also counts it. RC_RETRY:
 * unknown, and doing it again is harmless. RC_FATAL: also when a new row would be one more than
 * RETRY_SCENES_MAX; nothing was changed. */
enum rc scene_mysql_pause(struct db *db, const char *group, const char *scene, bool paused,
                          bool *changed, struct err *err);

/* Writes policy and options; NULL leaves a value unchanged, "" removes it. The caller has checked
 * both. */
enum rc scene_mysql_set(struct db *db, const char *group, const char *scene, const char *policy,
                        const char *options, bool *changed, struct err *err);

/* The number of the newest change. */
enum rc scene_mysql_change(struct db *db, int64_t *change, struct err *err);

/* The retry processes whose heartbeat is younger than the lease of their own settings, which it
 * records. Borrows db. */
struct scene_processes scene_mysql_processes(struct db *db);

#endif
