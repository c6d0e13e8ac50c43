/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/doctor_command.h"

#include "common/db/db.h"
#include "common/http/connections.h"
#include "common/options.h"
#include "common/text.h"
#include "consumer/doctor/doctor.h"
#include "consumer/doctor/doctor_kafka.h"
#include "consumer/doctor/doctor_mysql.h"
#include "consumer/doctor/privileges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROLES                                                                               \
    "run,serve,relay,retry,consume,rollup,housekeep,migrate,lanes,status,verify,dead,rank," \
    "retry_admin,application,application_insert,first_try,relay_wakeup,relay_partitions,"   \
    "relay_source"
/* These work on the tables of the votes, which an installation for the outbox only lacks. */
#define VOTE_ROLES "run,serve,consume,rollup,housekeep,verify,dead,rank"
#define DAEMON_ROLES "run,serve,relay,retry,consume,rollup,housekeep"
#define KAFKA_ROLES "run,relay,retry,consume,status"
#define ROLES_MAX 16
#define ROLE_SIZE 32
#define MISTAKES_MAX 16
#define DRIFTS_SHOWN 8

/* A role whose account is checked, or "": the account of [mysql] and [sink]. */
struct doctor_role {
    char name[ROLE_SIZE];
    struct config *config; /* as the role reads it */
};

/* What the command line and main.c ask for. */
struct doctor_checks {
    const struct doctor_env *env;
    const struct options *options;
    const char *asked; /* of --role; "": nothing */
    struct doctor_role roles[ROLES_MAX];
    size_t role_count;
    bool strict;
    bool json;
};

static int exit_code_of(enum doctor_level outcome)
{
    switch (outcome) {
    case DOCTOR_FAILED:
        return EXIT_FAILED;
    case DOCTOR_UNREACHABLE:
        return EXIT_UNAVAILABLE;
    case DOCTOR_OK:
    case DOCTOR_WARNING:
    case DOCTOR_LEVELS:
        break;
    }
    return EXIT_DONE;
}

/* The roles say whether they can use the file. */
static void check_file(struct doctor *doctor, const char *setting, const char *path)
{
    struct stat found;

    if (path[0] && stat(path, &found) == 0 && (found.st_mode & S_IROTH))
        doctor_add(doctor, DOCTOR_WARNING, "settings",
                   "take the right to read it from others: chmod o-r",
                   "%s: every account of this machine can read %s", setting, path);
}

static bool has_role(const struct doctor_checks *checks, const char *name)
{
    for (size_t i = 0; i < checks->role_count; i++)
        if (strcmp(checks->roles[i].name, name) == 0)
            return true;
    return false;
}

/* Mistakes in settings, each with the roles that it stops. */
struct mistakes {
    struct err errors[MISTAKES_MAX];
    char roles[MISTAKES_MAX][128];
    size_t count;
};

static void add_mistake(struct mistakes *mistakes, const struct role *role, const struct err *err)
{
    size_t at = 0;

    while (at < mistakes->count && strcmp(mistakes->errors[at].text, err->text) != 0)
        at++;
    if (at == MISTAKES_MAX)
        return;
    if (at == mistakes->count)
        mistakes->errors[mistakes->count++] = *err;
    text_list_add(mistakes->roles[at], sizeof(mistakes->roles[at]), role->name);
}

/* If a role listens at an address of another machine, nothing can be said about the address here:
 * it is noted, and replaced in the settings, so that the role's other checks are made. */
static void skip_foreign_address(struct mistakes *foreign, const struct role *role,
                                 const char *name, char listen[SETTING_TEXT_SIZE])
{
    struct err err = {0};

    if (!http_is_foreign(listen))
        return;
    err_set(&err, "%s = %s was not checked: this machine does not have that address", name, listen);
    add_mistake(foreign, role, &err);
    snprintf(listen, SETTING_TEXT_SIZE, "*:0");
}

/* What check_roles() finds. */
struct role_findings {
    struct mistakes wrong;
    struct mistakes foreign; /* addresses of other machines */
};

static void check_role_settings(struct role_findings *found, const struct doctor_checks *checks,
                                const struct role *role, const struct settings *settings)
{
    struct settings *own = malloc(sizeof(*own));
    struct err err = {0};

    if (!own) {
        err_set(&err, "out of memory");
        add_mistake(&found->wrong, role, &err);
        return;
    }
    *own = *settings;
    skip_foreign_address(&found->foreign, role, "admin.listen", own->admin.listen);
    if (list_has(role->sections, "api"))
        skip_foreign_address(&found->foreign, role, "api.listen", own->api.listen);
    if (role_check_process(own, &err) != RC_OK)
        add_mistake(&found->wrong, role, &err);
    if (role_check(role, own, checks->env->handlers, &err) != RC_OK)
        add_mistake(&found->wrong, role, &err);
    free(own);
}

/* Runs the checks of a role on the settings that its process would read. */
static void check_role(struct role_findings *found, const struct doctor_checks *checks,
                       const struct role *role)
{
    struct options options = *checks->options;
    struct config *config = NULL;
    struct err err = {0};

    options.role = has_role(checks, "run") && !has_role(checks, role->name) ? "run" : role->name;
    if (options_read(&options, &config, &err) != RC_OK) {
        add_mistake(&found->wrong, role, &err);
        return;
    }
    check_role_settings(found, checks, role, config_settings(config));
    config_free(config);
}

static void check_roles(struct doctor *doctor, const struct doctor_checks *checks)
{
    struct role_findings found = {0};

    for (size_t i = 0; i < checks->env->role_count; i++) {
        const struct role *role = checks->env->roles[i];

        if (!checks->asked[0] || has_role(checks, role->name) || has_role(checks, "run"))
            check_role(&found, checks, role);
    }
    for (size_t i = 0; i < found.foreign.count; i++)
        doctor_add(doctor, DOCTOR_WARNING, "settings",
                   "run doctor on the machine of the role, or correct the address", "%s: %s",
                   found.foreign.roles[i], found.foreign.errors[i].text);
    for (size_t i = 0; i < found.wrong.count; i++)
        doctor_add(doctor, DOCTOR_FAILED, "settings",
                   "correct the setting or its file; `tallybox config` shows where each value "
                   "comes from",
                   "%s cannot start: %s", found.wrong.roles[i], found.wrong.errors[i].text);
}

static void check_files(struct doctor *doctor, const struct settings *settings)
{
    check_file(doctor, "mysql.password_file", settings->mysql.password_file);
    if (strcmp(settings->mysql.password_file, settings->sink.password_file) != 0)
        check_file(doctor, "sink.password_file", settings->sink.password_file);
    check_file(doctor, "api.token_file", settings->api.token_file);
    check_file(doctor, "api.tls_key", settings->api.tls_key);
    check_file(doctor, "admin.token_file", settings->admin.token_file);
    check_file(doctor, "admin.tls_key", settings->admin.tls_key);
}

static void check_settings(struct doctor *doctor, const struct doctor_checks *checks)
{
    for (size_t i = 0; i < checks->role_count; i++)
        check_files(doctor, config_settings(checks->roles[i].config));
    check_roles(doctor, checks);
    if (doctor->counts[DOCTOR_WARNING] + doctor->counts[DOCTOR_FAILED] == 0)
        doctor_add(doctor, DOCTOR_OK, "settings", NULL, "every setting is valid");
}

/* Ends the part for [mysql] and returns the part for [sink], or NULL if both are one database. */
static char *split_grants(struct buf *grants)
{
    const char *text = buf_text(grants);
    char *next = grants->failed ? NULL : strstr(grants->data, "\n-- On the ");

    (void)text;
    if (!next)
        return NULL;
    *next = '\0';
    return next + 1;
}

static void name_place(char place[DOCTOR_PLACE_SIZE], const struct mysql_settings *settings)
{
    if (settings->socket[0])
        snprintf(place, DOCTOR_PLACE_SIZE, "database %s at %s", settings->database,
                 settings->socket);
    else
        snprintf(place, DOCTOR_PLACE_SIZE, "database %s at %s:%lld", settings->database,
                 settings->host, (long long)settings->port);
}

enum schema_finding { SCHEMA_GOOD, SCHEMA_BAD, SCHEMA_HIDDEN };

/* What the checks of all roles have found. */
struct passes {
    char places[2 * ROLES_MAX][DOCTOR_PLACE_SIZE]; /* databases whose servers were judged */
    size_t place_count;
    size_t counts[SCHEMA_HIDDEN + 1]; /* of roles, by what was found about the schema */
    bool outbox_only;
};

/* The checks with the account of one role. */
struct pass {
    struct doctor *doctor;
    const struct doctor_checks *checks;
    struct passes *passes;
    const struct settings *settings;
    const char *role;
    struct buf grants; /* that the roles need: owns the texts of the databases' required */
    struct buf outbox_grants;
    struct doctor_database mysql;
    struct doctor_database sink;
    bool has_sink; /* another database, in which tables are expected */
};

static bool is_judged(const struct passes *passes, const char *place)
{
    for (size_t i = 0; i < passes->place_count; i++)
        if (strcmp(passes->places[i], place) == 0)
            return true;
    return false;
}

static bool check_database(struct pass *pass, struct doctor_database *database,
                           const struct mysql_settings *mysql, const char *required)
{
    bool is_sink = database == &pass->sink;

    database->section = is_sink ? "sink" : "mysql";
    database->required = required;
    name_place(database->place, mysql);
    database->is_known = is_judged(pass->passes, database->place);
    doctor_mysql_fill(database, mysql, pass->settings, pass->checks->env->check_table);
    if (database->outbox_only) {
        pass->checks->env->put_grants(&pass->outbox_grants, pass->settings, true);
        database->required = buf_text(&pass->outbox_grants);
    }
    doctor_judge_database(pass->doctor, database, pass->settings, pass->role);
    if (database->rc == RC_OK && !database->is_known)
        snprintf(pass->passes->places[pass->passes->place_count++], DOCTOR_PLACE_SIZE, "%s",
                 database->place);
    return database->rc == RC_OK;
}

/* True if every server was reached. */
static bool check_databases(struct pass *pass)
{
    const struct settings *settings = pass->settings;
    bool is_reached;
    char *sink;

    pass->checks->env->put_grants(&pass->grants, settings, false);
    sink = split_grants(&pass->grants);
    is_reached = check_database(pass, &pass->mysql, &settings->mysql, buf_text(&pass->grants));
    pass->has_sink = sink && !pass->mysql.outbox_only;
    if (pass->has_sink && !check_database(pass, &pass->sink, &settings->sink, sink))
        is_reached = false;
    return is_reached;
}

/* The differences of one database. */
struct drifts {
    struct pass *pass;
    struct doctor_database *database;
    const char *name; /* of the database */
    size_t count;
};

/* Ignores what the role does not need, and what the account may not see: the privileges are another
 * finding. */
static void on_drift(void *ctx, const char *table, bool is_whole, bool is_missing, const char *text)
{
    struct drifts *drifts = ctx;
    struct doctor_database *database = drifts->database;
    const char *role = drifts->pass->role;

    if (role[0] && !privileges_show_table(database->required, role, drifts->name, table, false))
        return;
    if (!privileges_show_table(buf_text(&database->grants), NULL, drifts->name, table, !is_whole))
        return;
    if (drifts->count++ < DRIFTS_SHOWN)
        doctor_add(drifts->pass->doctor, is_missing ? DOCTOR_FAILED : DOCTOR_WARNING, "schema",
                   "`tallybox migrate verify` compares all tables; name the table as it was, or "
                   "restore it from a backup",
                   "%s: %.300s", database->place, text);
}

/* Returns the number of differences. */
static size_t compare_database(struct pass *pass, struct doctor_database *database,
                               const char *name)
{
    struct drifts drifts = {.pass = pass, .database = database, .name = name};
    struct err err = {0};

    if (pass->checks->env->compare(pass->settings, database->section, on_drift, &drifts, &err) !=
        RC_OK) {
        doctor_add(pass->doctor, DOCTOR_FAILED, "schema", "run doctor again", "%s", err.text);
        return 1;
    }
    if (drifts.count > DRIFTS_SHOWN)
        doctor_add(pass->doctor, DOCTOR_FAILED, "schema",
                   "`tallybox migrate verify` lists them all", "%s: %zu more differences",
                   database->place, drifts.count - DRIFTS_SHOWN);
    return drifts.count;
}

static enum schema_finding check_schema(struct pass *pass)
{
    const struct doctor_env *env = pass->checks->env;
    bool needs_votes = list_has(VOTE_ROLES, pass->role) &&
                       (strcmp(pass->role, "serve") != 0 || settings_serve_votes(pass->settings));
    role_gate gate = needs_votes ? env->full_gate : env->outbox_gate;
    size_t drifts;
    struct err err = {0};

    if (gate(pass->settings, false, &err) != RC_OK) {
        if (err.code == DB_NO_PRIVILEGE)
            return SCHEMA_HIDDEN;
        doctor_add(
            pass->doctor, DOCTOR_FAILED, "schema",
            "`tallybox migrate status` shows each migration, `tallybox migrate plan` what is "
            "missing",
            "%s", err.text);
        return SCHEMA_BAD;
    }
    drifts = compare_database(pass, &pass->mysql, pass->settings->mysql.database);
    if (pass->has_sink)
        drifts += compare_database(pass, &pass->sink, pass->settings->sink.database);
    return drifts > 0 ? SCHEMA_BAD : SCHEMA_GOOD;
}

static void run_pass(struct doctor *doctor, const struct doctor_checks *checks,
                     struct passes *passes, const struct doctor_role *role)
{
    struct pass *pass = calloc(1, sizeof(*pass));

    if (!pass) {
        doctor_add(doctor, DOCTOR_FAILED, "settings", NULL, "out of memory");
        return;
    }
    pass->doctor = doctor;
    pass->checks = checks;
    pass->passes = passes;
    pass->settings = config_settings(role->config);
    pass->role = role->name;
    if (check_databases(pass))
        passes->counts[check_schema(pass)]++;
    passes->outbox_only = passes->outbox_only || pass->mysql.outbox_only;
    buf_done(&pass->mysql.grants);
    buf_done(&pass->sink.grants);
    buf_done(&pass->grants);
    buf_done(&pass->outbox_grants);
    free(pass);
}

/* Checks the databases and their tables with the account of each role. True: there are no tables
 * for votes. */
static bool run_passes(struct doctor *doctor, const struct doctor_checks *checks)
{
    struct passes *passes = calloc(1, sizeof(*passes));
    bool outbox_only;

    if (!passes) {
        doctor_add(doctor, DOCTOR_FAILED, "settings", NULL, "out of memory");
        return false;
    }
    for (size_t i = 0; i < checks->role_count; i++)
        run_pass(doctor, checks, passes, &checks->roles[i]);
    if (passes->counts[SCHEMA_GOOD] > 0 && passes->counts[SCHEMA_BAD] == 0)
        doctor_add(doctor, DOCTOR_OK, "schema", NULL, "the tables are those of this version");
    if (passes->counts[SCHEMA_HIDDEN] > 0 &&
        passes->counts[SCHEMA_GOOD] + passes->counts[SCHEMA_BAD] == 0)
        doctor_add(doctor, DOCTOR_WARNING, "schema", "run doctor with the account of a role",
                   "the tables were not checked: the account may not read schema_history");
    outbox_only = passes->outbox_only;
    free(passes);
    return outbox_only;
}

static void check_kafka(struct doctor *doctor, const struct settings *settings,
                        const struct doctor_checks *checks, bool outbox_only)
{
    struct doctor_kafka *kafka = calloc(1, sizeof(*kafka));

    if (!kafka) {
        doctor_add(doctor, DOCTOR_FAILED, "kafka", NULL, "out of memory");
        return;
    }
    kafka->record_extra_bytes = checks->env->record_extra_bytes;
    doctor_list_topics(kafka, settings, outbox_only);
    doctor_kafka_fill(kafka, settings);
    doctor_judge_kafka(doctor, kafka, settings);
    free(kafka);
}

static bool is_same_kafka(const struct settings *a, const struct settings *b)
{
    return a->kafka.count == b->kafka.count &&
           memcmp(a->kafka.properties, b->kafka.properties,
                  a->kafka.count * sizeof(a->kafka.properties[0])) == 0;
}

/* Checks Kafka once with each set of its settings, of the roles that use it. */
static void check_brokers(struct doctor *doctor, const struct doctor_checks *checks,
                          bool outbox_only)
{
    const struct settings *done[ROLES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < checks->role_count; i++) {
        const struct settings *settings = config_settings(checks->roles[i].config);
        bool is_used = !checks->roles[i].name[0] || list_has(KAFKA_ROLES, checks->roles[i].name);

        for (size_t j = 0; j < count && is_used; j++)
            is_used = !is_same_kafka(done[j], settings);
        if (!is_used)
            continue;
        done[count++] = settings;
        check_kafka(doctor, settings, checks, outbox_only);
    }
}

static int print_findings(const struct doctor *doctor, bool strict, bool json)
{
    struct buf out = {0};
    int code;

    if (json)
        doctor_print_json(doctor, strict, &out);
    else
        doctor_print_text(doctor, &out);
    code = options_print(&out);
    return code == EXIT_DONE ? exit_code_of(doctor_outcome(doctor, strict)) : code;
}

static int run_checks(const struct doctor_checks *checks)
{
    struct doctor *doctor = calloc(1, sizeof(*doctor));
    struct err err = {0};
    int code;

    if (!doctor)
        return options_fail(err_fail(&err, RC_FATAL, 0, "out of memory"), &err);
    doctor_kafka_judge_versions(doctor);
    check_settings(doctor, checks);
    check_brokers(doctor, checks, run_passes(doctor, checks));
    code = print_findings(doctor, checks->strict, checks->json);
    free(doctor);
    return code;
}

/* Reads the settings as the role does. name: "" for no role. */
static enum rc add_role(struct doctor_checks *checks, const char *name, size_t len, struct err *err)
{
    struct doctor_role *role = &checks->roles[checks->role_count];
    struct options options = *checks->options;

    if (checks->role_count == ROLES_MAX)
        return RC_OK;
    snprintf(role->name, sizeof(role->name), "%.*s", (int)len, name);
    if (has_role(checks, role->name))
        return RC_OK;
    options.role = role->name[0] ? role->name : NULL;
    if (options_read(&options, &role->config, err) != RC_OK)
        return RC_FATAL;
    checks->role_count++;
    return RC_OK;
}

/* The roles of --role; without it those that have a section, and the account of the other sections
 * if no role that runs as a process has one. */
static enum rc choose_roles(struct doctor_checks *checks, const struct config *config,
                            struct err *err)
{
    const char *rest = checks->asked[0] ? checks->asked : ROLES;
    bool has_daemon = false;
    enum rc rc = RC_OK;
    size_t len;

    for (const char *name; rc == RC_OK && (name = list_next(&rest, ',', &len));) {
        char text[ROLE_SIZE];

        snprintf(text, sizeof(text), "%.*s", (int)len, name);
        if (!checks->asked[0] && !config_has_role(config, text))
            continue;
        has_daemon = has_daemon || list_has(DAEMON_ROLES, text);
        rc = add_role(checks, name, len, err);
    }
    if (rc == RC_OK && !checks->asked[0] && !has_daemon)
        rc = add_role(checks, "", 0, err);
    return rc;
}

/* Returns the first name in a list that is no role, or NULL. *len: its length. */
static const char *find_unknown_role(const char *roles, size_t *len)
{
    for (; *roles; roles += *len + (roles[*len] == ',')) {
        char role[32];

        *len = strcspn(roles, ",");
        snprintf(role, sizeof(role), "%.*s", (int)*len, roles);
        if (!list_has(ROLES, role))
            return roles;
    }
    return NULL;
}

int doctor_command(const struct doctor_env *env, int argc, char **argv)
{
    struct doctor_checks checks = {.env = env, .asked = ""};
    const struct option_entry entries[] = {
        {"role", OPTION_TEXT, &checks.asked, "ROLE,...",
         "check these roles, each with its settings, its account and the privileges that it "
         "needs: " ROLES,
         "run serve relay retry retry_admin consume rollup housekeep status verify dead lanes rank "
         "migrate application application_insert"},
        {"strict", OPTION_FLAG, &checks.strict, NULL, "exit with 1 on a warning, too", NULL},
        {"json", OPTION_FLAG, &checks.json, NULL, "print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox doctor",
        .arguments = "",
        .about =
            "Checks the settings, the database servers, the tables, Kafka and its topics, and the "
            "versions, and prints each problem with its remedy. Changes nothing. Without --role it "
            "checks the roles that have a section [role.NAME] in the settings file.\n\nThe exit "
            "code "
            "is 1 if something failed, 3 if a server could not be reached, and 0 otherwise.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox doctor\n"
                    "  tallybox doctor --role relay --strict\n",
    };
    struct config *config;
    struct options options;
    struct err err = {0};
    size_t len = 0;
    const char *unknown;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    unknown = find_unknown_role(checks.asked, &len);
    if (unknown) {
        fprintf(stderr, "tallybox doctor: --role %.*s: expected one of %s\n", (int)len, unknown,
                ROLES);
        return EXIT_USAGE;
    }
    if (*checks.asked && !strchr(checks.asked, ','))
        options.role = checks.asked;
    code = options_load(&options, &config);
    if (code >= 0)
        return code;
    options_tell_file(config);
    checks.options = &options;
    if (choose_roles(&checks, config, &err) == RC_OK)
        code = run_checks(&checks);
    else
        code = options_fail(RC_FATAL, &err);
    for (size_t i = 0; i < checks.role_count; i++)
        config_free(checks.roles[i].config);
    config_free(config);
    return code;
}
