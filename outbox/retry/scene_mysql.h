/* SPDX-License-Identifier: MIT */
/* The rows of retry_scene as people read and change them. Every change is one statement that does
 * nothing when it is done twice. One thread at a time. */
#ifndef OUTBOX_RETRY_SCENE_MYSQL_H
#define OUTBOX_RETRY_SCENE_MYSQL_H

#include "common/db.h"
#include "common/err.h"
#include "outbox/retry/task_row.h"

#include <stdbool.h>

#define SCENE_ROWS_MAX 1024

/* The rows of this group and scene, NULL: of any, by their names; SCENE_ROWS_MAX at most. */
enum rc scene_mysql_each(struct db *db, const char *group, const char *scene,
                         enum rc (*on_scene)(void *ctx, const struct scene_row *row,
                                             struct err *err),
                         void *ctx, struct err *err);

/* *changed: it was not so before. */
enum rc scene_mysql_pause(struct db *db, const char *group, const char *scene, bool paused,
                          bool *changed, struct err *err);

/* Writes policy and options; NULL leaves one as it is, "" takes it away. Both were checked. */
enum rc scene_mysql_set(struct db *db, const char *group, const char *scene, const char *policy,
                        const char *options, bool *changed, struct err *err);

#endif
