/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_task_store.h"

#include "outbox/lease/lease_ops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DUPLICATE_CODE 1062

static int compare_classes(const struct task_class *a, const struct task_class *b)
{
    int order = strcmp(a->handler, b->handler);

    order = order != 0 ? order : strcmp(a->group, b->group);
    order = order != 0 ? order : strcmp(a->scene, b->scene);
    order = order != 0 ? order : strcmp(retry_owner_name(a->origin), retry_owner_name(b->origin));
    return order != 0 ? order : (a->shard > b->shard) - (a->shard < b->shard);
}

static bool is_waiting(const struct fake_task_version *version)
{
    return version->found && version->state == TASK_WAITING;
}

/* A class, and when its first task is due. */
struct found_class {
    const struct task_class *class;
    int64_t next_ms;
};

static int compare_found(const void *one, const void *other)
{
    const struct found_class *a = one;
    const struct found_class *b = other;

    return compare_classes(a->class, b->class);
}

static size_t find_classes(const struct fake_task_tables *tables,
                           struct found_class found[RETRY_CLASSES_MAX])
{
    size_t count = 0;

    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        const struct fake_task *task = fake_task_at(tables, id);
        size_t at = 0;

        if (!is_waiting(&task->old))
            continue;
        while (at < count && compare_classes(found[at].class, &task->class) != 0)
            at++;
        if (at == RETRY_CLASSES_MAX)
            continue;
        if (at == count)
            found[count++] = (struct found_class){&task->class, task->old.next_ms};
        if (task->old.next_ms < found[at].next_ms)
            found[at].next_ms = task->old.next_ms;
    }
    qsort(found, count, sizeof(*found), compare_found);
    return count;
}

static enum rc fake_look(void *ctx, retry_on_class on_class, void *on_class_ctx, struct err *err)
{
    static struct found_class found[RETRY_CLASSES_MAX]; /* too large for the stack of a fiber */
    struct fake_task_store *fake = ctx;
    size_t count;
    enum rc rc;

    fake->op = FAKE_TASKS_LOOK;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    count = find_classes(fake->tables, found);
    for (size_t i = 0; i < count; i++)
        on_class(on_class_ctx, found[i].class, found[i].next_ms - fake_now_ms(&fake->session));
    return fake_answer(&fake->session, err);
}

static enum rc fake_scenes(void *ctx, retry_on_scene on_scene, void *on_scene_ctx,
                           struct scene_change *change, struct err *err)
{
    struct fake_task_store *fake = ctx;
    const struct fake_task_tables *tables = fake->tables;
    struct scene_row row;
    enum rc rc;

    fake->op = FAKE_TASKS_SCENES;
    rc = fake_call(&fake->session, err);
    for (size_t n = 0; rc == RC_OK && n <= RETRY_SCENES_MAX; n++) {
        if (!tables->read_scene(tables->ctx, n, &row))
            break;
        on_scene(on_scene_ctx, &row);
    }
    *change = (struct scene_change){tables->scene_change, *fake->recorded};
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_record(void *ctx, int64_t change, struct err *err)
{
    struct fake_task_store *fake = ctx;
    enum rc rc;

    fake->op = FAKE_TASKS_RECORD;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    *fake->recorded = change;
    return fake_answer(&fake->session, err);
}

/* It is due and of the class, or too old and of the scene. */
static bool is_asked_for(const struct fake_task_store *fake, const struct fake_task *task)
{
    const struct fake_task_claim *claim = &fake->claim;
    int64_t now_ms = fake_now_ms(&fake->session);

    if (claim->age)
        return now_ms - task->old.age_from_ms >= claim->age->age_ms &&
               strcmp(task->class.group, claim->age->group) == 0 &&
               strcmp(task->class.scene, claim->age->scene) == 0;
    return task->class.shard == claim->class->shard && task->old.next_ms <= now_ms &&
           compare_classes(&task->class, claim->class) == 0;
}

static bool is_candidate(const struct fake_task_store *fake, const struct fake_task *task)
{
    bool is_skipped =
        task->row.owner && !fake->compare_and_set && !fake->tables->faults.claim_unlocked;

    return is_waiting(&task->old) && !is_skipped && is_asked_for(fake, task);
}

static int64_t order_ms(const struct fake_task_claim *claim, const struct fake_task *task)
{
    return claim->age ? task->old.age_from_ms : task->old.next_ms;
}

/* In the order of next_at, or of age_from, and id; behind the last place it is forgotten. */
static void put_candidate(struct fake_task_claim *claim, struct fake_task *task, size_t rows_max)
{
    size_t at = 0;

    while (at < claim->count && order_ms(claim, claim->tasks[at]) <= order_ms(claim, task))
        at++;
    if (at == rows_max)
        return;
    if (claim->count < rows_max)
        claim->count++;
    for (size_t i = claim->count - 1; i > at; i--)
        claim->tasks[i] = claim->tasks[i - 1];
    claim->tasks[at] = task;
}

/* SELECT ... ORDER BY ... LIMIT rows_max, and FOR UPDATE SKIP LOCKED where nothing will be
 * compared. */
static enum rc find_candidates(struct fake_task_store *fake, size_t rows_max, struct err *err)
{
    struct fake_task_claim *claim = &fake->claim;
    const struct fake_task_tables *tables = fake->tables;
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        struct fake_task *task = fake_task_at(tables, id);

        if (is_candidate(fake, task))
            put_candidate(claim, task, rows_max);
    }
    for (size_t i = 0; i < claim->count; i++)
        claim->epochs[i] = claim->tasks[i]->old.epoch;
    for (size_t i = 0; rc == RC_OK && i < claim->count && !fake->compare_and_set; i++)
        if (!claim->tasks[i]->row.owner)
            rc = fake_lock(&fake->session, &claim->tasks[i]->row, err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static size_t find_key(const struct fake_task_claim *claim, int64_t key)
{
    size_t at = 0;

    while (at < claim->key_count && claim->keys[at] < key)
        at++;
    return at;
}

static void list_key(struct fake_task_claim *claim, int64_t key)
{
    size_t at = find_key(claim, key);

    if (key == 0 || (at < claim->key_count && claim->keys[at] == key))
        return;
    memmove(&claim->keys[at + 1], &claim->keys[at],
            (claim->key_count++ - at) * sizeof(claim->keys[0]));
    claim->keys[at] = key;
}

static bool waits_or_queues(enum task_state state)
{
    return state == TASK_WAITING || state == TASK_QUEUED;
}

/* As held_on_row(). */
static enum rc hold_row(struct fake_task_store *fake, struct order_task *row, struct err *err)
{
    struct fake_task *task;
    enum rc rc;

    if (row->id == 0)
        return RC_OK;
    task = fake_task_at(fake->tables, row->id);
    if (!fake->compare_and_set && task->row.owner && !fake_owns(&fake->session, &task->row))
        return RC_OK;
    rc = fake_lock(&fake->session, &task->row, err);
    if (rc != RC_OK || !task->now.found ||
        waits_or_queues(task->now.state) != waits_or_queues(row->state))
        return rc;
    row->state = task->now.state;
    row->held = true;
    return RC_OK;
}

static enum rc hold_ahead(struct fake_task_store *fake, struct order_ahead *ahead, struct err *err)
{
    enum rc rc;

    if (fake->tables->faults.queue_unlocked) {
        ahead->busy.held = ahead->waiting.held = ahead->queued.held = true;
        return RC_OK;
    }
    rc = hold_row(fake, &ahead->busy, err);
    if (rc == RC_OK)
        rc = hold_row(fake, &ahead->waiting, err);
    return rc == RC_OK ? hold_row(fake, &ahead->queued, err) : rc;
}

/* Reads the tasks ahead in each key without a lock, and then locks those that are free. */
static enum rc find_ahead(struct fake_task_store *fake, struct err *err)
{
    struct fake_task_claim *claim = &fake->claim;
    enum rc rc = fake_call(&fake->session, err);

    claim->key_count = 0;
    for (size_t i = 0; i < claim->count; i++)
        list_key(claim, claim->tasks[i]->key);
    for (size_t i = 0; rc == RC_OK && i < claim->key_count; i++)
        fake_tasks_ahead(fake->tables, &fake->session, claim->keys[i], &claim->ahead[i]);
    if (rc == RC_OK)
        rc = fake_answer(&fake->session, err);
    if (rc == RC_OK)
        rc = fake_call(&fake->session, err);
    for (size_t i = 0; rc == RC_OK && i < claim->key_count; i++)
        rc = hold_ahead(fake, &claim->ahead[i], err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static void decide_candidates(struct fake_task_store *fake, size_t rows_max)
{
    struct fake_task_claim *claim = &fake->claim;

    for (size_t i = 0; i < claim->count; i++) {
        const struct fake_task *task = claim->tasks[i];

        claim->candidates[i].id = task->id;
        claim->candidates[i].key = task->key > 0 ? find_key(claim, task->key) : ORDER_NO_KEY;
    }
    order_decide(claim->candidates, claim->count, claim->ahead, rows_max);
    for (size_t i = 0; fake->tables->faults.blockers_ignored && i < claim->count; i++)
        claim->candidates[i].decision = ORDER_RUN;
}

static bool is_busy(const struct fake_task_version *version)
{
    return version->found && (version->state == TASK_RUNNING || version->state == TASK_BLOCKED ||
                              version->state == TASK_PARKED);
}

/* The unique key of running, blocked and parked tasks: waits for transactions that may have
 * inserted it. */
static enum rc check_busy(struct fake_task_store *fake, const struct fake_task *task,
                          struct err *err)
{
    const struct fake_task_tables *tables = fake->tables;

    if (task->key == 0 || tables->faults.busy_twice || tables->faults.blockers_ignored)
        return RC_OK;
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        struct fake_task *other = fake_task_at(tables, id);
        enum rc rc = RC_OK;

        if (other == task || other->key != task->key ||
            (!is_busy(&other->now) && !is_busy(&other->old)))
            continue;
        if (!fake_owns(&fake->session, &other->row))
            rc = fake_lock(&fake->session, &other->row, err);
        if (rc == RC_OK && is_busy(&other->now))
            rc = err_fail(err, RC_REJECT, DUPLICATE_CODE, "the key is busy");
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* UPDATE ... WHERE state = 0 AND id = ? AND epoch = ?: *taken, was it so? */
static enum rc compare_candidate(struct fake_task_store *fake, size_t i, bool *taken,
                                 struct err *err)
{
    const struct fake_task_claim *claim = &fake->claim;
    const struct fake_task_faults *faults = &fake->tables->faults;
    const struct fake_task *task = claim->tasks[i];
    enum order_decision decision = claim->candidates[i].decision;
    enum rc rc = RC_OK;

    *taken = true;
    if (fake->compare_and_set || faults->claim_unlocked)
        rc = fake_lock(&fake->session, &claim->tasks[i]->row, err);
    if (rc == RC_OK && fake->compare_and_set && !faults->claim_uncompared)
        *taken = is_waiting(&task->now) &&
                 (decision == ORDER_QUEUE || task->now.epoch == claim->epochs[i]);
    if (rc == RC_OK && *taken && decision == ORDER_RUN)
        rc = check_busy(fake, task, err);
    if (rc == RC_REJECT && fake->compare_and_set) {
        *taken = false;
        return RC_OK;
    }
    return rc == RC_REJECT ? RC_RETRY : rc;
}

static void take_candidate(struct fake_task_store *fake, size_t i)
{
    const struct fake_task_claim *claim = &fake->claim;
    struct fake_task *task = claim->tasks[i];

    task->now.state = claim->candidates[i].decision == ORDER_RUN ? TASK_RUNNING : TASK_QUEUED;
    if (task->now.state == TASK_RUNNING) {
        task->now.expired = claim->age != NULL;
        task->now.epoch++;
        task->now.lease_until_ms = fake_now_ms(&fake->session) + claim->lease_ms;
        task->now.lease_ms = claim->lease_ms;
        task->now.owner = fake->owner;
        if (fake->on_lease)
            fake->on_lease(fake->ctx, task);
    }
    fake_task_write(fake->tables, &fake->session, task);
}

static enum rc write_claim(struct fake_task_store *fake, struct err *err)
{
    struct fake_task_claim *claim = &fake->claim;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < claim->count; i++) {
        bool taken = false;

        if (claim->candidates[i].decision == ORDER_LEAVE)
            continue;
        rc = compare_candidate(fake, i, &taken, err);
        if (rc != RC_OK)
            break;
        if (taken)
            take_candidate(fake, i);
        else
            claim->candidates[i].decision = ORDER_LEAVE;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static void show_task(const struct fake_task_store *fake, const struct fake_task *task,
                      retry_on_task on_task, void *on_task_ctx)
{
    struct task_row row = {
        .id = task->id,
        .epoch = task->now.epoch,
        .handler = task->class.handler,
        .shard = task->class.shard,
        .attempts = task->now.attempts,
        .made_ms = task->now.age_from_ms,
        .due_ms = task->now.next_ms,
        .now_ms = fake_now_ms(&fake->session),
        .step = task->now.step,
        .waited = task->now.waited,
        .scene_version = fake_task_scene_version(fake->tables, task),
    };

    fake->show(fake->ctx, task, &row);
    on_task(on_task_ctx, &row);
}

static enum rc run_claim(struct fake_task_store *fake, size_t rows_max, retry_on_task on_task,
                         void *on_task_ctx, bool *full, struct err *err)
{
    struct fake_task_claim *claim = &fake->claim;
    enum rc rc = fake_begin(&fake->session, err);

    assert(rows_max >= 1 && rows_max <= RETRY_CLAIM_ROWS_MAX);
    *full = false;
    claim->count = 0;
    if (rc == RC_OK)
        rc = find_candidates(fake, rows_max, err);
    if (rc == RC_OK && claim->count > 0)
        rc = find_ahead(fake, err);
    if (rc == RC_OK && claim->count > 0) {
        decide_candidates(fake, rows_max);
        rc = write_claim(fake, err);
    }
    if (rc == RC_OK)
        rc = fake_commit(&fake->session, err);
    if (rc != RC_OK) {
        fake_rollback(&fake->session);
        return rc;
    }
    *full = claim->count == rows_max;
    for (size_t i = 0; i < claim->count; i++)
        if (claim->candidates[i].decision == ORDER_RUN)
            show_task(fake, claim->tasks[i], on_task, on_task_ctx);
    return RC_OK;
}

enum rc fake_task_claim_made(struct fake_task_store *fake, struct fake_task *task, int64_t lease_ms,
                             retry_on_task on_task, void *on_task_ctx, struct err *err)
{
    struct fake_task_claim *claim = &fake->claim;
    enum rc rc;

    claim->class = NULL;
    claim->age = NULL;
    claim->lease_ms = lease_ms;
    claim->count = 1;
    claim->tasks[0] = task;
    claim->epochs[0] = task->now.epoch;
    rc = find_ahead(fake, err);
    if (rc == RC_OK) {
        decide_candidates(fake, 1);
        if (fake->tables->faults.made_unordered)
            claim->candidates[0].decision = ORDER_RUN;
        rc = write_claim(fake, err);
    }
    if (rc == RC_OK && claim->candidates[0].decision == ORDER_RUN)
        show_task(fake, task, on_task, on_task_ctx);
    return rc;
}

static enum rc fake_claim(void *ctx, const struct task_class *class, size_t rows_max,
                          int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                          struct err *err)
{
    struct fake_task_store *fake = ctx;

    fake->op = FAKE_TASKS_CLAIM;
    fake->claim.class = class;
    fake->claim.age = NULL;
    fake->claim.lease_ms = lease_ms;
    return run_claim(fake, rows_max, on_task, on_task_ctx, full, err);
}

/* As claim_expired_tasks(): mostly there is none, and no transaction is begun for that. */
static enum rc find_expired(struct fake_task_store *fake, bool *any, struct err *err)
{
    const struct fake_task_tables *tables = fake->tables;
    enum rc rc = fake_call(&fake->session, err);

    *any = false;
    for (int64_t id = tables->first_live; id < tables->id_next && !*any; id++) {
        const struct fake_task *task = fake_task_at(tables, id);

        *any = is_waiting(&task->old) && is_asked_for(fake, task);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_claim_expired(void *ctx, const struct task_age *age, size_t rows_max,
                                  int64_t lease_ms, retry_on_task on_task, void *on_task_ctx,
                                  bool *full, struct err *err)
{
    struct fake_task_store *fake = ctx;
    bool any;
    enum rc rc;

    assert(age);
    fake->op = FAKE_TASKS_CLAIM_EXPIRED;
    fake->claim.class = NULL;
    fake->claim.age = age;
    fake->claim.lease_ms = lease_ms;
    *full = false;
    rc = find_expired(fake, &any, err);
    if (rc != RC_OK || !any)
        return rc;
    return run_claim(fake, rows_max, on_task, on_task_ctx, full, err);
}

static bool is_counted(const struct task_update *update)
{
    return update->outcome &&
           (strcmp(update->outcome, "failed") == 0 || strcmp(update->outcome, "rejected") == 0);
}

/* The task is in retry_task as before, in this state since next_ms, or until then. */
static void change_state(struct fake_task_store *fake, struct fake_task *task,
                         enum task_state state, int64_t next_ms)
{
    task->now.state = state;
    task->now.next_ms = next_ms;
    fake_task_write(fake->tables, &fake->session, task);
}

static void write_update(struct fake_task_store *fake, struct fake_task *task,
                         const struct task_update *update)
{
    int64_t now_ms = fake_now_ms(&fake->session);
    struct fake_task_version *now = &task->now;

    now->failed_rows += is_counted(update);
    now->snoozed_rows += update->outcome && strcmp(update->outcome, "snoozed") == 0;
    if (update->end != TASK_END_BACK)
        now->attempts = update->attempts;
    now->dedup_until_ms = update->dedup_ms > 0 ? now_ms + update->dedup_ms : 0;
    switch (update->end) {
    case TASK_END_DONE:
        now->keep_until_ms = update->keep_ms > 0 ? now_ms + update->keep_ms : 0;
        fake_task_end(fake->tables, &fake->session, task, FAKE_TASK_DONE, update->keep);
        return;
    case TASK_END_STEP:
        now->step++;
        now->failed_rows = 0;
        change_state(fake, task, TASK_WAITING, now_ms);
        return;
    case TASK_END_AGAIN:
        now->first_waits += !update->outcome && !*update->reason_class;
        now->waited = !fake->tables->faults.wait_unmarked;
        change_state(fake, task, TASK_WAITING, now_ms + update->delay_ms);
        return;
    case TASK_END_BACK:
        change_state(fake, task, TASK_WAITING, now->next_ms);
        return;
    case TASK_END_PARK:
        now->kept = true;
        change_state(fake, task, TASK_PARKED, now_ms);
        return;
    case TASK_END_BLOCK:
        change_state(fake, task, TASK_BLOCKED, now_ms);
        return;
    case TASK_END_SKIP:
        fake_task_end(fake->tables, &fake->session, task, FAKE_TASK_EXHAUSTED, true);
        return;
    case TASK_END_DUPLICATE:
        now->keep_until_ms = update->keep_ms > 0 ? now_ms + update->keep_ms : 0;
        fake_task_end(fake->tables, &fake->session, task, FAKE_TASK_DUPLICATE, true);
        return;
    }
}

static enum rc finish_one(struct fake_task_store *fake, const struct task_update *update,
                          enum task_written *written, struct err *err)
{
    struct fake_task *task = fake_task_at(fake->tables, update->id);
    enum rc rc = fake_lock(&fake->session, &task->row, err);

    if (rc != RC_OK)
        return rc;
    *written = TASK_WRITTEN;
    if (!task->now.found || task->now.state != TASK_RUNNING ||
        (task->now.epoch != update->epoch && !fake->tables->faults.finish_unfenced))
        *written = TASK_LOST;
    else if (task_end_exhausts(update->end) &&
             fake_task_scene_version(fake->tables, task) != update->scene_version)
        *written = TASK_OUTDATED;
    if (*written != TASK_WRITTEN)
        return RC_OK;
    if (fake->on_update)
        fake->on_update(fake->ctx, task, update);
    write_update(fake, task, update);
    if (update->callback_scene && fake->make_callback)
        rc = fake->make_callback(fake->ctx, task, update, err);
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

static enum rc fake_finish(void *ctx, const struct task_update *updates, size_t count,
                           enum task_written *written, struct err *err)
{
    struct fake_task_store *fake = ctx;
    size_t order[RETRY_UPDATES_MAX];
    enum rc rc;

    fake->op = FAKE_TASKS_FINISH;
    assert(count >= 1 && count <= RETRY_UPDATES_MAX);
    rc = fake_begin(&fake->session, err);
    sort_by_id(updates, count, order);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        size_t at = order[i];

        rc = fake_call(&fake->session, err);
        if (rc == RC_OK)
            rc = finish_one(fake, &updates[at], &written[at], err);
        if (rc == RC_OK)
            rc = fake_answer(&fake->session, err);
    }
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        if (written[i] == TASK_WRITTEN && updates[i].end != TASK_END_PARK &&
            updates[i].end != TASK_END_BLOCK)
            rc = fake_task_wake(fake->tables, &fake->session,
                                fake_task_at(fake->tables, updates[i].id)->key, err);
    if (rc == RC_OK && fake->on_finish)
        fake->on_finish(fake->ctx);
    if (rc == RC_OK)
        rc = fake_commit(&fake->session, err);
    if (rc != RC_OK)
        fake_rollback(&fake->session);
    return rc;
}

static enum rc fake_renew(void *ctx, const int64_t *ids, const int64_t *epochs, size_t count,
                          int64_t lease_ms, bool *lost, struct err *err)
{
    struct fake_task_store *fake = ctx;
    enum rc rc;

    fake->op = FAKE_TASKS_RENEW;
    rc = fake_begin(&fake->session, err);
    if (rc == RC_OK)
        rc = fake_call(&fake->session, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_task *task = fake_task_at(fake->tables, ids[i]);

        rc = fake_lock(&fake->session, &task->row, err);
        if (rc != RC_OK)
            break;
        lost[i] =
            !task->now.found || task->now.state != TASK_RUNNING || task->now.epoch != epochs[i];
        if (lost[i])
            continue;
        task->now.lease_until_ms = fake_now_ms(&fake->session) + lease_ms;
        if (fake->on_lease)
            fake->on_lease(fake->ctx, task);
        fake_task_write(fake->tables, &fake->session, task);
    }
    if (rc == RC_OK)
        rc = fake_answer(&fake->session, err);
    if (rc == RC_OK)
        rc = fake_commit(&fake->session, err);
    if (rc != RC_OK)
        fake_rollback(&fake->session);
    return rc;
}

/* True: the task runs under a lease that has ended, or under one that is implausible. */
static bool is_overdue(const struct fake_task_store *fake, const struct fake_task_version *version)
{
    return version->found && version->state == TASK_RUNNING &&
           version->lease_until_ms <= fake_now_ms(&fake->session);
}

static bool is_implausible(const struct fake_task_store *fake,
                           const struct fake_task_version *version)
{
    return version->found && version->state == TASK_RUNNING &&
           version->lease_until_ms >
               fake_now_ms(&fake->session) + version->lease_ms * LEASE_LENGTHS_MAX;
}

static void rescue_one(struct fake_task_store *fake, struct fake_task *task)
{
    int64_t now_ms = fake_now_ms(&fake->session);

    task->now.state = TASK_WAITING;
    task->now.next_ms = task->now.next_ms < now_ms ? task->now.next_ms : now_ms;
    task->now.attempts += fake->tables->faults.rescue_counts;
    fake_task_write(fake->tables, &fake->session, task);
    if (fake->on_rescue)
        fake->on_rescue(fake->ctx, task);
}

/* Shortens or rescues the rows that no other transaction has locked; lists the keys of the latter.
 */
static enum rc rescue_some(struct fake_task_store *fake, size_t rows_max, size_t *count,
                           size_t *shortened, struct err *err)
{
    struct fake_task_tables *tables = fake->tables;
    enum rc rc = fake_call(&fake->session, err);

    fake->claim.key_count = 0;
    for (int64_t id = tables->first_live; rc == RC_OK && id < tables->id_next; id++) {
        struct fake_task *task = fake_task_at(tables, id);
        bool implausible = *shortened < rows_max && is_implausible(fake, &task->old);

        if (task->row.owner ||
            (!implausible && (*count == rows_max || !is_overdue(fake, &task->old))))
            continue;
        rc = fake_lock(&fake->session, &task->row, err);
        if (rc != RC_OK)
            break;
        if (implausible) {
            task->now.lease_until_ms = fake_now_ms(&fake->session) + task->now.lease_ms;
            fake_task_write(tables, &fake->session, task);
            ++*shortened;
            continue;
        }
        rescue_one(fake, task);
        list_key(&fake->claim, task->key);
        ++*count;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_rescue(void *ctx, size_t rows_max, size_t *count, size_t *shortened,
                           struct err *err)
{
    struct fake_task_store *fake = ctx;
    enum rc rc;

    fake->op = FAKE_TASKS_RESCUE;
    *count = *shortened = 0;
    if (rows_max > RETRY_CLAIM_ROWS_MAX)
        rows_max = RETRY_CLAIM_ROWS_MAX;
    rc = fake_begin(&fake->session, err);
    if (rc == RC_OK)
        rc = rescue_some(fake, rows_max, count, shortened, err);
    for (size_t i = 0; rc == RC_OK && i < fake->claim.key_count; i++)
        rc = fake_task_wake(fake->tables, &fake->session, fake->claim.keys[i], err);
    if (rc == RC_OK)
        rc = fake_commit(&fake->session, err);
    if (rc != RC_OK)
        fake_rollback(&fake->session);
    return rc;
}

static bool is_forgotten(const struct fake_task_store *fake, const struct fake_task_version *task)
{
    return task->kept && task->keep_until_ms > 0 &&
           task->keep_until_ms <= fake_now_ms(&fake->session);
}

/* Deletes from the history what no other transaction has locked. */
static enum rc forget_some(struct fake_task_store *fake, size_t rows_max, size_t *count,
                           struct err *err)
{
    struct fake_task_tables *tables = fake->tables;
    enum rc rc = fake_call(&fake->session, err);

    for (int64_t id = 1; rc == RC_OK && id < tables->id_next && *count < rows_max; id++) {
        struct fake_task *task = fake_task_at(tables, id);

        if (task->row.owner || !is_forgotten(fake, &task->old))
            continue;
        rc = fake_lock(&fake->session, &task->row, err);
        if (rc != RC_OK)
            break;
        task->now.kept = false;
        fake_task_write(tables, &fake->session, task);
        ++*count;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static bool has_forgotten(const struct fake_task_store *fake)
{
    for (int64_t id = 1; id < fake->tables->id_next; id++)
        if (is_forgotten(fake, &fake_task_at(fake->tables, id)->old))
            return true;
    return false;
}

static enum rc fake_forget(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    struct fake_task_store *fake = ctx;
    enum rc rc;

    fake->op = FAKE_TASKS_FORGET;
    *count = 0;
    rc = fake_call(&fake->session, err);
    if (rc == RC_OK)
        rc = fake_answer(&fake->session, err);
    if (rc != RC_OK || !has_forgotten(fake))
        return rc;
    rc = fake_begin(&fake->session, err);
    if (rc == RC_OK)
        rc = forget_some(fake, rows_max, count, err);
    if (rc == RC_OK)
        rc = fake_commit(&fake->session, err);
    if (rc != RC_OK)
        fake_rollback(&fake->session);
    return rc;
}

static enum rc fake_handlers(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                             void *on_handler_ctx, struct err *err)
{
    struct fake_task_store *fake = ctx;
    enum rc rc;

    fake->op = FAKE_TASKS_HANDLERS;
    rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    fake->each_handler(fake->ctx, lease_ms, on_handler, on_handler_ctx);
    return fake_answer(&fake->session, err);
}

/* Each task by itself: the caller adds the counts of a class up. */
static enum rc fake_depths(void *ctx, retry_on_depth on_depth, void *on_depth_ctx, struct err *err)
{
    struct fake_task_store *fake = ctx;
    const struct fake_task_tables *tables = fake->tables;
    enum rc rc;

    fake->op = FAKE_TASKS_DEPTHS;
    rc = fake_call(&fake->session, err);
    for (int64_t id = tables->first_live; rc == RC_OK && id < tables->id_next; id++) {
        const struct fake_task *task = fake_task_at(tables, id);
        const struct task_depth depth = {&task->class, task->old.state, 1,
                                         fake_now_ms(&fake->session) - task->old.next_ms};

        if (task->old.found)
            on_depth(on_depth_ctx, &depth);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

struct retry_store fake_task_store_ops(struct fake_task_store *fake)
{
    return (struct retry_store){
        .ctx = fake,
        .look = fake_look,
        .scenes = fake_scenes,
        .record = fake_record,
        .claim = fake_claim,
        .claim_expired = fake_claim_expired,
        .finish = fake_finish,
        .renew = fake_renew,
        .rescue = fake_rescue,
        .forget = fake_forget,
        .handlers = fake_handlers,
        .depths = fake_depths,
    };
}
