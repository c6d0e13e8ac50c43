/* SPDX-License-Identifier: MIT */
/* The interface between the API and the retry queue for a first try: a task that the process which
 * accepts it runs at once. first_tries.h decides which tasks are tried; first_tries_role.h has its
 * threads and connections. */
#ifndef OUTBOX_RETRY_FIRST_TRY_H
#define OUTBOX_RETRY_FIRST_TRY_H

#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIRST_TRY_REASON_SIZE 600

/* What became of a task that was to be tried first. */
struct first_try_result {
    struct retry_ticket ticket;
    bool begun; /* of make(): the task is claimed, and on_end will be called */
    bool tried; /* its handler was called */
    /* The task after the try, as it was committed. */
    char outcome[RETRY_OUTCOME_SIZE]; /* done, exhausted or cancelled; "": it is active */
    bool state_known;                 /* of an active task */
    enum task_state state;
    int64_t attempts;         /* that failed */
    int64_t next_ms;          /* when it is due, since 1970; 0: unknown, or it does not wait */
    const char *reason_class; /* static; "": it did not fail */
    char reason[FIRST_TRY_REASON_SIZE]; /* why it was not tried, or is not done; "": it is done */
    /* The answer of what was called, valid during on_end; NULL: none, or it was too long. */
    const void *answer;
    size_t answer_len;
};

/* The try of `owner` has ended, and what became of the task is committed, unless result->reason
 * tells otherwise. Called by step(), once for each make() that has begun. */
typedef void (*first_try_on_end)(void *ctx, void *owner, const struct first_try_result *result);

/* One thread calls make() and step(). */
struct first_try_ops {
    void *ctx;

    /* Makes the task, as retry_append_once(), and claims it in the same transaction if it may begin
     * now. RC_OK: result->ticket is the task; result->begun tells whether on_end will be called
     * with this owner, and otherwise result->reason why the task was not claimed. RC_RETRY: nothing
     * was done, or the outcome is unknown; a repetition finds the task, and does not try it.
     * RC_REJECT: the database refuses the task. RC_FATAL: an operator must act. */
    enum rc (*make)(void *ctx, const struct retry_new_task *task, void *owner,
                    struct first_try_result *result, int64_t now_ms, struct err *err);

    /* Writes the results of tries that have ended, and calls on_end for them. To be called after
     * each make(), too. Returns in how many ms to call it again; its thread is woken before when a
     * try ends. */
    int64_t (*step)(void *ctx, int64_t now_ms);
};

#endif
