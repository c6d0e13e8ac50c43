/* SPDX-License-Identifier: MIT */
#include "consumer/rollup/rollup.h"

#include "common/log.h"
#include "common/loop.h"
#include "consumer/consumer_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An idle engine reads the state this often, because the clock of the database may be set. */
#define LOOK_MS 5000
/* While another process holds the lease. */
#define BUSY_MS 500
#define RETRY_MS 200
#define RETRY_MS_MAX 5000

/* 9999-12-31 23:59:59.999, the last time of DATETIME. */
#define TIME_END_MS INT64_C(253402300799999)

static int64_t min_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_ms(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* If the clock was set back, contents may have a changed_at in the future. The window then covers
 * everything from the set-back on, however late its changed_at. */
static void begin_window(struct rollup *rollup, const struct rollup_state *state, int64_t now_ms)
{
    int64_t rolled_ms = min_ms(state->rolled_until_ms, state->now_ms);

    rollup->window = state->finished_window + 1;
    rollup->start_ms = now_ms;
    rollup->target_ms = state->now_ms;
    rollup->until_ms = state->rolled_until_ms > state->now_ms ? TIME_END_MS : state->now_ms;
    rollup->progress_ms = rolled_ms;
    rollup->after = (struct rollup_place){
        .changed_ms = max_ms(rolled_ms - rollup->config.overlap_ms, 0) - 1,
        .content_id = INT64_MAX,
    };
    rollup->reading_due = true;
    rollup->after_id = INT64_MIN;
    rollup->last_page = false;
    rollup->counts = (struct rollup_counts){0};
    rollup->phase = ROLLUP_READ;
}

/* A window that was interrupted is due at once: its progress was stored after the end of the last
 * window. */
static int64_t due_at_ms(const struct rollup *rollup, const struct rollup_state *state)
{
    if (state->rolled_until_ms > state->finished_ms)
        return state->now_ms;
    return singleton_due_ms(state->rolled_until_ms, state->now_ms, rollup->config.interval_ms);
}

static enum rc look_for_work(struct rollup *rollup, int64_t now_ms, int64_t *wait_ms)
{
    const struct rollup_store *store = rollup->config.store;
    struct rollup_state state = {0};
    bool taken = false;
    int64_t due_ms;
    enum rc rc = store->read_state(store->ctx, &state, &rollup->err);

    if (rc != RC_OK)
        return rc;
    metric_set(&rollup_last_success, state.finished_ms);
    rollup->other[0] = '\0';
    due_ms = due_at_ms(rollup, &state);
    if (!rollup->config.once && due_ms > state.now_ms) {
        rollup->late_since_ms = SINGLETON_ON_TIME;
        *wait_ms = min_ms(due_ms - state.now_ms, LOOK_MS);
        return RC_OK;
    }
    if (rollup->late_since_ms == SINGLETON_ON_TIME)
        rollup->late_since_ms = now_ms;
    if (singleton_lease_is_anothers(state.owner, state.lease_until_ms, state.now_ms,
                                    rollup->config.lease_ms, rollup->config.owner)) {
        snprintf(rollup->other, sizeof(rollup->other), "%s", state.owner);
        rollup->late_since_ms = now_ms;
        *wait_ms = min_ms(state.lease_until_ms - state.now_ms, BUSY_MS);
        return RC_OK;
    }
    rollup->lease.epoch = state.epoch + 1;
    rc = store->take(store->ctx, &rollup->lease, &taken, &rollup->err);
    *wait_ms = taken ? 0 : BUSY_MS;
    if (rc == RC_OK && taken && state.owner[0] &&
        singleton_lease_is_implausible(state.lease_until_ms, state.now_ms, rollup->config.lease_ms))
        log_event(LOG_WARN, "lease_implausible",
                  "job=rollup owner=%s ends_after_ms=%" PRId64
                  " text=\"the database clock was set back: its lease counts as expired\"",
                  state.owner, state.lease_until_ms - state.now_ms);
    /* The holder before may have finished its window between the look and the take. */
    if (rc == RC_OK && taken)
        rc = store->read_state(store->ctx, &state, &rollup->err);
    if (rc == RC_OK && taken)
        begin_window(rollup, &state, now_ms);
    return rc;
}

static int compare_contents(const void *a, const void *b)
{
    const struct rollup_row *one = a;
    const struct rollup_row *two = b;

    return (one->place.content_id > two->place.content_id) -
           (one->place.content_id < two->place.content_id);
}

/* Keeps the rows whose remark is behind or was never rolled up, sorted by key. Transactions that
 * lock remarks in this order cannot deadlock with the roll-up. */
static void sift_page(struct rollup *rollup)
{
    size_t kept = 0;

    for (size_t i = 0; i < rollup->count; i++) {
        const struct rollup_row *row = &rollup->rows[i];

        rollup->counts.missing += row->remark_seq == ROLLUP_NO_REMARK;
        if (row->due || (row->remark_seq != ROLLUP_NO_REMARK && row->remark_seq < row->seq))
            rollup->rows[kept++] = *row;
    }
    rollup->count = kept;
    qsort(rollup->rows, kept, sizeof(*rollup->rows), compare_contents);
}

/* Reads remarks that were inserted after their votes had been rolled up. No later window covers
 * these votes. */
static enum rc read_due_page(struct rollup *rollup)
{
    const struct rollup_store *store = rollup->config.store;
    enum rc rc = store->read_due(store->ctx, rollup->after_id, rollup->rows,
                                 rollup->config.batch_rows_max, &rollup->count, &rollup->err);

    if (rc == RC_OK && rollup->count > 0)
        rollup->after_id = rollup->rows[rollup->count - 1].place.content_id;
    return rc;
}

static enum rc read_changed_page(struct rollup *rollup)
{
    const struct rollup_store *store = rollup->config.store;
    enum rc rc = store->read(store->ctx, &rollup->after, rollup->until_ms, rollup->rows,
                             rollup->config.batch_rows_max, &rollup->count, &rollup->err);

    if (rc != RC_OK)
        return rc;
    rollup->counts.contents += rollup->count;
    metric_add(&rollup_contents, (int64_t)rollup->count);
    if (rollup->count > 0)
        rollup->after = rollup->rows[rollup->count - 1].place;
    return RC_OK;
}

/* Returns the phase after the last row of a page. */
static enum rollup_phase next_page_phase(struct rollup *rollup)
{
    if (!rollup->last_page)
        return ROLLUP_READ;
    if (!rollup->reading_due)
        return ROLLUP_FINISH;
    rollup->reading_due = false;
    return ROLLUP_READ;
}

static enum rc read_page(struct rollup *rollup)
{
    size_t max = rollup->config.batch_rows_max;
    enum rc rc = rollup->reading_due ? read_due_page(rollup) : read_changed_page(rollup);

    if (rc != RC_OK)
        return rc;
    assert(rollup->count <= max);
    rollup->last_page = rollup->count < max;
    sift_page(rollup);
    rollup->at = 0;
    rollup->write_rows_max = max;
    rollup->phase =
        rollup->last_page && rollup->count == 0 ? next_page_phase(rollup) : ROLLUP_WRITE;
    return RC_OK;
}

/* Another process took over, because this one was silent for longer than the lease, or the
 * connection was lost. The window begins again with what the database has of it. */
static void abandon_window(struct rollup *rollup)
{
    log_event(LOG_WARN, "lease_lost", "job=rollup epoch=%" PRId64, rollup->lease.epoch);
    rollup->phase = ROLLUP_IDLE;
}

/* The database refuses one of these rows. Finds it by writing fewer rows, and leaves it out. Later
 * windows that cover the content try again. */
static void narrow_refused(struct rollup *rollup, size_t count)
{
    const struct rollup_row *row = &rollup->rows[rollup->at];

    if (count > 1) {
        rollup->write_rows_max = count / 2;
        return;
    }
    log_error(LOG_WARN, "total_refused", &rollup->err, "content=%" PRId64, row->place.content_id);
    metric_add(&rollup_failures, 1);
    rollup->counts.refused++;
    rollup->at++;
}

static enum rc write_rows(struct rollup *rollup)
{
    const struct rollup_store *store = rollup->config.store;
    size_t rest = rollup->count - rollup->at;
    size_t count = rest < rollup->write_rows_max ? rest : rollup->write_rows_max;
    struct rollup_progress progress = {rollup->window, rollup->progress_ms};
    uint64_t changed = 0;
    bool held = false;
    enum rc rc;

    /* When its last rows are written, the page need not be read again. */
    if (count == rest && !rollup->reading_due)
        progress.rolled_until_ms =
            min_ms(max_ms(progress.rolled_until_ms, rollup->after.changed_ms), rollup->target_ms);
    rc = store->write(store->ctx, &rollup->lease, &progress, rollup->rows + rollup->at, count,
                      &changed, &held, &rollup->err);
    if (rc == RC_REJECT && count > 0) {
        narrow_refused(rollup, count);
        return RC_OK;
    }
    if (rc != RC_OK)
        return rc;
    if (!held) {
        abandon_window(rollup);
        return RC_OK;
    }
    rollup->at += count;
    if (rollup->write_rows_max <= rollup->config.batch_rows_max / 2)
        rollup->write_rows_max *= 2;
    rollup->progress_ms = progress.rolled_until_ms;
    rollup->counts.changed += changed;
    metric_add(&rollup_remarks_changed, (int64_t)changed);
    if (rollup->at == rollup->count)
        rollup->phase = next_page_phase(rollup);
    return RC_OK;
}

static enum rc finish_window(struct rollup *rollup, int64_t now_ms)
{
    const struct rollup_store *store = rollup->config.store;
    struct rollup_counts *counts = &rollup->counts;
    struct rollup_progress progress = {rollup->window, rollup->target_ms};
    bool held = false;
    enum rc rc = store->finish(store->ctx, &rollup->lease, &progress, &held, &rollup->err);

    if (rc != RC_OK)
        return rc;
    if (!held) {
        abandon_window(rollup);
        return RC_OK;
    }
    counts->ms = now_ms - rollup->start_ms;
    rollup->windows++;
    rollup->late_since_ms = SINGLETON_ON_TIME;
    rollup->phase = rollup->config.once ? ROLLUP_ENDED : ROLLUP_IDLE;
    metric_observe_us(&rollup_seconds, counts->ms * 1000);
    if (!rollup->config.once)
        log_event(LOG_INFO, "rollup_finished",
                  "contents=%" PRIu64 " changed=%" PRIu64 " missing=%" PRIu64 " refused=%" PRIu64
                  " ms=%" PRId64,
                  counts->contents, counts->changed, counts->missing, counts->refused, counts->ms);
    return RC_OK;
}

static const char *phase_name(enum rollup_phase phase)
{
    switch (phase) {
    case ROLLUP_IDLE:
        return "idle";
    case ROLLUP_READ:
        return "read";
    case ROLLUP_WRITE:
        return "write";
    case ROLLUP_FINISH:
        return "finish";
    case ROLLUP_ENDED:
        break;
    }
    return "none";
}

static int64_t end_good_step(struct rollup *rollup, int64_t now_ms, int64_t wait_ms)
{
    condition_ok(&rollup->database, now_ms);
    backoff_reset(&rollup->backoff);
    if (rollup->phase == ROLLUP_ENDED)
        return LOOP_END;
    if (rollup->phase != ROLLUP_IDLE)
        rollup->late_since_ms = now_ms;
    return wait_ms;
}

static int64_t fail_engine(struct rollup *rollup, int64_t now_ms)
{
    err_wrap(&rollup->err, "%s", phase_name(rollup->phase));
    log_error(LOG_ERROR, "role_failed", &rollup->err, "role=rollup");
    condition_fail(&rollup->database, now_ms, &rollup->err);
    rollup->phase = ROLLUP_ENDED;
    if (rollup->config.stop)
        stop_fail(rollup->config.stop);
    return LOOP_END;
}

static int64_t handle_result(struct rollup *rollup, int64_t now_ms, int64_t wait_ms)
{
    switch (rollup->rc) {
    case RC_OK:
        return end_good_step(rollup, now_ms, wait_ms);
    case RC_RETRY:
        metric_add(&rollup_failures, 1);
        condition_fail(&rollup->database, now_ms, &rollup->err);
        return backoff_next_ms(&rollup->backoff, rollup->config.rng());
    case RC_REJECT: /* a single row was left out before; other refusals are permanent */
    case RC_FATAL:
        metric_add(&rollup_failures, 1);
        return fail_engine(rollup, now_ms);
    }
    return LOOP_END;
}

int64_t rollup_step(void *arg, int64_t now_ms)
{
    struct rollup *rollup = arg;
    int64_t wait_ms = 0;

    switch (rollup->phase) {
    case ROLLUP_IDLE:
        rollup->rc = look_for_work(rollup, now_ms, &wait_ms);
        break;
    case ROLLUP_READ:
        rollup->rc = read_page(rollup);
        break;
    case ROLLUP_WRITE:
        rollup->rc = write_rows(rollup);
        break;
    case ROLLUP_FINISH:
        rollup->rc = finish_window(rollup, now_ms);
        break;
    case ROLLUP_ENDED:
        return LOOP_END;
    }
    return handle_result(rollup, now_ms, wait_ms);
}

void rollup_leave(struct rollup *rollup)
{
    bool holds = rollup->phase != ROLLUP_IDLE && rollup->phase != ROLLUP_ENDED;

    /* While the database fails, this call may take longer than the lease lasts. */
    if (holds && !condition_read(&rollup->database, NULL))
        rollup->config.store->release(rollup->config.store->ctx, &rollup->lease);
    rollup->phase = ROLLUP_ENDED;
}

enum rc rollup_init(struct rollup *rollup, const struct rollup_config *config, struct err *err)
{
    assert(config->interval_ms > 0 && config->lease_ms > 0 && config->batch_rows_max > 0);
    *rollup = (struct rollup){
        .config = *config,
        .lease = {.owner = config->owner, .lease_ms = config->lease_ms},
        .backoff = {.base_ms = RETRY_MS, .cap_ms = RETRY_MS_MAX},
        .late_since_ms = SINGLETON_ON_TIME,
    };
    rollup->rows = calloc(config->batch_rows_max, sizeof(*rollup->rows));
    if (!rollup->rows)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    condition_init(&rollup->database, CONDITION_DEPENDENCY,
                   "dep=sink role=rollup reason=cannot_roll_up");
    return RC_OK;
}

void rollup_done(struct rollup *rollup)
{
    condition_done(&rollup->database);
    free(rollup->rows);
    rollup->rows = NULL;
}
