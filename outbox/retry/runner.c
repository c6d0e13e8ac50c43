/* SPDX-License-Identifier: MIT */
#include "outbox/retry/runner.h"

#include <string.h>

static void outcome_reset(struct slot *slot)
{
    memset(&slot->outcome, 0, sizeof(slot->outcome));
    slot->outcome.delay_ms = ATTEMPT_NO_DELAY;
    buf_reset(&slot->result);
    slot->outcome.result = &slot->result;
}

static void cut(struct slot *slot, const char *why)
{
    slot->outcome.end = ATTEMPT_CUT;
    err_set(&slot->outcome.err, "%s", why);
}

/* What a step gives has to fit, or the next one could not begin. */
static void result_too_long(struct slot *slot)
{
    slot->outcome.end = ATTEMPT_FAILED;
    slot->outcome.source = FAULT_PLAIN;
    slot->outcome.fault = FAULT_REFUSED;
    err_set(&slot->outcome.err, "step %lld gave more than %zu bytes", (long long)slot->job.step,
            RETRY_RESULT_BYTES_MAX);
}

static void run(struct runner *runner, struct slot *slot, int64_t now_ms)
{
    int64_t from_ms = pool_now(runner->pool, now_ms);

    slot->job.lease_until_ms = &slot->valid_until_ms;
    if (from_ms >= atomic_load(&slot->valid_until_ms)) {
        cut(slot, "its lease ran out before it was begun");
        return;
    }
    if (from_ms >= slot->expires_ms) {
        cut(slot, "its deadline was over before it was begun");
        return;
    }
    if (atomic_load(slot->breaker_open) && !slot->probe) {
        cut(slot, "the circuit breaker of its destination is open");
        return;
    }
    slot->tried = true;
    slot->handler->run(slot->opened, runner->number, &slot->job, &slot->outcome);
    slot->took_ms = pool_now(runner->pool, now_ms) - from_ms;
    if (slot->outcome.end == ATTEMPT_DONE && slot->outcome.more_steps && slot->result.failed)
        result_too_long(slot);
}

bool runner_run_one(struct runner *runner, int64_t now_ms)
{
    struct slot *slot = pool_take(runner->pool, runner->number);

    if (!slot)
        return false;
    outcome_reset(slot);
    run(runner, slot, now_ms);
    pool_give(runner->pool, slot);
    return true;
}

int64_t runner_step(void *arg, int64_t now_ms)
{
    return runner_run_one(arg, now_ms) ? 0 : 10 * POOL_WAIT_MS;
}
