/* SPDX-License-Identifier: MIT */
#include "common/hash.h"
#include "common/log.h"
#include "outbox/retry/policy/judge.h"
#include "outbox/retry/poller_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exhausted tasks of one scene are in the log this often; the metric counts all. */
#define SAID_AGAIN_MS 60000

static enum fault_class fault_of(const struct slot *slot)
{
    const struct retry_outcome *outcome = &slot->outcome;

    if (outcome->source == FAULT_PLAIN)
        return outcome->fault;
    return policy_classify(&slot->kind->scene->policy, outcome->source, outcome->code,
                           outcome->fault);
}

/* What the attempt tells of its destination. One that answers at all is well: a refusal is about the
 * task. What was refused before anything was sent tells nothing. */
static void breaker_hears(struct poller *poller, struct slot *slot, int64_t now_ms)
{
    struct destination *destination = slot->destination;

    if (!destination)
        return;
    if (!slot->tried) {
        if (slot->probe)
            destination_learned_nothing(destination);
        return;
    }
    switch (slot->outcome.end) {
    case ATTEMPT_FAILED:
        if (fault_of(slot) != FAULT_REFUSED)
            destinations_failed(&poller->destinations, destination, &slot->outcome.err, now_ms,
                                dice_next(&poller->dice));
        else if (slot->outcome.source != FAULT_PLAIN)
            destinations_worked(&poller->destinations, destination, now_ms);
        else if (slot->probe)
            destination_learned_nothing(destination);
        return;
    case ATTEMPT_DONE:
    case ATTEMPT_SNOOZED:
    case ATTEMPT_REJECTED:
        destinations_worked(&poller->destinations, destination, now_ms);
        return;
    case ATTEMPT_CUT:
        if (slot->probe)
            destination_learned_nothing(destination);
        return;
    }
}

static void count(struct slot *slot)
{
    struct retry_scene_metrics *metrics = slot->kind->scene->metrics;

    if (slot->tried || slot->outcome.end != ATTEMPT_CUT)
        metric_add(&metrics->attempts[slot->outcome.end], 1);
    if (slot->tried)
        metric_observe_us(&metrics->seconds, slot->took_ms * 1000);
}

static void say_exhausted(struct poller *poller, const struct slot *slot, int64_t now_ms)
{
    const struct scene *scene = slot->kind->scene;
    char key[2 * TASK_NAME_SIZE];
    struct err err = {0};

    metric_add(&scene->metrics->exhausted, 1);
    snprintf(key, sizeof(key), "%s/%s", scene->group, scene->name);
    if (!said_now(&poller->said, key, now_ms, SAID_AGAIN_MS))
        return;
    err_set(&err, "%s", slot->reason);
    log_error(LOG_WARN, "task_exhausted", &err,
              "id=%" PRId64 " group=%s scene=%s attempts=%" PRId64
              " hint=\"tallybox retry show %" PRId64 "\"",
              slot->id, scene->group, scene->name, slot->verdict.attempts, slot->id);
}

static enum task_end exhausted_end(const struct slot *slot)
{
    /* Without a key there is nothing to stop. */
    if (!slot->verdict.ordered)
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

static void callback_put(struct slot *slot, const struct policy_callback *callback,
                         const char *outcome)
{
    struct task_result *verdict = &slot->verdict;
    json_t *object;
    char *dump;

    if (!callback->scene[0])
        return;
    object =
        json_pack("{s:I, s:s, s:s, s:s?, s:s, s:I, s:s, s:s}", "taskId", (json_int_t)slot->job.id,
                  "group", slot->kind->scene->group, "scene", slot->kind->scene->name, "bizNo",
                  slot->job.biz_no, "outcome", outcome, "attempts", (json_int_t)verdict->attempts,
                  "reasonClass", verdict->reason_class, "reason", verdict->reason);
    dump = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    buf_reset(&slot->callback);
    buf_text_put(&slot->callback, dump ? dump : "{}");
    free(dump);
    verdict->callback_scene = callback->scene;
    verdict->callback_handler = callback->handler;
    verdict->callback_params = buf_text(&slot->callback);
}

static void reason_put(struct slot *slot, enum fault_class fault, const char *why)
{
    const char *text = slot->outcome.err.text;

    snprintf(slot->reason, sizeof(slot->reason), "%s%s%s", why, *why && *text ? ": " : "", text);
    slot->verdict.reason = slot->reason;
    slot->verdict.reason_class = fault_class_name(fault);
}

static void done(struct slot *slot)
{
    const struct policy *policy = &slot->kind->scene->policy;
    struct task_result *verdict = &slot->verdict;

    if (slot->outcome.more_steps) {
        /* Each step has all its attempts. */
        verdict->end = TASK_END_STEP;
        verdict->attempts = 0;
        verdict->step_result = slot->result.data;
        verdict->step_result_len = slot->result.len;
        return;
    }
    verdict->end = TASK_END_DONE;
    verdict->keep = policy->keep_done;
    callback_put(slot, &policy->on_done, "done");
}

static void again(struct slot *slot, const struct verdict *judged, int64_t database_ms)
{
    struct task_result *verdict = &slot->verdict;

    verdict->end = TASK_END_AGAIN;
    verdict->delay_ms = judged->next_ms > database_ms ? judged->next_ms - database_ms : 0;
    if (slot->outcome.end == ATTEMPT_FAILED)
        reason_put(slot, fault_of(slot), "");
    else
        reason_put(slot, FAULT_TRANSIENT, "");
}

static void exhausted(struct poller *poller, struct slot *slot, const char *why, int64_t now_ms)
{
    enum fault_class fault = slot->outcome.end == ATTEMPT_REJECTED ? FAULT_REFUSED : fault_of(slot);

    reason_put(slot, fault, why);
    slot->verdict.end = exhausted_end(slot);
    callback_put(slot, &slot->kind->scene->policy.on_exhausted, "exhausted");
    say_exhausted(poller, slot, now_ms);
}

/* While it is put off it must not stand at the front of its queue, or the tasks behind it would not be
 * seen. */
static void put_off(struct slot *slot, int64_t now_ms)
{
    struct task_result *verdict = &slot->verdict;

    verdict->end = TASK_END_AGAIN;
    verdict->outcome = NULL;
    verdict->delay_ms = destination_put_off_ms(slot->destination, now_ms);
    verdict->reason_class = fault_class_name(FAULT_TRANSIENT);
    snprintf(slot->reason, sizeof(slot->reason), "the circuit breaker of %.100s is open: %s",
             slot->destination->name, slot->destination->why);
    verdict->reason = slot->reason;
    metric_add(&retry_put_off, 1);
}

static void token_return(struct slot *slot)
{
    if (slot->paid)
        bucket_return(&slot->kind->scene->bucket);
    slot->paid = false;
}

/* Nothing was tried, or it came to no end. */
static void give_back(struct poller *poller, struct slot *slot, int64_t now_ms)
{
    slot->verdict.end = TASK_END_BACK;
    if (slot->tried)
        return;
    token_return(slot);
    if (slot->destination && atomic_load(&slot->destination->open) && !slot->probe &&
        !atomic_load(&poller->pool->leaving))
        put_off(slot, now_ms);
}

/* It was not begun in time. No attempt is counted. */
static void expire(struct poller *poller, struct slot *slot, int64_t now_ms)
{
    err_set(&slot->outcome.err, "it was not begun within %" PRId64 " ms",
            slot->kind->scene->policy.age_ms_max);
    slot->outcome.source = FAULT_PLAIN;
    slot->outcome.fault = FAULT_TRANSIENT;
    slot->verdict.outcome = NULL;
    token_return(slot);
    exhausted(poller, slot, "deadline", now_ms);
}

static void decide(struct poller *poller, struct slot *slot, int64_t now_ms)
{
    const struct judged task = {slot->attempts, slot->made_ms};
    const struct attempt attempt = {slot->outcome.end, fault_of(slot), slot->outcome.delay_ms};
    int64_t database_ms = now_ms + slot->database_ahead_ms;
    struct verdict judged =
        judge(&slot->kind->scene->policy, &task, &attempt, database_ms, dice_next(&poller->dice));

    slot->verdict.attempts = judged.attempts;
    if (slot->outcome.end == ATTEMPT_CUT && !slot->tried && poller_is_expired(slot, now_ms) &&
        !atomic_load(&poller->pool->leaving)) {
        expire(poller, slot, now_ms);
        return;
    }
    if (slot->outcome.end == ATTEMPT_CUT) {
        give_back(poller, slot, now_ms);
        return;
    }
    switch (judged.kind) {
    case VERDICT_DONE:
        done(slot);
        return;
    case VERDICT_AGAIN:
        again(slot, &judged, database_ms);
        return;
    case VERDICT_EXHAUSTED:
        exhausted(poller, slot, judged.why, now_ms);
        return;
    }
}

/* What fails while the process stops may have failed because of it: that costs no attempt. */
static void forgive_stop(const struct poller *poller, struct slot *slot)
{
    if (slot->outcome.end == ATTEMPT_FAILED && atomic_load(&poller->pool->leaving) &&
        fault_of(slot) != FAULT_REFUSED)
        slot->outcome.end = ATTEMPT_CUT;
}

void poller_judge(struct poller *poller, struct slot *slot, int64_t now_ms)
{
    forgive_stop(poller, slot);
    slot->verdict = (struct task_result){
        .id = slot->id,
        .ordered = slot->job.ordering_key != NULL,
        .reason_class = "",
        .reason = "",
        .outcome = attempt_end_name(slot->outcome.end),
        .took_ms = slot->took_ms,
    };
    count(slot);
    breaker_hears(poller, slot, now_ms);
    decide(poller, slot, now_ms);
    poller->judged[poller->judged_count++] = slot;
}
