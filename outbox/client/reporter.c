/* SPDX-License-Identifier: MIT */
/* The reporter of tallybox/task.h: a window, the thread that sends it, and the callers that try
 * their work first. */
#include "common/buf.h"
#include "common/os.h"
#include "outbox/client/client_http.h"
#include "outbox/client/new_item.h"
#include "outbox/client/report_window.h"
#include "outbox/client/result.h"
#include "outbox/client/task_body.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW_TASKS 1000
#define WINDOW_BYTES ((size_t)16 << 20)
#define BATCH_TASKS 100
#define FLUSH_MS 1000
#define EXIT_MS 5000
#define RETRY_MS 200
#define RETRY_MS_MAX 30000
#define ATTEMPTS 3
#define WAIT_MS 100
#define WAIT_MS_MAX 1000
#define MS_MAX INT32_MAX /* of a time in a config or policy: 24 days */

struct tallybox_reporter {
    struct tallybox_client *client;
    struct tallybox_reporter_config config;
    pthread_t thread;

    pthread_mutex_t lock;   /* guards what follows, up to until_ms */
    pthread_cond_t changed; /* tasks, room, closing */
    struct report_window window;
    uint64_t done, dropped;
    char last_error[TALLYBOX_ERROR_SIZE];
    bool closing;
    bool joined;

    atomic_llong until_ms;          /* when the close gives up, os_now_ms() */
    struct tallybox_reporter *next; /* guarded by open_lock */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct tallybox_reporter *open_reporters;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* With the lock. wait_ms < 0: without end. */
static void wait_changed(struct tallybox_reporter *reporter, int64_t wait_ms)
{
    struct timespec at;

    if (wait_ms < 0) {
        pthread_cond_wait(&reporter->changed, &reporter->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(wait_ms / 1000);
    at.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&reporter->changed, &reporter->lock, &at);
}

/* With the lock. Returns how many tasks to send; 0: the thread ends. */
static size_t wait_batch(struct tallybox_reporter *reporter)
{
    for (;;) {
        int64_t now_ms = os_now_ms();
        int64_t due_ms = report_window_due(&reporter->window, now_ms, reporter->closing);
        int64_t left_ms = atomic_load(&reporter->until_ms) - now_ms;

        if (reporter->closing && (due_ms == REPORT_IDLE || left_ms <= 0))
            return 0;
        if (due_ms == 0)
            return report_window_batch(&reporter->window);
        if (reporter->closing && due_ms > left_ms)
            due_ms = left_ms;
        wait_changed(reporter, due_ms);
    }
}

/* Without the lock: only this thread takes tasks away, so that the first ones stay. The link behind
 * the last of them is not read: another thread may add a task there. */
static enum rc send_batch(struct tallybox_reporter *reporter, const struct report_task *first,
                          size_t count, struct tallybox_answer *answers, int64_t *wait_ms,
                          struct err *err)
{
    struct client_reply reply = {0};
    struct buf body = {0};
    enum rc rc;

    for (size_t i = 0; i < count; i++) {
        first = i > 0 ? first->next : first;
        buf_char(&body, i > 0 ? ',' : '[');
        buf_put(&body, first->json, first->len);
    }
    buf_char(&body, ']');
    rc = client_post(reporter->client, &body, &reporter->until_ms, &reply, err);
    if (rc == RC_OK)
        rc = task_answers_read(buf_text(&reply.body), reply.body.len, count, answers, err);
    *wait_ms = reply.retry_after_ms;
    buf_done(&reply.body);
    buf_done(&body);
    return rc;
}

/* Calls the application without the lock, and frees the tasks. */
static void tell_refused(const struct tallybox_reporter *reporter, struct report_task *refused,
                         const size_t *at, const struct tallybox_answer *answers,
                         const struct err *err)
{
    char reason[TALLYBOX_CODE_SIZE + TALLYBOX_ERROR_SIZE + 2];

    while (refused) {
        struct report_task *task = refused;

        if (answers)
            snprintf(reason, sizeof(reason), "%s: %s", answers[*at].code, answers[*at].message);
        else
            snprintf(reason, sizeof(reason), "%s", err->text);
        if (reporter->config.on_refused)
            reporter->config.on_refused(reporter->config.ctx, task->json, task->key, reason);
        at++;
        refused = task->next;
        free(task);
    }
}

/* What the thread needs for one request. */
struct batch_room {
    struct tallybox_answer *answers;
    enum report_state *states;
    size_t *at;
};

/* With the lock, which it gives back during the request. */
static void report_batch(struct tallybox_reporter *reporter, const struct batch_room *room,
                         size_t count)
{
    struct report_reply reply = {0};
    struct report_task *refused;
    const struct report_task *first = reporter->window.first;
    struct err err = {0};
    enum rc rc;

    pthread_mutex_unlock(&reporter->lock);
    rc = send_batch(reporter, first, count, room->answers, &reply.wait_ms, &err);
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        enum tallybox_result result = room->answers[i].result;

        room->states[i] = result == TALLYBOX_OK      ? REPORT_TAKEN
                          : result == TALLYBOX_RETRY ? REPORT_KEPT
                                                     : REPORT_BAD;
        if (result == TALLYBOX_RETRY)
            err_set(&err, "%s: %s", room->answers[i].code, room->answers[i].message);
    }
    reply.end = rc == RC_OK       ? REPORT_ANSWERED
                : rc == RC_REJECT ? REPORT_REFUSED
                                  : REPORT_UNAVAILABLE;
    pthread_mutex_lock(&reporter->lock);
    refused = report_window_apply(&reporter->window, count, &reply, room->states, os_now_ms(),
                                  os_random_u64(), room->at);
    if (err.text[0] && rc != RC_REJECT)
        snprintf(reporter->last_error, sizeof(reporter->last_error), "%s", err.text);
    pthread_cond_broadcast(&reporter->changed);
    if (!refused)
        return;
    pthread_mutex_unlock(&reporter->lock);
    tell_refused(reporter, refused, room->at, rc == RC_OK ? room->answers : NULL, &err);
    pthread_mutex_lock(&reporter->lock);
}

static void *run_reporter(void *ctx)
{
    struct tallybox_reporter *reporter = ctx;
    size_t batch_max = reporter->window.limits.batch_max;
    struct batch_room room = {0};
    size_t count;

    os_thread_name("tallybox-tasks");
    /* Without memory the tasks wait and are lost by the close, which counts them. */
    room.answers = calloc(batch_max, sizeof(*room.answers));
    room.states = calloc(batch_max, sizeof(*room.states));
    room.at = calloc(batch_max, sizeof(*room.at));
    pthread_mutex_lock(&reporter->lock);
    if (room.answers && room.states && room.at) {
        while ((count = wait_batch(reporter)) > 0)
            report_batch(reporter, &room, count);
    } else {
        snprintf(reporter->last_error, sizeof(reporter->last_error), "no memory for requests");
    }
    pthread_mutex_unlock(&reporter->lock);
    free(room.answers);
    free(room.states);
    free(room.at);
    return NULL;
}

/* Ends the thread, which sends the window first. Twice is harmless. */
static void stop_reporter(struct tallybox_reporter *reporter, int64_t deadline_ms)
{
    bool joins;

    pthread_mutex_lock(&reporter->lock);
    joins = !reporter->joined && !pthread_equal(reporter->thread, pthread_self());
    if (!reporter->closing)
        atomic_store(&reporter->until_ms, os_now_ms() + deadline_ms);
    reporter->closing = true;
    reporter->joined |= joins;
    pthread_cond_broadcast(&reporter->changed);
    pthread_mutex_unlock(&reporter->lock);
    if (joins)
        pthread_join(reporter->thread, NULL);
}

/* exit() runs: other threads may still use the reporters, so that nothing is freed. */
static void stop_all(void)
{
    pthread_mutex_lock(&open_lock);
    for (struct tallybox_reporter *one = open_reporters; one; one = one->next)
        if (one->config.exit_ms >= 0)
            stop_reporter(one, one->config.exit_ms);
    pthread_mutex_unlock(&open_lock);
}

static void register_exit(void)
{
    (void)atexit(stop_all);
}

static void list_reporter(struct tallybox_reporter *reporter)
{
    pthread_mutex_lock(&open_lock);
    reporter->next = open_reporters;
    open_reporters = reporter;
    pthread_mutex_unlock(&open_lock);
}

static void forget_reporter(struct tallybox_reporter *reporter)
{
    struct tallybox_reporter **at = &open_reporters;

    pthread_mutex_lock(&open_lock);
    while (*at && *at != reporter)
        at = &(*at)->next;
    if (*at)
        *at = reporter->next;
    pthread_mutex_unlock(&open_lock);
}

static enum rc read_ms(int64_t *value, int64_t standard, const char *name, struct err *err)
{
    if (*value == 0)
        *value = standard;
    if (*value < 0 || *value > MS_MAX)
        return err_fail(err, RC_REJECT, 0, "%s is not 0 to %d", name, MS_MAX);
    return RC_OK;
}

static enum rc read_config(struct tallybox_reporter_config *config, struct err *err)
{
    enum rc rc = read_ms(&config->flush_ms, FLUSH_MS, "flush_ms", err);

    if (rc == RC_OK)
        rc = read_ms(&config->retry_ms, RETRY_MS, "retry_ms", err);
    if (rc == RC_OK)
        rc = read_ms(&config->retry_ms_max, RETRY_MS_MAX, "retry_ms_max", err);
    if (rc == RC_OK && config->exit_ms != -1)
        rc = read_ms(&config->exit_ms, EXIT_MS, "exit_ms", err);
    if (config->window_tasks == 0)
        config->window_tasks = WINDOW_TASKS;
    if (config->window_bytes == 0)
        config->window_bytes = WINDOW_BYTES;
    if (config->batch_tasks == 0)
        config->batch_tasks = BATCH_TASKS;
    if (config->batch_tasks > config->window_tasks)
        config->batch_tasks = config->window_tasks;
    if (rc == RC_OK && config->batch_tasks > TALLYBOX_SUBMIT_TASKS_MAX)
        rc = err_fail(err, RC_REJECT, 0, "batch_tasks is not 0 to %d", TALLYBOX_SUBMIT_TASKS_MAX);
    return rc;
}

/* The thread takes no signal of the application. */
static int start_thread(struct tallybox_reporter *reporter)
{
    sigset_t all, old;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&reporter->thread, NULL, run_reporter, reporter);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}

static void free_reporter(struct tallybox_reporter *reporter)
{
    report_window_lose(&reporter->window);
    pthread_cond_destroy(&reporter->changed);
    pthread_mutex_destroy(&reporter->lock);
    free(reporter);
}

static enum rc open_reporter(struct tallybox_reporter **out, struct tallybox_client *client,
                             const struct tallybox_reporter_config *config, struct err *err)
{
    struct tallybox_reporter_config own = {0};
    struct tallybox_reporter *reporter;
    pthread_condattr_t clock;
    int code;
    enum rc rc;

    if (config)
        own = *config;
    rc = read_config(&own, err);
    if (rc != RC_OK)
        return rc;
    reporter = calloc(1, sizeof(*reporter));
    if (!reporter)
        return err_fail(err, RC_FATAL, 0, "no memory for a reporter");
    reporter->client = client;
    reporter->config = own;
    atomic_init(&reporter->until_ms, INT64_MAX);
    report_window_init(&reporter->window, &(struct report_limits){
                                              .tasks_max = own.window_tasks,
                                              .bytes_max = own.window_bytes,
                                              .batch_max = own.batch_tasks,
                                              .flush_ms = own.flush_ms,
                                              .retry_ms = own.retry_ms,
                                              .retry_ms_max = own.retry_ms_max,
                                          });
    pthread_mutex_init(&reporter->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&reporter->changed, &clock);
    pthread_condattr_destroy(&clock);
    code = start_thread(reporter);
    if (code != 0) {
        free_reporter(reporter);
        return err_fail(err, RC_FATAL, code, "no thread for a reporter: %s", strerror(code));
    }
    pthread_once(&exit_once, register_exit);
    list_reporter(reporter);
    *out = reporter;
    return RC_OK;
}

enum tallybox_result tallybox_reporter_open(struct tallybox_reporter **reporter,
                                            struct tallybox_client *client,
                                            const struct tallybox_reporter_config *config,
                                            struct tallybox_error *error)
{
    struct err err = {0};

    return result_give(open_reporter(reporter, client, config, &err), &err, error);
}

/* One block: the struct, the JSON and the key. NULL: no memory. */
static struct report_task *make_task(const struct tallybox_task *task)
{
    char made[TALLYBOX_ID_SIZE];
    const char *key = task->idempotency_key;
    struct report_task *one = NULL;
    struct buf json = {0};

    if (!key) {
        tallybox_id_make(made);
        key = made;
    }
    task_body_put(&json, task, key);
    if (!json.failed)
        one = malloc(sizeof(*one) + json.len + 1 + strlen(key) + 1);
    if (one) {
        one->len = json.len;
        memcpy(one->json, json.data, json.len);
        one->json[json.len] = '\0';
        memcpy(one->json + json.len + 1, key, strlen(key) + 1);
        one->key = one->json + json.len + 1;
    }
    buf_done(&json);
    return one;
}

/* Waits between two attempts; the close ends the wait. */
static void wait_attempt(struct tallybox_reporter *reporter, int64_t wait_ms)
{
    int64_t random_ms = (int64_t)(os_random_u64() % (uint64_t)(wait_ms + 1));
    int64_t until_ms = os_now_ms() + wait_ms / 2 + random_ms;

    pthread_mutex_lock(&reporter->lock);
    for (int64_t now_ms = os_now_ms(); now_ms < until_ms && !reporter->closing;
         now_ms = os_now_ms())
        wait_changed(reporter, until_ms - now_ms);
    pthread_mutex_unlock(&reporter->lock);
}

static enum tallybox_result try_work(struct tallybox_reporter *reporter,
                                     const struct tallybox_policy *policy, tallybox_work work,
                                     void *ctx)
{
    int64_t wait_ms = policy->wait_ms;

    for (int attempt = 1; attempt <= policy->attempts; attempt++) {
        enum tallybox_result result = work(ctx, attempt);

        if (result != TALLYBOX_RETRY)
            return result;
        if (attempt == policy->attempts)
            break;
        wait_attempt(reporter, wait_ms < policy->wait_ms_max ? wait_ms : policy->wait_ms_max);
        wait_ms = wait_ms < policy->wait_ms_max ? wait_ms * 2 : wait_ms;
    }
    return TALLYBOX_RETRY;
}

/* Takes the task, or drops and frees it. */
static enum tallybox_outcome queue_task(struct tallybox_reporter *reporter,
                                        struct report_task *task, int64_t full_wait_ms,
                                        struct err *err)
{
    int64_t until_ms = full_wait_ms < 0 ? INT64_MAX : os_now_ms() + full_wait_ms;
    enum tallybox_outcome outcome = TALLYBOX_DROPPED;

    pthread_mutex_lock(&reporter->lock);
    while (!reporter->closing && !report_window_fits(&reporter->window, task->len)) {
        int64_t now_ms = os_now_ms();

        if (now_ms >= until_ms)
            break;
        wait_changed(reporter, full_wait_ms < 0 ? -1 : until_ms - now_ms);
    }
    if (reporter->closing) {
        err_set(err, "the reporter is closed");
    } else if (!report_window_fits(&reporter->window, task->len)) {
        err_set(err, "the window has no room: %zu tasks, %zu bytes wait", reporter->window.count,
                reporter->window.bytes);
    } else {
        report_window_take(&reporter->window, task, os_now_ms());
        outcome = TALLYBOX_QUEUED_LOCALLY;
        pthread_cond_broadcast(&reporter->changed);
    }
    reporter->dropped += outcome == TALLYBOX_DROPPED;
    pthread_mutex_unlock(&reporter->lock);
    if (outcome == TALLYBOX_DROPPED)
        free(task);
    return outcome;
}

static enum rc read_policy(struct tallybox_policy *policy, struct err *err)
{
    enum rc rc = read_ms(&policy->wait_ms, WAIT_MS, "wait_ms", err);

    if (rc == RC_OK)
        rc = read_ms(&policy->wait_ms_max, WAIT_MS_MAX, "wait_ms_max", err);
    if (policy->attempts == 0)
        policy->attempts = ATTEMPTS;
    if (rc == RC_OK && policy->attempts < 0)
        rc = err_fail(err, RC_REJECT, 0, "attempts is negative");
    return rc;
}

enum tallybox_outcome tallybox_reporter_try(struct tallybox_reporter *reporter,
                                            const struct tallybox_policy *policy,
                                            tallybox_work work, void *ctx,
                                            const struct tallybox_task *task,
                                            struct tallybox_error *error)
{
    struct tallybox_policy own = {.full_wait_ms = -1};
    enum tallybox_outcome outcome = TALLYBOX_REFUSED;
    enum tallybox_result result = TALLYBOX_RETRY;
    struct report_task *one;
    struct err err = {0};

    if (policy)
        own = *policy;
    if (tallybox_task_check(task, 1, error) != TALLYBOX_OK)
        return TALLYBOX_REFUSED;
    if (read_policy(&own, &err) == RC_OK && work) {
        result = try_work(reporter, &own, work, ctx);
        if (result == TALLYBOX_OK) {
            pthread_mutex_lock(&reporter->lock);
            reporter->done++;
            pthread_mutex_unlock(&reporter->lock);
            return TALLYBOX_DONE;
        }
        if (result != TALLYBOX_RETRY)
            err_set(&err, "the work refused");
    }
    if (!err.text[0]) {
        one = make_task(task);
        if (one)
            outcome = queue_task(reporter, one, own.full_wait_ms, &err);
        else
            err_set(&err, "no memory for a task");
    }
    result_give(outcome == TALLYBOX_QUEUED_LOCALLY ? RC_OK : RC_REJECT, &err, error);
    return outcome;
}

const char *tallybox_outcome_name(enum tallybox_outcome outcome)
{
    static const char *const names[] = {[TALLYBOX_DONE] = "done",
                                        [TALLYBOX_QUEUED_LOCALLY] = "queued locally",
                                        [TALLYBOX_REFUSED] = "refused",
                                        [TALLYBOX_DROPPED] = "dropped"};

    return names[outcome];
}

/* With the lock. */
static void give_counts(const struct tallybox_reporter *reporter, struct tallybox_counts *counts)
{
    const struct report_window *window = &reporter->window;

    *counts = (struct tallybox_counts){
        .done = reporter->done,
        .queued = window->queued,
        .reported = window->reported,
        .refused = window->refused,
        .failed = window->failed,
        .dropped = reporter->dropped,
        .lost = window->lost,
        .waiting = window->count,
    };
    memcpy(counts->last_error, reporter->last_error, sizeof(counts->last_error));
}

void tallybox_reporter_counts(struct tallybox_reporter *reporter, struct tallybox_counts *counts)
{
    pthread_mutex_lock(&reporter->lock);
    give_counts(reporter, counts);
    pthread_mutex_unlock(&reporter->lock);
}

enum tallybox_result tallybox_reporter_close(struct tallybox_reporter *reporter,
                                             int64_t deadline_ms, struct tallybox_counts *counts,
                                             struct tallybox_error *error)
{
    struct tallybox_counts own = {0};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (!reporter)
        return TALLYBOX_OK;
    forget_reporter(reporter);
    stop_reporter(reporter, deadline_ms > 0 ? deadline_ms < MS_MAX ? deadline_ms : MS_MAX : 0);
    pthread_mutex_lock(&reporter->lock);
    report_window_lose(&reporter->window);
    give_counts(reporter, &own);
    pthread_mutex_unlock(&reporter->lock);
    free_reporter(reporter);
    if (counts)
        *counts = own;
    if (own.lost > 0)
        rc = err_fail(&err, RC_RETRY, 0, "%llu tasks were not reported in time: %.200s",
                      (unsigned long long)own.lost,
                      own.last_error[0] ? own.last_error : "no request was answered");
    return result_give(rc, &err, error);
}
