/* SPDX-License-Identifier: MIT */
#include "outbox/retry/dispatcher.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/retry/task_waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCENES_EVERY_MS 1000
#define DEPTHS_EVERY_MS 10000
#define LOOK_MS_MIN 10

/* With no threads: tasks are run for so long before results are written and classes looked at. */
#define RUN_MS 100

/* Between two of them results are taken and written. */
#define CLAIMS_PER_STEP 8

#define EXPIRE_EVERY_MS 1000
#define FORGET_EVERY_MS 5000
#define FORGET_ROWS_MAX 500
/* Scenes with a deadline that are looked at in one step. */
#define EXPIRE_SCENES_MAX 32

/* Bytes of all tasks in flight: past it no more are claimed. */
#define BYTES_MAX (INT64_C(256) << 20)

struct recall {
    struct dispatcher *dispatcher;
    bool check_groups;
    int64_t now_ms;
    int64_t oldest_due_ms;
};

static bool scene_is_stopped(const struct slot *slot)
{
    return slot->kind->scene->paused || slot->kind->scene->faulty;
}

/* True: the task must not begin any more, and its slot holds the result of an attempt that did not
 * begin. Runs under the pool's lock, once for each slot at most. */
static bool recall_slot(void *ctx, struct slot *slot)
{
    struct recall *recall = ctx;

    if (scene_is_stopped(slot) || task_slot_is_expired(slot, recall->now_ms)) {
        slot->attempt_result.end = ATTEMPT_CUT;
        return true;
    }
    if (recall->check_groups && !task_slots_check(&recall->dispatcher->slots, slot))
        return true;
    if (slot->due_ms < recall->oldest_due_ms)
        recall->oldest_due_ms = slot->due_ms;
    return false;
}

/* Recalls claimed tasks that wait for a thread and must not begin any more: tasks of a paused
 * scene return to the table, expired tasks end. With check_groups, which is needed once after each
 * change of the groups, tasks of a closed group also return to the table, and tasks that their
 * group does not allow are refused. Returns when the oldest remaining task became due, or
 * now_ms. */
static int64_t recall_queued(struct dispatcher *dispatcher, bool check_groups, int64_t now_ms)
{
    struct recall recall = {dispatcher, check_groups, now_ms, now_ms};
    size_t count = pool_each_queued(dispatcher->pool, recall_slot, &recall, dispatcher->taken);

    for (size_t i = 0; i < count; i++)
        writeback_add(&dispatcher->writeback, dispatcher->taken[i], now_ms);
    return recall.oldest_due_ms;
}

struct scene_reading {
    struct dispatcher *dispatcher;
    enum rc rc;
    struct err *err;
};

static void on_scene(void *ctx, const struct scene_row *row)
{
    struct scene_reading *reading = ctx;

    if (reading->rc == RC_OK)
        reading->rc = scenes_take(&reading->dispatcher->scenes, row, reading->err);
}

/* Invariant Q5: a recorded change is in force. The recorded number is read from the table each
 * time, so that a heartbeat row that was deleted gets its record again. */
static enum rc record_change(struct dispatcher *dispatcher, const struct scene_change *change,
                             struct err *err)
{
    if (change->recorded == change->number)
        return RC_OK;
    return dispatcher->store.record(dispatcher->store.ctx, change->number, err);
}

static void on_handler(void *ctx, const char *handler)
{
    struct scenes_served *served = ctx;

    scenes_served_add(served, handler);
}

/* Which handlers live processes run: a scene's rate is shared among those. */
static enum rc read_served(struct dispatcher *dispatcher, struct err *err)
{
    struct scenes_served served = {0};
    enum rc rc = dispatcher->store.handlers(dispatcher->store.ctx,
                                            dispatcher->pool->settings->retry.lease_ms, on_handler,
                                            &served, err);

    if (rc == RC_OK)
        dispatcher->scenes.served = served;
    return rc;
}

static enum rc on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    return groups_take(ctx, group, err);
}

static enum rc read_groups(struct dispatcher *dispatcher, struct err *err)
{
    enum rc rc;

    groups_begin(&dispatcher->groups);
    rc = dispatcher->store.groups(dispatcher->store.ctx, on_group, &dispatcher->groups, err);
    if (rc == RC_OK && groups_end(&dispatcher->groups))
        dispatcher->groups_changed = true;
    return rc;
}

/* Invariant Q5: after a failed reading of the scenes and groups the dispatcher claims nothing until
 * a reading succeeds. An operator may have paused a scene or closed a group, and the next reading
 * may come seconds later. */
static void read_scenes(struct dispatcher *dispatcher, int64_t now_ms)
{
    struct err err = {0};
    struct scene_reading reading = {dispatcher, RC_OK, &err};
    struct scene_change change = {0};
    enum rc rc;

    if (now_ms < dispatcher->calls.at_ms[POOL_SCENES])
        return;
    dispatcher->calls.at_ms[POOL_SCENES] = now_ms + SCENES_EVERY_MS;
    scenes_begin(&dispatcher->scenes);
    rc = read_served(dispatcher, &err);
    if (rc == RC_OK)
        rc = dispatcher->store.scenes(dispatcher->store.ctx, on_scene, &reading, &change, &err);
    if (rc == RC_OK)
        rc = reading.rc;
    if (rc == RC_OK)
        rc = read_groups(dispatcher, &err);
    if (rc == RC_OK)
        rc = scenes_end(&dispatcher->scenes, &err);
    dispatcher->scenes_read = rc == RC_OK;
    if (rc == RC_OK) {
        recall_queued(dispatcher, dispatcher->groups_changed, now_ms);
        dispatcher->groups_changed = false;
        rc = record_change(dispatcher, &change, &err);
    }
    if (rc == RC_OK) {
        pool_call_worked(&dispatcher->calls, POOL_SCENES, now_ms);
        return;
    }
    pool_call_failed(&dispatcher->calls, POOL_SCENES, rc, &err, now_ms);
    /* A record that fails must not put off the next reading. */
    if (dispatcher->scenes_read && dispatcher->calls.at_ms[POOL_SCENES] > now_ms + SCENES_EVERY_MS)
        dispatcher->calls.at_ms[POOL_SCENES] = now_ms + SCENES_EVERY_MS;
}

static void rescue_tasks(struct dispatcher *dispatcher, int64_t now_ms)
{
    size_t rows_max = (size_t)dispatcher->pool->settings->retry.batch_rows_max;
    struct err err = {0};
    size_t shortened = 0;
    size_t count = 0;
    enum rc rc;

    if (now_ms < dispatcher->calls.at_ms[POOL_RESCUE])
        return;
    rc = dispatcher->store.rescue(dispatcher->store.ctx, rows_max, &count, &shortened, &err);
    if (rc != RC_OK) {
        pool_call_failed(&dispatcher->calls, POOL_RESCUE, rc, &err, now_ms);
        return;
    }
    pool_call_worked(&dispatcher->calls, POOL_RESCUE, now_ms);
    if (shortened > 0) {
        err_set(&err,
                "the database clock was set back: leases of %zu tasks ended too far in the future; "
                "they were shortened to their length from now",
                shortened);
        condition_fail(&dispatcher->pool->clock, now_ms, &err);
    } else {
        condition_ok(&dispatcher->pool->clock, now_ms);
    }
    metric_add(&retry_rescued, (int64_t)count);
    if (count < rows_max)
        dispatcher->calls.at_ms[POOL_RESCUE] = now_ms + dispatcher->pool->settings->retry.rescue_ms;
}

struct expiry_claim {
    struct dispatcher *dispatcher;
    struct scene *scene;
    int64_t now_ms;
};

/* Its kind may be one that this process does not run, or one of another process' shards. */
static void on_expired(void *ctx, const struct task_row *row)
{
    struct expiry_claim *expiry_claim = ctx;
    struct dispatcher *dispatcher = expiry_claim->dispatcher;
    struct task_class class = {.shard = row->shard};
    struct kind *kind;

    if (strlen(row->handler) >= sizeof(class.handler))
        return;
    snprintf(class.handler, sizeof(class.handler), "%s", row->handler);
    snprintf(class.group, sizeof(class.group), "%s", expiry_claim->scene->group);
    snprintf(class.scene, sizeof(class.scene), "%s", expiry_claim->scene->name);
    kind = scenes_kind(&dispatcher->scenes, &class, dispatcher->looks, expiry_claim->now_ms);
    /* If there are too many kinds, the task becomes free when its lease ends. */
    if (kind)
        task_slots_claim(&dispatcher->slots, kind, row, expiry_claim->now_ms);
}

/* After a claim or a write-back that found a changed scene: reads the scenes and looks for its
 * tasks at once. While a reading fails nothing is claimed, and the next one keeps its time. */
static void hasten_reading(struct dispatcher *dispatcher, int64_t now_ms)
{
    if (!dispatcher->slots.stale_scene)
        return;
    dispatcher->slots.stale_scene = false;
    if (!dispatcher->scenes_read)
        return;
    dispatcher->calls.at_ms[POOL_SCENES] = now_ms + 1;
    dispatcher->writeback.more_due = true;
}

/* A task that is in flight here continues; it expires when it would begin. */
static void end_expired(struct dispatcher *dispatcher, int64_t now_ms)
{
    for (size_t i = 0; i < dispatcher->slots.claimed_count; i++) {
        struct slot *slot = dispatcher->slots.claimed[i].slot;

        if (dispatcher->slots.claimed[i].known)
            continue;
        memset(&slot->attempt_result, 0, sizeof(slot->attempt_result));
        slot->attempt_result.end = ATTEMPT_CUT;
        writeback_add(&dispatcher->writeback, slot, now_ms);
    }
    metric_add(&retry_claimed, (int64_t)dispatcher->slots.claimed_count);
}

/* False when the store failed, or when there is no room. *full: there may be more. */
static bool expire_scene(struct dispatcher *dispatcher, struct scene *scene, bool *full,
                         int64_t now_ms)
{
    int64_t sent_ms = pool_now(dispatcher->pool, now_ms);
    struct expiry_claim expiry_claim = {dispatcher, scene, sent_ms};
    const struct task_age age = {scene->group, scene->name, scene->policy.age_ms_max};
    size_t rows = (size_t)dispatcher->pool->settings->retry.batch_rows_max;
    struct err err = {0};
    bool more = false;
    enum rc rc;

    if (rows > dispatcher->slots.free_count)
        rows = dispatcher->slots.free_count;
    if (rows == 0)
        return false;
    task_slots_begin(&dispatcher->slots);
    rc = dispatcher->store.claim_expired(dispatcher->store.ctx, &age, rows, scene->policy.lease_ms,
                                         on_expired, &expiry_claim, &more, &err);
    if (rc != RC_OK) {
        task_slots_drop(&dispatcher->slots);
        pool_call_failed(&dispatcher->calls, POOL_EXPIRE, rc, &err, now_ms);
        return false;
    }
    pool_call_worked(&dispatcher->calls, POOL_EXPIRE, now_ms);
    /* The next task of the ended task's key may be due now. */
    *full = *full || more || dispatcher->slots.claimed_count > 0;
    task_slots_lease(&dispatcher->slots, sent_ms, scene->policy.lease_ms);
    end_expired(dispatcher, sent_ms);
    hasten_reading(dispatcher, now_ms);
    return true;
}

/* Ends tasks that wait and are older than the deadline of their scene, whichever process would run
 * them: claims them, and decides them as exhausted without a run. A bounded number of scenes. */
static void expire_tasks(struct dispatcher *dispatcher, int64_t now_ms)
{
    size_t scenes = 0;
    bool full = false;

    if (now_ms < dispatcher->calls.at_ms[POOL_EXPIRE])
        return;
    dispatcher->calls.at_ms[POOL_EXPIRE] = now_ms + EXPIRE_EVERY_MS;
    for (size_t i = 0; i < SCENES_CHAINS && scenes < EXPIRE_SCENES_MAX; i++) {
        size_t chain = dispatcher->expire_chain;

        for (struct scene *scene = dispatcher->scenes.chains[chain]; scene; scene = scene->next) {
            if (scene->faulty || scene->stale || scene->policy.age_ms_max == 0)
                continue;
            scenes++;
            if (!expire_scene(dispatcher, scene, &full, now_ms))
                return;
        }
        dispatcher->expire_chain = (chain + 1) % SCENES_CHAINS;
    }
    if (full)
        dispatcher->calls.at_ms[POOL_EXPIRE] = now_ms + 1;
}

/* Deletes done tasks from the history when their time has passed. The next ones follow at once
 * while there are more. */
static void forget_done(struct dispatcher *dispatcher, int64_t now_ms)
{
    struct err err = {0};
    size_t count = 0;
    enum rc rc;

    if (now_ms < dispatcher->calls.at_ms[POOL_FORGET])
        return;
    rc = dispatcher->store.forget(dispatcher->store.ctx, FORGET_ROWS_MAX, &count, &err);
    if (rc != RC_OK) {
        pool_call_failed(&dispatcher->calls, POOL_FORGET, rc, &err, now_ms);
        return;
    }
    pool_call_worked(&dispatcher->calls, POOL_FORGET, now_ms);
    dispatcher->calls.at_ms[POOL_FORGET] = now_ms + (count < FORGET_ROWS_MAX ? FORGET_EVERY_MS : 1);
}

struct class_scan {
    struct dispatcher *dispatcher;
    int64_t now_ms;
};

static void on_class(void *ctx, const struct task_class *class, int64_t due_in_ms)
{
    struct class_scan *class_scan = ctx;
    struct dispatcher *dispatcher = class_scan->dispatcher;
    struct dispatcher_class *one;
    struct kind *kind;

    if (dispatcher->class_count == RETRY_CLASSES_MAX || class->shard >= TASK_SHARDS)
        return;
    kind = scenes_kind(&dispatcher->scenes, class, dispatcher->looks, class_scan->now_ms);
    if (!kind)
        return;
    groups_update_kind(&dispatcher->groups, kind);
    one = &dispatcher->classes[dispatcher->class_count++];
    one->class = *class;
    one->kind = kind;
    one->due_ms = class_scan->now_ms + due_in_ms;
}

/* The class may be claimed from, once it is due. */
static bool may_claim(const struct dispatcher *dispatcher, const struct dispatcher_class *class,
                      int64_t now_ms)
{
    const struct kind *kind = class->kind;

    return kind->handler &&
           pool_holds(dispatcher->pool, kind->handler_at, kind_shard(kind, class->class.shard),
                      now_ms) &&
           kind->group_decision != GROUP_CLOSED && !kind->scene->paused && !kind->scene->faulty &&
           !kind->scene->stale && now_ms >= kind->rest_until_ms;
}

static int compare_due(const void *one, const void *two)
{
    const struct dispatcher_class *a = one;
    const struct dispatcher_class *b = two;

    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    return (int)a->class.shard - (int)b->class.shard;
}

static void set_oldest_age(struct dispatcher *dispatcher, int64_t now_ms)
{
    int64_t oldest_ms = recall_queued(dispatcher, false, now_ms);

    for (size_t i = 0; i < dispatcher->class_count; i++) {
        const struct dispatcher_class *class = &dispatcher->classes[i];

        if (class->due_ms < oldest_ms && may_claim(dispatcher, class, now_ms))
            oldest_ms = class->due_ms;
    }
    atomic_store(&dispatcher->pool->oldest_age, now_ms - oldest_ms);
}

static int64_t draw_poll_wait_ms(struct dispatcher *dispatcher)
{
    const struct settings *settings = dispatcher->pool->settings;
    int64_t poll_ms = settings->retry.poll_ms;
    int64_t jitter_ms = poll_ms * settings->retry.poll_jitter_percent / 100;

    return poll_ms + (int64_t)(rng_next(&dispatcher->rng) % (uint64_t)(jitter_ms + 1));
}

/* The next search comes one poll later, or when the next task is due that this process may
 * claim. */
static void plan_look(struct dispatcher *dispatcher, int64_t from_ms, int64_t now_ms)
{
    dispatcher->look_at_ms = from_ms + draw_poll_wait_ms(dispatcher);
    for (size_t i = 0; i < dispatcher->class_count; i++) {
        const struct dispatcher_class *class = &dispatcher->classes[i];

        if (class->due_ms > now_ms && class->due_ms < dispatcher->look_at_ms &&
            may_claim(dispatcher, class, now_ms))
            dispatcher->look_at_ms = class->due_ms;
    }
    if (dispatcher->look_at_ms < now_ms + LOOK_MS_MIN)
        dispatcher->look_at_ms = now_ms + LOOK_MS_MIN;
}

static void look_for_classes(struct dispatcher *dispatcher, int64_t now_ms)
{
    struct class_scan class_scan = {dispatcher, now_ms};
    struct err err = {0};
    enum rc rc;

    if (dispatcher->writeback.more_due &&
        dispatcher->looked_ms + LOOK_MS_MIN < dispatcher->look_at_ms)
        dispatcher->look_at_ms = dispatcher->looked_ms + LOOK_MS_MIN;
    dispatcher->writeback.more_due = false;
    if (now_ms < dispatcher->look_at_ms || now_ms < dispatcher->calls.at_ms[POOL_LOOK])
        return;
    dispatcher->looked_ms = now_ms;
    dispatcher->class_count = 0;
    dispatcher->class_at = 0;
    dispatcher->round_full = dispatcher->round_short = false;
    dispatcher->looks++;
    scenes_begin_look(&dispatcher->scenes);
    rc = dispatcher->store.look(dispatcher->store.ctx, on_class, &class_scan, &err);
    if (rc != RC_OK) {
        dispatcher->class_count = 0;
        pool_call_failed(&dispatcher->calls, POOL_LOOK, rc, &err, now_ms);
        return;
    }
    pool_call_worked(&dispatcher->calls, POOL_LOOK, now_ms);
    qsort(dispatcher->classes, dispatcher->class_count, sizeof(*dispatcher->classes), compare_due);
    set_oldest_age(dispatcher, now_ms);
    plan_look(dispatcher, now_ms, now_ms);
}

static int64_t min_i64(int64_t one, int64_t two)
{
    return one < two ? one : two;
}

/* A scene may use as much room as it leaves free (A. K. Choudhury, E. L. Hahne, "Dynamic Queue
 * Length Thresholds for Shared-Memory Packet Switches", 1998): one slow scene gets half of the
 * room, two get a third each, and there is always room for the first tasks of another scene. */
static int64_t compute_share(int64_t free, int64_t used)
{
    return free > used ? (free - used + 1) / 2 : 0;
}

static int64_t count_room(const struct dispatcher *dispatcher, const struct kind *kind)
{
    const struct scene *scene = kind->scene;
    int64_t rows = compute_share((int64_t)dispatcher->slots.free_count, (int64_t)scene->in_flight);
    int64_t bytes = compute_share(BYTES_MAX - dispatcher->slots.bytes, scene->bytes);

    return bytes > 0 ? min_i64(rows, 1 + bytes / (kind->task_bytes + 1)) : 0;
}

/* How many of this class may be claimed now. */
static size_t count_rows(struct dispatcher *dispatcher, const struct dispatcher_class *class,
                         int64_t now_ms)
{
    struct kind *kind = class->kind;
    int64_t rows = dispatcher->pool->settings->retry.batch_rows_max;
    int64_t room;

    if (class->due_ms > now_ms || !may_claim(dispatcher, class, now_ms))
        return 0;
    rows = min_i64(rows, scenes_tokens(&dispatcher->scenes, kind->scene, now_ms));
    if (rows <= 0)
        return 0;
    room = count_room(dispatcher, kind);
    /* The class gets its turn as soon as tasks of the scene have ended. */
    if (room == 0)
        dispatcher->round_short = true;
    return (size_t)min_i64(rows, room);
}

struct class_claim {
    struct dispatcher *dispatcher;
    const struct dispatcher_class *class;
    int64_t now_ms;
};

static void on_task(void *ctx, const struct task_row *row)
{
    struct class_claim *class_claim = ctx;

    task_slots_claim(&class_claim->dispatcher->slots, class_claim->class->kind, row,
                     class_claim->now_ms);
}

static void queue_claimed_tasks(struct dispatcher *dispatcher, int64_t now_ms)
{
    size_t count = 0;

    for (size_t i = 0; i < dispatcher->slots.claimed_count; i++)
        if (!dispatcher->slots.claimed[i].known)
            count +=
                writeback_begin(&dispatcher->writeback, dispatcher->slots.claimed[i].slot, now_ms);
    pool_wake(dispatcher->pool, count);
    metric_add(&retry_claimed, (int64_t)dispatcher->slots.claimed_count);
}

/* False when the store failed. */
static bool claim_class(struct dispatcher *dispatcher, struct dispatcher_class *class, size_t rows,
                        int64_t now_ms)
{
    struct class_claim class_claim = {dispatcher, class, now_ms};
    int64_t lease_ms = class->kind->scene->policy.lease_ms;
    int64_t sent_ms = pool_now(dispatcher->pool, now_ms);
    struct err err = {0};
    bool full = false;
    size_t count;
    enum rc rc;

    class_claim.now_ms = sent_ms;
    task_slots_begin(&dispatcher->slots);
    rc = dispatcher->store.claim(dispatcher->store.ctx, &class->class, rows, lease_ms, on_task,
                                 &class_claim, &full, &err);
    if (rc != RC_OK) {
        task_slots_drop(&dispatcher->slots);
        pool_call_failed(&dispatcher->calls, POOL_CLAIM, rc, &err, now_ms);
        return false;
    }
    pool_call_worked(&dispatcher->calls, POOL_CLAIM, now_ms);
    count = dispatcher->slots.claimed_count;
    bucket_spend(&class->kind->scene->bucket, (int64_t)count);
    task_slots_lease(&dispatcher->slots, sent_ms, lease_ms);
    queue_claimed_tasks(dispatcher, now_ms);
    hasten_reading(dispatcher, now_ms);
    if (full && count > 0)
        dispatcher->round_full = true;
    else
        class->due_ms = INT64_MAX;
    return true;
}

/* A bounded number of claims of the round. False: the round is over. */
static bool claim_from_classes(struct dispatcher *dispatcher, int64_t now_ms)
{
    size_t claims = 0;

    while (dispatcher->class_at < dispatcher->class_count) {
        struct dispatcher_class *class = &dispatcher->classes[dispatcher->class_at];
        size_t rows;

        if (claims == CLAIMS_PER_STEP)
            return true;
        if (dispatcher->slots.free_count == 0)
            return true;
        rows = count_rows(dispatcher, class, now_ms);
        dispatcher->class_at++;
        if (rows == 0)
            continue;
        claims++;
        if (!claim_class(dispatcher, class, rows, now_ms))
            return true;
    }
    return false;
}

/* True: there is more to claim at once. */
static bool claim_round(struct dispatcher *dispatcher, int64_t now_ms)
{
    bool rate = strcmp(dispatcher->pool->settings->retry.poll_pace, "rate") == 0;
    bool again;
    bool more;

    if (now_ms < dispatcher->calls.at_ms[POOL_CLAIM] ||
        dispatcher->class_at >= dispatcher->class_count)
        return false;
    if (claim_from_classes(dispatcher, now_ms))
        return dispatcher->slots.free_count > 0 && now_ms >= dispatcher->calls.at_ms[POOL_CLAIM];
    /* The round is over. A class whose claim was full begins the next round at once; a class
     * without room begins it as soon as there is room. */
    again = dispatcher->round_full || dispatcher->round_short;
    dispatcher->class_at = again ? 0 : dispatcher->class_count;
    more = dispatcher->round_full;
    dispatcher->round_full = dispatcher->round_short = false;
    if (again)
        return more;
    if (!rate)
        plan_look(dispatcher, pool_now(dispatcher->pool, now_ms), now_ms);
    return false;
}

struct depth_count {
    struct dispatcher *dispatcher;
    struct task_waits waits;
};

static void on_depth(void *ctx, const struct task_depth *depth)
{
    struct depth_count *depth_count = ctx;
    struct dispatcher *dispatcher = depth_count->dispatcher;
    const struct scene *scene =
        scenes_find(&dispatcher->scenes, depth->class->group, depth->class->scene);
    struct retry_scene_metrics *metrics =
        scene ? scene->metrics : retry_metrics_of(depth->class->group, depth->class->scene);
    bool served = scenes_serve(&dispatcher->scenes, depth->class->handler);
    struct err err;
    bool closed = groups_are_closed(&dispatcher->groups, depth->class, scene, &err);

    retry_depths_add(metrics, depth->state, depth->count, depth->oldest_ms,
                     scene ? scene->policy.pending_max : 0, served, closed);
    task_waits_add(&depth_count->waits, depth, scene, served, closed ? &err : NULL);
}

static bool add_task_age(void *ctx, struct slot *slot)
{
    const int64_t *now_ms = ctx;

    retry_depths_age(slot->kind->scene->metrics, *now_ms - slot->due_ms);
    return false;
}

/* Adds the ages of queued tasks to a count of all tasks, see retry_depths_begin(). */
static void add_queued_ages(struct dispatcher *dispatcher, int64_t now_ms)
{
    pool_each_queued(dispatcher->pool, add_task_age, &now_ms, dispatcher->taken);
}

/* For the metric, and for the reminder of the log. */
static void note_open_breakers(struct dispatcher *dispatcher, int64_t now_ms)
{
    const struct destination *open = destinations_find_open(&dispatcher->slots.destinations);
    struct err err = {0};

    metric_set(&retry_breakers_open_age, open ? now_ms - open->opened_ms : 0);
    if (!open) {
        condition_ok(&dispatcher->pool->destinations, now_ms);
        return;
    }
    err_set(&err, "%.100s: %s", open->name, open->why);
    condition_fail(&dispatcher->pool->destinations, now_ms, &err);
}

static void count_depths(struct dispatcher *dispatcher, int64_t now_ms)
{
    struct depth_count depth_count = {.dispatcher = dispatcher};
    struct err err = {0};
    enum rc rc;

    if (now_ms < dispatcher->calls.at_ms[POOL_DEPTHS])
        return;
    retry_depths_begin();
    rc = dispatcher->store.depths(dispatcher->store.ctx, on_depth, &depth_count, &err);
    if (rc != RC_OK) {
        pool_call_failed(&dispatcher->calls, POOL_DEPTHS, rc, &err, now_ms);
        return;
    }
    add_queued_ages(dispatcher, now_ms);
    note_open_breakers(dispatcher, now_ms);
    retry_depths_end();
    task_waits_report(&depth_count.waits, dispatcher->pool, dispatcher->scenes.left_out, now_ms);
    pool_call_worked(&dispatcher->calls, POOL_DEPTHS, now_ms);
    dispatcher->calls.at_ms[POOL_DEPTHS] = now_ms + DEPTHS_EVERY_MS;
}

static void take_done_slots(struct dispatcher *dispatcher, int64_t now_ms)
{
    size_t count =
        pool_take_done(dispatcher->pool, dispatcher->taken, dispatcher->pool->slot_count);

    for (size_t i = 0; i < count; i++)
        writeback_add(&dispatcher->writeback, dispatcher->taken[i], now_ms);
}

static void run_inline(struct dispatcher *dispatcher, int64_t now_ms)
{
    int64_t until_ms = now_ms + RUN_MS;
    int64_t at_ms = now_ms;

    while (at_ms < until_ms && pool_worker_run_one(&dispatcher->inline_worker, at_ms))
        at_ms = pool_now(dispatcher->pool, at_ms);
}

static int64_t find_rest_ms(const struct dispatcher *dispatcher, bool written, int64_t now_ms)
{
    int64_t at_ms = now_ms + POOL_WAIT_MS;

    if (!written && dispatcher->calls.at_ms[POOL_FINISH] < at_ms)
        at_ms = dispatcher->calls.at_ms[POOL_FINISH];
    if (dispatcher->look_at_ms < at_ms && dispatcher->look_at_ms > now_ms &&
        now_ms >= dispatcher->calls.at_ms[POOL_LOOK])
        at_ms = dispatcher->look_at_ms;
    if (dispatcher->claims_from_ms > now_ms && dispatcher->claims_from_ms < at_ms)
        at_ms = dispatcher->claims_from_ms;
    for (size_t i = 0; i < POOL_CALLS; i++)
        if (i != POOL_FINISH && dispatcher->calls.at_ms[i] < at_ms &&
            dispatcher->calls.at_ms[i] > now_ms)
            at_ms = dispatcher->calls.at_ms[i];
    return at_ms > now_ms ? at_ms - now_ms : 1;
}

/* The time before the first poll, so that what the tasks call can start as well. */
static bool is_before_first_poll(struct dispatcher *dispatcher, int64_t now_ms)
{
    if (dispatcher->claims_from_ms == 0)
        dispatcher->claims_from_ms = now_ms + dispatcher->pool->settings->retry.first_poll_ms;
    return now_ms < dispatcher->claims_from_ms;
}

/* Tasks that no worker has begun return to the table unchanged. */
static int64_t leave_step(struct dispatcher *dispatcher, int64_t now_ms)
{
    struct slot *slot;

    while ((slot = pool_take_queued(dispatcher->pool))) {
        slot->attempt_result.end = ATTEMPT_CUT;
        writeback_add(&dispatcher->writeback, slot, now_ms);
    }
    take_done_slots(dispatcher, now_ms);
    return writeback_write(&dispatcher->writeback, now_ms) ? POOL_WAIT_MS : 1;
}

static void set_gauges(const struct dispatcher *dispatcher, int64_t now_ms)
{
    const struct pool *pool = dispatcher->pool;

    for (size_t handler = 0; handler < pool->handlers->count; handler++) {
        if (!pool->handlers->opened[handler])
            continue;
        /* From here on nothing is claimed of it; the tasks in flight have leases of their own. */
        for (unsigned shard = 0; shard < TASK_SHARDS; shard++)
            if (!pool_holds(pool, handler, shard, now_ms))
                atomic_store(&pool_shard(pool, handler, shard)->idle, true);
        metric_set(retry_metrics_shards(pool->handlers->list[handler]->name),
                   pool_held(pool, handler, now_ms));
    }
    metric_set(&retry_in_flight,
               (int64_t)(dispatcher->pool->slot_count - dispatcher->slots.free_count));
}

static enum rc init_memory(struct dispatcher *dispatcher, struct err *err)
{
    size_t slots = dispatcher->pool->slot_count;

    dispatcher->classes = calloc(RETRY_CLASSES_MAX, sizeof(*dispatcher->classes));
    dispatcher->taken = calloc(slots, sizeof(struct slot *));
    if (dispatcher->classes && dispatcher->taken)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "out of memory for %zu tasks", slots);
}

enum rc dispatcher_init(struct dispatcher *dispatcher, struct pool *pool,
                        const struct retry_store *store, uint64_t seed, struct err *err)
{
    enum rc rc;

    memset(dispatcher, 0, sizeof(*dispatcher));
    dispatcher->pool = pool;
    dispatcher->store = *store;
    dispatcher->rng = seed;
    dispatcher->inline_worker.pool = pool;
    scenes_init(&dispatcher->scenes, pool, &dispatcher->groups);
    pool_calls_init(&dispatcher->calls, pool, &dispatcher->rng);
    rc = task_slots_init(&dispatcher->slots, pool, &dispatcher->groups, err);
    if (rc == RC_OK)
        rc = writeback_init(&dispatcher->writeback, &dispatcher->slots, &dispatcher->store,
                            &dispatcher->calls, &dispatcher->rng, err);
    if (rc == RC_OK)
        rc = init_memory(dispatcher, err);
    if (rc != RC_OK)
        dispatcher_done(dispatcher);
    return rc;
}

void dispatcher_done(struct dispatcher *dispatcher)
{
    writeback_done(&dispatcher->writeback);
    task_slots_done(&dispatcher->slots);
    scenes_done(&dispatcher->scenes);
    groups_done(&dispatcher->groups);
    free(dispatcher->classes);
    free(dispatcher->taken);
    memset(dispatcher, 0, sizeof(*dispatcher));
}

int64_t dispatcher_step(void *arg, int64_t now_ms)
{
    struct dispatcher *dispatcher = arg;
    bool more;
    bool written;

    if (atomic_load(&dispatcher->pool->leaving))
        return leave_step(dispatcher, now_ms);
    take_done_slots(dispatcher, now_ms);
    written = writeback_write(&dispatcher->writeback, now_ms);
    hasten_reading(dispatcher, now_ms);
    read_scenes(dispatcher, now_ms);
    rescue_tasks(dispatcher, now_ms);
    forget_done(dispatcher, now_ms);
    if (dispatcher->scenes_read) {
        expire_tasks(dispatcher, now_ms);
        look_for_classes(dispatcher, now_ms);
    }
    more = dispatcher->scenes_read && !is_before_first_poll(dispatcher, now_ms) &&
           claim_round(dispatcher, now_ms);
    count_depths(dispatcher, now_ms);
    set_gauges(dispatcher, now_ms);
    if (dispatcher->pool->workers == 0)
        run_inline(dispatcher, now_ms);
    if (more || !pool_may_sleep(dispatcher->pool))
        return 0;
    return find_rest_ms(dispatcher, written, now_ms);
}

void dispatcher_leave(struct dispatcher *dispatcher)
{
    atomic_store(&dispatcher->pool->leaving, true);
}

bool dispatcher_left(const struct dispatcher *dispatcher)
{
    return dispatcher->slots.free_count == dispatcher->pool->slot_count;
}
