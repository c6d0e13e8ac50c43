/* SPDX-License-Identifier: MIT */
/* The ops that the engine of the retry queue needs of a database, and their rows. Every call is
 * one transaction and may be repeated without harm. RC_RETRY: nothing was done, or the outcome is
 * unknown. RC_REJECT: the database refuses one of the rows. RC_FATAL: an operator must act. One
 * thread at a time. */
#ifndef OUTBOX_RETRY_RETRY_OPS_H
#define OUTBOX_RETRY_RETRY_OPS_H

#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_SHARDS RETRY_SHARDS

#define TASK_NAME_SIZE (RETRY_NAME_BYTES_MAX + 1)
#define TASK_HANDLER_SIZE (RETRY_HANDLER_BYTES_MAX + 1)
#define TASK_REASON_SIZE 513 /* bytes; 512 characters are more than is ever written */

/* Tasks that are claimed together: retry_task.class names them. */
struct task_class {
    char handler[TASK_HANDLER_SIZE];
    char group[TASK_NAME_SIZE];
    char scene[TASK_NAME_SIZE];
    enum retry_owner origin;
    unsigned shard;
};

/* A claimed task; pointers are borrowed for the call, NULL is SQL's NULL. */
struct task_row {
    int64_t id;
    int64_t epoch;
    const char *handler;
    unsigned shard;
    const char *ordering_key;
    const char *idempotency_key;
    const char *task_hash; /* 64 hexadecimal digits: replaces a missing idempotency key */
    const char *biz_no;
    const char *options;
    size_t options_len;
    const void *params;
    size_t params_len;
    const char *params_type;
    const char *traceparent;
    int64_t attempts; /* that failed so far */
    int64_t made_ms;  /* its age counts from here; since 1970, as due_ms and now_ms; all by the
                       * database's clock */
    int64_t due_ms;   /* next_at */
    int64_t now_ms;
    bool waited; /* it was put off or tried before, or an operator had it run */
    int64_t step;
    const void *step_result;
    size_t step_result_len;
    int64_t scene_version; /* of its scene's row when the task was claimed; 0: it has no row */
    int64_t duplicate_of; /* an ended task whose idempotency key was still refused when this one was
                           * made; 0: none. Only of a task that has not waited */
};

/* What becomes of a task after an attempt. An exhausting end (task_end_exhausts()) is written only
 * while the scene has the version of the update. */
enum task_end {
    TASK_END_DONE,      /* deleted, or moved into the history with `keep`; its key continues */
    TASK_END_AGAIN,     /* waiting again, delay_ms from now; it has waited then */
    TASK_END_STEP,      /* the same at once, with step + 1 and step_result */
    TASK_END_BACK,      /* waiting again as it was: nothing was tried */
    TASK_END_BLOCK,     /* exhausted: blocked */
    TASK_END_PARK,      /* exhausted: moved into the history, and a parked row replaces it */
    TASK_END_SKIP,      /* exhausted: moved into the history; its key continues */
    TASK_END_DUPLICATE, /* the same as cancelled */
};

static inline bool task_end_exhausts(enum task_end end)
{
    return end == TASK_END_BLOCK || end == TASK_END_PARK || end == TASK_END_SKIP;
}

/* What became of an update. */
enum task_written {
    TASK_WRITTEN,
    TASK_LOST,     /* the task no longer has this epoch: nothing was changed */
    TASK_OUTDATED, /* its scene was changed after the claim: it is not exhausted, and still running
                    */
};

struct task_update {
    int64_t id;
    int64_t epoch;         /* of the claim: with another epoch another process has the task */
    int64_t scene_version; /* as the claim read it */
    bool ordered;          /* it has an ordering key */
    enum task_end end;
    bool keep; /* of TASK_END_DONE */
    int64_t
        keep_ms; /* of this and TASK_END_DUPLICATE: for so long; 0: until housekeeping deletes it */
    int64_t dedup_ms; /* of an end that moves it into the history: for so long its idempotency key
                       * is refused; 0: it is free */
    int64_t attempts;
    int64_t delay_ms;
    int64_t exhausts_in_ms;   /* of TASK_END_AGAIN: until it is exhausted if no attempt succeeds;
                                 RETRY_NOT_FORESEEN */
    const char *reason_class; /* "": it did not fail */
    const char *reason;
    const void *step_result;
    size_t step_result_len;

    /* The attempt, for retry_attempt; not of TASK_END_BACK. */
    const char *outcome; /* a word: done, failed, snoozed, rejected; NULL: none was made */
    int64_t took_ms;

    /* A callback, made in the same transaction; scene NULL: none. Its parent is the task, its group
     * is the task's, it has no ordering key. Its traceparent is the task's, or NULL. */
    const char *traceparent;
    const char *callback_scene;
    const char *callback_handler;
    const char *callback_params; /* a JSON object */
};

/* A row of retry_scene; texts may be NULL. */
struct scene_row {
    const char *group;
    const char *scene;
    const char *policy;
    const char *options;
    bool paused;
    int64_t version;
};

#define RETRY_NOT_FORESEEN (-1)
#define RETRY_ROLE "retry"     /* of its heartbeats */
#define RETRY_CLASSES_MAX 4096 /* found by one search; the others follow in later searches */
#define RETRY_SCENES_MAX 1024  /* rows of retry_scene; with more, nothing is claimed */
#define SCENE_PROCESSES_MAX 1024
#define RETRY_CLAIM_ROWS_MAX 1000
#define RETRY_UPDATES_MAX 1000

/* due_in_ms: until the first of them is due, <= 0 when it is; borrowed for the call. */
typedef void (*retry_on_class)(void *ctx, const struct task_class *class, int64_t due_in_ms);
typedef void (*retry_on_scene)(void *ctx, const struct scene_row *scene);
typedef void (*retry_on_task)(void *ctx, const struct task_row *task);

/* count: tasks in this state, counted up to a bound; oldest_ms: how long the first of them is due,
 * or, where it is not waiting for a time, is there. */
struct task_depth {
    const struct task_class *class;
    enum task_state state;
    int64_t count;
    int64_t oldest_ms;
};

/* number: of the newest change of the scenes, as the rows that were read hold it. recorded: what
 * this process has recorded, 0 when it has recorded nothing. */
struct scene_change {
    int64_t number;
    int64_t recorded;
};

typedef void (*retry_on_handler)(void *ctx, const char *handler);

typedef void (*retry_on_depth)(void *ctx, const struct task_depth *depth);
struct retry_group;

/* in_force: the process has recorded this change, or a newer one; name is borrowed for the call. */
typedef void (*scene_on_process)(void *ctx, const char *name, bool in_force);

/* The retry processes that a change of a scene waits for. */
struct scene_processes {
    void *ctx;
    /* Every live retry process. */
    enum rc (*each)(void *ctx, int64_t change, scene_on_process on_process, void *on_process_ctx,
                    struct err *err);
};

/* Tasks of a scene that are so old, or older. */
struct task_age {
    const char *group;
    const char *scene;
    int64_t age_ms;
};

struct retry_store {
    void *ctx;

    /* Reports every class that has waiting tasks. */
    enum rc (*look)(void *ctx, retry_on_class on_class, void *on_class_ctx, struct err *err);
    /* The rows of retry_scene, in one snapshot with *change. At most RETRY_SCENES_MAX + 1: the last
     * one shows the caller that there are too many. */
    enum rc (*scenes)(void *ctx, retry_on_scene on_scene, void *on_scene_ctx,
                      struct scene_change *change, struct err *err);
    /* Records in this process's heartbeat row which change it has in force. */
    enum rc (*record)(void *ctx, int64_t change, struct err *err);

    /* Claims up to rows_max due tasks of the class for lease_ms, in the order of next_at and id,
     * and calls on_task for each after they are claimed. A task that must wait for another task of
     * its key becomes TASK_QUEUED instead; a task whose key another transaction is changing is
     * left for the next claim. *full: more tasks may be due. After RC_RETRY some tasks may be
     * claimed, which this process does not know: rescue() returns them. */
    enum rc (*claim)(void *ctx, const struct task_class *class, size_t rows_max, int64_t lease_ms,
                     retry_on_task on_task, void *on_task_ctx, bool *full, struct err *err);

    /* As claim(), for the waiting tasks of a scene that were made age_ms ago or earlier, the
     * oldest first, for any handler and shard, due or not. */
    enum rc (*claim_expired)(void *ctx, const struct task_age *age, size_t rows_max,
                             int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                             struct err *err);

    /* Makes a task of a client, as retry_append_once(), and with lease_ms > 0 claims it in the same
     * transaction if it is new, due and first of its key; on_task is called before the COMMIT. If
     * tasks of its key are ahead, it becomes TASK_QUEUED or stays waiting. Only a process that
     * tries tasks first calls this. RC_RETRY after a COMMIT without an answer: the task may be
     * there and claimed; rescue() returns it. */
    enum rc (*make)(void *ctx, const struct retry_new_task *task, int64_t lease_ms,
                    retry_on_task on_task, void *on_task_ctx, struct retry_ticket *ticket,
                    struct err *err);

    /* Writes all updates or none; written[i] says what became of updates[i]. If a key continues,
     * its next task is woken. */
    enum rc (*finish)(void *ctx, const struct task_update *updates, size_t count,
                      enum task_written *written, struct err *err);

    /* Renews the leases; lost[i] is set if the task no longer has this epoch. */
    enum rc (*renew)(void *ctx, const int64_t *ids, const int64_t *epochs, size_t count,
                     int64_t lease_ms, bool *lost, struct err *err);

    /* Returns tasks whose lease has expired to the waiting state: they are due, and no attempt is
     * counted. *count: how many; rows_max means that there may be more. An implausible lease
     * (LEASE_LENGTHS_MAX) is shortened to its length from now instead; *shortened: how many. */
    enum rc (*rescue)(void *ctx, size_t rows_max, size_t *count, size_t *shortened,
                      struct err *err);

    /* Deletes from the history up to rows_max done tasks that were kept for long enough, with their
     * attempts. *count: how many; rows_max means that there may be more. */
    enum rc (*forget)(void *ctx, size_t rows_max, size_t *count, struct err *err);

    /* The handlers of the processes whose heartbeat is younger than lease_ms; a handler may be
     * reported several times. */
    enum rc (*handlers)(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                        void *on_handler_ctx, struct err *err);

    /* Counts tasks for the metrics. */
    enum rc (*depths)(void *ctx, retry_on_depth on_depth, void *on_depth_ctx, struct err *err);

    /* Reads every row of retry_group. on_group: any result but RC_OK ends the call, which returns
     * it. */
    enum rc (*groups)(void *ctx,
                      enum rc (*on_group)(void *group_ctx, const struct retry_group *group,
                                          struct err *err),
                      void *group_ctx, struct err *err);
};

#endif
