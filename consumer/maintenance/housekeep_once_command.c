/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep_once_command.h"

#include "common/buf.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/apply/date_row.h"
#include "consumer/maintenance/housekeep.h"
#include "consumer/maintenance/housekeep_mysql.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* `--once` waits so long for another's round or an absent database; longer than a lease, so that a
 * holder that died is outlived. */
#define ONCE_WAIT_MS (HOUSEKEEP_LEASE_MS + 5000)

struct housekeep_rules housekeep_rules_of(const struct settings *settings)
{
    return (struct housekeep_rules){
        .months_ahead = settings->housekeep.months_ahead,
        .keep_months = settings->housekeep.keep_months,
        .keep_days = {[HOUSEKEEP_INSTANCES] = settings->housekeep.instance_days,
                      [HOUSEKEEP_PROGRESS] = settings->housekeep.progress_days,
                      [HOUSEKEEP_DEAD] = settings->housekeep.dead_days,
                      [HOUSEKEEP_HISTORY] = settings->housekeep.dead_history_days,
                      [HOUSEKEEP_TASKS] = settings->housekeep.retry_history_days,
                      [HOUSEKEEP_ATTEMPTS] = settings->housekeep.retry_history_days},
        .move_rows_max = (uint64_t)settings->housekeep.move_rows_max,
        .batch_rows_max = (size_t)settings->housekeep.batch_rows_max,
        .pause_ms = settings->housekeep.pause_ms,
    };
}

static int print_counts(const struct housekeep_counts *counts, bool json)
{
    struct buf out = {0};

    if (json) {
        buf_print(&out,
                  "{\"made\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"folded\": %" PRIu64
                  ", \"deleted\": {",
                  counts->made, counts->dropped, counts->folded);
        for (size_t i = 0; i < HOUSEKEEP_KINDS; i++)
            buf_print(&out, "%s\"%s\": %" PRIu64, i > 0 ? ", " : "",
                      housekeep_kind_name((enum housekeep_kind)i), counts->deleted[i]);
        buf_print(&out, "}, \"postponed\": %" PRIu64 ", \"ms\": %" PRId64 "}\n", counts->postponed,
                  counts->ms);
        return options_print(&out);
    }
    buf_print(&out,
              "done in %" PRId64 " ms: %" PRIu64 " partitions made, %" PRIu64
              " dropped with %" PRIu64 " rows",
              counts->ms, counts->made, counts->dropped, counts->folded);
    for (size_t i = 0; i < HOUSEKEEP_KINDS; i++)
        if (counts->deleted[i] > 0)
            buf_print(&out, ", %" PRIu64 " rows of %s deleted", counts->deleted[i],
                      housekeep_kind_name((enum housekeep_kind)i));
    buf_char(&out, '\n');
    if (counts->postponed > 0)
        buf_print(&out, "could not be done now: %" PRIu64 "; the log says what, and why\n",
                  counts->postponed);
    return options_print(&out);
}

/* Steps until the round is done. RC_RETRY: not in time, and err says what was in the way. */
static enum rc once_step(struct housekeep *housekeep, const struct stop *stop, struct err *err)
{
    int64_t idle_since_ms = os_now_ms();

    for (;;) {
        int64_t wait_ms = housekeep_step(housekeep, os_now_ms());
        bool working = housekeep->phase != HOUSEKEEP_LOOK && !housekeep->failing;

        *err = housekeep->err;
        if (wait_ms == LOOP_END)
            return housekeep->failing ? RC_FATAL : RC_OK;
        if (working)
            idle_since_ms = os_now_ms();
        if (os_now_ms() - idle_since_ms > ONCE_WAIT_MS) {
            if (!housekeep->failing)
                err_set(err, "another one (%s) has been at work for %d s; try again later",
                        housekeep->other, ONCE_WAIT_MS / 1000);
            return RC_RETRY;
        }
        stop_wait(stop, wait_ms);
    }
}

static enum rc once_run(const struct settings *settings, struct housekeep_mysql *mysql,
                        struct housekeep_counts *counts, struct err *err)
{
    struct housekeep housekeep = {0};
    char owner[SINGLETON_OWNER_SIZE];
    char host[65];
    struct stop stop;
    const struct housekeep_config config = {
        .store = housekeep_mysql_store(mysql),
        .owner = owner,
        .rules = housekeep_rules_of(settings),
        .interval_ms = settings->housekeep.interval_ms,
        .lease_ms = HOUSEKEEP_LEASE_MS,
        .once = true,
        .rng = os_random_u64,
    };
    enum rc rc = stop_init(&stop, err);

    if (rc != RC_OK)
        return rc;
    os_host_name(host, sizeof(host));
    snprintf(owner, sizeof(owner), "%s-%ld-%04x-once", host, os_pid(),
             (unsigned)(os_random_u64() & 0xffff));
    rc = housekeep_init(&housekeep, &config, err);
    if (rc == RC_OK) {
        rc = once_step(&housekeep, &stop, err);
        housekeep_leave(&housekeep);
        *counts = housekeep.counts;
    }
    housekeep_done(&housekeep);
    stop_done(&stop);
    return rc;
}

struct report {
    json_t *list; /* NULL: text */
    struct buf out;
    size_t count;
};

static void would_json(struct report *report, const struct housekeep_would *would, const char *date)
{
    static const char *const deeds[] = {
        [HOUSEKEEP_WOULD_MAKE] = "make",
        [HOUSEKEEP_WOULD_DROP] = "drop",
        [HOUSEKEEP_WOULD_DELETE] = "delete",
    };
    bool is_part = would->deed != HOUSEKEEP_WOULD_DELETE;
    json_t *one =
        json_pack("{s:s, s:s, s:I}", "would", deeds[would->deed], is_part ? "partition" : "table",
                  would->name, "rows", (json_int_t)would->rows);

    if (is_part)
        json_object_set_new(one, "before", json_string(date));
    else
        json_object_set_new(one, "olderThanDays", json_integer(would->keep_days));
    json_array_append_new(report->list, one);
}

static void would_text(struct report *report, const struct housekeep_would *would, const char *date)
{
    const char *more = would->rows == HOUSEKEEP_DRY_ROWS_MAX ? " or more" : "";
    struct buf *out = &report->out;

    switch (would->deed) {
    case HOUSEKEEP_WOULD_MAKE:
        buf_print(out, "would make   %s, for votes from before %s", would->name, date);
        if (would->rows > 0)
            buf_print(out, ", and move %" PRIu64 "%s rows that lie behind all months", would->rows,
                      more);
        break;
    case HOUSEKEEP_WOULD_DROP:
        buf_print(out, "would drop   %s, all from before %s: %" PRIu64 "%s rows", would->name, date,
                  would->rows, more);
        break;
    case HOUSEKEEP_WOULD_DELETE:
        buf_print(out, "would delete %" PRIu64 "%s rows of %s, older than %" PRId64 " days",
                  would->rows, more, would->name, would->keep_days);
        break;
    }
    buf_char(out, '\n');
}

static void report_would(void *ctx, const struct housekeep_would *would)
{
    struct report *report = ctx;
    char date[DATE_SIZE];

    date_text(would->limit_day, date);
    report->count++;
    if (report->list)
        would_json(report, would, date);
    else
        would_text(report, would, date);
}

static int dry_run(const struct settings *settings, struct housekeep_mysql *mysql, bool json)
{
    const struct housekeep_rules rules = housekeep_rules_of(settings);
    struct report report = {.list = json ? json_array() : NULL};
    struct err err = {0};
    enum rc rc = housekeep_dry(housekeep_mysql_store(mysql), &rules, report_would, &report, &err);
    int code = EXIT_DONE;

    if (rc == RC_OK && json) {
        char *text = json_dumps(report.list, JSON_INDENT(2));

        if (text)
            buf_print(&report.out, "%s\n", text);
        free(text);
    } else if (rc == RC_OK && report.count == 0) {
        buf_text_put(&report.out, "nothing to do\n");
    }
    if (rc == RC_OK)
        code = options_print(&report.out);
    else
        code = options_fail(rc, &err);
    json_decref(report.list);
    buf_done(&report.out);
    return code;
}

static int round_now(role_gate gate, const struct settings *settings, bool dry, bool json)
{
    struct housekeep_counts counts = {0};
    struct housekeep_mysql *mysql = NULL;
    struct err err = {0};
    enum rc rc = RC_OK;
    int code;

    if (gate)
        rc = gate(settings, false, &err);
    if (rc == RC_OK)
        rc = housekeep_mysql_open(&mysql, settings, &err);
    if (rc == RC_OK && dry) {
        code = dry_run(settings, mysql, json);
        housekeep_mysql_close(mysql);
        return code;
    }
    if (rc == RC_OK)
        rc = once_run(settings, mysql, &counts, &err);
    housekeep_mysql_close(mysql);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    code = print_counts(&counts, json);
    return code == EXIT_DONE && counts.postponed > 0 ? EXIT_FAILED : code;
}

int housekeep_once_command(role_gate gate, int argc, char **argv)
{
    bool once = false;
    bool dry = false;
    bool json = false;
    const struct option_entry entries[] = {
        {"once", OPTION_FLAG, &once, NULL, "run one round of housekeeping now and end"},
        {"dry-run", OPTION_FLAG, &dry, NULL, "change nothing, and print what would be done"},
        {"json", OPTION_FLAG, &json, NULL, "print it as JSON"},
    };
    const struct option_parse parse = {
        .command = "tallybox housekeep",
        .arguments = "",
        .about = "Makes and drops partitions and deletes old rows now, whether it is time or not, "
                 "and prints what was done. Waits a while for another one that is at work. The "
                 "exit code is 1 when something could not be done now.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .sections = "mysql,sink,housekeep",
    };
    struct config *config;
    struct options options;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    code = round_now(gate, config_settings(config), dry, json);
    config_free(config);
    return code;
}
