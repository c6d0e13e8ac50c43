/* SPDX-License-Identifier: MIT */
#include "outbox/relay/cli/relay_missing_command.h"

#include "common/options.h"
#include "common/os.h"
#include "common/text.h"
#include "outbox/relay/cli/backfill_run_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct request {
    const char *lane;
    int64_t wait_s;
    bool dry_run;
    bool json;
};

static enum rc check_lane(struct backfill_run *run, struct err *err)
{
    const struct lane_settings *lane = run->lane;
    struct lane_record record;
    enum rc rc;

    if (strcmp(lane->source, LANE_SOURCE_BINLOG) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "lane %s reads its table, so it publishes all rows that are there",
                        lane->name);
    if (lane->keep_ms < 0)
        return err_fail(err, RC_REJECT, 0,
                        "with lane.%s.keep_ms = -1 it is not saved which rows are published",
                        lane->name);
    rc = backfill_mysql_check_table(&run->base, false, err);
    if (rc == RC_OK)
        rc = backfill_mysql_read_record(&run->base, &record, err);
    if (rc == RC_OK && !record.has_position)
        return err_fail(err, RC_REJECT, 0,
                        "lane %s has no position in the binary log: it has not begun", lane->name);
    return rc;
}

static enum rc publish_missing(struct backfill_run *run, bool dry_run, struct err *err)
{
    int64_t highest = 0;
    enum rc rc = check_lane(run, err);

    if (rc == RC_OK)
        rc = lane_hold_take_lock(&run->base.hold, run->base.hold_db, run->lane->table,
                                 run->settings->relay.lease_ms, os_now_ms(), err);
    if (rc == RC_OK)
        rc = backfill_mysql_highest_seq(&run->base, &highest, err);
    if (rc == RC_OK)
        rc = backfill_run_rows(run, highest, !dry_run, err);
    return rc;
}

static void put_result(const struct backfill_run *run, const struct request *request,
                       struct buf *out)
{
    const struct backfill_result *result = &run->backfill.result;

    if (request->json) {
        buf_text_put(out, "{\"lane\": ");
        json_text_put(out, run->lane->name);
        buf_print(out, ", \"dry_run\": %s, ", request->dry_run ? "true" : "false");
        backfill_run_put_json(run, out);
        buf_text_put(out, "}\n");
    } else if (request->dry_run) {
        buf_print(out, "%" PRId64 " rows of table %s never came through the binary log",
                  result->found, run->lane->table);
        if (result->found > 0)
            buf_print(out, ", from seq %" PRId64 " to %" PRId64, result->first_seq,
                      result->last_seq);
        buf_char(out, '\n');
    } else {
        backfill_run_put_text(run, out);
    }
}

static int run_request(const struct settings *settings, const struct request *request)
{
    struct backfill_run *run = NULL;
    struct buf out = {0};
    struct err err = {0};
    enum rc rc = backfill_run_open(&run, settings, request->lane, request->wait_s * 1000, &err);
    int code;
    bool any_left;

    if (rc == RC_OK)
        rc = publish_missing(run, request->dry_run, &err);
    if (run && (rc == RC_OK || run->backfill.result.published > 0))
        put_result(run, request, &out);
    any_left = run && run->backfill.result.left > 0;
    backfill_run_close(run);
    code = options_print(&out);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    return code == EXIT_DONE && any_left ? EXIT_FAILED : code;
}

static int check_arguments(const struct options *options, struct request *request)
{
    if (options->argument_count == 1 && request->wait_s >= 0 &&
        request->wait_s <= BACKFILL_WAIT_S_MAX) {
        request->lane = options->arguments[0];
        return -1;
    }
    fprintf(stderr,
            "tallybox relay publish-missing: expected one LANE, and --wait with seconds up to %d\n"
            "Try `tallybox relay publish-missing --help`.\n",
            BACKFILL_WAIT_S_MAX);
    return EXIT_USAGE;
}

int relay_missing_command(int argc, char **argv)
{
    struct request request = {.wait_s = BACKFILL_WAIT_S};
    const struct option_entry entries[] = {
        {"dry-run", OPTION_FLAG, &request.dry_run, NULL, "publish nothing, only count the rows",
         NULL},
        {"wait", OPTION_NUMBER, &request.wait_s, "SECONDS",
         "how long to wait for the lane to pass the present end of the log, and for a broker that "
         "acknowledges nothing; default 60",
         NULL},
        {"json", OPTION_FLAG, &request.json, NULL, "print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox relay publish-missing",
        .role = "relay",
        .arguments = "LANE",
        .about =
            "Publishes the rows of the table of a lane with source = binlog that never came "
            "through the binary log (SET sql_log_bin = 0, STATEMENT format, rows restored by "
            "hand), in the order of seq, and saves them as published: the lane deletes them after "
            "keep_ms. A relay has to read the lane meanwhile. The command waits until the lane has "
            "passed the present end of the log, so that it takes no row that is on its way. Later "
            "events of the same keys may have been published before. A kill repeats 1000 rows at "
            "most. Rows that the broker refuses, and later ones of their keys, are named and stay: "
            "the exit code is then 1. 3: a server could not be reached, or a signal came; run it "
            "again.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox relay publish-missing outbox --dry-run\n"
                    "  tallybox relay publish-missing outbox\n",
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
