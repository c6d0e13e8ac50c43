/* SPDX-License-Identifier: MIT */
#include "outbox/relay/cli/relay_source_command.h"

#include "common/options.h"
#include "common/os.h"
#include "common/text.h"
#include "outbox/relay/cli/backfill_run_command.h"
#include "outbox/relay/stream/position_store_mysql.h"
#include "outbox/relay/stream/seq_ranges.h"
#include "outbox/relay/stream/stream_cleaner_mysql.h"
#include "outbox/relay/stream/table_cut_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rows of one deletion. */
#define PIECE_ROWS_MAX 2000

/* A single call may take longer than the lease of a relay. */
#define LEASE_MS_MIN INT64_C(5000)

/* Writers wait behind the lock on the table while a cut is tried. */
#define CUT_PAUSE_MS 1000

/* How often the last transaction of a change is tried when its answers are lost. */
#define LAST_TRIES_MAX 5
#define LAST_PAUSE_MS 1000

struct request {
    const char *lane;
    bool to_log;
    bool from_table;
    bool json;
    int64_t wait_s;
};

struct change {
    struct backfill_run *run;
    const struct request *request;
    int64_t until_ms;
    struct db *cutter;
    struct table_cut cut;
    struct position_store_mysql positions;
    int64_t deleted;
    bool done_before; /* there was nothing to do */
    bool back_to_log; /* only the source that relays need is to be set */
    bool fenced;      /* the lease was lost */
};

static enum rc pause_change(const struct change *change, int64_t wait_ms, struct err *err)
{
    if (stop_wait(&change->run->stop, wait_ms))
        return err_fail(err, RC_RETRY, 0, "ended by a signal");
    return lane_hold_keep(&change->run->base.hold, os_now_ms(), err);
}

static enum rc check_keep(const struct lane_settings *lane, struct err *err)
{
    if (lane->keep_ms >= 0)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "with lane.%s.keep_ms = -1 it is not saved which rows are published: delete "
                    "those, set keep_ms, and run this again",
                    lane->name);
}

static enum rc take_lease(const struct change *change, struct err *err)
{
    struct backfill_run *run = change->run;
    int64_t lease_ms = run->settings->relay.lease_ms;
    const struct lane_hold_wait wait = {change->until_ms, &run->stop};

    return lane_hold_take_lease(&run->base.hold, run->base.hold_db, run->lane->table,
                                lease_ms < LEASE_MS_MIN ? LEASE_MS_MIN : lease_ms, &wait, err);
}

/* A transaction that is open for longer than the lock waits keeps the cut from being made. */
static enum rc make_cut(struct change *change, struct err *err)
{
    struct backfill_run *run = change->run;

    for (;;) {
        enum rc rc = table_cut_mysql_make(change->cutter, run->lane->table, &change->cut, err);

        if (rc != RC_RETRY || os_now_ms() >= change->until_ms)
            return rc;
        rc = pause_change(change, CUT_PAUSE_MS, err);
        if (rc != RC_OK)
            return rc;
    }
}

static enum rc save_position(struct change *change, struct err *err)
{
    struct backfill_run *run = change->run;
    const struct lane_hold *hold = &run->base.hold;
    const struct position_store store = position_store_mysql_ops(&change->positions);
    const struct done_rows none = {0};
    enum rc rc = lane_hold_keep(&run->base.hold, os_now_ms(), err);

    if (rc == RC_OK)
        rc = store.save(store.ctx, &change->cut.position, &none, hold->epoch, &change->fenced, err);
    if (rc == RC_OK && change->fenced)
        return err_fail(err, RC_RETRY, 0, "a relay has taken the lane meanwhile");
    return rc;
}

/* A lane without a position gets one only when a change has saved it, or when a relay begins that
 * reads the log, which it does with an empty table alone. */
static bool is_done(const struct change *change, const struct lane_record *record)
{
    if (change->request->to_log)
        return record->has_position && !record->from_table && record->is_set && record->to_log;
    return !record->has_position && !record->has_published && record->is_set && !record->to_log;
}

/* Runs the last transaction of a change. A COMMIT whose answer is lost may be done: the transaction
 * is repeated, which is harmless and waits for the first one, and at last the record of the lane is
 * read. */
static enum rc finish_change(struct change *change,
                             enum rc (*step)(struct change *change, struct err *err),
                             struct err *err)
{
    struct lane_record record = {0};
    struct err why = {0};
    enum rc rc = RC_RETRY;

    for (int tries = 0; rc == RC_RETRY && !change->fenced && tries < LAST_TRIES_MAX; tries++) {
        if (tries > 0 && stop_wait(&change->run->stop, LAST_PAUSE_MS))
            break;
        rc = step(change, &why);
    }
    if (rc != RC_RETRY) {
        if (rc != RC_OK && err)
            *err = why;
        return rc;
    }
    rc = backfill_mysql_read_record(&change->run->base, &record, NULL);
    if (rc == RC_OK && is_done(change, &record))
        return RC_OK;
    if (rc == RC_OK && change->fenced)
        return err_fail(err, RC_RETRY, why.code, "%s: run the command again", why.text);
    return err_fail(err, RC_RETRY, why.code, "%s: run the command again: %s",
                    rc == RC_OK ? "the change of the source is not finished"
                                : "it is not known whether the source of the lane is changed",
                    why.text);
}

static enum rc check_position(const struct change *change, const struct lane_record *record,
                              struct err *err)
{
    if (!record->has_position || change->back_to_log || change->done_before)
        return RC_OK;
    if (!change->request->from_table && record->from_table)
        return err_fail(err, RC_REJECT, 0,
                        "a relay has abandoned the position of lane %s, because the server had "
                        "purged its log: run this command with --from-table, or start a relay with "
                        "lane.%s.from_table = yes",
                        change->run->lane->name, change->run->lane->name);
    if (!change->request->from_table)
        return err_fail(err, RC_REJECT, 0,
                        "lane %s has a position in the binary log, and goes on there. With "
                        "--from-table it goes on with the rows of its table that are not saved as "
                        "published, and then at the present end of the log: for a log that the "
                        "server has deleted",
                        change->run->lane->name);
    return check_keep(change->run->lane, err);
}

static enum rc set_source(struct change *change, const char *source, struct err *err)
{
    struct backfill_mysql *base = &change->run->base;
    enum rc rc = lane_hold_keep(&base->hold, os_now_ms(), err);

    return rc == RC_OK ? backfill_mysql_set_source(base, source, err) : rc;
}

static enum rc read_record(struct change *change, struct lane_record *record, struct err *err)
{
    enum rc rc = backfill_mysql_read_record(&change->run->base, record, err);

    if (rc != RC_OK)
        return rc;
    /* An earlier version set the source first: a change to the table that was killed then has left
     * the position, and all behind it is in the log. */
    change->back_to_log =
        record->has_position && record->is_set && !record->to_log && !change->request->from_table;
    change->done_before = is_done(change, record) && !change->request->from_table;
    return check_position(change, record, err);
}

/* A relay is asked for the lane only if the change is not refused. */
static enum rc change_to_log(struct change *change, struct err *err)
{
    struct backfill_run *run = change->run;
    struct lane_record record = {0};
    enum rc rc = read_record(change, &record, err);

    if (rc == RC_OK && !change->done_before)
        rc = take_lease(change, err);
    if (rc == RC_OK && !change->done_before)
        rc = read_record(change, &record, err);
    if (rc == RC_OK && change->done_before)
        return RC_OK;
    if (rc == RC_OK && change->back_to_log)
        return lane_hold_set_source(&run->base.hold, LANE_SOURCE_BINLOG, err);
    if (rc == RC_OK)
        rc = db_open(&change->cutter, &run->settings->mysql, err);
    if (rc != RC_OK)
        return rc;
    origin_mysql_guard(&run->base.origin, change->cutter);
    rc = position_store_mysql_open(&change->positions, run->lane, run->base.hold.owner,
                                   &run->base.origin, run->settings, err);
    if (rc == RC_OK)
        rc = make_cut(change, err);
    if (rc == RC_OK)
        rc = backfill_mysql_check_entries(&run->base, err);
    /* Until the position is saved the lane has none: a relay that went on at the old one after this
     * was killed would publish rows again that are published here. */
    if (rc == RC_OK)
        rc = set_source(change, LANE_SOURCE_BINLOG, err);
    if (rc == RC_OK)
        rc = backfill_run_rows(run, change->cut.high_seq, true, err);
    return rc == RC_OK ? finish_change(change, save_position, err) : rc;
}

static enum rc delete_entry(struct change *change, const struct cleaner_ops *ops,
                            const struct cleaner_entry *entry, struct err *err)
{
    struct seq_ranges left = {.data = entry->rows.data, .len = entry->rows.len};
    int64_t epoch = change->run->base.hold.epoch;
    enum rc rc = RC_OK;

    while (rc == RC_OK) {
        struct seq_range ranges[DELETER_RANGES_MAX];
        bool fenced = false;
        size_t count = 0;

        rc = seq_ranges_read(&left, ranges, DELETER_RANGES_MAX, PIECE_ROWS_MAX, &count, err);
        if (rc != RC_OK || count == 0)
            break;
        rc = ops->delete_ranges(ops->ctx, ranges, count, epoch, &fenced, err);
        if (rc == RC_OK && fenced)
            rc = err_fail(err, RC_RETRY, 0, "a relay has taken the lane meanwhile");
        for (size_t i = 0; i < count && rc == RC_OK; i++)
            change->deleted += ranges[i].to - ranges[i].from + 1;
        if (rc == RC_OK)
            rc = pause_change(change, 0, err);
    }
    return rc == RC_OK ? ops->end(ops->ctx, CLEANER_SEQS, entry->number, err) : rc;
}

static enum rc delete_published(struct change *change, struct err *err)
{
    struct backfill_run *run = change->run;
    struct stream_cleaner_mysql cleaner = {0};
    struct cleaner_entry entry = {0};
    enum rc rc =
        stream_cleaner_mysql_open(&cleaner, run->lane, run->base.hold.owner, run->settings, err);
    const struct cleaner_ops ops = stream_cleaner_mysql_ops(&cleaner);
    bool found = rc == RC_OK;

    while (rc == RC_OK && found) {
        rc = ops.oldest(ops.ctx, CLEANER_SEQS, INT64_MIN, &entry, &found, err);
        if (rc == RC_OK && entry.rows.failed)
            rc = err_fail(err, RC_FATAL, 0, "no memory for the seqs of published rows");
        if (rc == RC_OK && found)
            rc = delete_entry(change, &ops, &entry, err);
    }
    buf_done(&entry.rows);
    stream_cleaner_mysql_close(&cleaner);
    return rc;
}

static enum rc set_table_source(struct change *change, struct err *err)
{
    return set_source(change, LANE_SOURCE_TABLE, err);
}

/* New rows of a table that was emptied have seqs of rows that are saved as published. They would be
 * deleted, and no relay would read the log from which it publishes them. */
static enum rc check_entries(struct backfill_run *run, struct err *err)
{
    const char *table = run->lane->table;
    enum rc rc = backfill_mysql_check_entries(&run->base, err);

    if (rc != RC_REJECT)
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "table %s was emptied (TRUNCATE, DROP TABLE, RENAME) after rows of it were "
                    "saved as published, and new rows have their seqs: let a relay with source = "
                    "binlog read the log to its end, and repeat the command. If that does not "
                    "help, delete the rows of relay_published with lane = '%s': all rows of the "
                    "table are published then",
                    table, table);
}

/* Invariant: the source is changed behind all deletions. Until then the lane is one that reads the
 * log, and after a kill or a failure a relay goes on at its position: the rows that were deleted
 * are before it. */
static enum rc change_to_table(struct change *change, struct err *err)
{
    struct backfill_run *run = change->run;
    struct lane_record record;
    enum rc rc = backfill_mysql_read_record(&run->base, &record, err);

    if (rc != RC_OK)
        return rc;
    change->done_before = !record.has_position && !record.has_published && !record.to_log;
    if (change->done_before)
        return RC_OK;
    rc = check_keep(run->lane, err);
    /* Of the log before this end the relay that gives the lane up has read all. */
    if (rc == RC_OK)
        rc = backfill_mysql_note_end(&run->base, err);
    if (rc == RC_OK)
        rc = take_lease(change, err);
    if (rc == RC_OK)
        rc = check_entries(run, err);
    if (rc == RC_OK)
        rc = delete_published(change, err);
    return rc == RC_OK ? finish_change(change, set_table_source, err) : rc;
}

static void put_text(const struct change *change, struct buf *out)
{
    const struct lane_settings *lane = change->run->lane;

    if (change->request->to_log && change->done_before) {
        buf_print(
            out,
            "lane %s reads the binary log, and goes on at its position there; --from-table is "
            "for a log that the server has deleted\n",
            lane->name);
    } else if (change->request->to_log) {
        backfill_run_put_text(change->run, out);
        if (change->request->from_table)
            buf_text_put(out, "rows that a relay published after the last position that it saved "
                              "are repeated\n");
        buf_print(
            out, "lane %s goes on in the binary log: relays with lane.%s.source = binlog take it\n",
            lane->name, lane->name);
    } else if (change->done_before) {
        buf_print(out, "lane %s reads its table\n", lane->name);
    } else {
        buf_print(out,
                  "the published rows of table %s are deleted; lane %s goes on with those that are "
                  "left: relays with lane.%s.source = table take it\n",
                  lane->table, lane->name, lane->name);
    }
}

static void put_json(const struct change *change, struct buf *out)
{
    buf_text_put(out, "{\"lane\": ");
    json_text_put(out, change->run->lane->name);
    buf_print(out, ", \"source\": \"%s\"", change->request->to_log ? "binlog" : "table");
    if (change->request->to_log) {
        buf_text_put(out, ", ");
        backfill_run_put_json(change->run, out);
    }
    buf_text_put(out, "}\n");
}

static void close_change(struct change *change)
{
    position_store_mysql_close(&change->positions);
    db_close(change->cutter);
    buf_done(&change->cut.position.before);
    backfill_run_close(change->run);
}

static int run_request(const struct settings *settings, const struct request *request)
{
    struct change change = {.request = request, .until_ms = os_now_ms() + request->wait_s * 1000};
    struct buf out = {0};
    struct err err = {0};
    enum rc rc =
        backfill_run_open(&change.run, settings, request->lane, request->wait_s * 1000, &err);

    if (rc == RC_OK)
        rc = backfill_mysql_check_table(&change.run->base, !request->to_log, &err);
    if (rc == RC_OK)
        rc = request->to_log ? change_to_log(&change, &err) : change_to_table(&change, &err);
    if (rc == RC_OK && request->json)
        put_json(&change, &out);
    else if (rc == RC_OK)
        put_text(&change, &out);
    if (rc != RC_OK)
        err_wrap(&err, "lane %s", request->lane);
    close_change(&change);
    return rc == RC_OK ? options_print(&out) : options_fail(rc, &err);
}

static int check_arguments(const struct options *options, struct request *request)
{
    const char *source = options->argument_count == 2 ? options->arguments[1] : "";

    request->lane = options->argument_count == 2 ? options->arguments[0] : NULL;
    request->to_log = strcmp(source, LANE_SOURCE_BINLOG) == 0;
    if ((request->to_log || (strcmp(source, LANE_SOURCE_TABLE) == 0 && !request->from_table)) &&
        request->wait_s >= 0 && request->wait_s <= BACKFILL_WAIT_S_MAX)
        return -1;
    fprintf(stderr,
            "tallybox relay source: expected LANE and table or binlog, --from-table with binlog "
            "only, and --wait with seconds up to %d\nTry `tallybox relay source --help`.\n",
            BACKFILL_WAIT_S_MAX);
    return EXIT_USAGE;
}

int relay_source_command(int argc, char **argv)
{
    struct request request = {.wait_s = BACKFILL_WAIT_S};
    const struct option_entry entries[] = {
        {"from-table", OPTION_FLAG, &request.from_table, NULL,
         "with binlog: also if the lane has a position; for a log that the server has deleted",
         NULL},
        {"wait", OPTION_NUMBER, &request.wait_s, "SECONDS",
         "how long to wait for the relay that holds the lane, an open transaction of a writer, and "
         "a broker that acknowledges nothing; default 60",
         NULL},
        {"json", OPTION_FLAG, &request.json, NULL, "print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox relay source",
        .role = "relay",
        .arguments = "LANE table|binlog",
        .about =
            "Changes from where a lane is read, its table or the binary log, while writers and "
            "relays go on. The relay that holds the lane finishes what it has in flight and "
            "releases it; afterwards only relays with the new lane.NAME.source take it, and the "
            "others say so: start them one by one with the other setting, before or after. No row "
            "is lost, and none is published twice. If this command was killed, run it "
            "again, or that of the other direction; it then repeats 1000 rows at most.\n\n"
            "binlog publishes the rows that the table has, and lets the lane go on behind them in "
            "the log. Rows that the broker refuses become tasks of the retry queue. With "
            "--from-table it does so for a lane whose position the server has deleted: rows that "
            "are saved as published are left out. table deletes the rows that are published, and "
            "lets the lane go on with the others.\n\n"
            "Exit code 1: it was refused; the error says what to do before it is run again. 3: a "
            "server could not be reached, a signal came, or it is not known whether the change is "
            "done; run it again.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox relay source outbox binlog\n"
                    "  tallybox relay source outbox binlog --from-table\n"
                    "  tallybox relay source outbox table\n",
        .sections = "mysql,kafka,relay," SETTINGS_LANE,
    };
    struct options options;
    struct config *config = NULL;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = check_arguments(&options, &request);
    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    code = run_request(config_settings(config), &request);
    config_free(config);
    return code;
}
