/* SPDX-License-Identifier: MIT */
/* Changes of scenes and groups by operators, for other components: the API does what `tallybox
 * retry pause|resume|scene set|group set|group enable|group disable` does, by the same code, and
 * each change has its row in the audit. One thread at a time per db. */
#ifndef OUTBOX_RETRY_CHANGE_H
#define OUTBOX_RETRY_CHANGE_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

enum retry_change_kind {
    CHANGE_SCENE_PAUSE, /* running attempts end, no task begins */
    CHANGE_SCENE_RESUME,
    CHANGE_SCENE_SET, /* its policy, its options, or both */
    CHANGE_GROUP_SET, /* makes a group of clients, or changes one */
    CHANGE_GROUP_ENABLE,
    CHANGE_GROUP_DISABLE,
};

/* Texts are borrowed; NULL leaves a value unchanged. */
struct retry_change {
    enum retry_change_kind kind;
    const char *group;
    const char *scene;   /* NULL in a change of a group */
    const char *by;      /* who */
    const char *via;     /* "http" or "shell" */
    const char *why;     /* NULL: not given */
    const char *policy;  /* of CHANGE_SCENE_SET: a JSON object; "" removes it, as the next one */
    const char *options; /* a JSON object */
    struct retry_group_values values; /* of CHANGE_GROUP_SET */
    bool has_version;                 /* refuses a change of a row that has another version */
    int64_t version;                  /* 0: there is no row */
    int64_t audit_id; /* 0 before the first call; a repeated call uses the same row */
};

/* What became of the scene or group. */
struct retry_changed {
    bool changed;    /* false: it was so before, or it is outdated */
    bool outdated;   /* its row has another version and other values: nothing was changed */
    int64_t version; /* of its row now; 0: there is no row */
};

/* Checks what the change would write. RC_REJECT: err has the reason, *field the name of the bad
 * value in a JSON body. RC_FATAL: no memory. Pure; any thread. */
enum rc retry_change_check(const struct retry_change *change, const char **field, struct err *err);

/* Appends what the change sets, as the audit has it. Pure; any thread. */
void retry_change_describe(const struct retry_change *change, struct buf *out);

/* Makes a change that was checked, in one transaction with its count in the audit. A repeated call
 * is harmless, also with a version: what is so already is not outdated. RC_REJECT: the group does
 * not belong to clients, or does not exist; nothing was changed. RC_RETRY: unknown, call again.
 * RC_FATAL: as db_exec(), or the audit cannot be written, or there are too many scenes. */
enum rc retry_change_make(struct db *db, struct retry_change *change, struct retry_changed *result,
                          struct err *err);

/* The action on the command line and in the audit; static. */
const char *retry_change_name(enum retry_change_kind kind);

/* The policy of "preset:NAME" as JSON; static. NULL: the word names no preset. */
const char *retry_change_preset(const char *word);

/* Writes the fault of a scene's policy or options into err; its text is "" if there is none. NULL:
 * the default ones. Pure; any thread. */
void retry_scene_find_fault(const char *policy, const char *options, struct err *err);

#define RETRY_SCENE_COUNT_MAX                                          \
    10000 /* tasks of a scene are counted up to this number, per state \
           */

/* A row of retry_scene. Texts are borrowed for the call. */
struct retry_scene_view {
    const char *group;
    const char *scene;
    const char *policy;  /* NULL: the default one */
    const char *options; /* NULL: none */
    bool paused;
    int64_t version;
    const char *fault; /* of its policy or options: no task of it runs; "": none */
};

/* Which scenes are meant; NULL: any. */
struct retry_scene_filter {
    const char *group;
    const char *scene;
    const char *after_group; /* only rows after this group and scene, in the order of both */
    const char *after_scene;
};

typedef enum rc (*retry_on_scene_view)(void *ctx, const struct retry_scene_view *view,
                                       struct err *err);

/* Reads up to rows_max rows by group and scene. RC_RETRY, RC_FATAL: as db_query(). */
enum rc retry_scenes_find(struct db *db, const struct retry_scene_filter *filter, size_t rows_max,
                          retry_on_scene_view on_scene, void *ctx, struct err *err);

/* Tasks of a scene in the queue, each number up to RETRY_SCENE_COUNT_MAX. */
struct retry_scene_counts {
    int64_t active; /* waiting or running */
    int64_t queued;
    int64_t blocked;
    int64_t parked;
};

enum rc retry_scene_count(struct db *db, const char *group, const char *scene,
                          struct retry_scene_counts *counts, struct err *err);

#endif
