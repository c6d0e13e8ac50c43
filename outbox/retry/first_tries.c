/* SPDX-License-Identifier: MIT */
#include "outbox/retry/first_tries.h"

#include "common/hash.h"
#include "outbox/retry/retry_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_reason(struct first_try_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_reason(struct first_try_result *result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(result->reason, sizeof(result->reason), format, args);
    va_end(args);
}

/* What became of the task, when its update was written. */
static void put_state(const struct slot *slot, int64_t now_ms, struct first_try_result *result)
{
    const struct task_update *update = &slot->update;

    result->state_known = true;
    result->state = TASK_WAITING;
    result->attempts = update->attempts;
    result->reason_class = update->reason_class;
    put_reason(result, "%s", update->reason);
    switch (update->end) {
    case TASK_END_DONE:
        snprintf(result->outcome, sizeof(result->outcome), "done");
        return;
    case TASK_END_PARK:
    case TASK_END_SKIP:
        snprintf(result->outcome, sizeof(result->outcome), "exhausted");
        return;
    case TASK_END_DUPLICATE:
        snprintf(result->outcome, sizeof(result->outcome), "cancelled");
        return;
    case TASK_END_BLOCK:
        result->state = TASK_BLOCKED;
        return;
    case TASK_END_AGAIN:
        result->next_ms = now_ms + slot->database_ahead_ms + update->delay_ms;
        return;
    case TASK_END_STEP:
        return;
    case TASK_END_BACK:
        put_reason(result, "%s", slot->attempt_result.err.text);
        return;
    }
}

/* Before the slot is free. A try whose update is void has had its effect or not: another process
 * tries the task again. */
static void end_try(void *ctx, struct slot *slot, enum task_written written, int64_t now_ms)
{
    struct first_tries *tries = ctx;
    void **owner = &tries->owners[slot - tries->pool->slots];
    struct first_try_result result = {
        .ticket = {.id = slot->id},
        .tried = slot->tried && !slot->attempt_result.waits,
        .reason_class = "",
    };

    if (written == TASK_WRITTEN)
        put_state(slot, now_ms, &result);
    else if (slot->commit_unknown)
        put_reason(&result, "the database gave no clear answer to its result: read the task");
    else
        put_reason(&result, "its lease was lost: another process tries it again");
    if (result.tried && slot->attempt_result.end == ATTEMPT_DONE && !slot->result.failed) {
        result.answer = slot->result.data;
        result.answer_len = slot->result.len;
    }
    tries->on_end(tries->ctx, *owner, &result);
    *owner = NULL;
}

struct reading {
    struct first_tries *tries;
    enum rc rc;
    struct err *err;
};

static void on_scene(void *ctx, const struct scene_row *row)
{
    struct reading *reading = ctx;

    if (reading->rc == RC_OK)
        reading->rc = scenes_take(&reading->tries->scenes, row, reading->err);
}

static enum rc on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    return groups_take(ctx, group, err);
}

/* As the dispatcher reads them. A change that is not seen here is found by the version of the scene
 * when the task is claimed. */
static enum rc read_scenes(struct first_tries *tries, int64_t now_ms, struct err *err)
{
    struct reading reading = {tries, RC_OK, err};
    struct scene_change change = {0};
    enum rc rc;

    if (tries->read && !tries->slots.stale_scene && now_ms >= tries->read_ms &&
        now_ms - tries->read_ms < FIRST_TRIES_SCENES_MS)
        return RC_OK;
    tries->read = false;
    scenes_begin(&tries->scenes);
    rc = tries->store.scenes(tries->store.ctx, on_scene, &reading, &change, err);
    if (rc == RC_OK)
        rc = reading.rc;
    if (rc == RC_OK) {
        groups_begin(&tries->groups);
        rc = tries->store.groups(tries->store.ctx, on_group, &tries->groups, err);
    }
    if (rc != RC_OK)
        return rc;
    groups_end(&tries->groups);
    rc = scenes_end(&tries->scenes, err);
    if (rc != RC_OK)
        return rc;
    tries->slots.stale_scene = false;
    tries->read = true;
    tries->read_ms = now_ms;
    return RC_OK;
}

/* NULL: there are too many, or a name is too long. */
static struct kind *find_kind(struct first_tries *tries, const struct retry_new_task *task,
                              int64_t now_ms)
{
    struct task_class class = {.origin = OWNER_CLIENT};
    const char *group = task->group ? task->group : RETRY_GROUP_DEFAULT;
    struct kind *kind;

    if (strlen(task->handler) >= sizeof(class.handler) || strlen(group) >= sizeof(class.group) ||
        strlen(task->scene) >= sizeof(class.scene))
        return NULL;
    snprintf(class.handler, sizeof(class.handler), "%s", task->handler);
    snprintf(class.group, sizeof(class.group), "%s", group);
    snprintf(class.scene, sizeof(class.scene), "%s", task->scene);
    scenes_begin_look(&tries->scenes);
    kind = scenes_kind(&tries->scenes, &class, ++tries->looks, now_ms);
    if (kind)
        groups_update_kind(&tries->groups, kind);
    return kind;
}

/* As Invariant Q8: the last free thread tries only a task of a scene that has none. So a claimed
 * task finds a thread at once. */
static bool has_thread(const struct first_tries *tries, const struct scene *scene)
{
    size_t free = tries->slots.free_count;
    int64_t threads_max = scene->policy.threads_max;

    if (threads_max > 0 && (int64_t)scene->in_flight >= threads_max)
        return false;
    return free > 1 || (free == 1 && (scene->in_flight == 0 || tries->pool->slot_count == 1));
}

/* The scene and the group let a new task begin now; else result->reason says why not. */
static bool scene_lets_begin(struct first_tries *tries, const struct kind *kind,
                             struct first_try_result *result)
{
    const struct scene *scene = kind->scene;
    struct task_class class = {.origin = OWNER_CLIENT};
    struct err err = {0};

    memcpy(class.handler, kind->handler_name, sizeof(class.handler));
    memcpy(class.group, scene->group, sizeof(class.group));
    memcpy(class.scene, scene->name, sizeof(class.scene));
    if (kind->group_decision != GROUP_OPEN) {
        if (!groups_are_closed(&tries->groups, &class, scene, &err))
            err_set(&err, "group %s does not allow it", scene->group);
        put_reason(result, "%s", err.text);
    } else if (scene->paused) {
        put_reason(result, "scene %s is paused", scene->name);
    } else if (scene->faulty) {
        put_reason(result, "the policy of scene %s cannot be read", scene->name);
    } else if (scene->policy.rate_per_s > 0) {
        put_reason(result, "scene %s has a rate, which only retry processes keep", scene->name);
    } else if (kind->group_shards != 0) {
        put_reason(result, "group %s has shards, which only retry processes hold", scene->group);
    } else if (scene->policy.first_wait_high_ms > 0) {
        put_reason(result, "scene %s has a first_wait", scene->name);
    } else if (!has_thread(tries, scene)) {
        put_reason(result, "no thread is free: other tasks are being tried");
    } else {
        return true;
    }
    return false;
}

/* The circuit breaker lets a task pass, or a probe. The task is not claimed yet, so a probe does
 * not count as begun here. */
static bool destination_lets_begin(struct first_tries *tries, const struct kind *kind,
                                   const struct retry_job *job, int64_t now_ms,
                                   struct first_try_result *result)
{
    struct buf *name = &tries->destination;
    struct destination *destination;
    bool probe = false;
    bool passes;

    buf_reset(name);
    if (kind->handler->destination)
        kind->handler->destination(tries->pool->handlers, job, name);
    if (name->len == 0 || name->failed)
        return true;
    destination = destinations_use(&tries->slots.destinations, name->data, name->len);
    if (!destination) {
        put_reason(result, "no memory for the task's destination");
        return false;
    }
    passes = destination_passes(destination, now_ms, &probe);
    if (probe)
        destination_learned_nothing(destination);
    if (!passes)
        put_reason(result, "the circuit breaker of %.100s is open: %.200s", destination->name,
                   destination->why);
    destinations_leave(&tries->slots.destinations, destination);
    return passes;
}

/* The task may begin as soon as it is made, except for its key; else result->reason says why not.
 */
static bool may_begin(struct first_tries *tries, const struct retry_new_task *task,
                      const struct kind *kind, int64_t now_ms, struct first_try_result *result)
{
    struct retry_job job = {.group = kind->scene->group,
                            .scene = kind->scene->name,
                            .params_type = task->params_type ? task->params_type : "",
                            .ordering_key = task->ordering_key};
    size_t len = task->options ? strlen(task->options) : 0;
    struct err err = {0};

    if (atomic_load(&tries->pool->leaving)) {
        put_reason(result, "the process stops");
        return false;
    }
    if (task->delay_ms > 0) {
        put_reason(result, "it is not due yet");
        return false;
    }
    if (!kind->handler || !kind->handler->tries_first) {
        put_reason(result, "this process does not try tasks of the handler %s", kind->handler_name);
        return false;
    }
    if (!scene_lets_begin(tries, kind, result))
        return false;
    if (scene_options(kind->scene, task->options, len, &tries->options, &job.options, &err) !=
            RC_OK ||
        !kind->handler->tries_first(&job, &err)) {
        put_reason(result, "%s", err.text);
        return false;
    }
    return destination_lets_begin(tries, kind, &job, now_ms, result);
}

struct making {
    struct first_tries *tries;
    struct kind *kind;
    int64_t now_ms;
};

static void on_task(void *ctx, const struct task_row *row)
{
    const struct making *making = ctx;

    task_slots_claim(&making->tries->slots, making->kind, row, making->now_ms);
}

/* The task in the slot is claimed: its try begins, or its update says why it cannot. */
static void begin_try(struct first_tries *tries, struct slot *slot, void *owner, int64_t sent_ms,
                      int64_t lease_ms)
{
    tries->owners[slot - tries->pool->slots] = owner;
    task_slots_lease(&tries->slots, sent_ms, lease_ms);
    if (writeback_begin(&tries->writeback, slot, sent_ms))
        pool_wake(tries->pool, 1);
    metric_add(&retry_claimed, 1);
}

enum rc first_tries_make(struct first_tries *tries, const struct retry_new_task *task, void *owner,
                         struct first_try_result *result, int64_t now_ms, struct err *err)
{
    struct making making = {.tries = tries};
    int64_t lease_ms = 0;
    int64_t sent_ms;
    bool claims = false;
    enum rc rc;

    assert(owner);
    memset(result, 0, sizeof(*result));
    result->reason_class = "";
    rc = read_scenes(tries, now_ms, err);
    if (rc != RC_OK)
        return rc;
    sent_ms = pool_now(tries->pool, now_ms);
    making.now_ms = sent_ms;
    making.kind = find_kind(tries, task, sent_ms);
    if (!making.kind)
        put_reason(result, "there are too many kinds of tasks");
    else
        claims = may_begin(tries, task, making.kind, sent_ms, result);
    if (claims)
        lease_ms = making.kind->scene->policy.lease_ms;
    task_slots_begin(&tries->slots);
    rc =
        tries->store.make(tries->store.ctx, task, lease_ms, on_task, &making, &result->ticket, err);
    if (rc != RC_OK) {
        task_slots_drop(&tries->slots);
        return rc;
    }
    assert(tries->slots.claimed_count <= 1);
    result->begun = tries->slots.claimed_count == 1;
    if (result->begun)
        begin_try(tries, tries->slots.claimed[0].slot, owner, sent_ms, lease_ms);
    else if (result->ticket.existed)
        put_reason(result, "a task with its idempotency key existed already");
    else if (claims)
        put_reason(result, "a task of its ordering key that was made before it has not ended");
    return RC_OK;
}

/* Tasks that no worker has begun return to the table unchanged. */
static void return_queued(struct first_tries *tries, int64_t now_ms)
{
    struct slot *slot;

    while ((slot = pool_take_queued(tries->pool))) {
        slot->attempt_result.end = ATTEMPT_CUT;
        err_set(&slot->attempt_result.err, "the process stops");
        writeback_add(&tries->writeback, slot, now_ms);
    }
}

int64_t first_tries_step(void *arg, int64_t now_ms)
{
    struct first_tries *tries = arg;
    struct slot *done;

    if (atomic_load(&tries->pool->leaving))
        return_queued(tries, now_ms);
    while (pool_take_done(tries->pool, &done, 1) == 1)
        writeback_add(&tries->writeback, done, now_ms);
    if (!writeback_write(&tries->writeback, now_ms)) {
        int64_t wait_ms = tries->calls.at_ms[POOL_FINISH] - now_ms;

        return wait_ms < 1 ? 1 : wait_ms < POOL_WAIT_MS ? wait_ms : POOL_WAIT_MS;
    }
    return pool_may_sleep(tries->pool) ? 10 * POOL_WAIT_MS : 0;
}

enum rc first_tries_init(struct first_tries *tries, const struct first_tries_config *config,
                         struct err *err)
{
    enum rc rc;

    memset(tries, 0, sizeof(*tries));
    tries->pool = config->pool;
    tries->store = *config->store;
    tries->on_end = config->on_end;
    tries->ctx = config->ctx;
    tries->rng = config->seed;
    scenes_init(&tries->scenes, tries->pool, &tries->groups);
    pool_calls_init(&tries->calls, tries->pool, &tries->rng);
    rc = task_slots_init(&tries->slots, tries->pool, &tries->groups, err);
    if (rc == RC_OK)
        rc = writeback_init(&tries->writeback, &tries->slots, &tries->store, &tries->calls,
                            &tries->rng, err);
    if (rc == RC_OK) {
        tries->writeback.on_written = end_try;
        tries->writeback.on_written_ctx = tries;
        tries->owners = calloc(tries->pool->slot_count, sizeof(void *));
        if (!tries->owners)
            rc = err_fail(err, RC_FATAL, 0, "out of memory for %zu tasks", tries->pool->slot_count);
    }
    if (rc != RC_OK)
        first_tries_done(tries);
    return rc;
}

void first_tries_done(struct first_tries *tries)
{
    writeback_done(&tries->writeback);
    task_slots_done(&tries->slots);
    scenes_done(&tries->scenes);
    groups_done(&tries->groups);
    buf_done(&tries->options);
    buf_done(&tries->destination);
    free(tries->owners);
    memset(tries, 0, sizeof(*tries));
}

void first_tries_leave(struct first_tries *tries)
{
    atomic_store(&tries->pool->leaving, true);
}

bool first_tries_left(const struct first_tries *tries)
{
    return tries->slots.free_count == tries->pool->slot_count;
}
