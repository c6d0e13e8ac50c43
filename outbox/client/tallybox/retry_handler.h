/* SPDX-License-Identifier: MIT */
/* Handlers of the retry queue that are written in C and linked into an own build of tallybox. Such
 * a program has every command and handler of tallybox, and the handlers of its table:
 *
 *     #include <tallybox/retry_handler.h>
 *
 *     static enum tallybox_run_end run(void *state, size_t worker, const struct tallybox_job *job,
 *                                      struct tallybox_attempt *attempt) { ... }
 *     static const struct tallybox_handler mail = {
 *         .name = "mail", .about = "Sends a mail.", .run = run};
 *     static const struct tallybox_handler *const handlers[] = {&mail};
 *
 *     int main(int argc, char **argv) { return tallybox_main(argc, argv, handlers, 1); }
 *
 *     cc mail.c $(pkg-config --cflags --libs tallybox-main) -o tallybox-mail
 *
 * `tallybox-mail retry` (or run) then claims the tasks of the handler; the group of the tasks must
 * allow it (`tallybox retry group set`). Run `serve` of the same build too, so that it checks the
 * tasks; a `serve` without the handler takes them unchecked. Other builds leave its tasks alone. */
#ifndef TALLYBOX_RETRY_HANDLER_H
#define TALLYBOX_RETRY_HANDLER_H

#include <stddef.h>
#include <stdint.h>
#include <tallybox/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TALLYBOX_HANDLERS_MAX 8 /* of an own build */
#define TALLYBOX_RESULT_BYTES_MAX ((size_t)1 << 20)

/* One attempt at a task. All pointers are borrowed for the call; texts end with a zero byte, and
 * are never NULL unless a comment says so. */
struct tallybox_job {
    int64_t id;
    int64_t attempt; /* 1 for the first */
    const char *group;
    const char *scene;
    const char *ordering_key;    /* NULL: none */
    const char *idempotency_key; /* the same in every attempt */
    const char *biz_no;          /* NULL: none */
    const char *options;         /* a JSON object: the scene's, with the task's on top */
    const void *params;          /* NULL: none */
    size_t params_len;
    const char *params_type;
    const char *traceparent; /* NULL: none */
};

/* What a handler says of the attempt that runs; valid during run(). */
struct tallybox_attempt;

/* How an attempt ended. The policy of the task's scene decides what follows. */
enum tallybox_run_end {
    TALLYBOX_RUN_DONE,
    TALLYBOX_RUN_FAILED,   /* class `transient`: a later attempt may succeed */
    TALLYBOX_RUN_REFUSED,  /* class `refused`: the task as it is will always fail */
    TALLYBOX_RUN_OURS,     /* class `ours`: a setting or an account here is wrong */
    TALLYBOX_RUN_REJECTED, /* ends the task, whatever the policy says */
    TALLYBOX_RUN_SNOOZED,  /* asks for another time; not counted as an attempt */
    TALLYBOX_RUN_CUT       /* tallybox_attempt_goes_on() returned 0; not counted */
};

/* What a handler knows from start() to end(). */
struct tallybox_start {
    const char *instance; /* the name of this process */
    size_t workers;       /* threads that call run(): 0 to workers - 1 */
};

/* A handler. The struct and its texts must outlive tallybox_main(). */
struct tallybox_handler {
    const char *name;  /* 1 to 32 of [A-Za-z0-9_.:-]; retry_task.handler has it */
    const char *about; /* one sentence; NULL: none */

    /* Called once by the main thread, before the first run(). *state is for the other functions.
     * NULL: there is nothing to start. TALLYBOX_OK, or: error names what an operator must change,
     * and the process does not start. */
    enum tallybox_result (*start)(void **state, const struct tallybox_start *start,
                                  struct tallybox_error *error);

    /* Checks a task before the API takes it, also in processes that did not call start(). NULL:
     * every task is taken. TALLYBOX_REJECT: error names the fault. Any thread, several at once. */
    enum tallybox_result (*check)(const struct tallybox_job *job, struct tallybox_error *error);

    /* Makes one attempt. Several threads call it at once, each with its own `worker`. It may run
     * twice for one task: the effect must be harmless the second time. A call that waits does so
     * in parts of 100 ms, and calls tallybox_attempt_goes_on() after each: a call that does not
     * return is a stuck thread, after which the process is restarted. Signals are blocked; it must
     * not call exit() or fork() without exec(). */
    enum tallybox_run_end (*run)(void *state, size_t worker, const struct tallybox_job *job,
                                 struct tallybox_attempt *attempt);

    /* Called once by the main thread, after the last run(). NULL: there is nothing to end. */
    void (*end)(void *state);
};

/* Returns 0 when the attempt has to end now: the process stops, or its lease of the task is about
 * to end. Then return TALLYBOX_RUN_CUT soon, or what the attempt has become meanwhile. The calling
 * thread of run(). */
int tallybox_attempt_goes_on(struct tallybox_attempt *attempt);

/* Sets the sentence for operators, as in printf(), without secrets and parameters. For every end
 * but TALLYBOX_RUN_DONE. */
void tallybox_attempt_explain(struct tallybox_attempt *attempt, const char *format, ...)
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The next attempt is not made for so long: of a failed attempt instead of the policy's wait; of a
 * snoozed one 60 s without it. */
void tallybox_attempt_delay(struct tallybox_attempt *attempt, int64_t delay_ms);

/* Appends to the result of a done attempt, which the next step and the callbacks get: up to
 * TALLYBOX_RESULT_BYTES_MAX; a longer one fails the attempt. */
void tallybox_attempt_put_result(struct tallybox_attempt *attempt, const void *bytes, size_t len);

/* The main() of tallybox with more handlers. Borrows them for the life of the process. Returns the
 * exit code; a handler with a wrong or known name is told on stderr. Call it once, from main(),
 * before any other thread was started. */
int tallybox_main(int argc, char **argv, const struct tallybox_handler *const *handlers,
                  size_t count);

#ifdef __cplusplus
}
#endif

#endif
