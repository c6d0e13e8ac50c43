/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep.h"

#include "common/log.h"
#include "common/loop.h"
#include "consumer/apply/date.h"
#include "consumer/consumer_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An idle engine reads the state this often, because the clock of the database may be set. */
#define LOOK_MS 5000
/* While another process holds the lease. */
#define BUSY_MS 1000
#define RETRY_MS 500
#define RETRY_MS_MAX 8000
/* Each try to change partitions may block the writers for a second. */
#define TRIES_MAX 5

static int64_t min_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void begin_round(struct housekeep *housekeep, int64_t now_ms)
{
    housekeep->start_ms = now_ms;
    housekeep->make_no_more = false;
    housekeep->drop_no_more = false;
    housekeep->tries = 0;
    housekeep->kind = 0;
    housekeep->counts = (struct housekeep_counts){0};
    housekeep->phase = HOUSEKEEP_PLAN;
}

static enum rc look_for_work(struct housekeep *housekeep, int64_t now_ms, int64_t *wait_ms)
{
    const struct housekeep_config *config = &housekeep->config;
    struct housekeep_state state = {0};
    bool taken = false;
    int64_t due_ms;
    enum rc rc = config->store->read_state(config->store->ctx, &state, &housekeep->err);

    if (rc != RC_OK)
        return rc;
    metric_set(&housekeep_last_success, state.finished_ms);
    housekeep->other[0] = '\0';
    due_ms = singleton_due_ms(state.finished_ms, state.now_ms, config->interval_ms);
    if (!config->once && due_ms > state.now_ms) {
        housekeep->late_since_ms = SINGLETON_ON_TIME;
        *wait_ms = min_ms(due_ms - state.now_ms, LOOK_MS);
        return RC_OK;
    }
    if (housekeep->late_since_ms == SINGLETON_ON_TIME)
        housekeep->late_since_ms = now_ms;
    if (singleton_lease_is_anothers(state.owner, state.lease_until_ms, state.now_ms,
                                    config->lease_ms, config->owner)) {
        snprintf(housekeep->other, sizeof(housekeep->other), "%s", state.owner);
        housekeep->late_since_ms = now_ms;
        *wait_ms = min_ms(state.lease_until_ms - state.now_ms, BUSY_MS);
        return RC_OK;
    }
    housekeep->lease.epoch = state.epoch + 1;
    rc = config->store->take(config->store->ctx, &housekeep->lease, &taken, &housekeep->err);
    *wait_ms = taken ? 0 : BUSY_MS;
    if (rc == RC_OK && taken && state.owner[0] &&
        singleton_lease_is_implausible(state.lease_until_ms, state.now_ms, config->lease_ms))
        log_event(LOG_WARN, "lease_implausible",
                  "job=housekeep owner=%s ends_after_ms=%" PRId64
                  " text=\"the database clock was set back: its lease counts as expired\"",
                  state.owner, state.lease_until_ms - state.now_ms);
    if (rc == RC_OK && taken)
        begin_round(housekeep, now_ms);
    return rc;
}

/* Another process took over, because this one was silent for longer than the lease. The round
 * belongs to that process. */
static void abandon_round(struct housekeep *housekeep)
{
    log_event(LOG_WARN, "lease_lost", "job=housekeep epoch=%" PRId64, housekeep->lease.epoch);
    housekeep->phase = HOUSEKEEP_IDLE;
}

static void set_next(struct housekeep *housekeep, const struct housekeep_next *next,
                     enum housekeep_phase phase)
{
    if (strcmp(housekeep->part.name, next->part.name) != 0)
        housekeep->tries = 0;
    housekeep->part = next->part;
    housekeep->phase = phase;
}

static void choose_next(struct housekeep *housekeep, const struct housekeep_state *state)
{
    const struct housekeep_rules *rules = &housekeep->config.rules;
    int64_t now_day = state->now_ms / MS_PER_DAY;
    struct housekeep_next make = housekeep_next_make(
        housekeep->parts, housekeep->part_count, housekeep_ahead_day(now_day, rules->months_ahead));
    struct housekeep_next drop =
        housekeep_next_drop(housekeep->parts, housekeep->part_count, state->begin_day,
                            housekeep_keep_day(now_day, state->newest_day, rules->keep_months));

    if (make.act == HOUSEKEEP_MAKE && !housekeep->make_no_more)
        set_next(housekeep, &make, HOUSEKEEP_MAKING);
    else if (drop.act == HOUSEKEEP_BEGIN && !housekeep->drop_no_more)
        set_next(housekeep, &drop, HOUSEKEEP_BEGINNING);
    else if (drop.act == HOUSEKEEP_DROP && !housekeep->drop_no_more)
        set_next(housekeep, &drop, HOUSEKEEP_FOLDING);
    else
        housekeep->phase = HOUSEKEEP_DELETING;
}

/* Work that the database refuses waits for the next round, and the round continues with other
 * work. */
static void postpone_work(struct housekeep *housekeep, const char *what)
{
    log_error(LOG_ERROR, "housekeeping_postponed", &housekeep->err, "what=%s", what);
    metric_add(&housekeep_failures, 1);
    housekeep->counts.postponed++;
    housekeep->tries = 0;
}

/* Invariant C11: right before each change of partitions the lease is renewed and the partitions are
 * read. A process that sleeps between these steps for longer than the lease asks to make a
 * partition that exists or to drop one that is gone. The server refuses that change, and it cannot
 * mean another partition, because the months only move forward. */
static enum rc plan_next(struct housekeep *housekeep)
{
    const struct housekeep_store *store = housekeep->config.store;
    struct housekeep_state state = {0};
    bool held = false;
    enum rc rc = store->renew(store->ctx, &housekeep->lease, &held, &housekeep->err);

    if (rc != RC_OK)
        return rc;
    if (!held) {
        abandon_round(housekeep);
        return RC_OK;
    }
    rc = store->read_state(store->ctx, &state, &housekeep->err);
    if (rc == RC_OK)
        rc = store->read_parts(store->ctx, housekeep->parts, HOUSEKEEP_PARTS_MAX,
                               &housekeep->part_count, &housekeep->err);
    if (rc == RC_REJECT) {
        postpone_work(housekeep, "vote_document");
        housekeep->phase = HOUSEKEEP_DELETING;
        return RC_OK;
    }
    if (rc == RC_OK)
        choose_next(housekeep, &state);
    return rc;
}

/* After a try to change partitions. RC_RETRY: try again a little later. */
static enum rc end_change(struct housekeep *housekeep, enum rc rc, bool *no_more)
{
    bool again = rc == RC_RETRY && ++housekeep->tries < TRIES_MAX;

    housekeep->phase = HOUSEKEEP_PLAN;
    if (again)
        return rc;
    if (rc != RC_OK) {
        *no_more = true;
        postpone_work(housekeep, housekeep->part.name);
    }
    housekeep->tries = 0;
    return RC_OK;
}

/* The last partition has rows only if clocks were wrong or housekeeping did not run. */
static enum rc check_move(struct housekeep *housekeep, const struct housekeep_part *last)
{
    const struct housekeep_store *store = housekeep->config.store;
    uint64_t max = housekeep->config.rules.move_rows_max;
    uint64_t rows = 0;
    enum rc rc = store->count_rows(store->ctx, last, max + 1, &rows, &housekeep->err);

    if (rc != RC_OK || rows <= max)
        return rc;
    return err_fail(&housekeep->err, RC_REJECT, 0,
                    "partition %s of vote_document has more than %" PRIu64
                    " rows, and making %s would copy them while the consumers wait; raise "
                    "housekeep.move_rows_max if they may wait that long",
                    last->name, max, housekeep->part.name);
}

static enum rc make_part(struct housekeep *housekeep)
{
    const struct housekeep_store *store = housekeep->config.store;
    const struct housekeep_part *last = &housekeep->parts[housekeep->part_count - 1];
    enum rc rc = RC_OK;

    if (last->limit_day != HOUSEKEEP_NO_LIMIT)
        last = NULL;
    if (last)
        rc = check_move(housekeep, last);
    if (rc == RC_OK)
        rc = store->make_part(store->ctx, &housekeep->part, last, &housekeep->err);
    if (rc == RC_OK) {
        log_event(LOG_INFO, "partition_created", "partition=%s", housekeep->part.name);
        metric_add(&housekeep_made, 1);
        housekeep->counts.made++;
    }
    return end_change(housekeep, rc, &housekeep->make_no_more);
}

static enum rc move_begin(struct housekeep *housekeep)
{
    const struct housekeep_store *store = housekeep->config.store;
    bool held = false;
    char date[DATE_SIZE];
    enum rc rc = store->move_begin(store->ctx, &housekeep->lease, housekeep->part.limit_day, &held,
                                   &housekeep->err);

    if (rc != RC_OK)
        return end_change(housekeep, rc, &housekeep->drop_no_more);
    if (!held) {
        abandon_round(housekeep);
        return RC_OK;
    }
    date_write(housekeep->part.limit_day, date);
    log_event(LOG_INFO, "log_begin_moved", "date=%s", date);
    housekeep->phase = HOUSEKEEP_FOLDING;
    return RC_OK;
}

static enum rc fold_rows(struct housekeep *housekeep, int64_t *wait_ms)
{
    const struct housekeep_store *store = housekeep->config.store;
    uint64_t rows = 0;
    bool held = false;
    enum rc rc = store->fold(store->ctx, &housekeep->lease, &housekeep->part,
                             housekeep->config.rules.batch_rows_max, &rows, &held, &housekeep->err);

    if (rc != RC_OK)
        return end_change(housekeep, rc, &housekeep->drop_no_more);
    if (!held) {
        abandon_round(housekeep);
        return RC_OK;
    }
    metric_add(&housekeep_folded, (int64_t)rows);
    housekeep->counts.folded += rows;
    if (rows == 0)
        housekeep->phase = HOUSEKEEP_DROPPING;
    else
        *wait_ms = housekeep->config.rules.pause_ms;
    return RC_OK;
}

static enum rc drop_part(struct housekeep *housekeep)
{
    const struct housekeep_store *store = housekeep->config.store;
    enum rc rc = store->drop_part(store->ctx, &housekeep->part, &housekeep->err);

    if (rc == RC_OK) {
        log_event(LOG_INFO, "partition_dropped", "partition=%s", housekeep->part.name);
        metric_add(&housekeep_dropped, 1);
        housekeep->counts.dropped++;
    }
    return end_change(housekeep, rc, &housekeep->drop_no_more);
}

/* Deletes or marks one batch of one kind, or goes on to the next kind. */
static enum rc delete_old(struct housekeep *housekeep, int64_t *wait_ms)
{
    const struct housekeep_store *store = housekeep->config.store;
    const struct housekeep_rules *rules = &housekeep->config.rules;
    enum housekeep_kind kind = housekeep->kind;
    uint64_t rows = 0;
    bool held = false;
    enum rc rc;

    while (kind < HOUSEKEEP_KINDS && rules->keep_days[kind] == 0)
        kind++;
    housekeep->kind = kind;
    if (kind == HOUSEKEEP_KINDS) {
        housekeep->phase = HOUSEKEEP_FINISH;
        return RC_OK;
    }
    rc = store->renew(store->ctx, &housekeep->lease, &held, &housekeep->err);
    if (rc != RC_OK)
        return rc;
    if (!held) {
        abandon_round(housekeep);
        return RC_OK;
    }
    rc = store->delete_old(store->ctx, kind, rules->keep_days[kind], rules->batch_rows_max, &rows,
                           &housekeep->err);
    if (rc == RC_RETRY)
        return rc;
    if (rc != RC_OK)
        postpone_work(housekeep, housekeep_kind_name(kind));
    metric_add(&housekeep_deleted[kind], (int64_t)rows);
    housekeep->counts.deleted[kind] += rows;
    if (rows == 0 || housekeep_kind_marks(kind))
        housekeep->kind++;
    else
        *wait_ms = rules->pause_ms;
    return RC_OK;
}

static void log_finished(const struct housekeep_counts *counts)
{
    uint64_t deleted = 0;
    uint64_t marked = 0;

    for (size_t i = 0; i < HOUSEKEEP_KINDS; i++)
        *(housekeep_kind_marks((enum housekeep_kind)i) ? &marked : &deleted) += counts->deleted[i];
    log_event(LOG_INFO, "housekeeping_finished",
              "made=%" PRIu64 " dropped=%" PRIu64 " folded=%" PRIu64 " deleted=%" PRIu64
              " marked=%" PRIu64 " postponed=%" PRIu64 " ms=%" PRId64,
              counts->made, counts->dropped, counts->folded, deleted, marked, counts->postponed,
              counts->ms);
}

static enum rc finish_round(struct housekeep *housekeep, int64_t now_ms)
{
    const struct housekeep_store *store = housekeep->config.store;
    struct housekeep_counts *counts = &housekeep->counts;
    bool held = false;
    enum rc rc = store->finish(store->ctx, &housekeep->lease, &held, &housekeep->err);

    if (rc != RC_OK)
        return rc;
    if (!held) {
        abandon_round(housekeep);
        return RC_OK;
    }
    counts->ms = now_ms - housekeep->start_ms;
    housekeep->rounds++;
    housekeep->late_since_ms = SINGLETON_ON_TIME;
    housekeep->phase = housekeep->config.once ? HOUSEKEEP_ENDED : HOUSEKEEP_IDLE;
    metric_set(&housekeep_postponed, (int64_t)counts->postponed);
    if (!housekeep->config.once)
        log_finished(counts);
    return RC_OK;
}

static const char *phase_name(enum housekeep_phase phase)
{
    static const char *const names[] = {"idle", "plan",   "make",   "begin", "fold",
                                        "drop", "delete", "finish", "none"};

    return names[phase];
}

static int64_t end_good_step(struct housekeep *housekeep, int64_t now_ms, int64_t wait_ms)
{
    condition_ok(&housekeep->database, now_ms);
    backoff_reset(&housekeep->backoff);
    if (housekeep->phase == HOUSEKEEP_ENDED)
        return LOOP_END;
    if (housekeep->phase != HOUSEKEEP_IDLE)
        housekeep->late_since_ms = now_ms;
    return wait_ms;
}

static int64_t fail_engine(struct housekeep *housekeep, int64_t now_ms)
{
    err_wrap(&housekeep->err, "%s", phase_name(housekeep->phase));
    log_error(LOG_ERROR, "role_failed", &housekeep->err, "role=housekeep");
    condition_fail(&housekeep->database, now_ms, &housekeep->err);
    housekeep->phase = HOUSEKEEP_ENDED;
    if (housekeep->config.stop)
        stop_fail(housekeep->config.stop);
    return LOOP_END;
}

static int64_t handle_result(struct housekeep *housekeep, int64_t now_ms, int64_t wait_ms)
{
    switch (housekeep->rc) {
    case RC_OK:
        return end_good_step(housekeep, now_ms, wait_ms);
    case RC_RETRY:
        metric_add(&housekeep_failures, 1);
        condition_fail(&housekeep->database, now_ms, &housekeep->err);
        return backoff_next_ms(&housekeep->backoff, housekeep->config.rng());
    case RC_REJECT: /* work that can be postponed was postponed before; the rest cannot succeed */
    case RC_FATAL:
        metric_add(&housekeep_failures, 1);
        return fail_engine(housekeep, now_ms);
    }
    return LOOP_END;
}

struct dry {
    const struct housekeep_store *store;
    const struct housekeep_rules *rules;
    housekeep_on_would on_would;
    void *ctx;
    struct housekeep_state state;
    struct housekeep_part *parts;
    size_t count;
};

static enum rc report_part(struct dry *dry, enum housekeep_deed deed,
                           const struct housekeep_part *part, const struct housekeep_part *counted,
                           struct err *err)
{
    struct housekeep_would would = {.deed = deed, .name = part->name, .limit_day = part->limit_day};
    enum rc rc = RC_OK;

    if (counted)
        rc = dry->store->count_rows(dry->store->ctx, counted, HOUSEKEEP_DRY_ROWS_MAX, &would.rows,
                                    err);
    if (rc == RC_OK)
        dry->on_would(dry->ctx, &would);
    return rc;
}

/* The list of partitions grows at the position of the one without a limit, which is put back at the
 * end. */
static enum rc report_makes(struct dry *dry, struct err *err)
{
    int64_t ahead_day =
        housekeep_ahead_day(dry->state.now_ms / MS_PER_DAY, dry->rules->months_ahead);
    struct housekeep_part *last = dry->count > 0 ? &dry->parts[dry->count - 1] : NULL;
    struct housekeep_part open;
    size_t limited = dry->count;
    enum rc rc = RC_OK;

    assert(dry->parts);
    if (last && last->limit_day == HOUSEKEEP_NO_LIMIT) {
        open = *last;
        last = &open;
        limited--;
    } else {
        last = NULL;
    }
    while (rc == RC_OK && limited < HOUSEKEEP_PARTS_MAX) {
        struct housekeep_next next = housekeep_next_make(dry->parts, limited, ahead_day);

        if (next.act != HOUSEKEEP_MAKE)
            break;
        rc = report_part(dry, HOUSEKEEP_WOULD_MAKE, &next.part, last, err);
        dry->parts[limited++] = next.part;
    }
    if (last && limited < HOUSEKEEP_PARTS_MAX)
        dry->parts[limited++] = open;
    dry->count = limited;
    return rc;
}

static enum rc report_drops(struct dry *dry, struct err *err)
{
    const struct housekeep_state *state = &dry->state;
    int64_t keep_day =
        housekeep_keep_day(state->now_ms / MS_PER_DAY, state->newest_day, dry->rules->keep_months);
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < dry->count; i++) {
        struct housekeep_next next =
            housekeep_next_drop(dry->parts + i, dry->count - i, state->begin_day, keep_day);

        if (next.act == HOUSEKEEP_NOTHING)
            break;
        rc = report_part(dry, HOUSEKEEP_WOULD_DROP, &next.part, &next.part, err);
    }
    return rc;
}

static enum rc report_deletes(struct dry *dry, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < HOUSEKEEP_KINDS; i++) {
        enum housekeep_kind kind = (enum housekeep_kind)i;
        struct housekeep_would would = {
            .deed = housekeep_kind_marks(kind) ? HOUSEKEEP_WOULD_MARK : HOUSEKEEP_WOULD_DELETE,
            .name = housekeep_kind_name(kind),
            .keep_days = dry->rules->keep_days[i],
        };

        if (would.keep_days == 0)
            continue;
        rc = dry->store->count_old(dry->store->ctx, kind, would.keep_days, HOUSEKEEP_DRY_ROWS_MAX,
                                   &would.rows, err);
        if (rc == RC_OK && would.rows > 0)
            dry->on_would(dry->ctx, &would);
    }
    return rc;
}

const char *housekeep_kind_name(enum housekeep_kind kind)
{
    static const char *const names[] = {
        [HOUSEKEEP_INSTANCES] = "instance",
        [HOUSEKEEP_PROGRESS] = "consumer_progress",
        [HOUSEKEEP_DEAD] = "dead_record",
        [HOUSEKEEP_HISTORY] = "dead_history",
        [HOUSEKEEP_TASKS] = "retry_task_history",
        [HOUSEKEEP_ATTEMPTS] = "retry_attempt",
        [HOUSEKEEP_AUDIT] = "retry_audit",
        [HOUSEKEEP_EXPIRED_REMARKS] = "remark",
        [HOUSEKEEP_EXPIRED_CONTENTS] = "deleted_content",
        [HOUSEKEEP_CHANGES] = "recommended_change",
    };

    return names[kind];
}

bool housekeep_kind_marks(enum housekeep_kind kind)
{
    return kind == HOUSEKEEP_EXPIRED_REMARKS || kind == HOUSEKEEP_EXPIRED_CONTENTS;
}

int64_t housekeep_ahead_day(int64_t now_day, int64_t months_ahead)
{
    return date_month_begin(now_day, months_ahead + 1);
}

int64_t housekeep_keep_day(int64_t now_day, int64_t newest_day, int64_t keep_months)
{
    if (keep_months == 0 || newest_day == INT64_MIN)
        return HOUSEKEEP_KEEP_ALL;
    return date_month_begin(newest_day < now_day ? newest_day : now_day, -keep_months);
}

struct housekeep_next housekeep_next_make(const struct housekeep_part *parts, size_t count,
                                          int64_t ahead_day)
{
    struct housekeep_next next = {.act = HOUSEKEEP_NOTHING};
    struct date date;

    if (count > 0 && parts[count - 1].limit_day == HOUSEKEEP_NO_LIMIT)
        count--;
    if (count == 0 || parts[count - 1].limit_day >= ahead_day)
        return next;
    date = date_of(parts[count - 1].limit_day);
    next.act = HOUSEKEEP_MAKE;
    next.part.limit_day = date_month_begin(parts[count - 1].limit_day, 1);
    snprintf(next.part.name, sizeof(next.part.name), "p%04d%02d", date.year, date.month);
    return next;
}

/* The table keeps one partition that ends at a date, whatever its age: it tells where the next one
 * begins. */
struct housekeep_next housekeep_next_drop(const struct housekeep_part *parts, size_t count,
                                          int64_t begin_day, int64_t keep_day)
{
    struct housekeep_next next = {.act = HOUSEKEEP_NOTHING};

    if (count < 2 || parts[0].limit_day == HOUSEKEEP_NO_LIMIT ||
        parts[1].limit_day == HOUSEKEEP_NO_LIMIT)
        return next;
    next.part = parts[0];
    if (parts[0].limit_day <= begin_day)
        next.act = HOUSEKEEP_DROP;
    else if (parts[0].limit_day <= keep_day)
        next.act = HOUSEKEEP_BEGIN;
    return next;
}

enum rc housekeep_init(struct housekeep *housekeep, const struct housekeep_config *config,
                       struct err *err)
{
    assert(config->interval_ms > 0 && config->lease_ms > 0 && config->rules.batch_rows_max > 0);
    *housekeep = (struct housekeep){
        .config = *config,
        .lease = {.owner = config->owner, .lease_ms = config->lease_ms},
        .backoff = {.base_ms = RETRY_MS, .cap_ms = RETRY_MS_MAX},
        .late_since_ms = SINGLETON_ON_TIME,
    };
    housekeep->parts = calloc(HOUSEKEEP_PARTS_MAX, sizeof(*housekeep->parts));
    if (!housekeep->parts)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    condition_init(&housekeep->database, CONDITION_DEPENDENCY,
                   "dep=sink role=housekeep reason=cannot_housekeep");
    return RC_OK;
}

void housekeep_done(struct housekeep *housekeep)
{
    condition_done(&housekeep->database);
    free(housekeep->parts);
    housekeep->parts = NULL;
}

int64_t housekeep_step(void *arg, int64_t now_ms)
{
    struct housekeep *housekeep = arg;
    int64_t wait_ms = 0;

    switch (housekeep->phase) {
    case HOUSEKEEP_IDLE:
        housekeep->rc = look_for_work(housekeep, now_ms, &wait_ms);
        break;
    case HOUSEKEEP_PLAN:
        housekeep->rc = plan_next(housekeep);
        break;
    case HOUSEKEEP_MAKING:
        housekeep->rc = make_part(housekeep);
        break;
    case HOUSEKEEP_BEGINNING:
        housekeep->rc = move_begin(housekeep);
        break;
    case HOUSEKEEP_FOLDING:
        housekeep->rc = fold_rows(housekeep, &wait_ms);
        break;
    case HOUSEKEEP_DROPPING:
        housekeep->rc = drop_part(housekeep);
        break;
    case HOUSEKEEP_DELETING:
        housekeep->rc = delete_old(housekeep, &wait_ms);
        break;
    case HOUSEKEEP_FINISH:
        housekeep->rc = finish_round(housekeep, now_ms);
        break;
    case HOUSEKEEP_ENDED:
        return LOOP_END;
    }
    return handle_result(housekeep, now_ms, wait_ms);
}

void housekeep_leave(struct housekeep *housekeep)
{
    bool holds = housekeep->phase != HOUSEKEEP_IDLE && housekeep->phase != HOUSEKEEP_ENDED;

    /* While the database fails, this call may take longer than the lease lasts. */
    if (holds && !condition_read(&housekeep->database, NULL))
        housekeep->config.store->release(housekeep->config.store->ctx, &housekeep->lease);
    housekeep->phase = HOUSEKEEP_ENDED;
}

enum rc housekeep_dry(const struct housekeep_store *store, const struct housekeep_rules *rules,
                      housekeep_on_would on_would, void *ctx, struct err *err)
{
    struct dry dry = {.store = store, .rules = rules, .on_would = on_would, .ctx = ctx};
    enum rc rc;

    dry.parts = calloc(HOUSEKEEP_PARTS_MAX, sizeof(*dry.parts));
    if (!dry.parts)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    rc = store->read_state(store->ctx, &dry.state, err);
    if (rc == RC_OK)
        rc = store->read_parts(store->ctx, dry.parts, HOUSEKEEP_PARTS_MAX, &dry.count, err);
    if (rc == RC_OK)
        rc = report_makes(&dry, err);
    if (rc == RC_OK)
        rc = report_drops(&dry, err);
    if (rc == RC_OK)
        rc = report_deletes(&dry, err);
    free(dry.parts);
    return rc;
}
