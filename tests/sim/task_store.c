/* SPDX-License-Identifier: MIT */
/* The store's ops on the fake tables, statement by statement as the adapter runs them. */
#include "outbox/retry/retry.h"
#include "tests/sim/tables.h"
#include "tests/sim/task_promises.h"
#include "tests/sim/task_work.h"
#include "tests/sim/tasks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define ROWS_MAX 64

static struct sim *sim_of(const struct task_adapter *adapter)
{
    return adapter->link.db->sim;
}

static void class_make(const struct sim *sim, const struct sim_task *task, struct task_class *class)
{
    memset(class, 0, sizeof(*class));
    snprintf(class->handler, sizeof(class->handler), "%s", task_scene_handler(task->scene));
    snprintf(class->group, sizeof(class->group), "%s", RETRY_GROUP_DEFAULT);
    snprintf(class->scene, sizeof(class->scene), "%s", sim->tasks->scenes[task->scene].name);
    class->shard = task->shard;
}

static enum rc store_look(void *ctx, retry_on_class on_class, void *on_class_ctx, struct err *err)
{
    struct task_adapter *adapter = ctx;
    const struct sim *sim = sim_of(adapter);
    struct task_tables *tables = sim->tasks;
    int64_t next_ms[SIM_SCENES][TASK_SHARDS];
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    for (int scene = 0; scene < SIM_SCENES; scene++)
        for (unsigned shard = 0; shard < TASK_SHARDS; shard++)
            next_ms[scene][shard] = INT64_MAX;
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        const struct sim_task *task = &tables->tasks[id];

        if (task->old.found && task->old.state == TASK_WAITING &&
            task->old.next_ms < next_ms[task->scene][task->shard])
            next_ms[task->scene][task->shard] = task->old.next_ms;
    }
    for (int scene = 0; scene < SIM_SCENES; scene++) {
        for (unsigned shard = 0; shard < TASK_SHARDS; shard++) {
            struct task_class class;

            if (next_ms[scene][shard] == INT64_MAX)
                continue;
            class_make(sim, &(struct sim_task){.scene = scene, .shard = shard}, &class);
            on_class(on_class_ctx, &class, next_ms[scene][shard] - db_clock(adapter->link.db));
        }
    }
    return link_answer(&adapter->link, err);
}

static enum rc store_scenes(void *ctx, retry_on_scene on_scene, void *on_scene_ctx,
                            struct scene_change *change, struct err *err)
{
    struct task_adapter *adapter = ctx;
    const struct sim *sim = sim_of(adapter);
    enum rc rc = link_call(&adapter->link, err);

    for (int i = 0; rc == RC_OK && i < SIM_SCENES; i++) {
        const struct sim_scene_row *scene = &sim->tasks->scenes[i];

        if (scene->found)
            on_scene(on_scene_ctx, &(struct scene_row){
                                       .group = RETRY_GROUP_DEFAULT,
                                       .scene = scene->name,
                                       .policy = scene->json,
                                       .paused = scene->paused,
                                       .version = scene->version,
                                   });
    }
    *change = (struct scene_change){sim->tasks->scene_change, adapter->recorded};
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc store_record(void *ctx, int64_t change, struct err *err)
{
    struct task_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    adapter->recorded = change;
    return link_answer(&adapter->link, err);
}

/* A claim on its way. */
struct claim {
    struct task_adapter *adapter;
    struct sim_task *tasks[ROWS_MAX];
    int64_t epochs[ROWS_MAX]; /* as they were found */
    struct order_candidate candidates[ROWS_MAX];
    size_t count;
    struct order_ahead ahead[SIM_TASK_KEYS + 1];
    int64_t lease_ms;
    const struct task_class *class; /* claims the due tasks of this class, */
    const struct task_age *age;     /* or those that are too old of a scene */
};

static bool is_candidate(const struct claim *claim, const struct sim_task *task)
{
    const struct sim *sim = sim_of(claim->adapter);
    const struct task_class *class = claim->class;
    int64_t now_ms = db_clock(claim->adapter->link.db);

    if (sim->fault != FAULT_TASK_CLAIM_UNLOCKED && task->row.owner &&
        !claim->adapter->compare_and_set)
        return false;
    if (!task->old.found || task->old.state != TASK_WAITING)
        return false;
    if (claim->age)
        return now_ms - task->old.age_from_ms >= claim->age->age_ms &&
               strcmp(sim->tasks->scenes[task->scene].name, claim->age->scene) == 0;
    return task->shard == class->shard && task->old.next_ms <= now_ms &&
           strcmp(sim->tasks->scenes[task->scene].name, class->scene) == 0 &&
           strcmp(task_scene_handler(task->scene), class->handler) == 0;
}

/* In the order of next_at and id; behind the last place it is forgotten. */
static void candidate_put(struct claim *claim, struct sim_task *task, size_t rows_max)
{
    size_t at = 0;

    while (at < claim->count && claim->tasks[at]->old.next_ms <= task->old.next_ms)
        at++;
    if (at == rows_max)
        return;
    if (claim->count < rows_max)
        claim->count++;
    memmove(&claim->tasks[at + 1], &claim->tasks[at],
            (claim->count - 1 - at) * sizeof(struct sim_task *));
    claim->tasks[at] = task;
}

/* SELECT ... ORDER BY next_at, id LIMIT rows_max, and FOR UPDATE SKIP LOCKED where nothing will be
 * compared */
static enum rc claim_candidates(struct claim *claim, size_t rows_max, struct err *err)
{
    struct link *link = &claim->adapter->link;
    struct task_tables *tables = tasks_of(link);
    enum rc rc = link_call(link, err);

    if (rc != RC_OK)
        return rc;
    if (rows_max > ROWS_MAX)
        rows_max = ROWS_MAX;
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        struct sim_task *task = &tables->tasks[id];

        if (is_candidate(claim, task))
            candidate_put(claim, task, rows_max);
    }
    for (size_t i = 0; i < claim->count; i++)
        claim->epochs[i] = claim->tasks[i]->old.epoch;
    for (size_t i = 0; rc == RC_OK && i < claim->count && !claim->adapter->compare_and_set; i++)
        if (!claim->tasks[i]->row.owner)
            rc = link_lock(link, &claim->tasks[i]->row, err);
    return rc == RC_OK ? link_answer(link, err) : rc;
}

static enum rc row_hold(struct task_adapter *adapter, struct order_task *row, struct err *err)
{
    struct link *link = &adapter->link;
    struct task_tables *tables = tasks_of(link);
    struct sim_task *task = &tables->tasks[row->id];
    enum rc rc = RC_OK;

    if (row->id == 0 ||
        (!adapter->compare_and_set && task->row.owner && task->row.owner != link->session))
        return RC_OK;
    rc = link_lock(link, &task->row, err);
    row->held = rc == RC_OK && task->now.found && task->now.state == row->state;
    return rc;
}

/* Reads the tasks ahead in each key without a lock, and then locks those that are free. */
static enum rc claim_ahead(struct claim *claim, struct err *err)
{
    struct link *link = &claim->adapter->link;
    bool keys[SIM_TASK_KEYS + 1] = {false};
    enum rc rc = link_call(link, err);

    for (size_t i = 0; rc == RC_OK && i < claim->count; i++)
        keys[claim->tasks[i]->key] = true;
    for (int64_t key = 1; rc == RC_OK && key <= SIM_TASK_KEYS; key++)
        if (keys[key])
            tasks_ahead(tasks_of(link), link, key, &claim->ahead[key]);
    if (rc == RC_OK)
        rc = link_answer(link, err);
    if (rc == RC_OK)
        rc = link_call(link, err);
    for (int64_t key = 1; rc == RC_OK && key <= SIM_TASK_KEYS; key++) {
        struct order_ahead *ahead = &claim->ahead[key];

        if (!keys[key])
            continue;
        if (sim_of(claim->adapter)->fault == FAULT_TASK_QUEUE_UNLOCKED) {
            ahead->busy.held = ahead->waiting.held = ahead->queued.held = true;
            continue;
        }
        rc = row_hold(claim->adapter, &ahead->busy, err);
        if (rc == RC_OK)
            rc = row_hold(claim->adapter, &ahead->waiting, err);
        if (rc == RC_OK)
            rc = row_hold(claim->adapter, &ahead->queued, err);
    }
    return rc == RC_OK ? link_answer(link, err) : rc;
}

static void claim_decide(struct claim *claim, size_t rows_max)
{
    for (size_t i = 0; i < claim->count; i++) {
        const struct sim_task *task = claim->tasks[i];

        claim->candidates[i].id = task->id;
        claim->candidates[i].key = task->key > 0 ? (size_t)task->key : ORDER_NO_KEY;
    }
    order_decide(claim->candidates, claim->count, claim->ahead, rows_max);
    if (sim_of(claim->adapter)->fault == FAULT_TASK_BLOCKERS_IGNORED)
        for (size_t i = 0; i < claim->count; i++)
            claim->candidates[i].decision = ORDER_RUN;
}

static bool is_busy(const struct task_version *version)
{
    return version->found && (version->state == TASK_RUNNING || version->state == TASK_BLOCKED ||
                              version->state == TASK_PARKED);
}

/* The unique key of running, blocked and parked tasks: waits for transactions that may have
 * inserted it. */
static enum rc busy_check(struct link *link, const struct sim_task *task, struct err *err)
{
    struct task_tables *tables = tasks_of(link);

    if (task->key == 0 || link->db->sim->fault == FAULT_TASK_BUSY_TWICE ||
        link->db->sim->fault == FAULT_TASK_BLOCKERS_IGNORED)
        return RC_OK;
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        struct sim_task *other = &tables->tasks[id];
        enum rc rc = RC_OK;

        if (other == task || other->key != task->key ||
            (!is_busy(&other->now) && !is_busy(&other->old)))
            continue;
        if (other->row.owner != link->session)
            rc = link_lock(link, &other->row, err);
        if (rc == RC_OK && is_busy(&other->now))
            rc = err_fail(err, RC_REJECT, DB_DUPLICATE_CODE, "the key is busy");
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* UPDATE ... WHERE state = 0 AND id = ? AND epoch = ?: *taken, was it so? */
static enum rc candidate_compare(struct claim *claim, size_t i, bool *taken, struct err *err)
{
    struct link *link = &claim->adapter->link;
    const struct sim_task *task = claim->tasks[i];
    enum rc rc = RC_OK;

    *taken = true;
    if (claim->adapter->compare_and_set ||
        sim_of(claim->adapter)->fault == FAULT_TASK_CLAIM_UNLOCKED)
        rc = link_lock(link, &claim->tasks[i]->row, err);
    if (rc == RC_OK && claim->adapter->compare_and_set &&
        sim_of(claim->adapter)->fault != FAULT_TASK_CLAIM_UNCOMPARED)
        *taken =
            task->now.found && task->now.state == TASK_WAITING &&
            (claim->candidates[i].decision == ORDER_QUEUE || task->now.epoch == claim->epochs[i]);
    if (rc == RC_OK && *taken && claim->candidates[i].decision == ORDER_RUN)
        rc = busy_check(link, task, err);
    if (rc == RC_REJECT && claim->adapter->compare_and_set) {
        *taken = false;
        return RC_OK;
    }
    if (rc == RC_REJECT) {
        link_rollback(link);
        return RC_RETRY;
    }
    return rc;
}

static enum rc claim_write(struct claim *claim, struct err *err)
{
    struct link *link = &claim->adapter->link;
    struct sim *sim = sim_of(claim->adapter);
    enum rc rc = link_call(link, err);

    for (size_t i = 0; rc == RC_OK && i < claim->count; i++) {
        struct sim_task *task = claim->tasks[i];
        bool taken = false;

        if (claim->candidates[i].decision == ORDER_LEAVE)
            continue;
        rc = candidate_compare(claim, i, &taken, err);
        if (rc != RC_OK)
            break;
        if (!taken) {
            claim->candidates[i].decision = ORDER_LEAVE;
            continue;
        }
        task->now.state = claim->candidates[i].decision == ORDER_RUN ? TASK_RUNNING : TASK_QUEUED;
        if (task->now.state == TASK_RUNNING) {
            task->now.expired = claim->age != NULL;
            task->now.epoch++;
            task->now.lease_until_ms = db_clock(link->db) + claim->lease_ms;
            task->now.lease_ms = claim->lease_ms;
            task->now.holder = claim->adapter->link.proc;
            task->now.believed_ms = sim_now(sim) + claim->lease_ms;
        }
        task_write(link, task);
    }
    return rc == RC_OK ? link_answer(link, err) : rc;
}

static int64_t scene_version(const struct sim *sim, const struct sim_task *task)
{
    const struct sim_scene_row *scene = &sim->tasks->scenes[task->scene];

    return scene->found ? scene->version : 0;
}

static void task_show(const struct claim *claim, struct sim_task *task, retry_on_task on_task,
                      void *on_task_ctx)
{
    char key[32];
    char idempotency[48];
    char hash[65];

    task_key_text(task, key);
    task_idempotency_text(task, idempotency);
    snprintf(hash, sizeof(hash), "%064lld", (long long)task->id);
    task->scene_version = scene_version(sim_of(claim->adapter), task);
    on_task(on_task_ctx, &(struct task_row){
                             .id = task->id,
                             .epoch = task->now.epoch,
                             .handler = task_scene_handler(task->scene),
                             .shard = task->shard,
                             .ordering_key = task->key > 0 ? key : NULL,
                             .idempotency_key = idempotency,
                             .task_hash = hash,
                             .options = NULL,
                             .params = "{}",
                             .params_len = 2,
                             .params_type = "application/json",
                             .attempts = task->now.attempts,
                             .made_ms = task->now.age_from_ms,
                             .due_ms = task->now.next_ms,
                             .now_ms = db_clock(claim->adapter->link.db),
                             .step = task->now.step,
                             .step_result = task->now.step > 0 ? "{}" : NULL,
                             .step_result_len = task->now.step > 0 ? 2 : 0,
                             .scene_version = task->scene_version,
                         });
}

static enum rc claim_some(struct claim *claim, size_t rows_max, retry_on_task on_task,
                          void *on_task_ctx, bool *full, struct err *err)
{
    struct task_adapter *adapter = claim->adapter;
    enum rc rc = link_begin(&adapter->link, err);

    *full = false;
    if (rc == RC_OK)
        rc = claim_candidates(claim, rows_max, err);
    if (rc == RC_OK && claim->count > 0)
        rc = claim_ahead(claim, err);
    if (rc == RC_OK && claim->count > 0) {
        claim_decide(claim, rows_max);
        rc = claim_write(claim, err);
    }
    if (rc == RC_OK)
        rc = link_commit(&adapter->link, err);
    if (rc != RC_OK) {
        link_rollback(&adapter->link);
        return rc;
    }
    *full = claim->count == rows_max || claim->count == ROWS_MAX;
    for (size_t i = 0; i < claim->count; i++)
        if (claim->candidates[i].decision == ORDER_RUN)
            task_show(claim, claim->tasks[i], on_task, on_task_ctx);
    return RC_OK;
}

static enum rc store_claim(void *ctx, const struct task_class *class, size_t rows_max,
                           int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                           struct err *err)
{
    struct task_adapter *adapter = ctx;
    struct claim claim = {.adapter = adapter, .lease_ms = lease_ms, .class = class};

    task_promise_recorded(adapter, class->scene);
    return claim_some(&claim, rows_max, on_task, on_task_ctx, full, err);
}

static enum rc store_claim_expired(void *ctx, const struct task_age *age, size_t rows_max,
                                   int64_t lease_ms, retry_on_task on_task, void *on_task_ctx,
                                   bool *full, struct err *err)
{
    struct claim claim = {.adapter = ctx, .lease_ms = lease_ms, .age = age};

    assert(age);
    return claim_some(&claim, rows_max, on_task, on_task_ctx, full, err);
}

static struct sim_task *task_at(struct link *link, int64_t id)
{
    struct task_tables *tables = tasks_of(link);

    assert(id > 0 && id < tables->id_next);
    return &tables->tasks[id];
}

/* The end that the scene asks for when a task is exhausted; a task without a key stops no other. */
static enum task_end end_wanted(const struct sim *sim, const struct sim_task *task)
{
    static const enum task_end ends[] = {[POLICY_BLOCK] = TASK_END_BLOCK,
                                         [POLICY_PARK] = TASK_END_PARK,
                                         [POLICY_SKIP] = TASK_END_SKIP};
    const struct sim_scene_row *scene = &sim->tasks->scenes[task->scene];

    return task->key > 0 ? ends[scene->policy.exhausted] : TASK_END_SKIP;
}

/* The engine must count and decide as policy_decide() does. */
static void check_update(struct sim *sim, const struct sim_task *task,
                         const struct task_update *update)
{
    bool counts = update->outcome && (strcmp(update->outcome, "failed") == 0 ||
                                      strcmp(update->outcome, "rejected") == 0);

    if (update->end != TASK_END_DONE && update->end != TASK_END_STEP &&
        update->attempts != task->now.attempts + counts)
        sim_fail(sim, STORY_ALL, "attempts: task %lld had %lld, and has %lld after '%s'",
                 (long long)task->id, (long long)task->now.attempts, (long long)update->attempts,
                 update->outcome ? update->outcome : "nothing");
    if (task_end_exhausts(update->end) && update->end != end_wanted(sim, task))
        sim_fail(sim, STORY_ALL, "policy: task %lld is exhausted and ends as %d instead of %d",
                 (long long)task->id, (int)update->end, (int)end_wanted(sim, task));
    if (task_end_exhausts(update->end) && update->scene_version != task->scene_version)
        sim_fail(sim, STORY_ALL,
                 "task %lld is exhausted by version %lld of its scene, and was claimed under %lld",
                 (long long)task->id, (long long)update->scene_version,
                 (long long)task->scene_version);
    if (update->ordered != (task->key > 0))
        sim_fail(sim, STORY_ALL, "task %lld has a key, and its result says otherwise",
                 (long long)task->id);
}

static void finish_write(struct link *link, struct sim_task *task, const struct task_update *update)
{
    struct task_version *now = &task->now;
    bool counts = update->outcome && (strcmp(update->outcome, "failed") == 0 ||
                                      strcmp(update->outcome, "rejected") == 0);

    check_update(link->db->sim, task, update);
    now->failed_rows += counts;
    now->snoozed_rows += update->outcome && strcmp(update->outcome, "snoozed") == 0;
    now->attempts += counts;
    switch (update->end) {
    case TASK_END_DONE:
        task_end(link, task, TASK_DONE, update->keep);
        return;
    case TASK_END_STEP:
        /* Each step has all its attempts. */
        now->step++;
        now->attempts = now->failed_rows = 0;
        break;
    case TASK_END_AGAIN:
    case TASK_END_BACK:
        break;
    case TASK_END_BLOCK:
        now->state = TASK_BLOCKED;
        task_write(link, task);
        return;
    case TASK_END_PARK:
        now->state = TASK_PARKED;
        now->kept = true;
        task_write(link, task);
        return;
    case TASK_END_SKIP:
        task_end(link, task, TASK_EXHAUSTED, true);
        return;
    }
    now->state = TASK_WAITING;
    now->next_ms = db_clock(link->db) + (update->end == TASK_END_AGAIN ? update->delay_ms : 0);
    task_write(link, task);
}

static enum rc finish_one(struct link *link, struct sim_task *task,
                          const struct task_update *update, enum task_written *written,
                          struct err *err)
{
    const struct sim *sim = link->db->sim;
    enum rc rc = link_lock(link, &task->row, err);

    if (rc != RC_OK)
        return rc;
    *written = TASK_WRITTEN;
    if (!task->now.found || task->now.state != TASK_RUNNING ||
        (task->now.epoch != update->epoch && sim->fault != FAULT_TASK_FINISH_UNFENCED))
        *written = TASK_LOST;
    else if (task_end_exhausts(update->end) && scene_version(sim, task) != update->scene_version)
        *written = TASK_OUTDATED;
    if (*written != TASK_WRITTEN)
        return RC_OK;
    finish_write(link, task, update);
    if (update->callback_scene)
        rc = task_call_back(link, task, task_end_exhausts(update->end) ? TASK_EXHAUSTED : TASK_DONE,
                            err);
    return rc;
}

/* Rows are locked in the order of their ids. */
static void sort_by_id(const struct task_update *updates, size_t count, size_t *order)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;

        for (; at > 0 && updates[order[at - 1]].id > updates[i].id; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static enum rc store_finish(void *ctx, const struct task_update *updates, size_t count,
                            enum task_written *written, struct err *err)
{
    struct task_adapter *adapter = ctx;
    struct link *link = &adapter->link;
    size_t order[RETRY_UPDATES_MAX];
    enum rc rc = link_begin(link, err);

    assert(count <= RETRY_UPDATES_MAX);
    sort_by_id(updates, count, order);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        size_t at = order[i];

        rc = link_call(link, err);
        if (rc == RC_OK)
            rc = finish_one(link, task_at(link, updates[at].id), &updates[at], &written[at], err);
        if (rc == RC_OK)
            rc = link_answer(link, err);
    }
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        if (written[i] == TASK_WRITTEN && updates[i].end != TASK_END_PARK &&
            updates[i].end != TASK_END_BLOCK)
            rc = task_wake(link, task_at(link, updates[i].id)->key, err);
    /* A server may answer late: others claim and cancel tasks of the key before the COMMIT. */
    if (rc == RC_OK && sim_chance(link->db->sim, link->db->sim->plan.hold))
        sched_pause(&link->db->sim->sched, sim_between(link->db->sim, 1, 500));
    if (rc == RC_OK)
        rc = link_commit(link, err);
    if (rc != RC_OK)
        link_rollback(link);
    return rc;
}

static enum rc store_renew(void *ctx, const int64_t *ids, const int64_t *epochs, size_t count,
                           int64_t lease_ms, bool *lost, struct err *err)
{
    struct task_adapter *adapter = ctx;
    struct link *link = &adapter->link;
    enum rc rc = link_begin(link, err);

    if (rc == RC_OK)
        rc = link_call(link, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sim_task *task = task_at(link, ids[i]);

        rc = link_lock(link, &task->row, err);
        if (rc != RC_OK)
            break;
        lost[i] =
            !task->now.found || task->now.state != TASK_RUNNING || task->now.epoch != epochs[i];
        if (lost[i])
            continue;
        task->now.lease_until_ms = db_clock(link->db) + lease_ms;
        task->now.believed_ms = sim_now(sim_of(adapter)) + lease_ms;
        task_write(link, task);
    }
    if (rc == RC_OK)
        rc = link_answer(link, err);
    if (rc == RC_OK)
        rc = link_commit(link, err);
    if (rc != RC_OK)
        link_rollback(link);
    return rc;
}

static bool is_implausible(const struct link *link, const struct task_version *version)
{
    return version->found && version->state == TASK_RUNNING &&
           version->lease_until_ms > db_clock(link->db) + version->lease_ms * LEASE_LENGTHS_MAX;
}

static void rescue_one(struct link *link, struct sim_task *task)
{
    task->now.state = TASK_WAITING;
    task->now.next_ms = db_clock(link->db);
    task->now.attempts += link->db->sim->fault == FAULT_TASK_RESCUE_COUNTS;
    task_write(link, task);
    sim_tell(link->db->sim, link->proc->name, STORY_ALL, "rescues task %lld, epoch %lld", task->id,
             task->now.epoch, 0);
}

static enum rc store_rescue(void *ctx, size_t rows_max, size_t *count, size_t *shortened,
                            struct err *err)
{
    struct task_adapter *adapter = ctx;
    struct link *link = &adapter->link;
    struct task_tables *tables = tasks_of(link);
    bool keys[SIM_TASK_KEYS + 1] = {false};
    enum rc rc = link_begin(link, err);

    *count = *shortened = 0;
    if (rc == RC_OK)
        rc = link_call(link, err);
    for (int64_t id = tables->first_live; rc == RC_OK && id < tables->id_next; id++) {
        struct sim_task *task = &tables->tasks[id];

        if (*shortened < rows_max && !task->row.owner && is_implausible(link, &task->old)) {
            rc = link_lock(link, &task->row, err);
            if (rc != RC_OK)
                break;
            task->now.lease_until_ms = db_clock(link->db) + task->now.lease_ms;
            task_write(link, task);
            ++*shortened;
            continue;
        }
        if (*count == rows_max || task->row.owner || !task->old.found ||
            task->old.state != TASK_RUNNING || task->old.lease_until_ms >= db_clock(link->db))
            continue;
        rc = link_lock(link, &task->row, err);
        if (rc != RC_OK)
            break;
        rescue_one(link, task);
        keys[task->key] = true;
        ++*count;
    }
    if (rc == RC_OK)
        rc = link_answer(link, err);
    for (int64_t key = 1; rc == RC_OK && key <= SIM_TASK_KEYS; key++)
        if (keys[key])
            rc = task_wake(link, key, err);
    if (rc == RC_OK)
        rc = link_commit(link, err);
    if (rc != RC_OK)
        link_rollback(link);
    return rc;
}

/* A run is shorter than any time that a policy keeps done tasks. */
static enum rc store_forget(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    (void)ctx;
    (void)rows_max;
    (void)err;
    *count = 0;
    return RC_OK;
}

static enum rc store_handlers(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                              void *on_handler_ctx, struct err *err)
{
    struct task_adapter *adapter = ctx;
    const struct fake_instances *tables = sim_of(adapter)->tables->retries;
    enum rc rc = link_call(&adapter->link, err);

    for (size_t i = 0; rc == RC_OK && i < TASK_HANDLERS; i++)
        for (size_t j = 0; j < tables[i].count; j++)
            if (tables[i].rows[j].seen_ms > db_clock(adapter->link.db) - lease_ms)
                on_handler(on_handler_ctx, task_handlers[i]->name);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static enum rc store_depths(void *ctx, retry_on_depth on_depth, void *on_depth_ctx, struct err *err)
{
    struct task_adapter *adapter = ctx;
    enum rc rc = link_call(&adapter->link, err);

    (void)on_depth;
    (void)on_depth_ctx;
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

/* The group of all tasks here; the dispatcher reads it together with the scenes, whose call may
 * fail. */
static enum rc store_groups(void *ctx, retry_on_group on_group, void *on_group_ctx, struct err *err)
{
    const struct retry_group group = {.name = RETRY_GROUP_DEFAULT,
                                      .owner = OWNER_CLIENT,
                                      .enabled = true,
                                      .handlers = "*",
                                      .scenes = "*"};

    (void)ctx;
    return on_group(on_group_ctx, &group, err);
}

void task_adapter_init(struct task_adapter *adapter, struct proc *proc)
{
    link_init(&adapter->link, proc, proc->sim->main_db);
    adapter->recorded = 0;
    adapter->ops = (struct retry_store){
        .ctx = adapter,
        .look = store_look,
        .scenes = store_scenes,
        .record = store_record,
        .claim = store_claim,
        .claim_expired = store_claim_expired,
        .finish = store_finish,
        .renew = store_renew,
        .rescue = store_rescue,
        .forget = store_forget,
        .handlers = store_handlers,
        .depths = store_depths,
        .groups = store_groups,
    };
}
