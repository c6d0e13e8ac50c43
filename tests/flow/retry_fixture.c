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

size_t retry_fixture_count(int state)
{
    size_t count = 0;

    for (size_t i = 0; i < fixture.count; i++)
        count += fixture.tasks[i].state == state;
    return count;
}

/* Before it is done. */
static enum rc reach(struct host *host, enum call call, struct err *err)
{
    size_t number = fixture.fail_kind == CALLS ? ++fixture.call_count : fixture.calls[call] + 1;

    fixture.calls[call]++;
    assert(host->lives);
    if (host->cut_off || (host->frozen && call == CALL_BEAT))
        return err_fail(err, RC_RETRY, 0, "no way");
    if (fixture.answers_lost || (fixture.fail_kind != CALLS && fixture.fail_kind != call))
        return RC_OK;
    if (number >= fixture.fail_from && number < fixture.fail_from + fixture.fail_count)
        return err_fail(err, fixture.fail_rc, 0, "no way");
    return RC_OK;
}

/* After it was done. */
static enum rc answer(enum call call, struct err *err)
{
    size_t number = fixture.fail_kind == CALLS ? fixture.call_count : fixture.calls[call];

    if (!fixture.answers_lost || (fixture.fail_kind != CALLS && fixture.fail_kind != call))
        return RC_OK;
    if (number >= fixture.fail_from && number < fixture.fail_from + fixture.fail_count)
        return err_fail(err, fixture.fail_rc, 0, "no answer");
    return RC_OK;
}

static void class_of(const struct task *task, struct task_class *class)
{
    memset(class, 0, sizeof(*class));
    snprintf(class->handler, sizeof(class->handler), "%s", task->handler);
    snprintf(class->group, sizeof(class->group), "%s", task->group);
    snprintf(class->scene, sizeof(class->scene), "%s", task->scene);
    class->origin = task->origin;
    class->shard = task->shard;
}

static bool is_of(const struct task *task, const struct task_class *class)
{
    return strcmp(task->handler, class->handler) == 0 && strcmp(task->group, class->group) == 0 &&
           strcmp(task->scene, class->scene) == 0 && task->origin == class->origin &&
           task->shard == class->shard;
}

static enum rc store_look(void *ctx, retry_on_class on_class, void *on_class_ctx, struct err *err)
{
    static bool told[FIXTURE_TASKS_MAX];
    enum rc rc = reach(ctx, CALL_LOOK, err);

    if (rc != RC_OK)
        return rc;
    memset(told, 0, sizeof(told));
    for (size_t i = 0; i < fixture.count; i++) {
        struct task_class class;
        int64_t next_ms = fixture.tasks[i].next_ms;

        if (told[i] || fixture.tasks[i].state != TASK_WAITING)
            continue;
        class_of(&fixture.tasks[i], &class);
        for (size_t j = i; j < fixture.count; j++) {
            if (fixture.tasks[j].state != TASK_WAITING || !is_of(&fixture.tasks[j], &class))
                continue;
            told[j] = true;
            if (fixture.tasks[j].next_ms < next_ms)
                next_ms = fixture.tasks[j].next_ms;
        }
        on_class(on_class_ctx, &class, next_ms - fixture.now_ms);
    }
    return answer(CALL_LOOK, err);
}

static enum rc store_scenes(void *ctx, retry_on_scene on_scene, void *on_scene_ctx,
                            struct scene_change *change, struct err *err)
{
    const struct host *host = ctx;
    enum rc rc = reach(ctx, CALL_SCENES, err);

    for (size_t i = 0; rc == RC_OK && i < fixture.scene_count; i++)
        on_scene(on_scene_ctx, &fixture.scenes[i]);
    *change = (struct scene_change){fixture.scene_change, fixture.recorded[host->number]};
    return rc == RC_OK ? answer(CALL_SCENES, err) : rc;
}

static enum rc store_record(void *ctx, int64_t change, struct err *err)
{
    const struct host *host = ctx;
    enum rc rc = reach(ctx, CALL_RECORD, err);

    if (rc != RC_OK)
        return rc;
    fixture.recorded[host->number] = change;
    return answer(CALL_RECORD, err);
}

/* A task of its key runs, or is ahead of it. */
static bool is_behind(const struct task *task)
{
    if (!task->key[0])
        return false;
    for (size_t i = 0; i < fixture.count; i++) {
        const struct task *other = &fixture.tasks[i];

        if (other == task || other->state < 0 || strcmp(other->key, task->key) != 0)
            continue;
        if (other->state == TASK_RUNNING || other->state == TASK_BLOCKED ||
            other->state == TASK_PARKED || other->id < task->id)
            return true;
    }
    return false;
}

static int64_t scene_version(const struct task *task)
{
    for (size_t i = 0; i < fixture.scene_count; i++)
        if (strcmp(fixture.scenes[i].scene, task->scene) == 0 &&
            strcmp(fixture.scenes[i].group, task->group) == 0)
            return fixture.scenes[i].version;
    return 0;
}

static void row_of(const struct task *task, struct task_row *row)
{
    *row = (struct task_row){
        .id = task->id,
        .epoch = task->epoch,
        .handler = task->handler,
        .shard = task->shard,
        .ordering_key = task->key[0] ? task->key : NULL,
        .task_hash = "00ff",
        .options = task->options[0] ? task->options : NULL,
        .options_len = strlen(task->options),
        .params = "{}",
        .params_len = 2,
        .params_type = "application/json",
        .attempts = task->attempts,
        .made_ms = EPOCH_MS + task->made_ms,
        .due_ms = EPOCH_MS + task->next_ms,
        .now_ms = EPOCH_MS + fixture.now_ms,
        .step = task->step,
        .step_result = task->result[0] ? task->result : NULL,
        .step_result_len = strlen(task->result),
        .scene_version = scene_version(task),
    };
}

static struct task *first_due(const struct task_class *class)
{
    struct task *first = NULL;

    for (size_t i = 0; i < fixture.count; i++) {
        struct task *task = &fixture.tasks[i];

        if (task->state == TASK_WAITING && task->next_ms <= fixture.now_ms && is_of(task, class) &&
            (!first || task->next_ms < first->next_ms))
            first = task;
    }
    return first;
}

/* False: it has to wait for another one of its key. */
static bool run(struct task *task, int64_t lease_ms)
{
    if (is_behind(task)) {
        task->state = TASK_QUEUED;
        return false;
    }
    task->state = TASK_RUNNING;
    task->epoch++;
    task->until_ms = fixture.now_ms + lease_ms;
    task->claims++;
    return true;
}

static void hand_over(struct task **taken, size_t count, retry_on_task on_task, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        struct task_row row;

        row_of(taken[i], &row);
        on_task(ctx, &row);
    }
}

static enum rc store_claim(void *ctx, const struct task_class *class, size_t rows_max,
                           int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                           struct err *err)
{
    struct task *taken[RETRY_CLAIM_ROWS_MAX];
    size_t count = 0;
    size_t seen = 0;
    size_t claims;
    struct task *task;
    enum rc rc = reach(ctx, CALL_CLAIM, err);

    *full = false;
    if (rc != RC_OK)
        return rc;
    assert(rows_max >= 1 && rows_max <= RETRY_CLAIM_ROWS_MAX);
    claims = strlen(fixture.last_claims);
    if (claims + strlen(class->scene) + 2 < sizeof(fixture.last_claims))
        snprintf(fixture.last_claims + claims, sizeof(fixture.last_claims) - claims, "%s ",
                 class->scene);
    while (seen < rows_max && (task = first_due(class))) {
        seen++;
        if (run(task, lease_ms))
            taken[count++] = task;
    }
    if (count > fixture.claim_rows_max)
        fixture.claim_rows_max = count;
    *full = seen == rows_max;
    rc = answer(CALL_CLAIM, err);
    if (rc == RC_OK)
        hand_over(taken, count, on_task, on_task_ctx);
    return rc;
}

static enum rc store_claim_expired(void *ctx, const struct task_age *age, size_t rows_max,
                                   int64_t lease_ms, retry_on_task on_task, void *on_task_ctx,
                                   bool *full, struct err *err)
{
    struct task *taken[RETRY_CLAIM_ROWS_MAX];
    size_t count = 0;
    size_t seen = 0;
    enum rc rc = reach(ctx, CALL_EXPIRE, err);

    *full = false;
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < fixture.count && seen < rows_max; i++) {
        struct task *task = &fixture.tasks[i];

        if (task->state != TASK_WAITING || strcmp(task->scene, age->scene) != 0 ||
            fixture.now_ms - task->made_ms < age->age_ms)
            continue;
        seen++;
        if (run(task, lease_ms))
            taken[count++] = task;
    }
    *full = seen == rows_max;
    rc = answer(CALL_EXPIRE, err);
    if (rc == RC_OK)
        hand_over(taken, count, on_task, on_task_ctx);
    return rc;
}

/* Wakes the smallest task of the key, unless another one blocks the key. */
static void key_wake(const char *key)
{
    struct task *first = NULL;

    if (!key[0])
        return;
    for (size_t i = fixture.count; i-- > 0;) {
        struct task *task = &fixture.tasks[i];

        if (task->state < 0 || strcmp(task->key, key) != 0)
            continue;
        if (task->state == TASK_RUNNING || task->state == TASK_BLOCKED ||
            task->state == TASK_PARKED)
            return;
        first = task;
    }
    if (first && first->state == TASK_QUEUED) {
        first->state = TASK_WAITING;
        first->next_ms = fixture.now_ms;
    }
}

static void task_end(struct task *task, const char *outcome)
{
    task->state = -1;
    task->outcome = outcome;
    key_wake(task->key);
}

static void update_write(struct task *task, const struct task_update *update)
{
    task->attempts = update->attempts;
    task->finishes++;
    snprintf(task->reason, sizeof(task->reason), "%s", update->reason);
    snprintf(task->reason_class, sizeof(task->reason_class), "%s", update->reason_class);
    if (update->callback_scene)
        snprintf(task->callback, sizeof(task->callback), "%s %s %s", update->callback_scene,
                 update->callback_handler, update->callback_params);
    assert(update->ordered == (task->key[0] != '\0'));
    switch (update->end) {
    case TASK_END_DONE:
        task->keep_ms = update->keep_ms > 0 ? fixture.now_ms + update->keep_ms : 0;
        task_end(task, update->keep ? "done" : "deleted");
        return;
    case TASK_END_STEP:
        task->step++;
        snprintf(task->result, sizeof(task->result), "%.*s", (int)update->step_result_len,
                 update->step_result_len > 0 ? (const char *)update->step_result : "");
        task->state = TASK_WAITING;
        task->next_ms = fixture.now_ms;
        return;
    case TASK_END_AGAIN:
        task->state = TASK_WAITING;
        task->next_ms = fixture.now_ms + update->delay_ms;
        return;
    case TASK_END_BACK:
        task->state = TASK_WAITING;
        return;
    case TASK_END_BLOCK:
        task->state = TASK_BLOCKED;
        return;
    case TASK_END_PARK:
        task->state = TASK_PARKED;
        task->outcome = "exhausted";
        return;
    case TASK_END_SKIP:
        task_end(task, "exhausted");
        return;
    }
}

static bool is_claimed(const struct task *task, int64_t epoch)
{
    return task && task->state == TASK_RUNNING && task->epoch == epoch;
}

static enum rc store_finish(void *ctx, const struct task_update *updates, size_t count,
                            enum task_written *written, struct err *err)
{
    enum rc rc = reach(ctx, CALL_FINISH, err);

    if (rc != RC_OK)
        return rc;
    assert(count >= 1 && count <= RETRY_UPDATES_MAX);
    if (count > fixture.finish_rows_max)
        fixture.finish_rows_max = count;
    for (size_t i = 0; i < count; i++)
        if (updates[i].id == fixture.refuse_id &&
            (fixture.refuse_always || updates[i].end != TASK_END_AGAIN))
            return err_fail(err, RC_REJECT, 0, "too long");
    for (size_t i = 0; i < count; i++) {
        struct task *task = retry_fixture_find(updates[i].id);

        written[i] = TASK_WRITTEN;
        if (!is_claimed(task, updates[i].epoch))
            written[i] = TASK_LOST;
        else if (task_end_exhausts(updates[i].end) &&
                 scene_version(task) != updates[i].scene_version)
            written[i] = TASK_OUTDATED;
        else
            update_write(task, &updates[i]);
    }
    return answer(CALL_FINISH, err);
}

static enum rc store_renew(void *ctx, const int64_t *ids, const int64_t *epochs, size_t count,
                           int64_t lease_ms, bool *lost, struct err *err)
{
    enum rc rc = reach(ctx, CALL_BEAT, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < count; i++) {
        struct task *task = retry_fixture_find(ids[i]);

        lost[i] = !is_claimed(task, epochs[i]);
        if (!lost[i])
            task->until_ms = fixture.now_ms + lease_ms;
    }
    fixture.renewals += count;
    return answer(CALL_BEAT, err);
}

static enum rc store_rescue(void *ctx, size_t rows_max, size_t *count, size_t *shortened,
                            struct err *err)
{
    enum rc rc = reach(ctx, CALL_RESCUE, err);

    *count = *shortened = 0;
    for (size_t i = 0; rc == RC_OK && i < fixture.count && *count < rows_max; i++) {
        struct task *task = &fixture.tasks[i];

        if (task->state != TASK_RUNNING || task->until_ms >= fixture.now_ms)
            continue;
        task->state = TASK_WAITING;
        task->next_ms = fixture.now_ms;
        ++*count;
    }
    return rc == RC_OK ? answer(CALL_RESCUE, err) : rc;
}

static enum rc store_depths(void *ctx, retry_on_depth on_depth, void *on_depth_ctx, struct err *err)
{
    enum rc rc = reach(ctx, CALL_DEPTHS, err);

    for (size_t i = 0; rc == RC_OK && i < fixture.count; i++) {
        const struct task *task = &fixture.tasks[i];
        struct task_class class;
        const struct task_depth depth = {&class, (enum task_state)task->state, 1,
                                         fixture.now_ms - task->next_ms};

        if (task->state < 0)
            continue;
        class_of(task, &class);
        on_depth(on_depth_ctx, &depth);
    }
    return rc == RC_OK ? answer(CALL_DEPTHS, err) : rc;
}

static enum rc store_groups(void *ctx, retry_on_group on_group, void *on_group_ctx, struct err *err)
{
    enum rc rc = reach(ctx, CALL_GROUPS, err);

    for (size_t i = 0; rc == RC_OK && i < fixture.group_count; i++)
        rc = on_group(on_group_ctx, &fixture.groups[i], err);
    return rc == RC_OK ? answer(CALL_GROUPS, err) : rc;
}

static void fail_as(const struct task *task, struct attempt_result *attempt)
{
    attempt->end = task->end;
    attempt->source = FAULT_SOURCE_PLAIN;
    attempt->fault = task->fault;
    attempt->delay_ms = task->delay_ms;
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

static const struct retry_handler test_handler = {.name = "test",
                                                  .destination = handler_destination,
                                                  .effects = handler_effects,
                                                  .run = handler_run};
static const struct retry_handler other_handler = {.name = "other", .run = handler_run};
static const struct retry_handler *const handler_list[] = {&test_handler, &other_handler};

/* Of the processes that live. */
static enum rc store_forget(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    enum rc rc = reach(ctx, CALL_FORGET, err);

    *count = 0;
    for (size_t i = 0; rc == RC_OK && i < fixture.count && *count < rows_max; i++) {
        struct task *task = &fixture.tasks[i];

        if (task->state >= 0 || task->keep_ms == 0 || task->keep_ms > fixture.now_ms ||
            strcmp(task->outcome, "done") != 0)
            continue;
        task->outcome = "deleted";
        ++*count;
    }
    return rc == RC_OK ? answer(CALL_FORGET, err) : rc;
}

static enum rc store_handlers(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                              void *on_handler_ctx, struct err *err)
{
    enum rc rc = reach(ctx, CALL_HANDLERS, err);

    (void)lease_ms;
    for (size_t i = 0; rc == RC_OK && i < FIXTURE_HOSTS; i++)
        for (size_t j = 0; fixture.hosts[i].lives && j < 2; j++)
            if (fixture.hosts[i].opened[j])
                on_handler(on_handler_ctx, handler_list[j]->name);
    return rc == RC_OK ? answer(CALL_HANDLERS, err) : rc;
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

void retry_fixture_fail_next(enum call kind, size_t count)
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
    fixture.fail_kind = CALLS;
    fixture.fail_rc = RC_RETRY;
    retry_fixture_group(RETRY_GROUP_DEFAULT);
    for (size_t i = 0; i < FIXTURE_HOSTS; i++) {
        struct settings *settings = &fixture.hosts[i].settings;

        fixture.hosts[i].fixture = &fixture;
        fixture.hosts[i].number = i;
        settings->retry.threads = 2;
        settings->retry.batch_rows_max = 10;
        settings->retry.in_flight_max = 64;
        settings->retry.poll_ms = 100;
        settings->retry.rescue_ms = 1000;
        snprintf(settings->retry.poll_pace, sizeof(settings->retry.poll_pace), "delay");
        snprintf(settings->retry.shards, sizeof(settings->retry.shards), "0-15");
    }
}

void host_start(size_t number)
{
    struct host *host = &fixture.hosts[number];
    const struct retry_store store = {
        host,         store_look,  store_scenes, store_record, store_claim,    store_claim_expired,
        store_finish, store_renew, store_rescue, store_forget, store_handlers, store_depths,
        store_groups};
    enum rc rc;

    host->handlers = (struct retry_handlers){handler_list, 2, host->opened, NULL};
    host->opened[0] = host->lacks_test ? NULL : host;
    host->opened[1] = host->runs_other ? host : NULL;
    rc = pool_init(&host->pool, &host->settings, &host->handlers, NULL);
    host->pool.wake_dispatcher = wake_dispatcher;
    host->pool.wake_worker = wake_worker;
    host->pool.wake_ctx = host;
    host->pool.time_ms = time_ms;
    if (rc == RC_OK)
        rc = dispatcher_init(&host->dispatcher, &host->pool, &store, below(1000), NULL);
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

void host_kill(size_t number)
{
    struct host *host = &fixture.hosts[number];

    lease_renewer_done(&host->renewer);
    dispatcher_done(&host->dispatcher);
    pool_done(&host->pool);
    memset(host->occupied, 0, sizeof(host->occupied));
    host->lives = false;
}

bool host_stop(size_t number, int64_t ms)
{
    struct host *host = &fixture.hosts[number];
    bool left;

    dispatcher_leave(&host->dispatcher);
    for (int64_t until_ms = fixture.now_ms + ms;
         fixture.now_ms < until_ms && !dispatcher_left(&host->dispatcher); fixture.now_ms++) {
        dispatcher_step(&host->dispatcher, fixture.now_ms);
        lease_renewer_step(&host->renewer, fixture.now_ms);
    }
    left = dispatcher_left(&host->dispatcher);
    host_kill(number);
    return left;
}

struct task *retry_fixture_task(const char *scene, const char *key)
{
    struct task *task = &fixture.tasks[fixture.count];

    assert(fixture.count < FIXTURE_TASKS_MAX);
    fixture.count++;
    *task = (struct task){.id = (int64_t)fixture.count,
                          .handler = "test",
                          .group = "default",
                          .made_ms = fixture.now_ms,
                          .next_ms = fixture.now_ms,
                          .end = ATTEMPT_FAILED,
                          .delay_ms = ATTEMPT_NO_DELAY};
    snprintf(task->scene, sizeof(task->scene), "%s", scene);
    snprintf(task->key, sizeof(task->key), "%s", key ? key : "");
    task->shard = (unsigned)(key ? hash_bytes(HASH_START, key, strlen(key)) : fixture.count) % 16;
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
    *group = (struct retry_group){.enabled = true, .handlers = "*", .scenes = "*", .topics = "*"};
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
    fixture.scene_change++;
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
        which = (size_t)dispatcher_step(&host->dispatcher, fixture.now_ms);
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
    for (size_t i = 0; i < fixture.count; i++)
        for (size_t j = i + 1; j < fixture.count && fixture.tasks[i].state == TASK_RUNNING; j++)
            assert(fixture.tasks[j].state != TASK_RUNNING || !fixture.tasks[i].key[0] ||
                   strcmp(fixture.tasks[i].key, fixture.tasks[j].key) != 0);
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
