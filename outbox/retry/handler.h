/* SPDX-License-Identifier: MIT */
/* How a handler of the retry queue looks: what does the work of a task. `kafka`, `http`, `exec` and
 * `steps` are in outbox/retry/handlers, `vote` is the consumer's; main.c has the table of all of
 * them.
 *
 * A handler is opened once in a process and run by several threads at once. It may be run twice for
 * one task (at least once is what the queue promises), so its effect has to be harmless the second
 * time: job->idempotency_key is the same in every attempt. */
#ifndef OUTBOX_RETRY_HANDLER_H
#define OUTBOX_RETRY_HANDLER_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "common/stop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why an attempt failed, as far as it matters for what comes next. */
enum fault_class {
    FAULT_TRANSIENT, /* passes by itself, or with somebody's help there */
    FAULT_REFUSED,   /* this task as it stands is not taken, and will not be */
    FAULT_OURS,      /* a setting or an account of ours is wrong: all tasks of the scene fail so */
};

/* Where a code comes from; a scene's policy, then outbox/retry/policy/policy.c, and then the
 * handler say which class it is. FAULT_PLAIN has no codes: the attempt result names the class
 * itself. */
enum fault_source { FAULT_MYSQL, FAULT_KAFKA, FAULT_HTTP, FAULT_SIGNAL, FAULT_EXIT, FAULT_PLAIN };

enum attempt_end {
    ATTEMPT_DONE,
    ATTEMPT_FAILED,   /* see source and code */
    ATTEMPT_SNOOZED,  /* the handler asks for another time; costs no attempt */
    ATTEMPT_REJECTED, /* the handler says: never again */
    ATTEMPT_CUT,      /* it did not come to an end: the process stops, or cannot renew the task's
                         lease; costs no attempt */
};

#define ATTEMPT_NO_DELAY (-1)

/* One attempt at a task. All is borrowed for the call; texts end with a zero byte and are never
 * NULL unless said so. */
struct retry_job {
    int64_t id;
    const char *group;
    const char *scene;
    const char *ordering_key;    /* NULL: none */
    const char *idempotency_key; /* the task's own, or 64 hexadecimal digits of what it does */
    const char *biz_no;          /* NULL: none */
    const char *options;         /* a JSON object: the scene's with the task's on top */
    const void *params;          /* NULL: none */
    size_t params_len;
    const char *params_type;
    int64_t attempt; /* 1 for the first */
    int64_t step;
    const void *step_result; /* of the step before; NULL: none */
    size_t step_result_len;
    int64_t database_ahead_ms; /* os_now_ms() and this are the database's clock, since 1970 */

    /* os_now_ms() up to which the task is certainly this process's. It moves on with each renewal
     * of the lease, also while the attempt runs; 0: another process has the task. It is no
     * time-out: how long an attempt may take is the handler's own business. Invariant: before this
     * time the attempt has ended, with all that it started or has to send. */
    const atomic_llong *lease_until_ms;
};

/* What became of it; zeroed before the call but for result and delay_ms, so that saying nothing is
 * ATTEMPT_DONE. err has the words for people: no secret, no parameters. */
struct attempt_result {
    enum attempt_end end;
    enum fault_source source;
    int code;
    enum fault_class fault; /* what the handler makes of it, unless the scene has a rule for code */
    int64_t delay_ms;       /* its own wish; ATTEMPT_NO_DELAY before the call */
    bool more_steps;        /* of ATTEMPT_DONE: this step is done, result is for the next one */
    struct buf *result;     /* the caller's, empty: what a step gives to the next one. One that
                               failed was longer than RETRY_RESULT_BYTES_MAX */
    struct err err;
};

/* A lease that is lost is seen within this. */
#define HANDLER_WAIT_MS_MAX 100

/* The ceiling of a result. */
#define RETRY_RESULT_BYTES_MAX ((size_t)1 << 20)

struct retry_handler;

#define RETRY_HANDLERS_MAX 16

/* The handlers of a process. */
struct retry_handlers {
    const struct retry_handler *const *list;
    size_t count;
    void **opened; /* what open() of each made; NULL: it does not run here. For run() alone */
};

/* What a handler gets for its life. */
struct retry_handler_env {
    const struct settings *settings;
    struct stop *stop; /* a call that waits ends soon after it was requested, as ATTEMPT_CUT */
    const char *instance;
    size_t workers;                   /* threads that run it: 0..workers - 1 */
    const struct retry_handlers *all; /* for one that hands work on */
};

/* topic: NULL where the handler has none. Anything but RC_OK ends the call and is what it
 * returns. */
typedef enum rc (*retry_on_effect)(void *ctx, const char *handler, const char *topic,
                                   struct err *err);

struct retry_handler {
    const char *name;  /* as retry_task.handler has it */
    const char *about; /* one sentence */
    bool needs_all;    /* its tasks may need any of the others */

    /* No connection is needed yet. RC_FATAL: err says what a person must change. */
    enum rc (*open)(void **handler, const struct retry_handler_env *env, struct err *err);
    /* Is the task one that this handler could run at all? For submits through our API. RC_REJECT:
     * err says what is wrong with options or params. May be NULL. Any thread. */
    enum rc (*check)(const struct retry_handlers *all, const struct retry_job *job,
                     struct err *err);
    /* Appends the name of where the attempt goes, for its circuit breaker: an origin, a topic, a
     * program. Nothing: it cannot be told, and the scene's tasks of this handler share a breaker.
     * May be NULL. Any thread. */
    void (*destination)(const struct retry_handlers *all, const struct retry_job *job,
                        struct buf *name);
    /* Calls on_effect for everything that running the task would do beside what its own name says:
     * the topic it publishes to, the handlers of its steps. What cannot be read has no effect, for
     * run() refuses it. NULL: nothing. RC_FATAL: no memory. Any thread. */
    enum rc (*effects)(const struct retry_handlers *all, const struct retry_job *job,
                       retry_on_effect on_effect, void *ctx, struct err *err);
    /* One attempt; when job->lease_until_ms comes near it ends as ATTEMPT_CUT. A call that waits
     * does so in parts of HANDLER_WAIT_MS_MAX at most, to see that, and calls loop_goes_on().
     * worker: the number of the calling thread. */
    void (*run)(void *handler, size_t worker, const struct retry_job *job,
                struct attempt_result *attempt);
    void (*close)(void *handler);
};

#endif
