/* SPDX-License-Identifier: MIT */
#include "outbox/relay/fallback/table_fallback.h"

#include "common/log.h"
#include "common/os.h"
#include "outbox/relay/exact/transaction_kafka.h"
#include "outbox/relay/fallback/lost_log.h"
#include "outbox/relay/stream/position_mysql.h"

#include <inttypes.h>
#include <string.h>

/* Writers wait behind the lock on the table while a cut is tried, up to a second: the pauses grow
 * to the second number. */
#define CUT_PAUSE_MS 1000
#define CUT_PAUSES_MAX 60

/* It begins again when the broker has acknowledged nothing for so long. */
#define GIVE_UP_MS 60000

static void set_going(struct table_fallback *fallback, const char *text)
{
    struct err err = {0};

    err_set(&err,
            "the server has purged the binary log at the position of the lane, which goes on from "
            "its table: %s",
            text);
    condition_fail(&fallback->going, os_now_ms(), &err);
}

/* Called often, also while nothing is sent. */
static bool is_held(void *ctx)
{
    const struct table_fallback *fallback = ctx;
    int64_t now_ms = os_now_ms();

    loop_goes_on(now_ms);
    return lane_epoch(fallback->lane, now_ms) == fallback->epoch;
}

static enum rc pause_run(struct table_fallback *fallback, int64_t wait_ms, struct err *err)
{
    if (stop_wait(&fallback->stop, wait_ms))
        return err_fail(err, RC_RETRY, 0, "the relay gives the lane back");
    return lane_hold_keep(&fallback->run.base.hold, os_now_ms(), err);
}

static enum rc open_run(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;
    const struct lane_settings *own = fallback->lane->own;
    const struct settings *settings = fallback->lane->settings;
    enum rc rc = backfill_mysql_open(&run->base, own, settings, &fallback->stop, GIVE_UP_MS, err);

    broker_kafka_open(&run->broker, own, settings, -1);
    if (rc == RC_OK)
        rc = db_open(&run->cutter, &settings->mysql, err);
    if (rc == RC_OK) {
        origin_mysql_guard(&run->base.origin, run->cutter);
        rc = position_store_mysql_open(&run->positions, own, fallback->instance, &run->base.origin,
                                       settings, err);
        position_store_mysql_let_go_on(&run->positions);
    }
    return rc;
}

/* Another command that publishes rows of the table ends by itself. */
static enum rc take_lock(struct table_fallback *fallback, struct err *err)
{
    struct backfill_mysql *base = &fallback->run.base;
    enum rc rc = lane_hold_take_lock(&base->hold, base->hold_db, fallback->lane->own->table,
                                     fallback->lane->settings->relay.lease_ms, os_now_ms(), err);

    if (rc == RC_OK)
        lane_hold_use_lease(&base->hold, fallback->instance, fallback->epoch, is_held, fallback);
    return rc == RC_REJECT ? RC_RETRY : rc;
}

static void close_run(struct fallback_run *run)
{
    backfill_done(&run->backfill);
    position_store_mysql_close(&run->positions);
    broker_kafka_close(&run->broker);
    backfill_mysql_close(&run->base);
    db_close(run->cutter);
    buf_done(&run->position.before);
    buf_done(&run->cut.position.before);
    memset(run, 0, sizeof(*run));
}

static enum rc load_position(struct fallback_run *run, struct err *err)
{
    const struct position_store ops = position_store_mysql_ops(&run->positions);
    bool found = false;
    enum rc rc = ops.load(ops.ctx, &run->position, &found, err);

    if (rc == RC_OK && !found)
        return err_fail(err, RC_RETRY, 0, "the lane has no position any more");
    return rc;
}

/* That this server has had the whole log up to the position, and the lane read it there. */
static enum rc check_server(struct fallback_run *run, struct err *err)
{
    if (run->position.from_table)
        return RC_OK;
    if (run->position.moved)
        return err_fail(err, RC_REJECT, 0,
                        "another server has saved the position, and this one may lack what is "
                        "saved of published rows");
    if (run->position.time_s == 0)
        return err_fail(err, RC_REJECT, 0, "it is not known when the position was committed");
    return position_mysql_check_written(run->base.db, &run->position, err);
}

/* After the rows were counted. */
static enum rc check_first_row(struct fallback_run *run, struct err *err)
{
    const struct backfill_result *result = &run->backfill.result;
    int64_t time_s = 0;
    bool found = false;
    enum rc rc = RC_OK;

    if (run->position.from_table || result->found == 0)
        return RC_OK;
    rc = backfill_mysql_row_time(&run->base, result->first_seq, &time_s, &found, err);
    /* The cleaner may have deleted it, and then what told that it is published, while they were
     * read. */
    if (rc == RC_OK && !found)
        return err_fail(err, RC_RETRY, 0, "row %" PRId64 " was deleted while the rows were counted",
                        result->first_seq);
    if (rc != RC_OK || time_s >= run->position.time_s - FALLBACK_MARGIN_S)
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "row %" PRId64 ", %" PRId64 " s older than the position, is not saved as "
                    "published: it came past the log, or another program has published it",
                    result->first_seq, run->position.time_s - time_s);
}

static void note_refused(void *ctx, int64_t seq, bool moved, const struct err *why)
{
    const struct table_fallback *fallback = ctx;

    (void)moved;
    metric_add(&fallback->lane->metrics->moved, 1);
    if (!why)
        return;
    metric_add(&fallback->lane->metrics->refused, 1);
    log_error(LOG_WARN, "key_diverted", why, "lane=%s seq=%" PRId64, fallback->lane->name, seq);
}

static enum rc open_backfill(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;
    const struct broker broker = broker_kafka_ops(&run->broker);
    struct backfill_ops ops = backfill_mysql_ops(&run->base);

    ops.on_refused = note_refused;
    ops.on_refused_ctx = fallback;
    return backfill_init(&run->backfill, &ops, &broker, fallback->lane->own,
                         fallback->lane->settings, GIVE_UP_MS, err);
}

static enum rc count_rows(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;
    int64_t upto = 0;
    enum rc rc = backfill_mysql_highest_seq(&run->base, &upto, err);

    set_going(fallback, "its rows that are not published are counted");
    if (rc == RC_OK)
        rc = backfill_run(&run->backfill, upto, false, err);
    return rc == RC_OK ? check_first_row(run, err) : rc;
}

/* A transaction that is open for longer than the lock waits keeps the cut from being made. */
static enum rc make_cut(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;

    for (int pauses = 1;; pauses = pauses < CUT_PAUSES_MAX / 2 ? 2 * pauses : CUT_PAUSES_MAX) {
        struct err why = {0};
        enum rc rc = table_cut_mysql_make(run->cutter, fallback->lane->own->table, &run->cut, &why);

        if (rc != RC_RETRY) {
            if (rc != RC_OK && err)
                *err = why;
            return rc;
        }
        set_going(fallback, why.text);
        rc = RC_OK;
        for (int i = 0; i < pauses && rc == RC_OK; i++)
            rc = pause_run(fallback, CUT_PAUSE_MS, err);
        if (rc != RC_OK)
            return rc;
    }
}

static enum rc leave_log(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;
    const struct backfill_result *result = &run->backfill.result;
    const struct lane *lane = fallback->lane;
    int64_t repeats_max = fallback->unsaved_max;
    enum rc rc = RC_OK;

    if (!run->position.from_table)
        rc = backfill_mysql_leave_log(&run->base, err);
    if (rc != RC_OK)
        return rc;
    /* Of a run that was killed a batch may be published and not saved as published. */
    if (run->position.from_table)
        repeats_max += BACKFILL_ROWS_MAX;
    if (repeats_max > result->found)
        repeats_max = result->found;
    if (!run->position.from_table)
        metric_add(&lane->metrics->from_table, 1);
    log_event(LOG_WARN, "lane_left_log",
              "lane=%s table=%s rows=%" PRId64 " first_seq=%" PRId64 " last_seq=%" PRId64
              " repeats_max=%" PRId64,
              lane->name, lane->own->table, result->found, result->first_seq, result->last_seq,
              repeats_max);
    set_going(fallback, "rows that are not published are published from there");
    return RC_OK;
}

static enum rc publish_rows(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;
    struct backfill_result *result = &run->backfill.result;
    enum rc rc;

    memset(result, 0, sizeof(*result));
    rc = backfill_run(&run->backfill, run->cut.high_seq, true, err);
    metric_add(&fallback->lane->metrics->published, result->published);
    return rc;
}

static enum rc save_cut(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;
    const struct position_store ops = position_store_mysql_ops(&run->positions);
    const struct backfill_result *result = &run->backfill.result;
    const struct done_rows none = {0};
    bool fenced = false;
    enum rc rc = ops.save(ops.ctx, &run->cut.position, &none, fallback->epoch, &fenced, err);

    if (rc == RC_OK && fenced)
        return err_fail(err, RC_RETRY, 0, "the lease of the lane was lost");
    if (rc == RC_OK)
        log_event(LOG_INFO, "lane_back_in_log",
                  "lane=%s table=%s published=%" PRId64 " moved=%" PRId64, fallback->lane->name,
                  fallback->lane->own->table, result->published, result->moved);
    return rc;
}

static enum rc run_steps(struct table_fallback *fallback, struct err *err)
{
    struct fallback_run *run = &fallback->run;
    enum rc rc = open_run(fallback, err);

    if (rc == RC_OK)
        rc = load_position(run, err);
    if (rc == RC_OK)
        rc = take_lock(fallback, err);
    if (rc == RC_OK)
        rc = backfill_mysql_check_table(&run->base, false, err);
    if (rc == RC_OK)
        rc = check_server(run, err);
    if (rc == RC_OK)
        rc = open_backfill(fallback, err);
    if (rc == RC_OK)
        rc = count_rows(fallback, err);
    if (rc == RC_OK)
        rc = make_cut(fallback, err);
    if (rc == RC_OK)
        rc = backfill_mysql_check_entries(&run->base, err);
    if (rc == RC_OK)
        rc = leave_log(fallback, err);
    if (rc == RC_OK)
        rc = publish_rows(fallback, err);
    return rc == RC_OK ? save_cut(fallback, err) : rc;
}

/* The text of a server may be long, and is cut at its end. */
static enum rc name_commands(const struct table_fallback *fallback, const struct err *why,
                             struct err *err)
{
    const struct lane_settings *own = fallback->lane->own;
    char ways[LOST_LOG_TEXT_SIZE];

    lost_log_put_ways(ways, own->name,
                      table_cut_mysql_find_obstacle(fallback->run.base.db, own, true));
    return err_fail(err, RC_FATAL, why->code,
                    "the server has purged the log at the position, and the lane does not go on "
                    "from its table: %s: %s",
                    ways, why->text);
}

static bool take_order(struct table_fallback *fallback)
{
    struct err err = {0};
    bool taken;

    pthread_mutex_lock(&fallback->lock);
    taken = fallback->state == FALLBACK_ASKED && !fallback->stopping;
    if (taken) {
        stop_done(&fallback->stop);
        fallback->rc = stop_init(&fallback->stop, &err);
        taken = fallback->rc == RC_OK;
        fallback->err = err;
        fallback->state = taken ? FALLBACK_RUNS : FALLBACK_ENDED;
    }
    pthread_mutex_unlock(&fallback->lock);
    return taken;
}

int64_t table_fallback_step(void *arg, int64_t now_ms)
{
    struct table_fallback *fallback = arg;
    struct err why = {0};
    struct err err = {0};
    enum rc rc;

    (void)now_ms;
    if (!take_order(fallback))
        return LOOP_WAKEUP;
    rc = run_steps(fallback, &why);
    err = why;
    if (rc == RC_REJECT || rc == RC_FATAL)
        rc = name_commands(fallback, &why, &err);
    close_run(&fallback->run);
    condition_ok(&fallback->going, os_now_ms());
    pthread_mutex_lock(&fallback->lock);
    fallback->state = FALLBACK_ENDED;
    fallback->rc = rc;
    fallback->err = err;
    pthread_mutex_unlock(&fallback->lock);
    lane_wake(fallback->lane, LANE_READER);
    return LOOP_WAKEUP;
}

static void begin_fallback(void *ctx, int64_t epoch, int64_t unsaved_max)
{
    struct table_fallback *fallback = ctx;

    pthread_mutex_lock(&fallback->lock);
    fallback->state = FALLBACK_ASKED;
    fallback->epoch = epoch;
    fallback->unsaved_max = unsaved_max;
    pthread_mutex_unlock(&fallback->lock);
    fallback->wake(fallback->wake_ctx);
}

static bool take_end(void *ctx, enum rc *rc, struct err *err)
{
    struct table_fallback *fallback = ctx;
    bool ended;

    pthread_mutex_lock(&fallback->lock);
    ended = fallback->state == FALLBACK_ENDED;
    if (ended) {
        fallback->state = FALLBACK_IDLE;
        *rc = fallback->rc;
        *err = fallback->err;
    }
    pthread_mutex_unlock(&fallback->lock);
    return ended;
}

static bool cancel_fallback(void *ctx)
{
    struct table_fallback *fallback = ctx;
    bool ended;

    pthread_mutex_lock(&fallback->lock);
    if (fallback->state == FALLBACK_RUNS)
        stop_request(&fallback->stop);
    else
        fallback->state = FALLBACK_IDLE;
    ended = fallback->state == FALLBACK_IDLE;
    pthread_mutex_unlock(&fallback->lock);
    return ended;
}

void table_fallback_stop(struct table_fallback *fallback)
{
    if (!fallback->lane)
        return;
    pthread_mutex_lock(&fallback->lock);
    fallback->stopping = true;
    stop_request(&fallback->stop);
    pthread_mutex_unlock(&fallback->lock);
}

bool table_fallback_is_wanted(const struct lane_settings *lane)
{
    return strcmp(lane->from_table, "yes") == 0 && lane->keep_ms >= 0 &&
           !transaction_kafka_wanted(lane) && !lane->columns[0] && !lane->header_columns[0] &&
           strcmp(lane->empty_payload, LANE_EMPTY_VALUE) == 0;
}

enum rc table_fallback_open(struct table_fallback *fallback, struct lane *lane,
                            const char *instance, void (*wake)(void *ctx), void *wake_ctx,
                            struct err *err)
{
    memset(fallback, 0, sizeof(*fallback));
    fallback->lane = lane;
    fallback->instance = instance;
    fallback->wake = wake;
    fallback->wake_ctx = wake_ctx;
    pthread_mutex_init(&fallback->lock, NULL);
    condition_init(&fallback->going, CONDITION_SILENT, "what=from_table role=relay lane=%s",
                   lane->name);
    return stop_init(&fallback->stop, err);
}

void table_fallback_close(struct table_fallback *fallback)
{
    if (!fallback->lane)
        return;
    condition_done(&fallback->going);
    stop_done(&fallback->stop);
    pthread_mutex_destroy(&fallback->lock);
    fallback->lane = NULL;
}

struct fallback_ops table_fallback_ops(struct table_fallback *fallback)
{
    return (struct fallback_ops){fallback, begin_fallback, take_end, cancel_fallback};
}
