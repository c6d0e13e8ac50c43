/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep_command.h"

#include "common/buf.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/apply/date.h"
#include "consumer/maintenance/housekeep.h"
#include "consumer/maintenance/housekeep_mysql.h"
#include "consumer/singleton_role.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The engine with its adapter. */
struct housekeep_job {
    const struct settings *settings;
    struct housekeep_mysql *mysql;
    struct housekeep housekeep;
};

static struct housekeep_rules read_rules(const struct settings *settings)
{
    return (struct housekeep_rules){
        .months_ahead = settings->housekeep.months_ahead,
        .keep_months = settings->housekeep.keep_months,
        .keep_days = {[HOUSEKEEP_INSTANCES] = settings->housekeep.instance_days,
                      [HOUSEKEEP_PROGRESS] = settings->housekeep.progress_days,
                      [HOUSEKEEP_DEAD] = settings->housekeep.dead_days,
                      [HOUSEKEEP_HISTORY] = settings->housekeep.dead_history_days,
                      [HOUSEKEEP_TASKS] = settings->housekeep.retry_history_days,
                      [HOUSEKEEP_ATTEMPTS] = settings->housekeep.retry_history_days,
                      [HOUSEKEEP_AUDIT] = settings->housekeep.retry_audit_days,
                      [HOUSEKEEP_CHANGES] = HOUSEKEEP_CHANGE_DAYS,
                      [HOUSEKEEP_EXPIRED_REMARKS] = settings->housekeep.vote_state_days,
                      [HOUSEKEEP_EXPIRED_CONTENTS] = settings->housekeep.vote_state_days},
        .move_rows_max = (uint64_t)settings->housekeep.move_rows_max,
        .batch_rows_max = (size_t)settings->housekeep.batch_rows_max,
        .pause_ms = settings->housekeep.pause_ms,
    };
}

static int64_t step_job(void *arg, int64_t now_ms, struct singleton_progress *progress)
{
    struct housekeep_job *job = arg;
    struct housekeep *housekeep = &job->housekeep;
    bool failing;
    int64_t wait_ms;

    housekeep->config.interval_ms = job->settings->housekeep.interval_ms;
    housekeep->config.rules = read_rules(job->settings);
    wait_ms = housekeep_step(housekeep, now_ms);
    failing = condition_read(&housekeep->database, NULL);
    *progress = (struct singleton_progress){
        .failing = failing,
        .reached = housekeep->rc == RC_OK,
        .working = housekeep->phase != HOUSEKEEP_IDLE && !failing,
        .late_since_ms = housekeep->late_since_ms,
        .other = housekeep->other,
        .err = &housekeep->err,
    };
    return wait_ms;
}

static void close_job(void *arg)
{
    struct housekeep_job *job = arg;

    housekeep_done(&job->housekeep);
    housekeep_mysql_close(job->mysql);
    free(job);
}

static enum rc open_job(void **opened, const struct singleton_env *env, struct err *err)
{
    struct housekeep_job *job = calloc(1, sizeof(*job));
    enum rc rc;

    if (!job)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    job->settings = env->settings;
    rc = housekeep_mysql_open(&job->mysql, env->settings, err);
    if (rc == RC_OK) {
        const struct housekeep_config config = {
            .store = housekeep_mysql_store(job->mysql),
            .owner = env->owner,
            .rules = read_rules(env->settings),
            .interval_ms = env->settings->housekeep.interval_ms,
            .lease_ms = HOUSEKEEP_LEASE_MS,
            .once = env->once,
            .rng = os_random_u64,
            .stop = env->stop,
        };

        rc = housekeep_init(&job->housekeep, &config, err);
    }
    if (rc == RC_OK)
        *opened = job;
    else
        close_job(job);
    return rc;
}

static void leave_job(void *arg)
{
    struct housekeep_job *job = arg;

    housekeep_leave(&job->housekeep);
}

static void read_counts(const void *arg, void *counts)
{
    const struct housekeep_job *job = arg;

    *(struct housekeep_counts *)counts = job->housekeep.counts;
}

static const struct singleton_job housekeep_job = {
    .name = "housekeep",
    .check = "housekeeping",
    .noun = "housekeeping process",
    .lease_ms = HOUSEKEEP_LEASE_MS,
    .open = open_job,
    .step = step_job,
    .leave = leave_job,
    .read_counts = read_counts,
    .close = close_job,
};

static enum rc open_role(void **role, const struct role_env *env, struct err *err)
{
    return singleton_role_open(role, &housekeep_job, env, err);
}

const struct role housekeep_role = {
    .name = "housekeep",
    .about = "Makes the partitions of vote_document for the months to come, drops those of months "
             "that need not be kept, and deletes old rows from other tables, at every full "
             "housekeep.interval_ms of the clock of the database (UTC). Several may run; one of "
             "them works at a time. With --once it does this a single time, now, and with "
             "--dry-run it prints what it would do; `tallybox housekeep --once --help` explains "
             "both.",
    .register_metrics = housekeep_metrics_register,
    .open = open_role,
    .start = singleton_role_start,
    .health = singleton_role_health,
    .join = singleton_role_join,
    .close = singleton_role_close,
    .sections = "mysql,sink,housekeep",
};

static void put_kinds(struct buf *out, const struct housekeep_counts *counts, bool marks)
{
    const char *before = "";

    for (size_t i = 0; i < HOUSEKEEP_KINDS; i++) {
        enum housekeep_kind kind = (enum housekeep_kind)i;

        if (housekeep_kind_marks(kind) != marks)
            continue;
        buf_print(out, "%s\"%s\": %" PRIu64, before, housekeep_kind_name(kind), counts->deleted[i]);
        before = ", ";
    }
}

static int print_counts(const struct housekeep_counts *counts, bool json)
{
    struct buf out = {0};

    if (json) {
        buf_print(&out,
                  "{\"made\": %" PRIu64 ", \"dropped\": %" PRIu64 ", \"folded\": %" PRIu64
                  ", \"deleted\": {",
                  counts->made, counts->dropped, counts->folded);
        put_kinds(&out, counts, false);
        buf_text_put(&out, "}, \"marked\": {");
        put_kinds(&out, counts, true);
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
            buf_print(&out, ", %" PRIu64 " rows of %s %s", counts->deleted[i],
                      housekeep_kind_name((enum housekeep_kind)i),
                      housekeep_kind_marks((enum housekeep_kind)i) ? "marked" : "deleted");
    buf_char(&out, '\n');
    if (counts->postponed > 0)
        buf_print(&out, "postponed changes: %" PRIu64 "; the log tells which and why\n",
                  counts->postponed);
    return options_print(&out);
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
        [HOUSEKEEP_WOULD_MARK] = "mark",
    };
    bool is_part = would->deed == HOUSEKEEP_WOULD_MAKE || would->deed == HOUSEKEEP_WOULD_DROP;
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
            buf_print(out, ", and move %" PRIu64 "%s rows of later months", would->rows, more);
        break;
    case HOUSEKEEP_WOULD_DROP:
        buf_print(out, "would drop   %s, all from before %s: %" PRIu64 "%s rows", would->name, date,
                  would->rows, more);
        break;
    case HOUSEKEEP_WOULD_DELETE:
        buf_print(out, "would delete %" PRIu64 "%s rows of %s, older than %" PRId64 " days",
                  would->rows, more, would->name, would->keep_days);
        break;
    case HOUSEKEEP_WOULD_MARK:
        buf_print(out,
                  "would mark   %" PRIu64 "%s rows of %s, deleted more than %" PRId64
                  " days ago, for the removal of their votes",
                  would->rows, more, would->name, would->keep_days);
        break;
    }
    buf_char(out, '\n');
}

static void report_would(void *ctx, const struct housekeep_would *would)
{
    struct report *report = ctx;
    char date[DATE_SIZE];

    date_write(would->limit_day, date);
    report->count++;
    if (report->list)
        would_json(report, would, date);
    else
        would_text(report, would, date);
}

static int dry_run(const struct settings *settings, struct housekeep_mysql *mysql, bool json)
{
    const struct housekeep_rules rules = read_rules(settings);
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

static int print_dry_run(const struct settings *settings, bool json)
{
    struct housekeep_mysql *mysql = NULL;
    struct err err = {0};
    enum rc rc = housekeep_mysql_open(&mysql, settings, &err);
    int code = rc == RC_OK ? dry_run(settings, mysql, json) : options_fail(rc, &err);

    housekeep_mysql_close(mysql);
    return code;
}

static int forget_instance(const struct settings *settings, const char *name)
{
    struct housekeep_mysql *mysql = NULL;
    struct err err = {0};
    uint64_t count = 0;
    enum rc rc = housekeep_mysql_open(&mysql, settings, &err);

    if (rc == RC_OK)
        rc = housekeep_mysql_forget(mysql, name, &count, &err);
    housekeep_mysql_close(mysql);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    if (count > 0) {
        printf("%s is forgotten\n", name);
        return EXIT_DONE;
    }
    fprintf(stderr,
            "tallybox housekeep: no dead instance is named %s; `tallybox status` lists them\n",
            name);
    return EXIT_FAILED;
}

static int run_once(const struct settings *settings, bool json)
{
    struct housekeep_counts counts = {0};
    struct err err = {0};
    enum rc rc = singleton_run_once(&housekeep_job, settings, &counts, &err);
    int code;

    if (rc != RC_OK)
        return options_fail(rc, &err);
    code = print_counts(&counts, json);
    return code == EXIT_DONE && counts.postponed > 0 ? EXIT_FAILED : code;
}

static int once_command(role_gate gate, int argc, char **argv)
{
    bool once = false;
    bool dry = false;
    bool json = false;
    const char *forget = NULL;
    const struct option_entry entries[] = {
        {"once", OPTION_FLAG, &once, NULL, "run one round of housekeeping now and end", NULL},
        {"dry-run", OPTION_FLAG, &dry, NULL, "change nothing and print what a round would do",
         NULL},
        {"forget", OPTION_TEXT, &forget, "INSTANCE",
         "only delete the heartbeat of this dead instance, so that status does not show it", NULL},
        {"json", OPTION_FLAG, &json, NULL, "print the result as JSON", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox housekeep",
        .arguments = "",
        .about = "Makes and drops partitions and deletes old rows now, due or not, and prints a "
                 "summary. Waits some seconds for another process that is doing it. The exit code "
                 "is 1 if a change was postponed.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .sections = "mysql,sink,housekeep",
    };
    struct config *config;
    struct options options;
    struct err err = {0};
    enum rc rc;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    /* A heartbeat does not need the tables for votes. */
    rc = gate && !forget ? gate(config_settings(config), false, &err) : RC_OK;
    if (rc != RC_OK)
        code = options_fail(rc, &err);
    else if (forget)
        code = forget_instance(config_settings(config), forget);
    else if (dry)
        code = print_dry_run(config_settings(config), json);
    else
        code = run_once(config_settings(config), json);
    config_free(config);
    return code;
}

int housekeep_command(role_gate gate, int argc, char **argv)
{
    const struct role *const role = &housekeep_role;
    const struct role_process process = {role->name, role->about, &role, 1,   gate,
                                         NULL,       NULL,        0,     NULL};

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--once") == 0 || strcmp(argv[i], "--dry-run") == 0 ||
            strncmp(argv[i], "--forget", strlen("--forget")) == 0)
            return once_command(gate, argc, argv);
    return role_main(&process, argc, argv);
}
