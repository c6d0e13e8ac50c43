/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migrate_command.h"

#include "common/log.h"
#include "common/nearest.h"
#include "common/options.h"
#include "common/os.h"
#include "schema/migrate/grants.h"
#include "schema/migrate/migrate.h"
#include "schema/migrate/migrate_mysql.h"
#include "schema/migrate/report.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LOCK_WAIT_S 60

/* One `tallybox migrate ACTION` on its way through the databases. */
struct run {
    struct migrate_report report;
    struct migrate migrate; /* the database under way */
    const struct migrate_target *target;
    bool sink_left_out; /* the history of [mysql] says that there are no vote tables */
    int to;
};

static const char *describe_scope(const struct migrate_state *state)
{
    return state->outbox_only ? ", with the outbox only" : "";
}

/* Whether the tables of [sink] are left out, too. state: of [mysql]. */
static void note_left_out(struct run *run, const struct migrate_state *state)
{
    enum migrate_scope scope = run->migrate.scope;

    run->sink_left_out =
        scope == MIGRATE_OUTBOX || (scope == MIGRATE_RECORDED && state->outbox_only);
}

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
            err_set(&reason, "%s has schema version %d%s: up to date", run->migrate.place,
                    state.version, describe_scope(&state));
        note_left_out(run, &state);
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

    for (size_t i = 0; i < state->count; i++)
        done = done && !migrate_is_due(&run->migrate, state, &state->entries[i], run->to);
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
    note_left_out(run, &state);
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

    note_left_out(run, &state);
    if (rc == RC_OK)
        migrate_report_outcome(&run->report, true, state.version, "%s %s %d%s", run->migrate.place,
                               words, state.version, describe_scope(&state));
    migrate_state_done(&state);
    return rc;
}

/* Before the first of two databases is changed, so that a fault in the second one leaves no half of
 * an installation. */
static enum rc check_up(struct run *run, bool *good, struct err *err)
{
    struct migrate_state state = {0};
    enum rc rc = migrate_admit(&run->migrate, run->to, &state, err);

    *good = true;
    note_left_out(run, &state);
    run->migrate.has_votes = run->migrate.has_votes || migrate_state_has_votes(&state);
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
        migrate_report_outcome(report, true, state->version,
                               "%s is as schema version %d makes it%s", place, state->version,
                               describe_scope(state));
}

static enum rc verify_shape(struct run *run, bool *good, struct err *err)
{
    struct migrate_state state = {0};
    size_t drifts = 0;
    enum rc rc = migrate_state_read(&run->migrate, &state, err);

    if (rc == RC_OK && state.has_database)
        rc = migrate_verify(&run->migrate, &state, on_drift, run, &drifts, err);
    note_left_out(run, &state);
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

enum action_id {
    ACTION_UP,
    ACTION_STATUS,
    ACTION_PLAN,
    ACTION_VERIFY,
    ACTION_BASELINE,
    ACTION_GRANTS,
    ACTION_COUNT
};

static const struct option_action option_actions[ACTION_COUNT] = {
    [ACTION_UP] = {"up", "", "makes the database if it is missing and applies what is pending"},
    [ACTION_STATUS] = {"status", "", "shows the schema version and every migration"},
    [ACTION_PLAN] = {"plan", "", "prints the SQL that up would run, and changes nothing"},
    [ACTION_VERIFY] = {"verify", "",
                       "compares tables, columns and indexes with what the migrations make"},
    [ACTION_BASELINE] = {"baseline", "",
                         "records tables that are in place already as made by the migrations"},
    [ACTION_GRANTS] = {"grants", "",
                       "prints the privileges that the account of each role needs, as SQL"},
};

/* How an action runs on a database. grants needs none. */
static const struct action {
    action_run run;
    bool changes;     /* takes the lock; an error ends the run before the next database */
    action_run check; /* runs first on each of two databases; NULL: nothing does */
} actions[ACTION_COUNT] = {
    [ACTION_UP] = {apply_up, true, check_up},       [ACTION_STATUS] = {print_status, false, NULL},
    [ACTION_PLAN] = {plan_steps, false, NULL},      [ACTION_VERIFY] = {verify_shape, false, NULL},
    [ACTION_BASELINE] = {set_baseline, true, NULL},
};

/* Returns ACTION_COUNT if there is no such action; stderr names it. */
static enum action_id find_action(const char *name)
{
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        if (strcmp(option_actions[i].name, name) == 0)
            return (enum action_id)i;
        nearest_offer(&nearest, option_actions[i].name);
    }
    fprintf(stderr, "tallybox migrate: unknown action \"%s\"", name);
    if (nearest.word)
        fprintf(stderr, "; did you mean \"%s\"?", nearest.word);
    fprintf(stderr, "\nTry `tallybox migrate --help`.\n");
    return ACTION_COUNT;
}

static enum rc on_target(struct run *run, const struct action *action, action_run act, bool *good,
                         struct err *err)
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
        run->migrate.setting = settings->database_place;
        rc = act(run, good, err);
    }
    migrate_mysql_close(mysql);
    return rc;
}

/* The exit code of one database. */
static int end_target(struct run *run, enum rc rc, bool good, const struct err *err)
{
    if (rc != RC_OK && run->report.databases)
        migrate_report_outcome(&run->report, false, 0, "%s", err->text);
    print_text(run);
    if (rc != RC_OK)
        return options_fail(rc, err);
    return good ? EXIT_DONE : EXIT_FAILED;
}

static int check_targets(struct run *run, const struct action *action,
                         const struct migrate_target *targets, size_t count)
{
    bool good = false;

    for (size_t i = 0; i < count && !run->sink_left_out; i++) {
        struct err err = {0};
        enum rc rc;

        run->target = &targets[i];
        rc = on_target(run, action, action->check, &good, &err);
        if (rc == RC_OK)
            continue;
        migrate_report_target(&run->report, run->target);
        return end_target(run, rc, false, &err);
    }
    return EXIT_DONE;
}

/* Returns the first exit code that is not EXIT_DONE. */
static int on_targets(struct run *run, const struct action *action, const struct settings *settings)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];
    size_t count = migrate_targets(settings, targets);
    int code = EXIT_DONE;

    if (action->check && count > 1)
        code = check_targets(run, action, targets, count);
    run->sink_left_out = false;
    for (size_t i = 0; i < count && !run->sink_left_out && (code == EXIT_DONE || !action->changes);
         i++) {
        struct err err = {0};
        bool good = false;
        enum rc rc;
        int one;

        run->target = &targets[i];
        migrate_report_target(&run->report, run->target);
        rc = on_target(run, action, action->run, &good, &err);
        one = end_target(run, rc, good, &err);
        code = code == EXIT_DONE ? one : code;
    }
    return code;
}

/* What the command line asks for. */
struct request {
    enum action_id action;
    bool json;
    int64_t to;
    int64_t wait_s;
    const char *only;
    const char *with;
    const char *role;
    const char *account;
    bool create_user;
};

#define PASSWORD_SIZE 40

/* Servers that check passwords want a letter of each case, a digit and another character. */
static void make_password(char password[PASSWORD_SIZE])
{
    snprintf(password, PASSWORD_SIZE, "Tb-%016" PRIx64 "%016" PRIx64, os_random_u64(),
             os_random_u64());
}

/* Whether the settings have the password of this account. */
static bool has_password(const struct mysql_settings *settings, const char *user)
{
    return strcmp(settings->user, user) == 0 && settings->password[0];
}

/* Whether the settings file may have a section of the role: an application has none. */
static bool has_section(const char *role)
{
    for (size_t i = 0; i < settings_roles_count; i++)
        if (strcmp(settings_roles[i], role) == 0)
            return true;
    return false;
}

/* The operator sees a new account on standard error, because standard output goes to the database's
 * client. It can be appended to the settings file. */
static void tell_account(const struct grants_choice *choice, const char *user, const char *password)
{
    fprintf(stderr, "\n# `tallybox migrate grants` chose this password%s.\n",
            choice->has_section ? ""
                                : ". It is the application's: keep it out of the settings file");
    if (choice->has_section)
        fprintf(stderr, "[role.%s]\nmysql.user = %s\nmysql.password = %s\n", choice->role, user,
                password);
    else
        fprintf(stderr, "# user = %s\n# password = %s\n", user, password);
}

/* The password of the settings if they are those of the account, else a new one. Copies into
 * password. */
static void choose_password(const struct settings *settings, struct grants_choice *choice,
                            const char *user, char password[SETTING_TEXT_SIZE])
{
    choice->password = choice->sink_password = password;
    if (has_password(&settings->mysql, user)) {
        snprintf(password, SETTING_TEXT_SIZE, "%s", settings->mysql.password);
        if (has_password(&settings->sink, user))
            choice->sink_password = settings->sink.password;
        return;
    }
    choice->is_new_account = true;
    choice->has_section = has_section(choice->role);
    make_password(password);
    tell_account(choice, user, password);
}

static int fail_usage(const char *fault)
{
    fprintf(stderr, "tallybox migrate: %s\nTry `tallybox migrate --help`.\n", fault);
    return EXIT_USAGE;
}

static enum rc put_grants(struct buf *text, const struct settings *settings,
                          const struct request *request, struct err *err)
{
    struct grants_choice choice = {.role = request->role, .outbox_only = request->only != NULL};
    struct grants_account account;
    char password[SETTING_TEXT_SIZE];
    struct buf tried = {0};
    enum rc rc;

    if (!request->role) {
        grants_put(text, settings, request->only != NULL);
        return RC_OK;
    }
    grants_account_of_role(&account, request->role);
    rc = request->account ? grants_account_read(&account, request->account, err) : RC_OK;
    choice.account = account.sql;
    if (rc == RC_OK)
        rc = grants_put_role(&tried, settings, &choice, err);
    buf_done(&tried);
    if (rc != RC_OK || !request->create_user)
        return rc == RC_OK ? grants_put_role(text, settings, &choice, err) : rc;
    choose_password(settings, &choice, account.user, password);
    return grants_put_role(text, settings, &choice, err);
}

/* Needs no server, so that it can be read before the accounts exist. A new account is that of the
 * role, so the role's section counts. */
static int print_grants(const struct options *options, const struct request *request)
{
    struct options of_role = *options;
    struct buf text = {0};
    struct config *config;
    struct err err = {0};
    enum rc rc;
    int code;

    if (request->create_user)
        of_role.role = request->role;
    code = options_load(&of_role, &config);

    if (code >= 0)
        return code;
    rc = put_grants(&text, config_settings(config), request, &err);
    if (rc == RC_REJECT) {
        buf_done(&text);
        config_free(config);
        return fail_usage(err.text);
    }
    fputs(buf_text(&text), stdout);
    if (rc == RC_OK && (text.failed || fflush(stdout) != 0))
        rc = err_fail(&err, RC_FATAL, 0, "%s",
                      text.failed ? "out of memory" : "cannot write to standard output");
    code = rc == RC_OK ? EXIT_DONE : options_fail(rc, &err);
    buf_done(&text);
    config_free(config);
    return code;
}

static int run_action(const struct options *options, struct run *run, const struct action *action,
                      bool json)
{
    struct config *config;
    struct err err = {0};
    int code = options_load(options, &config);

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

/* The options that an action does not have are refused, not ignored. NULL: all is well. */
static const char *find_request_fault(const struct request *request)
{
    bool is_grants = request->action == ACTION_GRANTS;
    bool takes_scope = request->action == ACTION_UP || request->action == ACTION_PLAN ||
                       request->action == ACTION_BASELINE;

    if (request->to < 0 || request->to > INT_MAX || request->wait_s < 0 || request->wait_s > 86400)
        return "expected --to from 1 and --wait from 0 to 86400";
    if (request->only && (strcmp(request->only, "outbox") != 0 || !(takes_scope || is_grants)))
        return "--only outbox is for up, plan, baseline and grants";
    if (request->with && (strcmp(request->with, "votes") != 0 || !takes_scope))
        return "--with votes is for up, plan and baseline";
    if (request->only && request->with)
        return "--only outbox and --with votes exclude each other";
    if ((request->role || request->account || request->create_user) && !is_grants)
        return "--role, --account and --create-user are for grants";
    if ((request->account || request->create_user) && !request->role)
        return "--account and --create-user need --role";
    return NULL;
}

static const char about[] =
    "Makes and checks the tables, in the databases of [mysql] and [sink]. A run of up that was "
    "killed goes on where it stopped when up is run again; several at the same time take turns. "
    "If a table of another program has the name of one of the tables, up changes nothing.\n\n"
    "--only outbox leaves out vote_state, vote_count, deleted_content and the tables of [sink]: "
    "the "
    "vote log, totals, progress, dead records and remarks. The history records it: "
    "relay and retry run, status and verify expect no vote tables, and neither a later `migrate "
    "up` nor --migrate adds them. `migrate up --with votes` does.\n\n"
    "grants --role ROLE is SQL for an administrator's client, for the account "
    "'tallybox_ROLE'@'%' or the one of --account. With --create-user the client makes the account. "
    "If the settings, with those of [role.ROLE], have this user and a password, the account gets "
    "that password, also if it exists. Else it gets a new one, which is printed on standard error "
    "as a section of the settings file; an account that exists then keeps its password, and the "
    "client ends with an error. If [mysql] and [sink] are on two servers, there is a part for "
    "each. The role migrate comes before `migrate up`; the others come after it, because servers "
    "grant rights only on tables that exist.\n\n"
    "The exit code is 1 when status finds something pending, verify finds a difference or a "
    "migration fails, and 3 when a server is away.";

static const char examples[] = "Examples:\n"
                               "  tallybox migrate plan\n"
                               "  tallybox migrate up --wait 300\n"
                               "  tallybox migrate up --only outbox\n"
                               "  tallybox migrate grants --role relay --create-user | mariadb\n"
                               "  tallybox migrate grants --role application_insert --account "
                               "shop@localhost | mariadb\n"
                               "  tallybox migrate verify --json\n";

static enum migrate_scope choose_scope(const struct request *request)
{
    if (request->only)
        return MIGRATE_OUTBOX;
    return request->with ? MIGRATE_ALL : MIGRATE_RECORDED;
}

static int run_request(const struct options *options, const struct request *request)
{
    struct run run = {
        .to = request->to > 0 ? (int)request->to : MIGRATION_NEWEST,
        .migrate = {.set = &migration_set_ours,
                    .scope = choose_scope(request),
                    .lock_wait_ms = request->wait_s * 1000,
                    .on_event = on_event},
    };
    const char *fault = find_request_fault(request);

    if (fault)
        return fail_usage(fault);
    run.migrate.event_ctx = &run;
    return request->action == ACTION_GRANTS
               ? print_grants(options, request)
               : run_action(options, &run, &actions[request->action], request->json);
}

int migrate_command(int argc, char **argv)
{
    struct request request = {.wait_s = LOCK_WAIT_S};
    const struct option_entry entries[] = {
        {"json", OPTION_FLAG, &request.json, NULL, "print one JSON object", NULL},
        {"only", OPTION_TEXT, &request.only, "outbox",
         "up, plan, baseline, grants: the outbox and the retry queue without the vote tables",
         NULL},
        {"with", OPTION_TEXT, &request.with, "votes",
         "up, plan, baseline: also the vote tables that --only outbox left out", NULL},
        {"role", OPTION_TEXT, &request.role, "ROLE", "grants: the rights of one role's account",
         "run serve relay retry retry_admin consume rollup housekeep status verify dead lanes rank "
         "migrate application application_insert first_try relay_wakeup relay_partitions "
         "relay_source"},
        {"account", OPTION_TEXT, &request.account, "USER[@HOST]",
         "grants --role: for this account, not for tallybox_ROLE; any host if none is given", NULL},
        {"create-user", OPTION_FLAG, &request.create_user, NULL,
         "grants --role: create the account, too", NULL},
        {"to", OPTION_NUMBER, &request.to, "VERSION",
         "up, plan, baseline: no further than VERSION (default: the newest)", NULL},
        {"wait", OPTION_NUMBER, &request.wait_s, "SECONDS",
         "up, baseline: how long to wait for another runner (default: 60)", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox migrate",
        .arguments = "ACTION",
        .about = about,
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .actions = option_actions,
        .action_count = ACTION_COUNT,
        .examples = examples,
    };
    struct options options;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (options.argument_count != 1)
        return fail_usage("expected one ACTION");
    request.action = find_action(options.arguments[0]);
    if (request.action == ACTION_COUNT)
        return EXIT_USAGE;
    return run_request(&options, &request);
}

/* The gate of the long-running commands. */

/* Another process of ours may be migrating. The gate is called again, so a short wait is enough. */
#define GATE_LOCK_WAIT_MS 5000

static void log_progress(void *ctx, enum migrate_event event, const struct migration *migration,
                         size_t done, size_t statements)
{
    static const char *const names[] = {
        [MIGRATE_DATABASE_CREATED] = "database_created", [MIGRATE_STARTED] = "migration_started",
        [MIGRATE_RESUMED] = "migration_resumed",         [MIGRATE_APPLIED] = "migration_applied",
        [MIGRATE_BASELINED] = "migration_baselined",
    };
    const struct migrate_target *target = ctx;

    if (migration)
        log_event(LOG_INFO, names[event], "database=%s migration=%s statement=%zu statements=%zu",
                  target->settings->database, migration->name, done, statements);
    else
        log_event(LOG_INFO, names[event], "database=%s", target->settings->database);
}

/* The gate on its way through the databases. */
struct gate {
    bool may_migrate;
    bool needs_votes;
    bool has_votes;              /* a database before this one has vote tables */
    struct migrate_mysql *mysql; /* of the database under way */
    struct migrate migrate;
};

/* A database, as the gate finds it. */
struct gate_target {
    struct migrate_target target;
    bool due;         /* migrating would help */
    bool outbox_only; /* as relay and retry see it: also while vote tables are added */
};

typedef enum rc (*gate_run)(struct gate *gate, struct gate_target *one, struct err *err);

static enum rc judge_schema(struct gate *gate, struct gate_target *one, struct err *err)
{
    const struct migrate *migrate = &gate->migrate;
    struct migrate_state state = {0};
    bool is_sound;
    bool is_part_enough;
    enum rc rc = migrate_state_read(migrate, &state, err);

    if (rc == RC_OK) {
        is_sound = migrate_state_check(migrate, &state, NULL) == RC_OK;
        is_part_enough = is_sound && !gate->needs_votes && migrate_state_has_outbox(&state);
        one->outbox_only = state.outbox_only || is_part_enough;
        rc = is_part_enough ? RC_OK : migrate_state_judge(migrate, &state, err);
        one->due = rc == RC_RETRY && is_sound && gate->may_migrate;
        if (one->due)
            rc = RC_OK;
    }
    gate->has_votes = gate->has_votes || migrate_state_has_votes(&state);
    migrate_state_done(&state);
    return rc;
}

static enum rc admit_schema(struct gate *gate, struct gate_target *one, struct err *err)
{
    struct migrate_state state = {0};
    enum rc rc = migrate_admit(&gate->migrate, MIGRATION_NEWEST, &state, err);

    (void)one;
    migrate_state_done(&state);
    return rc;
}

static enum rc migrate_schema(struct gate *gate, struct gate_target *one, struct err *err)
{
    (void)one;
    return migrate_up(&gate->migrate, MIGRATION_NEWEST, err);
}

static enum rc run_on_target(struct gate *gate, struct gate_target *one, gate_run run,
                             int64_t statement_wait_ms, struct err *err)
{
    enum rc rc = migrate_mysql_open(&gate->mysql, one->target.settings, statement_wait_ms, err);

    if (rc == RC_OK) {
        gate->migrate = (struct migrate){
            .set = &migration_set_ours,
            .store = migrate_mysql_store(gate->mysql),
            .sides = one->target.sides,
            .place = one->target.place,
            .setting = one->target.settings->database_place,
            .scope = MIGRATE_RECORDED,
            .has_votes = gate->has_votes,
            .lock_wait_ms = GATE_LOCK_WAIT_MS,
            .on_event = log_progress,
            .event_ctx = &one->target,
        };
        rc = run(gate, one, err);
    }
    migrate_mysql_close(gate->mysql);
    gate->mysql = NULL;
    return rc;
}

/* Stops behind a database that has the outbox only: nothing is expected of the other one. */
static enum rc judge_targets(struct gate *gate, struct gate_target *targets, size_t count,
                             struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct gate_target *one = &targets[i];
        enum rc rc =
            run_on_target(gate, one, judge_schema, one->target.settings->query_timeout_ms, err);

        if (rc != RC_OK)
            return rc;
        if (one->outbox_only && gate->needs_votes)
            return err_fail(err, RC_RETRY, 0,
                            "%s has the outbox only, without the tables for votes: run `tallybox "
                            "migrate up --with votes` to add them, or start only `tallybox relay`, "
                            "`tallybox retry`, and `tallybox serve` with api.votes = off",
                            one->target.place);
        if (one->outbox_only)
            return RC_OK;
    }
    return RC_OK;
}

static enum rc run_on_due(struct gate *gate, struct gate_target *targets, size_t count,
                          gate_run run, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (targets[i].due)
            rc = run_on_target(gate, &targets[i], run, MIGRATE_MYSQL_WAIT_MS, err);
    }
    return rc;
}

static enum rc check_gate(const struct settings *settings, struct gate *gate, struct err *err)
{
    struct migrate_target found[MIGRATE_TARGETS_MAX];
    struct gate_target targets[MIGRATE_TARGETS_MAX] = {0};
    size_t count = migrate_targets(settings, found);
    enum rc rc;

    for (size_t i = 0; i < count; i++)
        targets[i].target = found[i];
    rc = judge_targets(gate, targets, count, err);
    if (rc == RC_OK && count > 1)
        rc = run_on_due(gate, targets, count, admit_schema, err);
    return rc == RC_OK ? run_on_due(gate, targets, count, migrate_schema, err) : rc;
}

enum rc schema_gate(const struct settings *settings, bool migrate, struct err *err)
{
    struct gate gate = {.may_migrate = migrate, .needs_votes = true};

    return check_gate(settings, &gate, err);
}

enum rc schema_outbox_gate(const struct settings *settings, bool migrate, struct err *err)
{
    struct gate gate = {.may_migrate = migrate, .needs_votes = false};

    return check_gate(settings, &gate, err);
}
