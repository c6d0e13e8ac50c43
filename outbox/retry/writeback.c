/* SPDX-License-Identifier: MIT */
#include "outbox/retry/writeback.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/retry/callback.h"
#include "outbox/retry/policy/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exhausted tasks of one scene are logged this often; the metric counts all. */
#define SAID_AGAIN_MS 60000

/* A task whose update the database refuses is tried again after this, and the refused part is
 * dropped. */
#define REFUSED_DELAY_MS 60000

static enum fault_class classify_fault(const struct slot *slot)
{
    const struct attempt_result *attempt = &slot->attempt_result;

    if (attempt->source == FAULT_SOURCE_PLAIN)
        return attempt->fault;
    return policy_classify(&slot->kind->scene->policy, attempt->source, attempt->code,
                           attempt->fault);
}

/* Reports the attempt to the breaker of its destination. A destination that answers works: a
 * refusal concerns the task. An attempt that failed before anything was sent proves nothing. */
static void report_to_breaker(struct writeback *writeback, struct slot *slot, int64_t now_ms)
{
    struct destination *destination = slot->destination;

    if (!destination)
        return;
    if (!slot->tried) {
        if (slot->probe)
            destination_learned_nothing(destination);
        return;
    }
    switch (slot->attempt_result.end) {
    case ATTEMPT_FAILED:
        if (classify_fault(slot) != FAULT_CLASS_REFUSED)
            destinations_failed(&writeback->slots->destinations, destination,
                                &slot->attempt_result.err, now_ms, rng_next(writeback->rng));
        else if (slot->attempt_result.source != FAULT_SOURCE_PLAIN)
            destinations_worked(&writeback->slots->destinations, destination, now_ms);
        else if (slot->probe)
            destination_learned_nothing(destination);
        return;
    case ATTEMPT_SNOOZED:
        if (slot->attempt_result.waits) {
            if (slot->probe)
                destination_learned_nothing(destination);
            return;
        }
        destinations_worked(&writeback->slots->destinations, destination, now_ms);
        return;
    case ATTEMPT_DONE:
    case ATTEMPT_REJECTED:
        destinations_worked(&writeback->slots->destinations, destination, now_ms);
        return;
    case ATTEMPT_CUT:
        if (slot->probe)
            destination_learned_nothing(destination);
        return;
    }
}

static void count_attempt(struct slot *slot)
{
    struct retry_scene_metrics *metrics = slot->kind->scene->metrics;

    if (slot->tried || slot->attempt_result.end != ATTEMPT_CUT)
        metric_add(&metrics->attempts[slot->attempt_result.end], 1);
    if (slot->tried)
        metric_observe_us(&metrics->seconds, slot->took_ms * 1000);
}

static void log_exhausted(struct writeback *writeback, const struct slot *slot, int64_t now_ms)
{
    const struct scene *scene = slot->kind->scene;
    char key[2 * TASK_NAME_SIZE];
    struct err err = {0};

    metric_add(&scene->metrics->exhausted, 1);
    snprintf(key, sizeof(key), "%s/%s", scene->group, scene->name);
    if (!reasons_add(&writeback->logged, key, now_ms, SAID_AGAIN_MS))
        return;
    err_set(&err, "%s", slot->reason);
    log_error(LOG_WARN, "task_exhausted", &err,
              "id=%" PRId64 " group=%s scene=%s attempts=%" PRId64
              " hint=\"tallybox retry show %" PRId64 "\"",
              slot->id, scene->group, scene->name, slot->update.attempts, slot->id);
}

/* Invariant Q7: an exhausted task blocks its key if its scene says so. */
static enum task_end choose_exhausted_end(const struct slot *slot)
{
    /* Without a key no other task has to stop. */
    if (!slot->update.ordered)
        return TASK_END_SKIP;
    switch (slot->kind->scene->policy.exhausted) {
    case POLICY_BLOCK:
        return TASK_END_BLOCK;
    case POLICY_PARK:
        return TASK_END_PARK;
    case POLICY_SKIP:
        return TASK_END_SKIP;
    }
    return TASK_END_BLOCK;
}

static void put_callback(struct slot *slot, const struct callback_target *callback,
                         const char *outcome)
{
    struct task_update *update = &slot->update;
    const struct callback_task task = {
        .id = slot->job.id,
        .group = slot->kind->scene->group,
        .scene = slot->kind->scene->name,
        .ordering_key = slot->job.ordering_key,
        .idempotency_key = slot->job.idempotency_key,
        .biz_no = slot->job.biz_no,
        .outcome = outcome,
        .attempts = update->attempts,
        .reason_class = update->reason_class,
        .reason = update->reason,
        .params = slot->job.params,
        .params_len = slot->job.params_len,
        .params_type = slot->job.params_type,
        .result = slot->result.failed ? NULL : slot->result.data,
        .result_len = slot->result.len,
    };

    if (!callback->scene[0])
        return;
    buf_reset(&slot->callback);
    callback_put(&slot->callback, &task);
    if (slot->callback.failed) {
        buf_reset(&slot->callback);
        buf_text_put(&slot->callback, "{}"); /* without memory it tells only its parent */
    }
    update->callback_scene = callback->scene;
    update->callback_handler = callback->handler;
    update->callback_params = buf_text(&slot->callback);
}

static void put_reason(struct slot *slot, enum fault_class fault, const char *why)
{
    const char *text = slot->attempt_result.err.text;

    snprintf(slot->reason, sizeof(slot->reason), "%s%s%s", why, *why && *text ? ": " : "", text);
    slot->update.reason = slot->reason;
    slot->update.reason_class = fault_class_name(fault);
}

/* How long the idempotency key of the task is refused after its end. The tasks of roles are not
 * compared: after a fail-over a table may give another event a number again. */
static int64_t dedup_ms(const struct slot *slot)
{
    return slot->kind->origin == OWNER_CLIENT ? slot->kind->scene->policy.dedup_ms : 0;
}

/* A time keeps the tasks of clients only: the API shows no others. A task stays while its
 * idempotency key is refused. */
static void keep_done(struct slot *slot)
{
    int64_t keep_ms = slot->kind->scene->policy.keep_done_ms;

    slot->update.dedup_ms = dedup_ms(slot);
    if (keep_ms < slot->update.dedup_ms)
        keep_ms = slot->update.dedup_ms;

    slot->update.keep =
        keep_ms == POLICY_KEEP || (keep_ms > 0 && slot->kind->origin == OWNER_CLIENT);
    slot->update.keep_ms = keep_ms == POLICY_KEEP ? 0 : keep_ms;
}

static void end_done(struct slot *slot)
{
    const struct policy *policy = &slot->kind->scene->policy;
    struct task_update *update = &slot->update;

    if (slot->attempt_result.more_steps) {
        /* Each step has all its attempts. */
        update->end = TASK_END_STEP;
        update->attempts = 0;
        update->step_result = slot->result.data;
        update->step_result_len = slot->result.len;
        return;
    }
    update->end = TASK_END_DONE;
    keep_done(slot);
    put_callback(slot, &policy->on_done, "done");
}

/* The operator of a task that fails is told when it will be exhausted. */
static void foresee_end(struct slot *slot, int64_t database_ms)
{
    struct task_update *update = &slot->update;
    const struct policy_task task = {update->attempts, slot->made_ms};
    int64_t at_ms =
        policy_foresee_ms(&slot->kind->scene->policy, &task, database_ms + update->delay_ms);

    if (at_ms != POLICY_NOT_FORESEEN)
        update->exhausts_in_ms = at_ms > database_ms ? at_ms - database_ms : 0;
}

static void return_token(struct slot *slot)
{
    if (slot->paid)
        bucket_return(&slot->kind->scene->bucket);
    slot->paid = false;
}

static void end_again(struct slot *slot, const struct decision *decision, int64_t database_ms)
{
    struct task_update *update = &slot->update;

    update->end = TASK_END_AGAIN;
    update->delay_ms = decision->next_ms > database_ms ? decision->next_ms - database_ms : 0;
    foresee_end(slot, database_ms);
    if (slot->attempt_result.end == ATTEMPT_FAILED)
        put_reason(slot, classify_fault(slot), "");
    else
        put_reason(slot, FAULT_CLASS_TRANSIENT, "");
}

static void end_exhausted(struct slot *slot, const char *why)
{
    enum fault_class fault =
        slot->attempt_result.end == ATTEMPT_REJECTED ? FAULT_CLASS_REFUSED : classify_fault(slot);

    /* The class is a column of its own. */
    put_reason(slot, fault, strcmp(why, fault_class_name(fault)) == 0 ? "" : why);
    slot->update.end = choose_exhausted_end(slot);
    slot->update.dedup_ms = slot->update.end == TASK_END_BLOCK ? 0 : dedup_ms(slot);
    put_callback(slot, &slot->kind->scene->policy.on_exhausted, "exhausted");
}

/* A task that is put off must leave the front of its queue, or the tasks behind it would not be
 * found. */
static void put_task_off(struct slot *slot, int64_t now_ms)
{
    struct task_update *update = &slot->update;

    update->end = TASK_END_AGAIN;
    update->outcome = NULL;
    update->delay_ms = destination_put_off_ms(slot->destination, now_ms);
    foresee_end(slot, now_ms + slot->database_ahead_ms);
    update->reason_class = fault_class_name(FAULT_CLASS_TRANSIENT);
    snprintf(slot->reason, sizeof(slot->reason), "the circuit breaker of %.100s is open: %s",
             slot->destination->name, slot->destination->why);
    update->reason = slot->reason;
    metric_add(&retry_put_off, 1);
}

/* Only a plain INSERT makes such a task: the API answers with the ended one. Invariant Q4: no
 * attempt is counted. */
static void end_duplicate(struct slot *slot)
{
    struct task_update *update = &slot->update;

    update->end = TASK_END_DUPLICATE;
    update->outcome = NULL;
    keep_done(slot);
    update->dedup_ms = 0;
    update->reason_class = fault_class_name(FAULT_CLASS_REFUSED);
    snprintf(slot->reason, sizeof(slot->reason),
             "duplicate: task %" PRId64
             " had the same idempotency key and ended less than dedup of "
             "the scene before",
             slot->duplicate_of);
    update->reason = slot->reason;
}

/* Invariant Q4: no attempt is counted. */
static void wait_first(struct slot *slot, int64_t now_ms)
{
    int64_t database_ms = now_ms + slot->database_ahead_ms;
    struct task_update *update = &slot->update;

    update->end = TASK_END_AGAIN;
    update->outcome = NULL;
    update->delay_ms = slot->first_ms > database_ms ? slot->first_ms - database_ms : 0;
    foresee_end(slot, database_ms);
}

/* The attempt did not begin, or it was cut. Invariant Q4: no attempt is counted. */
static void give_task_back(struct writeback *writeback, struct slot *slot, int64_t now_ms)
{
    slot->update.end = TASK_END_BACK;
    if (slot->tried)
        return;
    return_token(slot);
    if (slot->duplicate_of > 0 && slot->handler) {
        end_duplicate(slot);
        return;
    }
    if (slot->waits_first) {
        wait_first(slot, now_ms);
        return;
    }
    if (slot->destination && atomic_load(&slot->destination->open) && !slot->probe &&
        !atomic_load(&writeback->pool->leaving))
        put_task_off(slot, now_ms);
}

/* The task did not begin before its deadline. Invariant Q4: no attempt is counted. */
static void expire_task(struct slot *slot)
{
    err_set(&slot->attempt_result.err, "it did not begin within %" PRId64 " ms",
            slot->kind->scene->policy.age_ms_max);
    slot->attempt_result.source = FAULT_SOURCE_PLAIN;
    slot->attempt_result.fault = FAULT_CLASS_TRANSIENT;
    slot->update.outcome = NULL;
    return_token(slot);
    end_exhausted(slot, "deadline");
}

static void decide_update(struct writeback *writeback, struct slot *slot, int64_t now_ms)
{
    const struct policy_task task = {slot->attempts, slot->made_ms};
    const struct policy_attempt attempt = {slot->attempt_result.end, classify_fault(slot),
                                           slot->attempt_result.delay_ms};
    int64_t database_ms = now_ms + slot->database_ahead_ms;
    struct decision decision = policy_decide(&slot->kind->scene->policy, &task, &attempt,
                                             database_ms, rng_next(writeback->rng));

    slot->update.attempts = decision.attempts;
    if (slot->attempt_result.end == ATTEMPT_CUT && !slot->tried && !slot->stale &&
        task_slot_is_expired(slot, now_ms) && !atomic_load(&writeback->pool->leaving)) {
        expire_task(slot);
        return;
    }
    if (slot->attempt_result.end == ATTEMPT_CUT) {
        give_task_back(writeback, slot, now_ms);
        return;
    }
    /* Nothing was called, also where the task is exhausted: no attempt is kept. */
    if (slot->attempt_result.waits) {
        slot->update.outcome = NULL;
        return_token(slot);
    }
    switch (decision.kind) {
    case DECISION_DONE:
        end_done(slot);
        return;
    case DECISION_AGAIN:
        end_again(slot, &decision, database_ms);
        return;
    case DECISION_EXHAUSTED:
        end_exhausted(slot, decision.why);
        return;
    }
}

/* An attempt that fails while the process stops may have failed because of the stop: it is not
 * counted. */
static void uncount_stopped_attempt(const struct writeback *writeback, struct slot *slot)
{
    if (slot->attempt_result.end == ATTEMPT_FAILED && atomic_load(&writeback->pool->leaving) &&
        classify_fault(slot) != FAULT_CLASS_REFUSED)
        slot->attempt_result.end = ATTEMPT_CUT;
}

static void end_task(struct writeback *writeback, struct slot *slot, enum task_written written,
                     int64_t now_ms)
{
    if (written == TASK_WRITTEN && slot->update.end == TASK_END_DONE && slot->handler->ended)
        slot->handler->ended(slot->opened, &slot->job);
    if (writeback->on_written)
        writeback->on_written(writeback->on_written_ctx, slot, written, now_ms);
    task_slots_free(writeback->slots, slot);
}

/* Drops the updates of tasks whose lease was lost. */
static size_t drop_lost_tasks(struct writeback *writeback, int64_t now_ms)
{
    size_t kept = 0;

    for (size_t i = 0; i < writeback->decided_count; i++) {
        struct slot *slot = writeback->decided[i];
        bool lost;

        pthread_mutex_lock(&writeback->pool->lock);
        lost = slot->lost;
        pthread_mutex_unlock(&writeback->pool->lock);
        if (lost)
            end_task(writeback, slot, TASK_LOST, now_ms);
        else
            writeback->decided[kept++] = slot;
    }
    writeback->decided_count = kept;
    return kept;
}

static void gather_updates(struct writeback *writeback, size_t count)
{
    pthread_mutex_lock(&writeback->pool->lock);
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = writeback->decided[i];

        slot->writing = true;
        slot->update.epoch = slot->epoch;
        writeback->updates[i] = slot->update;
        /* The policy may have changed since it was decision. */
        if (slot->update.callback_scene && !*slot->update.callback_scene)
            writeback->updates[i].callback_scene = NULL;
    }
    pthread_mutex_unlock(&writeback->pool->lock);
    memset(writeback->written, 0, count * sizeof(*writeback->written));
}

static void remove_decided(struct writeback *writeback, size_t from, size_t count)
{
    writeback->decided_count -= count;
    memmove(writeback->decided + from, writeback->decided + from + count,
            (writeback->decided_count - from) * sizeof(struct slot *));
}

/* The next step, or the next task of the key, need not wait for the next search. */
static bool makes_due(const struct task_update *update)
{
    switch (update->end) {
    case TASK_END_STEP:
        return true;
    case TASK_END_DONE:
    case TASK_END_SKIP:
    case TASK_END_DUPLICATE:
        return update->ordered;
    case TASK_END_AGAIN:
    case TASK_END_BACK:
    case TASK_END_BLOCK:
    case TASK_END_PARK:
        return false;
    }
    return false;
}

/* Invariant Q10: an attempt, or a deadline, under another version of the scene exhausts no task.
 * The attempt counts; the next one begins at once, under the scene as it is now. */
static void keep_outdated(struct writeback *writeback, struct slot *slot)
{
    struct task_update *update = &slot->update;

    update->end = update->outcome ? TASK_END_AGAIN : TASK_END_BACK;
    update->delay_ms = 0;
    update->callback_scene = NULL;
    update->dedup_ms = 0;
    update->reason = slot->attempt_result.err.text;
    slot->kind->scene->stale = true;
    writeback->slots->stale_scene = true;
}

/* Frees the slots of count updates but those of outdated ones, which are to be written again. If an
 * earlier COMMIT got no answer, the task may be missing now because that update was written: it is
 * not lost. */
static void free_written(struct writeback *writeback, size_t count, int64_t now_ms)
{
    int64_t lost = 0;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        struct slot *slot = writeback->decided[i];
        bool is_lost = writeback->written[i] == TASK_LOST && !slot->commit_unknown;

        if (writeback->written[i] == TASK_OUTDATED) {
            keep_outdated(writeback, slot);
            writeback->decided[kept++] = slot;
            continue;
        }
        lost += is_lost;
        if (task_end_exhausts(slot->update.end) && !is_lost)
            log_exhausted(writeback, slot, now_ms);
        writeback->more_due |= makes_due(&slot->update);
        end_task(writeback, slot, writeback->written[i], now_ms);
    }
    remove_decided(writeback, kept, count - kept);
    if (lost == 0)
        return;
    metric_add(&retry_lost, lost);
    if (reasons_add(&writeback->logged, "lost", now_ms, (int64_t)POOL_WAIT_MS * 600))
        log_event(LOG_WARN, "tasks_lost",
                  "count=%" PRId64 " text=\"their leases expired: other processes try them again\"",
                  lost);
}

/* The database refuses one update. A smaller update replaces it; if that is refused too, the task
 * becomes free when its lease ends. */
static void replace_refused(struct writeback *writeback, const struct err *err, int64_t now_ms)
{
    struct slot *slot = writeback->decided[0];
    struct task_update *update = &slot->update;

    log_error(LOG_ERROR, "result_refused", err, "id=%" PRId64 " group=%s scene=%s", slot->id,
              slot->kind->scene->group, slot->kind->scene->name);
    if (++slot->refusals > 1) {
        end_task(writeback, slot, TASK_LOST, now_ms);
        remove_decided(writeback, 0, 1);
        return;
    }
    snprintf(slot->reason, sizeof(slot->reason), "the database refuses its update: %.384s",
             err->text);
    update->end = TASK_END_AGAIN;
    update->delay_ms = REFUSED_DELAY_MS;
    update->exhausts_in_ms = RETRY_NOT_FORESEEN;
    update->reason_class = fault_class_name(FAULT_CLASS_OURS);
    update->reason = slot->reason;
    update->outcome = attempt_end_name(ATTEMPT_FAILED);
    update->attempts = slot->attempts + 1;
    update->step_result = NULL;
    update->step_result_len = 0;
    update->callback_scene = NULL;
    update->dedup_ms = 0;
    pool_call_worked(writeback->calls, POOL_FINISH, now_ms);
}

static size_t count_to_write(const struct writeback *writeback)
{
    if (writeback->write_alone > 0)
        return 1;
    return writeback->decided_count < RETRY_UPDATES_MAX ? writeback->decided_count
                                                        : RETRY_UPDATES_MAX;
}

static void mark_commit_unknown(struct writeback *writeback, size_t count)
{
    pthread_mutex_lock(&writeback->pool->lock);
    for (size_t i = 0; i < count; i++) {
        writeback->decided[i]->commit_unknown = true;
        writeback->decided[i]->writing = false;
    }
    pthread_mutex_unlock(&writeback->pool->lock);
}

/* Returns false when the store failed: the caller tries again later. */
static bool write_batch(struct writeback *writeback, int64_t now_ms)
{
    size_t count = count_to_write(writeback);
    struct err err = {0};
    enum rc rc;

    gather_updates(writeback, count);
    rc = writeback->store->finish(writeback->store->ctx, writeback->updates, count,
                                  writeback->written, &err);
    switch (rc) {
    case RC_OK:
        free_written(writeback, count, now_ms);
        if (writeback->write_alone > 0)
            writeback->write_alone--;
        pool_call_worked(writeback->calls, POOL_FINISH, now_ms);
        return true;
    case RC_REJECT:
        if (count > 1)
            writeback->write_alone = count;
        else
            replace_refused(writeback, &err, now_ms);
        return true;
    case RC_RETRY:
    case RC_FATAL:
        break;
    }
    mark_commit_unknown(writeback, count);
    pool_call_failed(writeback->calls, POOL_FINISH, rc, &err, now_ms);
    return false;
}

/* The task is too young for its first attempt. The draw counts from when the task was made: a kill
 * before the write-back, or time in the queue of its key, neither skips nor lengthens the wait. */
static bool must_wait_first(struct writeback *writeback, struct slot *slot, int64_t now_ms)
{
    const struct policy *policy = &slot->kind->scene->policy;

    if (slot->waited || policy->first_wait_high_ms == 0)
        return false;
    slot->first_ms = slot->made_ms + policy_first_wait_ms(policy, rng_next(writeback->rng));
    return slot->first_ms > now_ms + slot->database_ahead_ms;
}

enum rc writeback_init(struct writeback *writeback, struct task_slots *slots,
                       const struct retry_store *store, struct pool_calls *calls, uint64_t *rng,
                       struct err *err)
{
    size_t count = slots->pool->slot_count;

    memset(writeback, 0, sizeof(*writeback));
    writeback->pool = slots->pool;
    writeback->slots = slots;
    writeback->store = store;
    writeback->calls = calls;
    writeback->rng = rng;
    writeback->decided = calloc(count, sizeof(struct slot *));
    writeback->updates = calloc(RETRY_UPDATES_MAX, sizeof(*writeback->updates));
    writeback->written = calloc(RETRY_UPDATES_MAX, sizeof(*writeback->written));
    if (writeback->decided && writeback->updates && writeback->written)
        return RC_OK;
    writeback_done(writeback);
    return err_fail(err, RC_FATAL, 0, "out of memory for %zu tasks", count);
}

void writeback_done(struct writeback *writeback)
{
    free(writeback->decided);
    free(writeback->updates);
    free(writeback->written);
    memset(writeback, 0, sizeof(*writeback));
}

void writeback_add(struct writeback *writeback, struct slot *slot, int64_t now_ms)
{
    uncount_stopped_attempt(writeback, slot);
    slot->update = (struct task_update){
        .id = slot->id,
        .scene_version = slot->scene_version,
        .ordered = slot->job.ordering_key != NULL,
        .traceparent = slot->job.traceparent,
        .reason_class = "",
        .reason = "",
        .outcome = attempt_end_name(slot->attempt_result.end),
        .took_ms = slot->took_ms,
        .exhausts_in_ms = RETRY_NOT_FORESEEN,
    };
    count_attempt(slot);
    report_to_breaker(writeback, slot, now_ms);
    decide_update(writeback, slot, now_ms);
    writeback->decided[writeback->decided_count++] = slot;
}

bool writeback_begin(struct writeback *writeback, struct slot *slot, int64_t now_ms)
{
    slot->paid = true;
    if (task_slot_is_expired(slot, now_ms)) {
        slot->attempt_result.end = ATTEMPT_CUT;
        writeback_add(writeback, slot, now_ms);
        return false;
    }
    if (!slot->handler) {
        writeback_add(writeback, slot, now_ms);
        return false;
    }
    if (slot->duplicate_of > 0) {
        slot->attempt_result.end = ATTEMPT_CUT;
        writeback_add(writeback, slot, now_ms);
        return false;
    }
    if (must_wait_first(writeback, slot, now_ms)) {
        slot->waits_first = true;
        slot->attempt_result.end = ATTEMPT_CUT;
        writeback_add(writeback, slot, now_ms);
        return false;
    }
    if (!destination_passes(slot->destination, now_ms, &slot->probe)) {
        slot->attempt_result.end = ATTEMPT_CUT;
        writeback_add(writeback, slot, now_ms);
        return false;
    }
    pool_queue(writeback->pool, slot, &slot->kind->scene->fair, slot->destination);
    return true;
}

bool writeback_write(struct writeback *writeback, int64_t now_ms)
{
    if (drop_lost_tasks(writeback, now_ms) == 0)
        return true;
    if (now_ms < writeback->calls->at_ms[POOL_FINISH])
        return false;
    while (writeback->decided_count > 0)
        if (!write_batch(writeback, now_ms))
            return false;
    return true;
}
