/* SPDX-License-Identifier: MIT */
#include "tests/sim/tasks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A process whose calls are not slow has a pause in force within this time, also when reads of the
 * scenes fail or it is frozen meanwhile. */
#define PAUSE_HEARD_MS 8000

/* Numbers from here on are of callbacks, the same for each of a task. */
#define CALLBACK_NUMBERS 1000000

struct task_tables *tasks_of(const struct link *link)
{
    return link->db->sim->tasks;
}

const char *task_scene_handler(int scene)
{
    return scene == SCENE_STRANGE ? "strange" : scene == SCENE_THIRD ? "steps" : "work";
}

struct sim_task *sim_task_of(struct task_tables *tables, const struct fake_task *task)
{
    return &tables->tasks[task->id];
}

void task_key_text(const struct fake_task *task, char text[32])
{
    snprintf(text, 32, "key-%lld", (long long)task->key);
}

void task_idempotency_text(const struct sim_task *task, char text[48])
{
    if (task->parent)
        snprintf(text, 48, "callback/%lld/%s", (long long)task->parent,
                 task->parent_ended == FAKE_TASK_DONE        ? "done"
                 : task->parent_ended == FAKE_TASK_CANCELLED ? "cancelled"
                                                             : "exhausted");
    else
        snprintf(text, 48, "number-%zu", task->number);
}

/* A policy of any kind. */
static void policy_make(struct sim *sim, char *json, size_t size)
{
    static const char *const waits[] = {"fixed 20ms", "random 5ms 300ms", "exponential 10ms 1s",
                                        "list 10ms 60ms 400ms", "list 1s"};
    static const char *const ends[] = {"block", "park", "skip"};
    static const char *const stops[] = {"[\"refused\"]", "[]", "[\"refused\", \"ours\"]"};
    size_t len;

    len = (size_t)snprintf(json, size,
                           "{\"wait\": \"%s\", \"attempts\": %d, \"exhausted\": \"%s\", "
                           "\"stop\": %s, \"lease\": \"%dms\", \"keep_done\": %s",
                           waits[sim_below(sim, 5)], (int)sim_between(sim, 1, 6),
                           ends[sim_below(sim, 3)], stops[sim_below(sim, 3)],
                           (int)sim_between(sim, 1000, 2000),
                           sim_chance(sim, 300) ? "true" : "false");
    if (sim_chance(sim, 300))
        len += (size_t)snprintf(json + len, size - len, ", \"rate\": \"%d/s burst %d\"",
                                (int)sim_between(sim, 40, 200), (int)sim_between(sim, 1, 8));
    if (sim_chance(sim, 250))
        len += (size_t)snprintf(json + len, size - len, ", \"deadline\": \"%dms\"",
                                (int)sim_between(sim, 300, 20000));
    if (sim_chance(sim, 300))
        len += (size_t)snprintf(json + len, size - len, ", \"first_wait\": \"random %dms %dms\"",
                                (int)sim_between(sim, 20, 120), (int)sim_between(sim, 120, 290));
    if (sim_chance(sim, 300))
        len += (size_t)snprintf(json + len, size - len, ", \"dedup\": \"%dms\"",
                                (int)sim_between(sim, 100, 8000));
    if (sim_chance(sim, 500))
        len += (size_t)snprintf(json + len, size - len, ", \"no_retry\": false");
    if (sim_chance(sim, 300))
        len += (size_t)snprintf(json + len, size - len,
                                ", \"on_done\": {\"scene\": \"callback\", \"handler\": \"work\"}");
    if (sim_chance(sim, 300))
        len += (size_t)snprintf(
            json + len, size - len,
            ", \"on_exhausted\": {\"scene\": \"callback\", \"handler\": \"work\"}");
    if (sim_chance(sim, 300))
        len += (size_t)snprintf(
            json + len, size - len,
            ", \"on_cancelled\": {\"scene\": \"callback\", \"handler\": \"work\"}");
    snprintf(json + len, size - len, "}");
}

static void scene_make(struct sim *sim, int number, struct sim_scene_row *scene)
{
    static const char *const names[SIM_SCENES] = {"first",  "second",  "third", "callback",
                                                  "broken", "strange", "bare"};

    if (scene->parsed)
        policy_done(&scene->policy);
    memset(scene, 0, sizeof(*scene));
    snprintf(scene->name, sizeof(scene->name), "%s", names[number]);
    scene->found = number != SCENE_BARE;
    scene->version = 1;
    if (number == SCENE_BROKEN)
        snprintf(scene->json, sizeof(scene->json), "{\"atempts\": 3}");
    else if (number == SCENE_CALLBACK)
        snprintf(scene->json, sizeof(scene->json),
                 "{\"wait\": \"fixed 50ms\", \"attempts\": 0, \"stop\": [], \"lease\": \"1s\"}");
    else if (scene->found)
        policy_make(sim, scene->json, sizeof(scene->json));
    scene->parsed = policy_parse(&scene->policy, scene->json, strlen(scene->json), NULL) == RC_OK;
    assert(scene->parsed || number == SCENE_BROKEN);
}

void task_scene_mend(struct sim *sim)
{
    struct sim_scene_row *scene = &sim->tasks->scenes[SCENE_BROKEN];

    if (scene->parsed)
        return;
    policy_make(sim, scene->json, sizeof(scene->json));
    scene->parsed = policy_parse(&scene->policy, scene->json, strlen(scene->json), NULL) == RC_OK;
    assert(scene->parsed);
    scene->version++;
    sim->tasks->fake.scene_change++;
    sim_tell(sim, "operator", STORY_ALL, "mends a policy", 0, 0, 0);
}

static bool is_at_work(const struct task_tables *tables, int64_t key)
{
    for (int64_t id = tables->fake.first_live; id < tables->fake.id_next; id++)
        if (tables->tasks[id].base.key == key && tables->tasks[id].base.row.owner)
            return true;
    return false;
}

void tasks_tend(struct sim *sim)
{
    const struct task_tables *tables = sim->tasks;

    for (int64_t key = 1; sim->plan.retries > 0 && key <= sim->plan.task_keys; key++) {
        struct order_ahead ahead;
        struct order_task head;

        fake_tasks_ahead(&tables->fake, NULL, key, &ahead);
        head = order_head(&ahead);
        if (ahead.busy.id == 0 && head.id > 0 && head.state == TASK_QUEUED &&
            !is_at_work(tables, key))
            sim_fail(sim, STORY_ALL,
                     "stuck: task %lld of key %lld is queued behind nothing, and forgotten",
                     (long long)head.id, (long long)key);
    }
}

/* Promises that each commit has to keep. */

static void check_attempts(struct sim *sim, const struct sim_task *task)
{
    const struct fake_task_version *now = &task->base.now;

    if (now->attempts != now->failed_rows)
        sim_fail(sim, STORY_ALL, "attempts: task %lld has %lld attempts, and %lld rows of them",
                 (long long)task->base.id, (long long)now->attempts, (long long)now->failed_rows);
    else if (now->attempts > task->failures)
        sim_fail(sim, STORY_ALL, "attempts: task %lld has %lld attempts, but failed %lld times",
                 (long long)task->base.id, (long long)now->attempts, (long long)task->failures);
    /* A snooze whose COMMIT lost its answer may be written again under the next claim. */
    else if (now->snoozed_rows > 0 && task->snoozes == 0)
        sim_fail(sim, STORY_ALL, "attempts: task %lld never snoozed, and has %lld rows of it",
                 (long long)task->base.id, (long long)now->snoozed_rows);
}

static void check_first_wait(struct sim *sim, const struct sim_task *task)
{
    if (task->base.now.first_waits > 1)
        sim_fail(sim, STORY_ALL, "first wait: task %lld is put off %lld times for it",
                 (long long)task->base.id, (long long)task->base.now.first_waits);
}

static bool has_deadline(const struct sim *sim, const struct sim_task *task)
{
    return sim->tasks->scenes[task->scene].policy.age_ms_max > 0;
}

static void check_end(struct sim *sim, const struct sim_task *task)
{
    const struct fake_task_version *now = &task->base.now;

    if (now->ended == FAKE_TASK_DONE && task->effects == 0)
        sim_fail(sim, STORY_ALL, "lost: task %lld is done, and has had no effect",
                 (long long)task->base.id);
    else if ((now->ended == FAKE_TASK_EXHAUSTED || (now->found && now->state == TASK_PARKED)) &&
             (!now->kept || (now->attempts == 0 && !now->expired && !has_deadline(sim, task))))
        sim_fail(sim, STORY_ALL, "lost: task %lld is exhausted, %s with %lld attempts",
                 (long long)task->base.id, now->kept ? "in the history" : "not in the history",
                 (long long)now->attempts);
}

static void check_run(struct sim *sim, const struct sim_task *task)
{
    const struct task_tables *tables = sim->tasks;

    for (int64_t id = tables->fake.first_live; id < tables->fake.id_next && task->base.key > 0;
         id++) {
        const struct sim_task *other = &tables->tasks[id];

        if (other == task || other->base.key != task->base.key || !other->base.old.found ||
            !other->base.now.found)
            continue;
        if (other->base.old.state == TASK_RUNNING && other->base.now.state == TASK_RUNNING)
            sim_fail(sim, STORY_ALL,
                     "one at a time: task %lld of key %lld is claimed while task %lld runs",
                     (long long)task->base.id, (long long)task->base.key, (long long)id);
        else if (id < task->base.id && task->in_order && other->in_order)
            sim_fail(sim, STORY_ALL,
                     "order: task %lld of key %lld is claimed before task %lld has ended",
                     (long long)task->base.id, (long long)task->base.key, (long long)id);
    }
}

/* For how long the process could have read the pause. It reads the scenes once in a step, and a
 * step may have eight claims: while each call is slow, no time bounds it. What holds then is that
 * the process has not recorded the change, which task_promise_recorded() checks. */
static int64_t unheard_ms(const struct sim *sim, const struct sim_task *task)
{
    const struct sim_scene_row *scene = &sim->tasks->scenes[task->scene];
    const struct proc *proc = task->base.now.owner;
    int64_t slowed_ms = proc->slowed_ms;

    return sim_now(sim) - (slowed_ms > scene->paused_ms ? slowed_ms : scene->paused_ms);
}

/* True when the task may be claimed. A process learns of a change of its scene some time later. */
static void check_scene(struct sim *sim, const struct sim_task *task)
{
    const struct sim_scene_row *scene = &sim->tasks->scenes[task->scene];

    if (task->base.now.expired) {
        /* A clock that was set may have been ahead as it was claimed. */
        if (!has_deadline(sim, task) ||
            (sim->main_db->clock_ms == 0 &&
             db_clock(sim->main_db) - task->base.now.age_from_ms < scene->policy.age_ms_max))
            sim_fail(sim, STORY_ALL, "deadline: task %lld is claimed for it after %lld ms",
                     (long long)task->base.id,
                     (long long)(db_clock(sim->main_db) - task->base.now.age_from_ms));
        return;
    }
    if (task->scene == SCENE_STRANGE)
        sim_fail(sim, STORY_ALL, "task %lld is claimed, and no process has its handler",
                 (long long)task->base.id);
    else if (!scene->parsed && scene->found)
        sim_fail(sim, STORY_ALL, "task %lld is claimed, and its policy cannot be read",
                 (long long)task->base.id);
    else if (scene->paused && unheard_ms(sim, task) > PAUSE_HEARD_MS)
        sim_fail(sim, STORY_ALL, "task %lld is claimed, and its scene is paused for %lld ms",
                 (long long)task->base.id, (long long)(sim_now(sim) - scene->paused_ms));
}

static void tell_change(struct sim *sim, const struct fake_task *task)
{
    static const char *const states[] = {
        [TASK_WAITING] = "task %lld of key %lld waits for %lld ms",
        [TASK_RUNNING] = "task %lld of key %lld is claimed with epoch %lld",
        [TASK_QUEUED] = "task %lld of key %lld is queued",
        [TASK_BLOCKED] = "task %lld of key %lld is blocked",
        [TASK_PARKED] = "task %lld of key %lld is parked",
    };
    const struct fake_task_version *now = &task->now;

    if (!now->found)
        sim_tell(sim, "database", STORY_ALL, "task %lld of key %lld has ended (%lld)", task->id,
                 task->key, (int64_t)now->ended);
    else if (!task->old.found || now->state != task->old.state)
        sim_tell(sim, "database", STORY_ALL, states[now->state], task->id, task->key,
                 now->state == TASK_RUNNING ? now->epoch : now->next_ms - db_clock(sim->main_db));
}

static void check_commit(void *ctx, struct fake_task *base)
{
    struct sim *sim = ctx;
    const struct sim_task *task = sim_task_of(sim->tasks, base);

    tell_change(sim, base);
    check_attempts(sim, task);
    check_first_wait(sim, task);
    check_end(sim, task);
    if (base->now.found && base->now.state == TASK_RUNNING &&
        (base->old.state != TASK_RUNNING || base->old.epoch != base->now.epoch)) {
        check_run(sim, task);
        check_scene(sim, task);
    }
}

static bool read_scene(void *ctx, size_t n, struct scene_row *row)
{
    const struct sim *sim = ctx;
    const struct sim_scene_row *scene = &sim->tasks->scenes[n];

    if (n == SIM_SCENES || !scene->found)
        return false;
    *row = (struct scene_row){
        .group = RETRY_GROUP_DEFAULT,
        .scene = scene->name,
        .policy = scene->json,
        .paused = scene->paused,
        .version = scene->version,
    };
    return true;
}

static struct fake_task_faults faults_of(enum sim_fault fault)
{
    return (struct fake_task_faults){
        .blockers_ignored = fault == FAULT_TASK_BLOCKERS_IGNORED,
        .claim_unlocked = fault == FAULT_TASK_CLAIM_UNLOCKED,
        .claim_uncompared = fault == FAULT_TASK_CLAIM_UNCOMPARED,
        .queue_unlocked = fault == FAULT_TASK_QUEUE_UNLOCKED,
        .busy_twice = fault == FAULT_TASK_BUSY_TWICE,
        .finish_unfenced = fault == FAULT_TASK_FINISH_UNFENCED,
        .rescue_counts = fault == FAULT_TASK_RESCUE_COUNTS,
        .no_wake = fault == FAULT_TASK_NO_WAKE,
        .cancel_silent = fault == FAULT_TASK_CANCEL_SILENT,
        .wait_unmarked = fault == FAULT_TASK_WAIT_UNMARKED,
        .head_unlocked = fault == FAULT_TASK_HEAD_UNLOCKED,
        .made_unordered = fault == FAULT_FIRST_TRY_UNORDERED,
    };
}

void tasks_begin_run(struct task_tables *tables, struct sim *sim)
{
    memset(tables->tasks, 0, (size_t)(tables->fake.id_next + 1) * sizeof(struct sim_task));
    tables->fake = (struct fake_task_tables){
        .rows = &tables->tasks[1],
        .row_size = sizeof(struct sim_task),
        .id_next = 1,
        .first_live = 1,
        .scene_change = 1,
        .faults = faults_of(sim->fault),
        .ctx = sim,
        .read_scene = read_scene,
        .on_commit = check_commit,
    };
    tables->numbers = 0;
    memset(tables->keys, 0, sizeof(tables->keys));
    memset(tables->rates, 0, sizeof(tables->rates));
    memset(&tables->traffic, 0, sizeof(tables->traffic));
    group_shards_begin_run(&tables->shards);
    task_clients_begin_run(&tables->clients);
    memset(tables->last_effect, 0, sizeof(tables->last_effect));
    for (int i = 0; i < SIM_SCENES; i++)
        scene_make(sim, i, &tables->scenes[i]);
}

void tasks_done(struct task_tables *tables)
{
    for (int i = 0; i < SIM_SCENES; i++)
        if (tables->scenes[i].parsed)
            policy_done(&tables->scenes[i].policy);
}

/* RC_OK: no other task that is active has this number; *active: one has. */
static enum rc number_check(struct link *link, size_t number, bool *active, struct err *err)
{
    struct task_tables *tables = tasks_of(link);

    *active = false;
    for (int64_t id = tables->fake.first_live; id < tables->fake.id_next; id++) {
        struct sim_task *other = &tables->tasks[id];

        if (other->number != number || (!other->base.now.found && !other->base.old.found))
            continue;
        if (other->base.row.owner && other->base.row.owner != link->session) {
            enum rc rc = link_lock(link, &other->base.row, err);

            if (rc != RC_OK)
                return rc;
        }
        if (other->base.now.found && other->base.now.state != TASK_PARKED)
            *active = true;
    }
    return RC_OK;
}

static void class_make(const struct sim *sim, struct sim_task *task)
{
    struct task_class *class = &task->base.class;
    int64_t key = task->base.key;

    snprintf(class->handler, sizeof(class->handler), "%s", task_scene_handler(task->scene));
    snprintf(class->group, sizeof(class->group), "%s", RETRY_GROUP_DEFAULT);
    snprintf(class->scene, sizeof(class->scene), "%s", sim->tasks->scenes[task->scene].name);
    class->shard = (unsigned)(key ? (uint64_t)key * 7 : task->number * 5) % TASK_SHARDS;
}

int64_t task_duplicate_of(const struct task_tables *tables, const struct sim_task *task,
                          int64_t past_ms)
{
    /* A task that is tried first is read before its COMMIT. */
    int64_t made_ms = task->base.old.writes > 0 ? task->base.old.made_ms : task->base.now.made_ms;

    for (int64_t id = 1; id < tables->fake.id_next; id++) {
        const struct sim_task *other = &tables->tasks[id];

        if (other != task && other->number == task->number &&
            other->base.old.dedup_until_ms > made_ms &&
            (other->base.old.kept || other->base.old.dedup_until_ms > past_ms))
            return id;
    }
    return 0;
}

enum rc task_insert(struct link *link, const struct task_new *new_task, struct sim_task **task,
                    struct err *err)
{
    struct sim *sim = link->db->sim;
    struct task_tables *tables = sim->tasks;
    int64_t now_ms = db_clock(link->db);
    struct sim_task *one = &tables->tasks[tables->fake.id_next];
    const struct fake_session session = link_session(link);
    bool active;
    enum rc rc;

    *task = NULL;
    assert(tables->fake.id_next < SIM_TASKS_MAX - 1);
    tables->fake.id_next++;
    *one = (struct sim_task){
        .base = {.id = one - tables->tasks, .key = new_task->key},
        .scene = new_task->scene,
        .number = new_task->number,
        .parent = new_task->parent,
        .parent_ended = new_task->parent_ended,
        .in_order = new_task->in_order,
    };
    class_make(sim, one);
    rc = link_lock(link, &one->base.row, err);
    /* Between the id and the row. */
    if (rc == RC_OK && !new_task->in_order && sim_chance(sim, sim->plan.task_unlocked))
        sched_pause_aside(&sim->sched, sim_between(sim, 0, 30));
    if (rc == RC_OK && (!link->session || !link->session->open))
        rc = err_fail(err, RC_RETRY, 2006, "server has gone away");
    if (rc == RC_OK)
        rc = number_check(link, new_task->number, &active, err);
    if (rc != RC_OK || active)
        return rc;
    one->base.now.found = true;
    one->base.now.next_ms = now_ms + new_task->delay_ms;
    one->base.now.age_from_ms = one->base.now.made_ms = now_ms;
    fake_task_write(&tables->fake, &session, &one->base);
    *task = one;
    return RC_OK;
}

enum rc task_call_back(struct link *link, const struct fake_task *task, enum fake_task_ended ended,
                       struct err *err)
{
    const struct task_new callback = {
        .scene = SCENE_CALLBACK,
        .number = CALLBACK_NUMBERS + (size_t)task->id * 4 + (size_t)ended,
        .parent = task->id,
        .parent_ended = ended,
    };
    struct sim_task *made;

    return task_insert(link, &callback, &made, err);
}
