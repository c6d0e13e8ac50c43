/* SPDX-License-Identifier: MIT */
/* The interface of a handler of the retry queue: the code that runs a task. `kafka`, `http`,
 * `exec` and `steps` are in outbox/retry/handlers, `vote` is in consumer/held; main.c has the
 * table of all handlers. tallybox/retry_handler.h is the interface for handlers of own builds.
 *
 * A handler is opened once per process, and several threads run it at once. It may run twice for
 * one task (the queue promises at least once), so its effect must be harmless the second time:
 * job->idempotency_key is the same in every attempt. */
#ifndef OUTBOX_RETRY_HANDLER_H
#define OUTBOX_RETRY_HANDLER_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why an attempt failed; a policy decides by it. */
enum fault_class {
    FAULT_CLASS_TRANSIENT, /* may pass without a change of the task or of this program */
    FAULT_CLASS_REFUSED,   /* the task as it is will always be refused */
    FAULT_CLASS_OURS, /* a local setting or account is wrong: all tasks of the scene fail alike */
};

/* Where a code comes from. The scene's policy decides its class, else policy.c, else the handler.
 * FAULT_SOURCE_PLAIN has no codes: the attempt result names the class itself. */
enum fault_source {
    FAULT_SOURCE_MYSQL,
    FAULT_SOURCE_KAFKA,
    FAULT_SOURCE_HTTP,
    FAULT_SOURCE_SIGNAL,
    FAULT_SOURCE_EXIT,
    FAULT_SOURCE_PLAIN
};

enum attempt_end {
    ATTEMPT_DONE,
    ATTEMPT_FAILED,   /* see source and code */
    ATTEMPT_SNOOZED,  /* the handler asks for another time; not counted as an attempt */
    ATTEMPT_REJECTED, /* the handler ends the task */
    ATTEMPT_CUT, /* the process stops or cannot renew the task's lease; not counted as an attempt */
};

#define ATTEMPT_NO_DELAY (-1)

/* The rate of a scene that counts for each client of its group, and the share of this process in
 * it: held of `of`. */
struct retry_client_rate {
    int64_t per_s; /* 0: no limit */
    int64_t burst;
    int64_t held;
    int64_t of; /* > 0 if per_s is */
};

struct retry_handler;

/* One attempt at a task. All pointers are borrowed for the call; texts end with a zero byte and
 * are never NULL unless a comment allows it. */
struct retry_job {
    const struct retry_handler *handler; /* of check(): whose function is called, or NULL */
    int64_t id;
    const char *group;
    const char *scene;
    bool of_relay; /* the relay made the task, of a row */
    unsigned shard;
    const char *ordering_key;    /* NULL: none */
    const char *idempotency_key; /* the task's own, or the hash of what the task does: 64
                                    hexadecimal digits */
    const char *biz_no;          /* NULL: none */
    const char *options;         /* a JSON object: the scene's with the task's on top */
    const void *params;          /* NULL: none */
    size_t params_len;
    const char *params_type;
    const char *traceparent; /* as the task was submitted with it; NULL: none */
    bool receiver_retries;   /* HEADER_NO_RETRY is left out */
    int64_t attempt;         /* 1 and the failed ones since the task was made or begun anew */
    int64_t step;
    const void *step_result; /* of the step before; NULL: none */
    size_t step_result_len;
    struct retry_client_rate client_rate;
    int64_t database_ahead_ms; /* os_now_ms() and this are the database's clock, since 1970 */

    int64_t attempt_ms_max; /* the attempt takes no longer than this; 0: as long as it needs */

    /* os_now_ms() until which this process certainly holds the task. Each renewal of the lease
     * moves it, also during the attempt; 0: another process has the task. It is no time-out: the
     * handler limits the duration of an attempt itself. Invariant Q3: before this time the attempt
     * has ended, with everything that it started or has to send. */
    const atomic_llong *lease_until_ms;
};

/* The result of an attempt; zeroed before the call except result and delay_ms, so that an
 * unchanged struct means ATTEMPT_DONE. err holds a sentence for operators, without secrets or
 * parameters. */
struct attempt_result {
    enum attempt_end end;
    enum fault_source source;
    int code;
    enum fault_class fault; /* the handler's proposal, unless the scene has a rule for code */
    int64_t delay_ms;       /* requested by the handler; ATTEMPT_NO_DELAY before the call */
    bool waits;             /* of ATTEMPT_SNOOZED: nothing was called, and no attempt is kept */
    bool more_steps;    /* of ATTEMPT_DONE: this step is done, and result is for the next step */
    struct buf *result; /* owned by the caller, empty: what a step passes to the next one; marked as
                           failed when it was longer than RETRY_RESULT_BYTES_MAX */
    struct err err;
};

/* Headers for downstream servers: the number of the attempt, and that the queue retries, so that
 * the receiver need not. An answer with the second header ends the task. The third one has the
 * task's group and scene, as "default/mail". The API refuses tasks that an application submits with
 * the second one, or with the third one for the same group and scene: they are retry traffic. */
#define HEADER_ATTEMPT "tallybox-attempt"
#define HEADER_NO_RETRY "tallybox-no-retry"
#define HEADER_SCENE "tallybox-scene"

/* A handler notices a lost lease within this time. */
#define HANDLER_WAIT_MS_MAX 100

/* The greatest size of a result. */
#define RETRY_RESULT_BYTES_MAX ((size_t)1 << 20)

struct clients;

#define RETRY_HANDLERS_MAX 16

/* The handlers of a process. */
struct retry_handlers {
    const struct retry_handler *const *list;
    size_t count;
    void **opened; /* the results of open(); NULL: the handler does not run here. Only for run() */
    const struct settings *settings; /* for check(); NULL: it judges nothing by them */
    const char *http_hosts;          /* for check(): the hosts that tasks may call, in the form of
                                        retry.http_hosts; NULL: it does not judge them */
};

/* What a handler may use until close(). */
struct retry_handler_env {
    const struct retry_handler *self; /* the one that is opened */
    const struct settings *settings;
    struct stop *stop; /* a call that waits ends soon after it was requested, as ATTEMPT_CUT */
    const char *instance;
    size_t workers;                   /* threads that run it: 0..workers - 1 */
    const struct retry_handlers *all; /* for a handler that passes work to another one */
    struct clients *clients;          /* of the groups; NULL: there are none */
};

/* topic: NULL if the handler has none. Any result but RC_OK ends the call, which returns it. */
typedef enum rc (*retry_on_effect)(void *ctx, const char *handler, const char *topic,
                                   struct err *err);

struct retry_handler {
    const char *name;  /* as retry_task.handler has it */
    const char *about; /* one sentence */
    bool needs_all;    /* its tasks may need any other handler */

    /* Opens the handler; it need not connect. RC_FATAL: err names what an operator must change. */
    enum rc (*open)(void **handler, const struct retry_handler_env *env, struct err *err);
    /* Checks whether this handler could run the task, before the API accepts it. RC_REJECT: err
     * names the fault in options or params. May be NULL. Any thread. */
    enum rc (*check)(const struct retry_handlers *all, const struct retry_job *job,
                     struct err *err);
    /* Whether the process that accepts such a task may run it at once (first_try.h). job has only
     * group, scene, ordering_key, params_type and options. False: err gives the reason. NULL: no
     * task of this handler. Any thread. */
    bool (*tries_first)(const struct retry_job *job, struct err *err);
    /* Appends the name of the attempt's destination for its circuit breaker: an origin, a topic, a
     * program. If it appends nothing, the scene's tasks of this handler share a breaker. May be
     * NULL. Any thread. */
    void (*destination)(const struct retry_handlers *all, const struct retry_job *job,
                        struct buf *name);
    /* Calls on_effect for each effect of the task beyond the handler's name: the topic it
     * publishes to, the handlers of its steps. Unreadable options have no effect, because run()
     * refuses them. NULL: no such effects. RC_FATAL: no memory. Any thread. */
    enum rc (*effects)(const struct retry_handlers *all, const struct retry_job *job,
                       retry_on_effect on_effect, void *ctx, struct err *err);
    /* Makes one attempt; it ends as ATTEMPT_CUT when job->lease_until_ms is near. A call that
     * waits does so in parts of HANDLER_WAIT_MS_MAX at most and calls loop_goes_on() after each
     * part. worker: the number of the calling thread. */
    void (*run)(void *handler, size_t worker, const struct retry_job *job,
                struct attempt_result *attempt);
    /* The task of this job, which ended as ATTEMPT_DONE, is ended in the database. Must not wait.
     * NULL: the handler need not know. The thread that claims the tasks. */
    void (*ended)(void *handler, const struct retry_job *job);
    void (*close)(void *handler);
};

/* The attempt failed; format makes the sentence for the operator. */
void attempt_fail(struct attempt_result *attempt, enum fault_source source, int code,
                  enum fault_class fault, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The task cannot be run as it is; err gives the reason. */
void attempt_refuse(struct attempt_result *attempt, const struct err *err);

/* Back to what it was before the call, for another try in the same attempt. */
void attempt_reset(struct attempt_result *attempt);

/* The attempt was cut because the process stops. */
void attempt_cut(struct attempt_result *attempt);

/* The attempt was cut because the lease ends or is lost. */
void attempt_lose_lease(struct attempt_result *attempt);

#endif
