/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_command.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/maintenance/housekeep.h"
#include "consumer/rollup/rollup.h"
#include "consumer/singleton_lease.h"
#include "consumer/status/status_kafka.h"
#include "consumer/status/status_mysql.h"
#include "consumer/status/status_print.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_MS 2000
#define CLEAR_SCREEN "\033[H\033[2J"

static int exit_code_of(enum rc rc)
{
    switch (rc) {
    case RC_OK:
        return EXIT_DONE;
    case RC_RETRY:
        return EXIT_UNAVAILABLE;
    case RC_REJECT:
    case RC_FATAL:
        break;
    }
    return EXIT_FAILED;
}

/* What the command line asks for. */
struct show {
    bool json;
    bool check;
    bool watch;
};

static enum rc fill_status(const struct settings *settings, status_compare compare,
                           struct status *status, struct err *err)
{
    enum rc rc;

    memset(status, 0, sizeof(*status));
    status->stale_ms = settings->admin.stale_ms;
    status->relay_lease_ms = settings->relay.lease_ms;
    status->rollup_lease_ms = ROLLUP_LEASE_MS;
    status->housekeep_lease_ms = HOUSEKEEP_LEASE_MS;
    status->retry.threads = settings->retry.threads;
    status->now_ms = os_wall_ms();
    rc = status_mysql_fill(status, settings, compare, err);
    if (rc != RC_OK)
        return rc;
    if (!status->progress_fault.left_out)
        status_kafka_fill(status, settings);
    status->rollup.due_ms = singleton_due_ms(status->rollup.rolled_until_ms, status->now_ms,
                                             settings->rollup.interval_ms);
    status->housekeep.due_ms = singleton_due_ms(status->housekeep.finished_ms, status->now_ms,
                                                settings->housekeep.interval_ms);
    return RC_OK;
}

static int print_status(const struct status *status, const struct show *show)
{
    struct buf out = {0};
    size_t problems = 0;
    int code;

    if (show->watch && isatty(STDOUT_FILENO))
        buf_text_put(&out, CLEAR_SCREEN);
    if (show->check)
        problems = status_put_summary(status, &out);
    else if (show->json)
        status_print_json(status, &out);
    else
        status_print_text(status, &out);
    if (show->watch)
        buf_char(&out, '\n');
    code = options_print(&out);
    if (code != EXIT_DONE || show->watch)
        return code;
    if (show->check)
        return problems > 0 ? EXIT_FAILED : EXIT_DONE;
    return exit_code_of(status_outcome(status));
}

/* With --watch until the process is killed, as by Ctrl-C, or its output is closed. */
static int show_status(const struct settings *settings, status_compare compare,
                       struct status *status, const struct show *show)
{
    struct stop never;
    struct err err = {0};
    enum rc rc = stop_init(&never, &err);
    int code = EXIT_DONE;

    if (rc != RC_OK)
        return options_fail(rc, &err);
    do {
        rc = fill_status(settings, compare, status, &err);
        code = rc == RC_OK ? print_status(status, show) : options_fail(rc, &err);
        if (show->watch && code == EXIT_DONE)
            stop_wait(&never, WATCH_MS);
    } while (show->watch && code == EXIT_DONE);
    stop_done(&never);
    return code;
}

/* Whether every server answered. A table that is missing or cannot be read is an answer. */
static bool is_reached(const struct status *status)
{
    for (size_t i = 0; i < status->schema_count; i++)
        if (status->schemas[i].fault.rc == RC_RETRY ||
            status->schemas[i].fault.err.code == DB_ACCESS_DENIED)
            return false;
    return status->kafka_fault.rc != RC_RETRY;
}

int status_command(status_compare compare, int argc, char **argv)
{
    struct show show = {0};
    const struct option_entry entries[] = {
        {"check", OPTION_FLAG, &show.check, NULL,
         "print one line, ok or the problems, and exit with 1 if there are any: for cron and "
         "Nagios",
         NULL},
        {"json", OPTION_FLAG, &show.json, NULL,
         "print the same facts as JSON, times and ages in ms", NULL},
        {"watch", OPTION_FLAG, &show.watch, NULL, "print the page every two seconds", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox status",
        .arguments = "",
        .about = "Shows the progress of each stage and the instances that work on it. The first "
                 "line is ok, or lists the problems: servers that cannot be reached, work that "
                 "waits for longer than admin.stale_ms, keys and dead records that wait for an "
                 "operator, roles without a live instance. The exit code of the page is 0, also "
                 "with problems; with --check it is 1 if there is one. A stage that cannot be read "
                 "tells the error, the others are shown, and the exit code is 3 if a server cannot "
                 "be reached, or else 1.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .sections = "mysql,sink,relay," SETTINGS_LANE,
    };
    struct config *config;
    struct options options;
    struct status *status;
    struct err err = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0 && show.check + show.json + show.watch > 1) {
        err_set(&err, "choose one of --check, --json and --watch");
        options_fail(RC_FATAL, &err);
        code = EXIT_USAGE;
    }
    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    status = calloc(1, sizeof(*status));
    if (status)
        code = show_status(config_settings(config), compare, status, &show);
    else
        code = options_fail(err_fail(&err, RC_FATAL, 0, "out of memory"), &err);
    if (status && !is_reached(status))
        options_tell_file(config);
    free(status);
    config_free(config);
    return code;
}
