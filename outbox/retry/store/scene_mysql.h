/* SPDX-License-Identifier: MIT */
/* Reads and changes the rows of retry_scene for operators, keeps every version of them, and reads
 * which change each retry process has in force. A repeated change has no effect. One thread at a
 * time. */
#ifndef OUTBOX_RETRY_STORE_SCENE_MYSQL_H
#define OUTBOX_RETRY_STORE_SCENE_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rows of this group and scene, NULL: of any, by their names; RETRY_SCENES_MAX at most. */
enum rc scene_mysql_each(struct db *db, const char *group, const char *scene,
                         enum rc (*on_scene)(void *ctx, const struct scene_row *row,
                                             struct err *err),
                         void *ctx, struct err *err);

/* The scene that an operator changes. */
struct scene_target {
    const char *group;
    const char *scene;
    int64_t audit_id; /* of the action, whose operator and reason the new version gets; 0: none */
    const int64_t *based_on; /* the version that the row must have; 0: no row; NULL: any */
};

/* What became of the row. */
struct scene_outcome {
    bool changed;    /* it was not so before */
    bool outdated;   /* it is not so and not of the version that the change is based on */
    int64_t version; /* of the row now; 0: there is none */
};

/* Each change is one transaction, which also counts it, in the audit, too, and stores the new
 * version; a version that was made by SQL is stored before it is replaced. RC_RETRY: unknown, and
 * doing it again is harmless. RC_FATAL: also when a new row would be one more than
 * RETRY_SCENES_MAX; nothing was changed. */
enum rc scene_mysql_pause(struct db *db, const struct scene_target *target, bool paused,
                          struct scene_outcome *outcome, struct err *err);

/* Writes policy and options; NULL leaves a value unchanged, "" removes it. The caller has checked
 * both. */
enum rc scene_mysql_set(struct db *db, const struct scene_target *target, const char *policy,
                        const char *options, struct scene_outcome *outcome, struct err *err);

/* A version of a scene. Texts are valid during the call that gets it. */
struct scene_version {
    int64_t version;     /* of its scene, by which it is named */
    const char *policy;  /* NULL: the default, as the next one */
    const char *options; /* NULL: none */
    const char *by;      /* "": it was made by SQL */
    const char *why;     /* "": not said */
    int64_t at_ms;       /* since 1970; of one that was made by SQL, when its row was */
    bool paused;
    bool first; /* of its scene that was kept */
    /* What differs from the version before; all of the first one. */
    bool policy_changed;
    bool options_changed;
    bool paused_changed;
};

/* The versions of a scene, the newest first, up to rows_max. only: this version; 0: all. A version
 * occurs twice if SQL wrote another content under its number; the newer one comes first. */
enum rc scene_mysql_versions(struct db *db, const char *group, const char *scene, int64_t only,
                             size_t rows_max,
                             enum rc (*on_version)(void *ctx, const struct scene_version *version,
                                                   struct err *err),
                             void *ctx, struct err *err);

/* The number of the newest change. */
enum rc scene_mysql_change(struct db *db, int64_t *change, struct err *err);

/* The retry processes whose heartbeat is younger than the lease of their own settings, which it
 * records. Borrows db. */
struct scene_processes scene_mysql_processes(struct db *db);

#endif
