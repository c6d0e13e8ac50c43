/* SPDX-License-Identifier: MIT */
/* The rows of the retry queue as its engine and its adapters carry them. Pure data. */
#ifndef OUTBOX_RETRY_TASK_ROW_H
#define OUTBOX_RETRY_TASK_ROW_H

#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tasks are spread over so many shards, by the hash of their ordering key (retry_task.shard). */
#define TASK_SHARDS 16

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
    const char *task_hash; /* 64 hexadecimal digits: stands for the key where there is none */
    const char *biz_no;
    const char *options;
    size_t options_len;
    const void *params;
    size_t params_len;
    const char *params_type;
    int64_t attempts; /* that failed so far */
    int64_t made_ms;  /* its age counts from here; since 1970, as due_ms and now_ms; all by the
                       * database's clock */
    int64_t due_ms;   /* next_at */
    int64_t now_ms;
    int64_t step;
    const void *step_result;
    size_t step_result_len;
};

/* What becomes of a task after an attempt. */
enum task_end {
    TASK_END_DONE,  /* deleted, or into the history with `keep`; its key goes on */
    TASK_END_AGAIN, /* waiting again, delay_ms from now */
    TASK_END_STEP,  /* the same at once, with step + 1 and step_result */
    TASK_END_BACK,  /* waiting again as it was: nothing was tried */
    TASK_END_BLOCK, /* exhausted: blocked */
    TASK_END_PARK,  /* exhausted: into the history, and a parked row in its place */
    TASK_END_SKIP,  /* exhausted: into the history; its key goes on */
};

struct task_update {
    int64_t id;
    int64_t epoch; /* of the claim: a task that has another one now is somebody else's */
    bool ordered;  /* it has an ordering key */
    enum task_end end;
    bool keep; /* of TASK_END_DONE */
    int64_t attempts;
    int64_t delay_ms;
    const char *reason_class; /* "": it did not fail */
    const char *reason;
    const void *step_result;
    size_t step_result_len;

    /* The attempt, for retry_attempt; not of TASK_END_BACK. */
    const char *outcome; /* a word: done, failed, snoozed, rejected; NULL: none was made */
    int64_t took_ms;

    /* A callback, made in the same transaction; scene NULL: none. Its parent is the task, its group
     * is the task's, it has no ordering key. */
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

#endif
