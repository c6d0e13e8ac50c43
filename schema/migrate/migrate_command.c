/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migrate_command.h"

#include "common/nearest.h"
#include "common/options.h"
#include "schema/migrate/grants.h"
#include "schema/migrate/migrate.h"
#include "schema/migrate/migrate_mysql.h"
#include "schema/migrate/report.h"
#include "schema/migrate/target.h"

#include <stdio.h>
#include <string.h>

#define LOCK_WAIT_S 60

/* One `tallybox migrate ACTION` on its way through the databases. */
struct run {
    struct migrate_report report;
    struct migrate migrate; /* the database under way */
    const struct migrate_target *target;
    int to;
};

static void print_text(struct run *run)
{
    if (run->report.text.len > 0)
        fwrite(run->report.text.data, 1, run->report.text.len, stdout);
    fflush(stdout);
    buf_reset(&run->report.text);
}

static void on_event(void *ctx, enum migrate_event event, const struct migration *migration,
                     size_t done, size_t statements)
{
    struct run *run = ctx;

    migrate_report_event(&run->report, event, migration, done, statements);
    print_text(run);
}

static void on_drift(void *ctx, const struct shape_drift *drift)
{
    struct run *run = ctx;

    migrate_report_drift(&run->report, drift);
    print_text(run);
}

/* An action on one database. *good: the result is as requested. */
typedef enum rc (*action_run)(struct run *run, bool *good, struct err *err);

static enum rc print_status(struct run *run, bool *good, struct err *err)
{
    struct migrate_state state = {0};
    struct err reason = {0};
    enum rc rc = migrate_state_read(&run->migrate, &state, err);

    if (rc == RC_OK) {
        *good = migrate_state_judge(&run->migrate, &state, &reason) == RC_OK;
        if (*good)
            err_set(&reason, "%s has schema version %d: up to date", run->migrate.place,
                    state.version);
        migrate_report_outcome(&run->report, *good, state.version, "%s", reason.text);
        migrate_report_state(&run->report, &state);
    }
    migrate_state_done(&state);
    return rc;
}

static enum rc print_plan(struct run *run, const struct migrate_state *state, struct err *err)
{
    struct buf create = {0};
    struct err reason = {0};
    enum rc rc = migrate_state_check(&run->migrate, state, err);
    bool done = migrate_state_judge(&run->migrate, state, &reason) == RC_OK;

    if (rc == RC_OK) {
        migrate_mysql_put_create(&create, run->target->settings->database);
        migrate_report_outcome(&run->report, true, state->version, "%s%s%s",
                               run->report.databases ? "" : "-- ", run->migrate.place,
                               done ? ": up to date, nothing to run" : "");
        rc = migrate_report_plan(&run->report, &run->migrate, state, run->to, buf_text(&create),
                                 err);
    }
    buf_done(&create);
    return rc;
}

static enum rc plan_steps(struct run *run, bool *good, struct err *err)
{
    struct migrate_state state = {0};
    enum rc rc = migrate_state_read(&run->migrate, &state, err);

    *good = true;
    if (rc == RC_OK)
        rc = print_plan(run, &state, err);
    migrate_state_done(&state);
    return rc;
}

/* Reports the version that the database has in the end. */
static enum rc print_conclusion(struct run *run, const char *words, struct err *err)
{
    struct migrate_state state = {0};
    enum rc rc = migrate_state_read(&run->migrate, &state, err);

    if (rc == RC_OK)
        migrate_report_outcome(&run->report, true, state.version, "%s %s %d", run->migrate.place,
                               words, state.version);
    migrate_state_done(&state);
    return rc;
}

static enum rc apply_up(struct run *run, bool *good, struct err *err)
{
    enum rc rc = migrate_up(&run->migrate, run->to, err);

    *good = true;
    return rc == RC_OK ? print_conclusion(run, "has schema version", err) : rc;
}

static void print_verify_outcome(struct run *run, const struct migrate_state *state, size_t drifts,
                                 bool *good)
{
    struct migrate_report *report = &run->report;
    const char *place = run->migrate.place;
    struct err reason = {0};

    *good = false;
    if (drifts > 0)
        migrate_report_outcome(report, false, state->version,
                               "%s differs from schema version %d in %zu places", place,
                               state->version, drifts);
    else if (migrate_state_judge(&run->migrate, state, &reason) != RC_OK)
        migrate_report_outcome(report, false, state->version, "%s", reason.text);
    else
        *good = true;
    if (*good)
        migrate_report_outcome(report, true, state->version, "%s is as schema version %d makes it",
                               place, state->version);
}

static enum rc verify_shape(struct run *run, bool *good, struct err *err)
{
    struct migrate_state state = {0};
    size_t drifts = 0;
    enum rc rc = migrate_state_read(&run->migrate, &state, err);

    if (rc == RC_OK && state.has_database)
        rc = migrate_verify(&run->migrate, &state, on_drift, run, &drifts, err);
    if (rc == RC_OK)
        print_verify_outcome(run, &state, drifts, good);
    migrate_state_done(&state);
    return rc;
}

static enum rc set_baseline(struct run *run, bool *good, struct err *err)
{
    size_t drifts = 0;
    enum rc rc = migrate_baseline(&run->migrate, run->to, on_drift, run, &drifts, err);

    if (rc != RC_OK)
        return rc;
    *good = drifts == 0;
    if (*good)
        return print_conclusion(run, "is recorded as schema version", err);
    migrate_report_outcome(&run->report, false, 0,
                           "%s differs in %zu places from what would be recorded: nothing was "
                           "recorded",
                           run->migrate.place, drifts);
    return RC_OK;
}

static const struct action {
    const char *name;
    action_run run;
    bool changes; /* takes the lock; an error ends the run before the next database */
} actions[] = {
    {"up", apply_up, true},          {"status", print_status, false},  {"plan", plan_steps, false},
    {"verify", verify_shape, false}, {"baseline", set_baseline, true},
};

#define ACTION_COUNT (sizeof(actions) / sizeof(actions[0]))

static const struct action *find_action(const char *name)
{
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
        nearest_offer(&nearest, actions[i].name);
    }
    nearest_offer(&nearest, "grants");
    fprintf(stderr, "tallybox migrate: unknown action \"%s\"", name);
    if (nearest.word)
        fprintf(stderr, "; did you mean \"%s\"?", nearest.word);
    fprintf(stderr, "\nTry `tallybox migrate --help`.\n");
    return NULL;
}

static enum rc on_target(struct run *run, const struct action *action, bool *good, struct err *err)
{
    const struct mysql_settings *settings = run->target->settings;
    struct migrate_mysql *mysql = NULL;
    enum rc rc = migrate_mysql_open(
        &mysql, settings, action->changes ? MIGRATE_MYSQL_WAIT_MS : settings->query_timeout_ms,
        err);

    if (rc == RC_OK) {
        run->migrate.store = migrate_mysql_store(mysql);
        run->migrate.sides = run->target->sides;
        run->migrate.place = run->target->place;
        rc = action->run(run, good, err);
    }
    migrate_mysql_close(mysql);
    return rc;
}

/* Returns the first exit code that is not EXIT_DONE. */
static int on_targets(struct run *run, const struct action *action, const struct settings *settings)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];
    size_t count = migrate_targets(settings, targets);
    int code = EXIT_DONE;

    for (size_t i = 0; i < count && (code == EXIT_DONE || !action->changes); i++) {
        struct err err = {0};
        bool good = false;
        int one = EXIT_FAILED;
        enum rc rc;

        run->target = &targets[i];
        migrate_report_target(&run->report, run->target);
        rc = on_target(run, action, &good, &err);
        if (rc != RC_OK && run->report.databases)
            migrate_report_outcome(&run->report, false, 0, "%s", err.text);
        print_text(run);
        if (rc != RC_OK)
            one = options_fail(rc, &err);
        else if (good)
            one = EXIT_DONE;
        code = code == EXIT_DONE ? one : code;
    }
    return code;
}

/* Needs no server, so that it can be read before the accounts exist. */
static int print_grants(const struct options *options)
{
    struct buf text = {0};
    struct config *config;
    struct err err = {0};
    int code = options_load(options, &config);

    if (code >= 0)
        return code;
    grants_put(&text, config_settings(config));
    fputs(buf_text(&text), stdout);
    code = EXIT_DONE;
    if (text.failed || fflush(stdout) != 0) {
        err_set(&err, text.failed ? "out of memory" : "cannot write to standard output");
        code = options_fail(RC_FATAL, &err);
    }
    buf_done(&text);
    config_free(config);
    return code;
}

static int run_action(const struct options *options, struct run *run, bool json)
{
    const struct action *action = find_action(options->arguments[0]);
    struct config *config;
    struct err err = {0};
    int code;

    if (!action)
        return EXIT_USAGE;
    code = options_load(options, &config);
    if (code >= 0)
        return code;
    if (migrate_report_init(&run->report, json, &err) == RC_OK) {
        code = on_targets(run, action, config_settings(config));
        migrate_report_end(&run->report);
        if (run->report.text.failed) {
            err_set(&err, "out of memory");
            code = options_fail(RC_FATAL, &err);
        }
        print_text(run);
        if (ferror(stdout)) {
            err_set(&err, "cannot write to standard output");
            code = options_fail(RC_FATAL, &err);
        }
    } else {
        code = options_fail(RC_FATAL, &err);
    }
    migrate_report_done(&run->report);
    config_free(config);
    return code;
}

static const char about[] =
    "Makes and checks the tables, in the databases of [mysql] and [sink]. A run of up that was "
    "killed goes on where it stopped when up is run again; several at the same time take turns.\n\n"
    "The exit code is 1 when status finds something pending, verify finds a difference or a "
    "migration fails, and 3 when a server is away.";

static const char actions_and_examples[] =
    "Actions:\n"
    "  up        makes the database if it is missing and applies what is pending\n"
    "  status    shows the schema version and every migration\n"
    "  plan      prints the SQL that up would run, and changes nothing\n"
    "  verify    compares tables, columns and indexes with what the migrations make\n"
    "  baseline  records tables that are in place already as made by the migrations\n"
    "  grants    prints the rights that the account of each role needs, as SQL\n\n"
    "Examples:\n"
    "  tallybox migrate plan\n"
    "  tallybox migrate up --wait 300\n"
    "  tallybox migrate verify --json\n";

int migrate_command(int argc, char **argv)
{
    bool json = false;
    int64_t to = 0;
    int64_t wait_s = LOCK_WAIT_S;
    const struct option_entry entries[] = {
        {"json", OPTION_FLAG, &json, NULL, "print one JSON object"},
        {"to", OPTION_NUMBER, &to, "VERSION",
         "up, plan, baseline: no further than VERSION (default: the newest)"},
        {"wait", OPTION_NUMBER, &wait_s, "SECONDS",
         "up, baseline: how long to wait for another runner (default: 60)"},
    };
    const struct option_parse parse = {
        .command = "tallybox migrate",
        .arguments = "ACTION",
        .about = about,
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = actions_and_examples,
    };
    struct run run = {.migrate = {.set = &migration_set_ours, .on_event = on_event}};
    struct options options;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (options.argument_count != 1 || to < 0 || to > INT_MAX || wait_s < 0 || wait_s > 86400) {
        fprintf(stderr, "tallybox migrate: expected one ACTION, --to from 1 and --wait from 0 to "
                        "86400\nTry `tallybox migrate --help`.\n");
        return EXIT_USAGE;
    }
    run.to = to > 0 ? (int)to : MIGRATION_NEWEST;
    run.migrate.lock_wait_ms = wait_s * 1000;
    run.migrate.event_ctx = &run;
    if (strcmp(options.arguments[0], "grants") == 0)
        return print_grants(&options);
    return run_action(&options, &run, json);
}
