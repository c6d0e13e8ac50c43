/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/doctor_command.h"

#include "common/db/db.h"
#include "common/http/connections.h"
#include "common/options.h"
#include "common/text.h"
#include "consumer/doctor/doctor.h"
#include "consumer/doctor/doctor_kafka.h"
#include "consumer/doctor/doctor_mysql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROLES                                                                                      \
    "run,serve,relay,retry,consume,rollup,housekeep,migrate,lanes,status,verify,dead,retry_admin," \
    "application,application_insert"
/* These work on the tables of the votes, which an installation for the outbox only lacks. */
#define VOTE_ROLES "run,serve,consume,rollup,housekeep,verify,dead"
#define MISTAKES_MAX 16

/* What the command line and main.c ask for. */
struct doctor_checks {
    const struct doctor_env *env;
    const struct options *options;
    const char *roles;
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

/* Whether a list has one of the names in another list. */
static bool has_any(const char *list, const char *names)
{
    size_t len;

    for (const char *name; (name = list_next(&names, ',', &len));) {
        char text[32];

        snprintf(text, sizeof(text), "%.*s", (int)len, name);
        if (list_has(list, text))
            return true;
    }
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
    char *roles;
    size_t at = 0;

    while (at < mistakes->count && strcmp(mistakes->errors[at].text, err->text) != 0)
        at++;
    if (at == MISTAKES_MAX)
        return;
    if (at == mistakes->count)
        mistakes->errors[mistakes->count++] = *err;
    roles = mistakes->roles[at];
    snprintf(roles + strlen(roles), sizeof(mistakes->roles[at]) - strlen(roles), "%s%s",
             roles[0] ? ", " : "", role->name);
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

    if (!list_has(checks->roles, "run"))
        options.role = role->name;
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

        if (!checks->roles[0] || list_has(checks->roles, role->name) ||
            list_has(checks->roles, "run"))
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

static void check_settings(struct doctor *doctor, const struct settings *settings,
                           const struct doctor_checks *checks)
{
    check_file(doctor, "mysql.password_file", settings->mysql.password_file);
    if (strcmp(settings->mysql.password_file, settings->sink.password_file) != 0)
        check_file(doctor, "sink.password_file", settings->sink.password_file);
    check_file(doctor, "api.token_file", settings->api.token_file);
    check_file(doctor, "api.tls_key", settings->api.tls_key);
    check_file(doctor, "admin.token_file", settings->admin.token_file);
    check_file(doctor, "admin.tls_key", settings->admin.tls_key);
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

/* *outbox_only: nothing is expected of [sink]. */
static bool check_database(struct doctor *doctor, const struct settings *settings, bool is_sink,
                           const char *required, const struct doctor_checks *checks,
                           bool *outbox_only)
{
    const struct mysql_settings *mysql = is_sink ? &settings->sink : &settings->mysql;
    struct doctor_database database = {0};
    struct buf outbox_grants = {0};

    database.section = is_sink ? "sink" : "mysql";
    database.required = required;
    name_place(database.place, mysql);
    doctor_mysql_fill(&database, mysql);
    *outbox_only = database.outbox_only;
    if (database.outbox_only) {
        checks->env->put_grants(&outbox_grants, settings, true);
        database.required = buf_text(&outbox_grants);
    }
    doctor_judge_database(doctor, &database, settings, checks->roles);
    buf_done(&outbox_grants);
    buf_done(&database.grants);
    return database.rc == RC_OK;
}

/* True if every server was reached. *outbox_only: there are no tables for votes. */
static bool check_databases(struct doctor *doctor, const struct settings *settings,
                            const struct doctor_checks *checks, bool *outbox_only)
{
    struct buf grants = {0};
    bool ignored = false;
    bool all_reached;
    char *sink;

    checks->env->put_grants(&grants, settings, false);
    sink = split_grants(&grants);
    all_reached = check_database(doctor, settings, false, buf_text(&grants), checks, outbox_only);
    if (sink && !*outbox_only && !check_database(doctor, settings, true, sink, checks, &ignored))
        all_reached = false;
    buf_done(&grants);
    return all_reached;
}

static void check_schema(struct doctor *doctor, const struct settings *settings, role_gate gate)
{
    struct err err = {0};

    if (gate(settings, false, &err) == RC_OK)
        doctor_add(doctor, DOCTOR_OK, "schema", NULL, "the tables are those of this version");
    else if (err.code == DB_NO_PRIVILEGE)
        doctor_add(doctor, DOCTOR_WARNING, "schema", "run doctor with the account of a role",
                   "the tables were not checked: the account may not read schema_history");
    else
        doctor_add(
            doctor, DOCTOR_FAILED, "schema",
            "`tallybox migrate status` shows each migration, `tallybox migrate plan` what is "
            "missing",
            "%s", err.text);
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

static int run_checks(const struct doctor_checks *checks, const struct settings *settings)
{
    struct doctor *doctor = calloc(1, sizeof(*doctor));
    struct err err = {0};
    bool outbox_only = false;
    int code;

    if (!doctor)
        return options_fail(err_fail(&err, RC_FATAL, 0, "out of memory"), &err);
    doctor_kafka_judge_versions(doctor);
    check_settings(doctor, settings, checks);
    if (check_databases(doctor, settings, checks, &outbox_only))
        check_schema(doctor, settings,
                     has_any(VOTE_ROLES, checks->roles) ? checks->env->full_gate
                                                        : checks->env->outbox_gate);
    check_kafka(doctor, settings, checks, outbox_only);
    code = print_findings(doctor, checks->strict, checks->json);
    free(doctor);
    return code;
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
    struct doctor_checks checks = {.env = env, .roles = ""};
    const struct option_entry entries[] = {
        {"role", OPTION_TEXT, &checks.roles, "ROLE,...",
         "also check whether the accounts have the privileges of these roles, and read the "
         "settings of a single one: " ROLES,
         "run serve relay retry retry_admin consume rollup housekeep status verify dead lanes "
         "migrate application application_insert"},
        {"strict", OPTION_FLAG, &checks.strict, NULL, "exit with 1 on a warning, too", NULL},
        {"json", OPTION_FLAG, &checks.json, NULL, "print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox doctor",
        .arguments = "",
        .about =
            "Checks the settings, the database servers, the tables, Kafka and its topics, and the "
            "versions, and prints each problem with its remedy. Changes nothing.\n\nThe exit code "
            "is 1 if something failed, 3 if a server could not be reached, and 0 otherwise.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox doctor\n"
                    "  tallybox doctor --role relay --strict\n",
    };
    struct config *config;
    struct options options;
    size_t len = 0;
    const char *unknown;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    unknown = find_unknown_role(checks.roles, &len);
    if (unknown) {
        fprintf(stderr, "tallybox doctor: --role %.*s: expected one of %s\n", (int)len, unknown,
                ROLES);
        return EXIT_USAGE;
    }
    if (*checks.roles && !strchr(checks.roles, ','))
        options.role = checks.roles;
    code = options_load(&options, &config);
    if (code >= 0)
        return code;
    options_tell_file(config);
    checks.options = &options;
    code = run_checks(&checks, config_settings(config));
    config_free(config);
    return code;
}
