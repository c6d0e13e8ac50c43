/* SPDX-License-Identifier: MIT */
/* libtallybox: hands tasks to the retry queue. There are three ways:
 *
 *   tallybox_task_append()   in the application's own MySQL transaction
 *   tallybox_client_submit() over HTTP, by POST /v1/tasks: committed when it returns
 *   tallybox_reporter_try()  tries the work in this process first, by a policy; what keeps failing
 *                            waits in a bounded window in memory and is submitted by a thread
 *
 * A crash of the process loses the window of a reporter. A clean exit sends it: by
 * tallybox_reporter_close(), or, for a reporter that is open when exit() runs, for exit_ms.
 *
 * No function may be used in a child of fork() with an object that the parent has opened. */
#ifndef TALLYBOX_TASK_H
#define TALLYBOX_TASK_H

#include <stddef.h>
#include <stdint.h>
#include <tallybox/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TALLYBOX_NAME_BYTES_MAX 64    /* group and scene: 1 to 64 of [A-Za-z0-9_.:-] */
#define TALLYBOX_HANDLER_BYTES_MAX 32 /* the same characters */
#define TALLYBOX_ORDERING_KEY_CHARS_MAX 512
#define TALLYBOX_IDEMPOTENCY_KEY_CHARS_MAX 255
#define TALLYBOX_BIZ_NO_CHARS_MAX 64
#define TALLYBOX_OPTIONS_BYTES_MAX 65535
#define TALLYBOX_PARAMS_BYTES_MAX ((size_t)16 << 20)
#define TALLYBOX_SUBMIT_TASKS_MAX 1000

/* Texts are UTF-8 and end with a zero byte; RETRY.md explains the fields. Zero the struct before
 * the fields are set. */
struct tallybox_task {
    const char *group; /* NULL: "default" */
    const char *scene;
    const char *handler;
    const char *ordering_key;    /* NULL: no order */
    const char *idempotency_key; /* NULL: the hash of what the task does; of a reporter a new UUID
                                  */
    const char *biz_no;          /* NULL: none */
    const char *options;         /* a JSON object for the handler, or NULL */
    const void *params;          /* delivered unchanged; NULL: none */
    size_t params_len;
    const char *params_type; /* NULL: application/json */
    const char *traceparent; /* of W3C Trace Context, or NULL; not sent over HTTP */
    int64_t delay_ms;        /* not before so long from now; 0: at once */
};

/* The active task for an appended one. */
struct tallybox_ticket {
    int64_t id;
    int existed; /* 1: a task with this group, scene and idempotency key was active before */
};

/* Checks tasks by the rules of the server, without a database. TALLYBOX_REJECT: error names the
 * first task with a fault. Any thread. */
enum tallybox_result tallybox_task_check(const struct tallybox_task *tasks, size_t count,
                                         struct tallybox_error *error);

/* Appends tasks in their order in the transaction of the caller; tickets (count of them, or NULL)
 * get their ids. mysql and the results: as tallybox_outbox_append(). database: where retry_task
 * is; NULL: the connection's default database. Another database is selected during the call, and
 * the former one afterwards. TALLYBOX_REJECT also for a group of the relay or the consumer. The
 * account needs the role `application`. */
enum tallybox_result tallybox_task_append(void *mysql, const char *database,
                                          const struct tallybox_task *tasks, size_t count,
                                          struct tallybox_ticket *tickets,
                                          struct tallybox_error *error);

/* A server with the HTTP API. */
struct tallybox_server {
    const char *url;        /* http://HOST:PORT or https://HOST */
    const char *token;      /* with the scope tasks:GROUP; NULL: token_file has it */
    const char *token_file; /* one line, which only the account and its group may read; read for
                               each request, so that a token can be replaced */
    const char *ca_file;    /* PEM, for https; NULL: that of libcurl */
    int64_t timeout_ms;     /* of a request; 0: 10,000 */
};

struct tallybox_client;

/* Copies the texts of server; makes no connection. TALLYBOX_REJECT: a field is wrong.
 * TALLYBOX_FATAL: no memory, libcurl cannot be used, or the token file cannot be read. Call it
 * first from the main thread, before other threads use libcurl. */
enum tallybox_result tallybox_client_open(struct tallybox_client **client,
                                          const struct tallybox_server *server,
                                          struct tallybox_error *error);

/* NULL is allowed. No call and no reporter may use the client any more. */
void tallybox_client_close(struct tallybox_client *client);

#define TALLYBOX_CODE_SIZE 48

/* What became of one task. */
struct tallybox_answer {
    enum tallybox_result result; /* TALLYBOX_OK, _REJECT, or _RETRY: send it again */
    struct tallybox_ticket ticket;
    char code[TALLYBOX_CODE_SIZE]; /* of a refused task, as "invalid_task" */
    char message[TALLYBOX_ERROR_SIZE];
};

/* Submits 1 to TALLYBOX_SUBMIT_TASKS_MAX tasks, which are committed when it returns TALLYBOX_OK and
 * their answer, answers[i] of tasks[i], is TALLYBOX_OK; a bad task fails alone. Any other result
 * is that of the whole request, and answers are not written: TALLYBOX_REJECT (a task has a fault,
 * or status 400, 409, 413, 422), TALLYBOX_RETRY (any other status, no answer), TALLYBOX_FATAL (no
 * memory, no token file). error->code is the status. Tasks without an idempotency_key may run
 * twice if they are sent again after they ended. Any thread; calls of one client take turns. */
enum tallybox_result tallybox_client_submit(struct tallybox_client *client,
                                            const struct tallybox_task *tasks, size_t count,
                                            struct tallybox_answer *answers,
                                            struct tallybox_error *error);

/* Tells that a task of the window can never be taken: its JSON and its idempotency key, borrowed
 * for the call, and the reason. Called by the reporter's thread, which holds no lock; it must not
 * close the reporter. */
typedef void (*tallybox_on_refused)(void *ctx, const char *task, const char *idempotency_key,
                                    const char *reason);

/* Zero it before the fields are set; 0 stands for the default. */
struct tallybox_reporter_config {
    size_t window_tasks;  /* tasks in memory; 1,000 */
    size_t window_bytes;  /* of their JSON; 16 MiB, and one task of any size */
    size_t batch_tasks;   /* of one request; 100, up to TALLYBOX_SUBMIT_TASKS_MAX */
    int64_t flush_ms;     /* a request is sent so long after its first task at the latest;
                             1,000 */
    int64_t exit_ms;      /* for an open reporter when exit() runs; 5,000; -1: not at all */
    int64_t retry_ms;     /* wait after the first failed request; 200; doubled by each further
                             one, with jitter */
    int64_t retry_ms_max; /* 30,000 */
    tallybox_on_refused on_refused; /* NULL: counted only */
    void *ctx;
};

struct tallybox_reporter;

/* Starts the thread of a reporter, which blocks all signals. Borrows client until the close.
 * TALLYBOX_REJECT: a value of config is wrong. TALLYBOX_FATAL: no memory or no thread. */
enum tallybox_result tallybox_reporter_open(struct tallybox_reporter **reporter,
                                            struct tallybox_client *client,
                                            const struct tallybox_reporter_config *config,
                                            struct tallybox_error *error);

/* How often the work is tried in this process. */
struct tallybox_policy {
    int attempts;         /* 1 or more; 0: 3 */
    int64_t wait_ms;      /* after the first failure, doubled by each further one, with jitter; 0:
                             100 */
    int64_t wait_ms_max;  /* 0: 1,000 */
    int64_t full_wait_ms; /* how long to wait for room in a full window; -1: without end */
};

/* The application's work. attempt: 1 for the first. TALLYBOX_OK: done. TALLYBOX_RETRY: try again.
 * TALLYBOX_REJECT, TALLYBOX_FATAL: it will always fail, and must not become a task. */
typedef enum tallybox_result (*tallybox_work)(void *ctx, int attempt);

enum tallybox_outcome {
    TALLYBOX_DONE,           /* the work succeeded here */
    TALLYBOX_QUEUED_LOCALLY, /* the task is in the window: not yet on the server */
    TALLYBOX_REFUSED,        /* the work refused, or the task has a fault: error */
    TALLYBOX_DROPPED         /* no room in the window in time, or closed: the caller has it */
};

/* "done", "queued locally", "refused" or "dropped". Static; any thread. */
const char *tallybox_outcome_name(enum tallybox_outcome outcome);

/* Tries the work by the policy (NULL: the defaults, and a wait for room without end) in the calling
 * thread, and puts the task into the window if every attempt failed. The task is checked before
 * the first attempt and copied. work NULL: puts the task into the window at once. Any thread. */
enum tallybox_outcome tallybox_reporter_try(struct tallybox_reporter *reporter,
                                            const struct tallybox_policy *policy,
                                            tallybox_work work, void *ctx,
                                            const struct tallybox_task *task,
                                            struct tallybox_error *error);

/* Invariant: queued = reported + refused + lost + waiting. */
struct tallybox_counts {
    uint64_t done;                        /* works that succeeded here */
    uint64_t queued;                      /* tasks that were put into the window */
    uint64_t reported;                    /* that the server has taken */
    uint64_t refused;                     /* that the server will never take */
    uint64_t failed;                      /* requests that failed; their tasks were kept */
    uint64_t dropped;                     /* tasks that found no room in the window: never queued */
    uint64_t lost;                        /* that were in the window when the close gave up */
    uint64_t waiting;                     /* in the window now */
    char last_error[TALLYBOX_ERROR_SIZE]; /* of the newest failed request; "": none */
};

/* Any thread. */
void tallybox_reporter_counts(struct tallybox_reporter *reporter, struct tallybox_counts *counts);

/* Sends the window, for deadline_ms at the most and the rest of a request that is under way then,
 * takes no more tasks, ends the thread and frees the reporter. *counts (may be NULL) gets the last
 * numbers. TALLYBOX_OK: nothing was lost. TALLYBOX_RETRY: counts->lost tasks were; error names
 * their number and the last fault of a request. No other call may use the reporter any more; a
 * call that waits for room is ended as TALLYBOX_DROPPED, and must have returned before. */
enum tallybox_result tallybox_reporter_close(struct tallybox_reporter *reporter,
                                             int64_t deadline_ms, struct tallybox_counts *counts,
                                             struct tallybox_error *error);

#ifdef __cplusplus
}
#endif

#endif
