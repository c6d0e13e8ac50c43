/* SPDX-License-Identifier: MIT */
#include "tests/flow/retry_fixture.h"

#include "common/hash.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_MS INT64_C(1700000000000) /* the database's clock is so far ahead of ours */

struct retry_fixture fixture;

static uint64_t below(uint64_t limit)
{
    return rng_next(&fixture.rng) % limit;
}

struct task *retry_fixture_find(int64_t id)
{
    return id >= 1 && (size_t)id <= fixture.count ? &fixture.tasks[id - 1] : NULL;
}

void retry_fixture_save(struct task *task)
{
    task->base.old = task->base.now;
}

int retry_fixture_state(const struct task *task)
{
    return task->base.old.found ? (int)task->base.old.state : -1;
}

const char *retry_fixture_outcome(const struct task *task)
{
    const struct fake_task_version *row = &task->base.old;

    if (row->ended == FAKE_TASK_DONE)
        return row->kept ? "done" : "deleted";
    if (row->ended == FAKE_TASK_DUPLICATE)
        return "duplicate";
    return row->ended == FAKE_TASK_EXHAUSTED || row->state == TASK_PARKED ? "exhausted" : "";
}

size_t retry_fixture_count(int state)
{
    size_t count = 0;

    for (size_t i = 0; i < fixture.count; i++)
        count += retry_fixture_state(&fixture.tasks[i]) == state;
    return count;
}

/* True: this is a call of the kind that fails, and one of those that do. */
static bool is_failing(enum fake_task_op op)
{
    size_t number = fixture.fail_kind == FAKE_TASKS_OPS ? fixture.call_count : fixture.calls[op];

    return (fixture.fail_kind == FAKE_TASKS_OPS || fixture.fail_kind == op) &&
           number >= fixture.fail_from && number < fixture.fail_from + fixture.fail_count;
}

/* Before it is done. */
static enum rc reach(const struct host *host, enum fake_task_op op, struct err *err)
{
    fixture.call_count++;
    fixture.calls[op]++;
    assert(host->lives);
    if (host->cut_off || (host->frozen && op == FAKE_TASKS_RENEW) ||
        (!fixture.answers_lost && is_failing(op)))
        return err_fail(err, fixture.fail_rc, 0, "no way");
    return RC_OK;
}

/* After it was done. */
static enum rc answer(enum fake_task_op op, struct err *err)
{
    if (fixture.answers_lost && is_failing(op))
        return err_fail(err, fixture.fail_rc, 0, "no answer");
    return RC_OK;
}

/* Of a statement. Those of a transaction do not fail by themselves. */
static enum rc send_call(void *ctx, struct err *err)
{
    const struct host *host = ctx;

    return host->connection.open ? RC_OK : reach(host, host->fake.op, err);
}

static enum rc get_answer(void *ctx, struct err *err)
{
    const struct host *host = ctx;

    return host->connection.open ? RC_OK : answer(host->fake.op, err);
}

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return fixture.now_ms;
}

static int64_t group_version(void *ctx, const char *name)
{
    (void)ctx;
    for (size_t i = 0; i < fixture.group_count; i++)
        if (strcmp(fixture.groups[i].name, name) == 0)
            return fixture.groups[i].version;
    return 0;
}

static bool read_scene(void *ctx, size_t n, struct scene_row *row)
{
    (void)ctx;
    if (n == fixture.scene_count)
        return false;
    *row = fixture.scenes[n];
    return true;
}

static void show_task(void *ctx, const struct fake_task *base, struct task_row *row)
{
    const struct task *task = (const struct task *)base;

    (void)ctx;
    row->ordering_key = base->key > 0 ? task->key : NULL;
    row->task_hash = "00ff";
    row->duplicate_of = task->duplicate_of;
    row->options = task->options[0] ? task->options : NULL;
    row->options_len = strlen(task->options);
    row->params = "{}";
    row->params_len = 2;
    row->params_type = "application/json";
    row->step_result = task->result[0] ? task->result : NULL;
    row->step_result_len = strlen(task->result);
    row->made_ms += EPOCH_MS;
    row->due_ms += EPOCH_MS;
    row->now_ms += EPOCH_MS;
}

/* A lease that is renewed is of no new epoch. */
static void count_claim(void *ctx, struct fake_task *base)
{
    const struct host *host = ctx;

    ((struct task *)base)->claims += host->fake.op != FAKE_TASKS_RENEW;
    fixture.renewals += host->fake.op == FAKE_TASKS_RENEW;
}

static void note_update(void *ctx, struct fake_task *base, const struct task_update *update)
{
    struct task *task = (struct task *)base;

    (void)ctx;
    assert(update->ordered == (base->key != 0));
    task->finishes++;
    snprintf(task->reason, sizeof(task->reason), "%s", update->reason);
    snprintf(task->reason_class, sizeof(task->reason_class), "%s", update->reason_class);
    if (update->callback_scene)
        snprintf(task->callback, sizeof(task->callback), "%s %s %s", update->callback_scene,
                 update->callback_handler, update->callback_params);
    if (update->end == TASK_END_STEP)
        snprintf(task->result, sizeof(task->result), "%.*s", (int)update->step_result_len,
                 update->step_result_len > 0 ? (const char *)update->step_result : "");
}

static enum rc store_claim(void *ctx, const struct task_class *class, size_t rows_max,
                           int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                           struct err *err)
{
    struct fake_task_store *fake = ctx;
    size_t claims = strlen(fixture.last_claims);
    size_t count = 0;
    enum rc rc;

    if (claims + strlen(class->scene) + 2 < sizeof(fixture.last_claims))
        snprintf(fixture.last_claims + claims, sizeof(fixture.last_claims) - claims, "%s ",
                 class->scene);
    rc = fake_task_store_ops(fake).claim(ctx, class, rows_max, lease_ms, on_task, on_task_ctx, full,
                                         err);
    for (size_t i = 0; rc == RC_OK && i < fake->claim.count; i++)
        count += fake->claim.candidates[i].decision == ORDER_RUN;
    if (count > fixture.claim_rows_max)
        fixture.claim_rows_max = count;
    return rc;
}

/* The database refuses a batch with a result that it does not take. */
static enum rc store_finish(void *ctx, const struct task_update *updates, size_t count,
                            enum task_written *written, struct err *err)
{
    struct fake_task_store *fake = ctx;

    if (count > fixture.finish_rows_max)
        fixture.finish_rows_max = count;
    for (size_t i = 0; i < count; i++) {
        enum rc rc;

        if (updates[i].id != fixture.refuse_id ||
            (!fixture.refuse_always && updates[i].end == TASK_END_AGAIN))
            continue;
        rc = reach(fake->ctx, FAKE_TASKS_FINISH, err);
        return rc == RC_OK ? err_fail(err, RC_REJECT, 0, "too long") : rc;
    }
    return fake_task_store_ops(fake).finish(ctx, updates, count, written, err);
}

static enum rc store_groups(void *ctx, retry_on_group on_group, void *on_group_ctx, struct err *err)
{
    const struct fake_task_store *fake = ctx;
    enum rc rc = reach(fake->ctx, FAKE_TASKS_GROUPS, err);

    for (size_t i = 0; rc == RC_OK && i < fixture.group_count; i++)
        rc = on_group(on_group_ctx, &fixture.groups[i], err);
    return rc == RC_OK ? answer(FAKE_TASKS_GROUPS, err) : rc;
}

static void fail_as(const struct task *task, struct attempt_result *attempt)
{
    attempt->end = task->end;
    attempt->source = FAULT_SOURCE_PLAIN;
    attempt->fault = task->fault;
    attempt->delay_ms = task->delay_ms;
    attempt->waits = task->waits;
    err_set(&attempt->err, "it does not work");
}

/* Fails or succeeds as the task says; the effect counts once a run. */
static void handler_run(void *handler, size_t worker, const struct retry_job *job,
                        struct attempt_result *attempt)
{
    struct task *task = retry_fixture_find(job->id);

    (void)handler;
    (void)worker;
    assert(atomic_load(job->lease_until_ms) > fixture.now_ms);
    task->lease_until_ms = job->lease_until_ms;
    task->runs++;
    task->began_ms = fixture.now_ms;
    task->seen_attempt = job->attempt;
    snprintf(task->seen_options, sizeof(task->seen_options), "%s", job->options);
    snprintf(task->seen_result, sizeof(task->seen_result), "%.*s", (int)job->step_result_len,
             job->step_result ? (const char *)job->step_result : "");
    if (task->meanwhile)
        task->meanwhile(task);
    if (task->runs > task->fail_runs) {
        task->done++;
        attempt->more_steps = job->step < task->steps;
        if (attempt->more_steps)
            buf_print(attempt->result, "step %d", (int)job->step);
        return;
    }
    fail_as(task, attempt);
}

/* The value of "to" in the task's options. */
static void handler_destination(const struct retry_handlers *all, const struct retry_job *job,
                                struct buf *name)
{
    const char *to = strstr(job->options, "\"to\":");

    (void)all;
    if (to)
        buf_text_put(name, to + strlen("\"to\":"));
}

/* {"topic":"..."} */
static enum rc handler_effects(const struct retry_handlers *handlers, const struct retry_job *job,
                               retry_on_effect on_effect, void *ctx, struct err *err)
{
    const char *at = strstr(job->options, "\"topic\":\"");
    char topic[64];

    (void)handlers;
    if (!at)
        return RC_OK;
    snprintf(topic, sizeof(topic), "%.*s", (int)strcspn(at + 9, "\""), at + 9);
    return on_effect(ctx, "test", topic, err);
}

static bool handler_tries_first(const struct retry_job *job, struct err *err)
{
    if (!strstr(job->options, "\"later\""))
        return true;
    err_set(err, "not now");
    return false;
}

static const struct retry_handler test_handler = {.name = "test",
                                                  .tries_first = handler_tries_first,
                                                  .destination = handler_destination,
                                                  .effects = handler_effects,
                                                  .run = handler_run};
static const struct retry_handler other_handler = {.name = "other", .run = handler_run};
static const struct retry_handler *const handler_list[] = {&test_handler, &other_handler};

/* The fake has one connection at a time: the task is there as soon as the transaction begins. */
static enum rc store_make(void *ctx, const struct retry_new_task *wanted, int64_t lease_ms,
                          retry_on_task on_task, void *on_task_ctx, struct retry_ticket *ticket,
                          struct err *err)
{
    struct fake_task_store *fake = ctx;
    struct task *task;
    enum rc rc;

    fake->op = FAKE_TASKS_MAKE;
    *ticket = (struct retry_ticket){0};
    rc = fake_begin(&fake->session, err);
    if (rc == RC_OK && wanted->idempotency_key) {
        *ticket = (struct retry_ticket){.id = atoi(wanted->idempotency_key), .existed = true};
        return fake_commit(&fake->session, err);
    }
    if (rc != RC_OK)
        return rc;
    task = retry_fixture_task(wanted->scene, wanted->ordering_key);
    snprintf(task->options, sizeof(task->options), "%s", wanted->options ? wanted->options : "");
    task->base.now.next_ms += wanted->delay_ms;
    task->fail_runs = fixture.make_fail_runs;
    task->takes_ms = fixture.make_takes_ms;
    task->duplicate_of = fixture.make_duplicate_of;
    retry_fixture_save(task);
    ticket->id = task->base.id;
    if (fake_lock(&fake->session, &task->base.row, err) != RC_OK)
        return RC_RETRY;
    if (lease_ms > 0 && wanted->delay_ms == 0)
        rc = fake_task_claim_made(fake, &task->base, lease_ms, on_task, on_task_ctx, err);
    if (rc == RC_OK)
        rc = fake_commit(&fake->session, err);
    if (rc != RC_OK)
        fake_rollback(&fake->session);
    return rc;
}

/* Of the processes that live. */
static void each_handler(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                         void *on_handler_ctx)
{
    (void)ctx;
    (void)lease_ms;
    for (size_t i = 0; i < FIXTURE_HOSTS; i++)
        for (size_t j = 0; fixture.hosts[i].lives && j < 2; j++)
            if (fixture.hosts[i].opened[j])
                on_handler(on_handler_ctx, handler_list[j]->name);
}

static void wake_dispatcher(void *ctx)
{
    ((struct host *)ctx)->dispatcher_due_ms = 0;
}

static void wake_worker(void *ctx, size_t worker)
{
    ((struct host *)ctx)->worker_due_ms[worker] = 0;
}

static int64_t time_ms(void *ctx)
{
    (void)ctx;
    return fixture.now_ms;
}

void retry_fixture_fail_next(enum fake_task_op kind, size_t count)
{
    fixture.fail_kind = kind;
    fixture.fail_from = fixture.calls[kind] + 1;
    fixture.fail_count = count;
}

void retry_fixture_reset(uint64_t seed)
{
    for (size_t i = 0; i < FIXTURE_HOSTS; i++)
        if (fixture.hosts[i].lives)
            host_kill(i);
    memset(fixture.tasks, 0, fixture.count * sizeof(fixture.tasks[0]));
    memset((char *)&fixture + offsetof(struct retry_fixture, count), 0,
           sizeof(fixture) - offsetof(struct retry_fixture, count));
    fixture.now_ms = 1000000;
    fixture.rng = seed;
    fixture.fail_kind = FAKE_TASKS_OPS;
    fixture.fail_rc = RC_RETRY;
    fixture.tables = (struct fake_task_tables){.rows = fixture.tasks,
                                               .row_size = sizeof(fixture.tasks[0]),
                                               .id_next = 1,
                                               .first_live = 1,
                                               .read_scene = read_scene,
                                               .group_version = group_version};
    retry_fixture_group(RETRY_GROUP_DEFAULT);
    for (size_t i = 0; i < FIXTURE_HOSTS; i++) {
        struct settings *settings = &fixture.hosts[i].settings;

        fixture.hosts[i].fixture = &fixture;
        fixture.hosts[i].number = i;
        fixture.hosts[i].trying = false;
        settings->retry.threads = 2;
        settings->retry.batch_rows_max = 10;
        settings->retry.in_flight_max = 64;
        settings->retry.poll_ms = 100;
        settings->retry.rescue_ms = 1000;
        snprintf(settings->retry.poll_pace, sizeof(settings->retry.poll_pace), "delay");
        snprintf(settings->retry.shards, sizeof(settings->retry.shards), "0-15");
    }
}

static void on_try_end(void *ctx, void *owner, const struct first_try_result *result)
{
    struct host *host = ctx;

    assert(owner == host);
    host->ended = *result;
    host->ends++;
}

static enum rc init_engine(struct host *host, const struct retry_store *store)
{
    const struct first_tries_config config = {
        .pool = &host->pool,
        .store = store,
        .on_end = on_try_end,
        .ctx = host,
        .seed = below(1000),
    };

    if (host->trying)
        return first_tries_init(&host->tries, &config, NULL);
    return dispatcher_init(&host->dispatcher, &host->pool, store, config.seed, NULL);
}

void host_start(size_t number)
{
    struct host *host = &fixture.hosts[number];
    struct retry_store store = fake_task_store_ops(&host->fake);
    enum rc rc;

    store.claim = store_claim;
    store.finish = store_finish;
    store.groups = store_groups;
    store.make = store_make;
    host->connection.hooks = (struct fake_hooks){host, send_call, get_answer, read_clock};
    host->fake = (struct fake_task_store){
        .session = fake_alone_session(&host->connection),
        .tables = &fixture.tables,
        .owner = host,
        .recorded = &fixture.recorded[number],
        .ctx = host,
        .show = show_task,
        .each_handler = each_handler,
        .on_lease = count_claim,
        .on_update = note_update,
    };
    host->handlers = (struct retry_handlers){handler_list, 2, host->opened, NULL, NULL};
    host->opened[0] = host->lacks_test ? NULL : host;
    host->opened[1] = host->runs_other ? host : NULL;
    rc = pool_init(&host->pool, &host->settings, &host->handlers, NULL);
    host->pool.wake_dispatcher = wake_dispatcher;
    host->pool.wake_worker = wake_worker;
    host->pool.wake_ctx = host;
    host->pool.time_ms = time_ms;
    if (rc == RC_OK)
        rc = init_engine(host, &store);
    if (rc == RC_OK)
        rc = lease_renewer_init(&host->renewer, &host->pool, &store, below(1000), NULL);
    assert(rc == RC_OK);
    for (size_t i = 0; i < FIXTURE_WORKERS_MAX; i++) {
        host->workers[i] = (struct pool_worker){&host->pool, i};
        host->worker_due_ms[i] = 0;
    }
    host->dispatcher_due_ms = 0;
    host->lease_renewer_due_ms = 0;
    host->lives = true;
}

void host_start_trying(size_t number, int64_t try_max)
{
    struct host *host = &fixture.hosts[number];

    host->trying = true;
    host->settings.retry.threads = try_max;
    host->settings.retry.in_flight_max = try_max;
    host->ends = 0;
    host_start(number);
}

enum rc retry_fixture_try(size_t number, const struct retry_new_task *task,
                          struct first_try_result *result)
{
    struct host *host = &fixture.hosts[number];

    host->dispatcher_due_ms = 0;
    return first_tries_make(&host->tries, task, host, result, fixture.now_ms, NULL);
}

void host_kill(size_t number)
{
    struct host *host = &fixture.hosts[number];

    lease_renewer_done(&host->renewer);
    first_tries_done(&host->tries);
    dispatcher_done(&host->dispatcher);
    pool_done(&host->pool);
    memset(host->occupied, 0, sizeof(host->occupied));
    host->lives = false;
}

static void leave(struct host *host)
{
    if (host->trying)
        first_tries_leave(&host->tries);
    else
        dispatcher_leave(&host->dispatcher);
}

static bool has_left(const struct host *host)
{
    return host->trying ? first_tries_left(&host->tries) : dispatcher_left(&host->dispatcher);
}

bool host_stop(size_t number, int64_t ms)
{
    struct host *host = &fixture.hosts[number];
    bool left;

    leave(host);
    for (int64_t until_ms = fixture.now_ms + ms; fixture.now_ms < until_ms && !has_left(host);
         fixture.now_ms++) {
        if (host->trying)
            first_tries_step(&host->tries, fixture.now_ms);
        else
            dispatcher_step(&host->dispatcher, fixture.now_ms);
        lease_renewer_step(&host->renewer, fixture.now_ms);
    }
    left = has_left(host);
    host_kill(number);
    return left;
}

struct task *retry_fixture_task(const char *scene, const char *key)
{
    struct task *task = &fixture.tasks[fixture.count];
    struct task_class *class = &task->base.class;
    uint64_t hash = key ? hash_bytes(HASH_START, key, strlen(key)) : fixture.count + 1;

    assert(fixture.count < FIXTURE_TASKS_MAX);
    fixture.count++;
    *task = (struct task){
        .base = {.now = {.found = true, .age_from_ms = fixture.now_ms, .next_ms = fixture.now_ms},
                 .id = fixture.tables.id_next++,
                 .key = key ? (int64_t)(hash >> 1) : 0},
        .end = ATTEMPT_FAILED,
        .delay_ms = ATTEMPT_NO_DELAY};
    retry_fixture_save(task);
    snprintf(class->handler, sizeof(class->handler), "test");
    snprintf(class->group, sizeof(class->group), "default");
    snprintf(class->scene, sizeof(class->scene), "%s", scene);
    class->shard = (unsigned)hash % 16;
    snprintf(task->key, sizeof(task->key), "%s", key ? key : "");
    return task;
}

struct retry_group *retry_fixture_group(const char *name)
{
    struct retry_group *group;

    for (size_t i = 0; i < fixture.group_count; i++)
        if (strcmp(fixture.groups[i].name, name) == 0)
            return &fixture.groups[i];
    assert(fixture.group_count < FIXTURE_GROUPS_MAX);
    group = &fixture.groups[fixture.group_count++];
    *group = (struct retry_group){
        .enabled = true, .handlers = "*", .scenes = "*", .topics = "*", .version = 1};
    snprintf(group->name, sizeof(group->name), "%s", name);
    return group;
}

void retry_fixture_scene(const char *scene, const char *policy, const char *options, bool paused)
{
    struct scene_row *row = NULL;

    for (size_t i = 0; i < fixture.scene_count; i++)
        if (strcmp(fixture.scenes[i].scene, scene) == 0)
            row = &fixture.scenes[i];
    if (!row)
        row = &fixture.scenes[fixture.scene_count++];
    *row = (struct scene_row){"default", scene, policy, options, paused, row->version + 1};
    fixture.tables.scene_change++;
}

/* Begins a task, or ends the one that has had its time; false: there is none. */
static bool worker_step(struct host *host, size_t worker)
{
    struct slot *slot = host->occupied[worker];
    struct task *task = slot ? retry_fixture_find(slot->job.id) : NULL;

    if (!host->timed)
        return pool_worker_step(&host->workers[worker], fixture.now_ms) == 0;
    if (task && fixture.now_ms < task->began_ms + task->takes_ms)
        return true;
    if (slot) {
        host->occupied[worker] = NULL;
        slot->tried = true;
        if (task->runs > task->fail_runs)
            task->done++;
        else
            fail_as(task, &slot->attempt_result);
        pool_give(&host->pool, slot);
    }
    slot = pool_take(&host->pool, worker);
    if (!slot)
        return false;
    memset(&slot->attempt_result, 0, sizeof(slot->attempt_result));
    if (atomic_load(slot->breaker_open) && !slot->probe) {
        slot->attempt_result.end = ATTEMPT_CUT;
        pool_give(&host->pool, slot);
        return true;
    }
    host->occupied[worker] = slot;
    task = retry_fixture_find(slot->job.id);
    task->runs++;
    task->began_ms = fixture.now_ms;
    return true;
}

static void step(struct host *host)
{
    size_t which = (size_t)below(2 + (uint64_t)host->settings.retry.threads);

    if (!host->lives)
        return;
    if (which == 0 && fixture.now_ms >= host->dispatcher_due_ms) {
        host->dispatcher_due_ms = INT64_MAX;
        which = (size_t)(host->trying ? first_tries_step(&host->tries, fixture.now_ms)
                                      : dispatcher_step(&host->dispatcher, fixture.now_ms));
        if (host->dispatcher_due_ms == INT64_MAX)
            host->dispatcher_due_ms = fixture.now_ms + (int64_t)which;
        return;
    }
    if (which == 1 && fixture.now_ms >= host->lease_renewer_due_ms)
        host->lease_renewer_due_ms =
            fixture.now_ms + lease_renewer_step(&host->renewer, fixture.now_ms);
    if (which < 2 || host->slow || fixture.now_ms < host->worker_due_ms[which - 2])
        return;
    host->worker_due_ms[which - 2] = INT64_MAX;
    if (worker_step(host, which - 2))
        host->worker_due_ms[which - 2] = 0;
}

/* Invariant: no two tasks of a key run at the same time. */
static void check_keys(void)
{
    for (size_t i = 0; i < fixture.count; i++) {
        const struct task *task = &fixture.tasks[i];

        for (size_t j = i + 1;
             task->base.key && j < fixture.count && retry_fixture_state(task) == TASK_RUNNING; j++)
            assert(retry_fixture_state(&fixture.tasks[j]) != TASK_RUNNING ||
                   fixture.tasks[j].base.key != task->base.key);
    }
}

void retry_fixture_run(int64_t ms)
{
    for (int64_t until_ms = fixture.now_ms + ms; fixture.now_ms < until_ms; fixture.now_ms++) {
        for (size_t i = 0; i < 12; i++)
            step(&fixture.hosts[below(FIXTURE_HOSTS)]);
        if (fixture.count < 300)
            check_keys();
    }
}

bool retry_fixture_drain(int64_t ms)
{
    int64_t until_ms = fixture.now_ms + ms;

    while (retry_fixture_count(-1) < fixture.count) {
        if (fixture.now_ms >= until_ms)
            return false;
        retry_fixture_run(10);
    }
    return true;
}
