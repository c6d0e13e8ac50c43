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

void task_key_text(const struct sim_task *task, char text[32])
{
    snprintf(text, 32, "key-%lld", (long long)task->key);
}

void task_idempotency_text(const struct sim_task *task, char text[48])
{
    if (task->parent)
        snprintf(text, 48, "callback/%lld/%s", (long long)task->parent,
                 task->parent_ended == TASK_DONE ? "done" : "exhausted");
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
        len += (size_t)snprintf(json + len, size - len,
                                ", \"on_done\": {\"scene\": \"callback\", \"handler\": \"work\"}");
    if (sim_chance(sim, 300))
        len += (size_t)snprintf(
            json + len, size - len,
            ", \"on_exhausted\": {\"scene\": \"callback\", \"handler\": \"work\"}");
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
    sim->tasks->scene_change++;
    sim_tell(sim, "operator", STORY_ALL, "mends a policy", 0, 0, 0);
}

void tasks_begin_run(struct task_tables *tables, struct sim *sim)
{
    memset(tables->tasks, 0, (size_t)(tables->id_next + 1) * sizeof(struct sim_task));
    tables->id_next = tables->first_live = 1;
    tables->numbers = 0;
    tables->scene_change = 1;
    memset(tables->keys, 0, sizeof(tables->keys));
    memset(tables->rates, 0, sizeof(tables->rates));
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

/* The version that the transaction of link sees; without one, the committed version. */
static const struct task_version *seen_by(const struct link *link, const struct sim_task *task)
{
    return link && task->row.owner == link->session ? &task->now : &task->old;
}

static void first_of(struct order_task *row, const struct sim_task *task, enum task_state state)
{
    if (row->id == 0)
        *row = (struct order_task){.id = task->id, .state = state};
}

void tasks_ahead(const struct task_tables *tables, const struct link *link, int64_t key,
                 struct order_ahead *ahead)
{
    memset(ahead, 0, sizeof(*ahead));
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        const struct sim_task *task = &tables->tasks[id];
        const struct task_version *seen = seen_by(link, task);

        if (task->key != key || !seen->found)
            continue;
        if (seen->state == TASK_WAITING)
            first_of(&ahead->waiting, task, seen->state);
        else if (seen->state == TASK_QUEUED)
            first_of(&ahead->queued, task, seen->state);
        else
            first_of(&ahead->busy, task, seen->state);
    }
}

static bool is_at_work(const struct task_tables *tables, int64_t key)
{
    for (int64_t id = tables->first_live; id < tables->id_next; id++)
        if (tables->tasks[id].key == key && tables->tasks[id].row.owner)
            return true;
    return false;
}

void tasks_tend(struct sim *sim)
{
    const struct task_tables *tables = sim->tasks;

    for (int64_t key = 1; sim->plan.retries > 0 && key <= sim->plan.task_keys; key++) {
        struct order_ahead ahead;
        struct order_task head;

        tasks_ahead(tables, NULL, key, &ahead);
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
    const struct task_version *now = &task->now;

    if (now->attempts != now->failed_rows)
        sim_fail(sim, STORY_ALL, "attempts: task %lld has %lld attempts, and %lld rows of them",
                 (long long)task->id, (long long)now->attempts, (long long)now->failed_rows);
    else if (now->attempts > task->failures)
        sim_fail(sim, STORY_ALL, "attempts: task %lld has %lld attempts, but failed %lld times",
                 (long long)task->id, (long long)now->attempts, (long long)task->failures);
}

static bool has_deadline(const struct sim *sim, const struct sim_task *task)
{
    return sim->tasks->scenes[task->scene].policy.age_ms_max > 0;
}

static void check_end(struct sim *sim, const struct sim_task *task)
{
    const struct task_version *now = &task->now;

    if (now->ended == TASK_DONE && task->effects == 0)
        sim_fail(sim, STORY_ALL, "lost: task %lld is done, and has had no effect",
                 (long long)task->id);
    else if ((now->ended == TASK_EXHAUSTED || (now->found && now->state == TASK_PARKED)) &&
             (!now->kept || (now->attempts == 0 && !now->expired && !has_deadline(sim, task))))
        sim_fail(sim, STORY_ALL, "lost: task %lld is exhausted, %s with %lld attempts",
                 (long long)task->id, now->kept ? "in the history" : "not in the history",
                 (long long)now->attempts);
}

static void check_run(struct sim *sim, const struct sim_task *task)
{
    const struct task_tables *tables = sim->tasks;

    for (int64_t id = tables->first_live; id < tables->id_next && task->key > 0; id++) {
        const struct sim_task *other = &tables->tasks[id];

        if (other == task || other->key != task->key || !other->old.found || !other->now.found)
            continue;
        if (other->old.state == TASK_RUNNING && other->now.state == TASK_RUNNING)
            sim_fail(sim, STORY_ALL,
                     "one at a time: task %lld of key %lld is claimed while task %lld runs",
                     (long long)task->id, (long long)task->key, (long long)id);
        else if (id < task->id && task->in_order && other->in_order)
            sim_fail(sim, STORY_ALL,
                     "order: task %lld of key %lld is claimed before task %lld has ended",
                     (long long)task->id, (long long)task->key, (long long)id);
    }
}

/* For how long the process could have read the pause. It reads the scenes once in a step, and a
 * step may have eight claims: while each call is slow, no time bounds it. What holds then is that
 * the process has not recorded the change, which task_promise_recorded() checks. */
static int64_t unheard_ms(const struct sim *sim, const struct sim_task *task)
{
    const struct sim_scene_row *scene = &sim->tasks->scenes[task->scene];
    int64_t slowed_ms = task->now.holder->slowed_ms;

    return sim_now(sim) - (slowed_ms > scene->paused_ms ? slowed_ms : scene->paused_ms);
}

/* True when the task may be claimed. A process learns of a change of its scene some time later. */
static void check_scene(struct sim *sim, const struct sim_task *task)
{
    const struct sim_scene_row *scene = &sim->tasks->scenes[task->scene];

    if (task->now.expired) {
        /* A clock that was set may have been ahead as it was claimed. */
        if (!has_deadline(sim, task) ||
            (sim->main_db->clock_ms == 0 &&
             db_clock(sim->main_db) - task->now.age_from_ms < scene->policy.age_ms_max))
            sim_fail(sim, STORY_ALL, "deadline: task %lld is claimed for it after %lld ms",
                     (long long)task->id,
                     (long long)(db_clock(sim->main_db) - task->now.age_from_ms));
        return;
    }
    if (task->scene == SCENE_STRANGE)
        sim_fail(sim, STORY_ALL, "task %lld is claimed, and no process has its handler",
                 (long long)task->id);
    else if (!scene->parsed && scene->found)
        sim_fail(sim, STORY_ALL, "task %lld is claimed, and its policy cannot be read",
                 (long long)task->id);
    else if (scene->paused && unheard_ms(sim, task) > PAUSE_HEARD_MS)
        sim_fail(sim, STORY_ALL, "task %lld is claimed, and its scene is paused for %lld ms",
                 (long long)task->id, (long long)(sim_now(sim) - scene->paused_ms));
}

static void tell_change(struct sim *sim, const struct sim_task *task)
{
    static const char *const states[] = {
        [TASK_WAITING] = "task %lld of key %lld waits for %lld ms",
        [TASK_RUNNING] = "task %lld of key %lld is claimed with epoch %lld",
        [TASK_QUEUED] = "task %lld of key %lld is queued",
        [TASK_BLOCKED] = "task %lld of key %lld is blocked",
        [TASK_PARKED] = "task %lld of key %lld is parked",
    };
    const struct task_version *now = &task->now;

    if (!now->found)
        sim_tell(sim, "database", STORY_ALL, "task %lld of key %lld has ended (%lld)", task->id,
                 task->key, (int64_t)now->ended);
    else if (!task->old.found || now->state != task->old.state)
        sim_tell(sim, "database", STORY_ALL, states[now->state], task->id, task->key,
                 now->state == TASK_RUNNING ? now->epoch : now->next_ms - db_clock(sim->main_db));
}

static void settle(void *ctx, struct fake_row *row, bool commit)
{
    struct sim *sim = ctx;
    struct sim_task *task = (struct sim_task *)row;
    struct task_tables *tables = sim->tasks;

    if (!commit) {
        task->now = task->old;
        return;
    }
    if (task->now.writes == task->old.writes)
        return; /* settled before */
    tell_change(sim, task);
    check_attempts(sim, task);
    check_end(sim, task);
    if (task->now.found && task->now.state == TASK_RUNNING &&
        (task->old.state != TASK_RUNNING || task->old.epoch != task->now.epoch)) {
        check_run(sim, task);
        check_scene(sim, task);
    }
    task->old = task->now;
    while (tables->first_live < tables->id_next && !tables->tasks[tables->first_live].now.found &&
           !tables->tasks[tables->first_live].old.found &&
           !tables->tasks[tables->first_live].row.owner)
        tables->first_live++;
}

void task_write(struct link *link, struct sim_task *task)
{
    assert(task->row.owner == link->session);
    task->now.writes++;
    link_writes(link);
    link_wrote(link, &task->row, settle);
}

/* RC_OK: no other task that is active has this number; *active: one has. */
static enum rc number_check(struct link *link, size_t number, bool *active, struct err *err)
{
    struct task_tables *tables = tasks_of(link);

    *active = false;
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        struct sim_task *other = &tables->tasks[id];

        if (other->number != number || (!other->now.found && !other->old.found))
            continue;
        if (other->row.owner && other->row.owner != link->session) {
            enum rc rc = link_lock(link, &other->row, err);

            if (rc != RC_OK)
                return rc;
        }
        if (other->now.found && other->now.state != TASK_PARKED)
            *active = true;
    }
    return RC_OK;
}

enum rc task_insert(struct link *link, const struct task_new *new_task, struct sim_task **task,
                    struct err *err)
{
    struct sim *sim = link->db->sim;
    struct task_tables *tables = sim->tasks;
    int64_t now_ms = db_clock(link->db);
    struct sim_task *one = &tables->tasks[tables->id_next];
    bool active;
    enum rc rc;

    *task = NULL;
    assert(tables->id_next < SIM_TASKS_MAX - 1);
    tables->id_next++;
    *one = (struct sim_task){
        .id = one - tables->tasks,
        .scene = new_task->scene,
        .key = new_task->key,
        .number = new_task->number,
        .parent = new_task->parent,
        .parent_ended = new_task->parent_ended,
        .in_order = new_task->in_order,
    };
    one->shard = (unsigned)(one->key ? (uint64_t)one->key * 7 : one->number * 5) % TASK_SHARDS;
    rc = link_lock(link, &one->row, err);
    /* Between the id and the row. */
    if (rc == RC_OK && !new_task->in_order && sim_chance(sim, sim->plan.task_unlocked))
        sched_pause_aside(&sim->sched, sim_between(sim, 0, 30));
    if (rc == RC_OK && (!link->session || !link->session->open))
        rc = err_fail(err, RC_RETRY, 2006, "server has gone away");
    if (rc == RC_OK)
        rc = number_check(link, new_task->number, &active, err);
    if (rc != RC_OK || active)
        return rc;
    one->now.found = true;
    one->now.next_ms = now_ms + new_task->delay_ms;
    one->now.age_from_ms = now_ms;
    task_write(link, one);
    *task = one;
    return RC_OK;
}

/* Wakes the head of the key, if it has not changed since it was read; *settled: it has not. */
static enum rc head_wake(struct link *link, struct sim_task *head, bool *settled, struct err *err)
{
    enum rc rc = link_call(link, err);

    if (rc == RC_OK)
        rc = link_lock(link, &head->row, err);
    if (rc != RC_OK)
        return rc;
    *settled =
        head->now.found && (head->now.state == TASK_QUEUED || head->now.state == TASK_WAITING);
    if (*settled && head->now.state == TASK_QUEUED) {
        head->now.state = TASK_WAITING;
        head->now.next_ms = db_clock(link->db);
        task_write(link, head);
    }
    return link_answer(link, err);
}

enum rc task_wake(struct link *link, int64_t key, struct err *err)
{
    const struct sim *sim = link->db->sim;
    struct task_tables *tables = tasks_of(link);
    bool settled = key == 0 || sim->fault == FAULT_TASK_NO_WAKE;
    enum rc rc = RC_OK;

    while (rc == RC_OK && !settled) {
        struct order_ahead ahead;
        struct order_task head;

        rc = link_call(link, err);
        if (rc != RC_OK)
            break;
        tasks_ahead(tables, link, key, &ahead);
        head = ahead.busy.id > 0 ? (struct order_task){0} : order_head(&ahead);
        rc = link_answer(link, err);
        settled =
            head.id == 0 || (sim->fault == FAULT_TASK_HEAD_UNLOCKED && head.state == TASK_WAITING);
        if (rc == RC_OK && !settled)
            rc = head_wake(link, &tables->tasks[head.id], &settled, err);
    }
    return rc;
}

void task_end(struct link *link, struct sim_task *task, enum task_ended ended, bool keep)
{
    task->now.found = false;
    task->now.ended = ended;
    task->now.kept = keep;
    task_write(link, task);
}

enum rc task_call_back(struct link *link, const struct sim_task *task, enum task_ended ended,
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
