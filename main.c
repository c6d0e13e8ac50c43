/* SPDX-License-Identifier: MIT */
#include "common/config/config_command.h"
#include "common/daemon/health_command.h"
#include "common/daemon/reference_command.h"
#include "common/daemon/role.h"
#include "common/help_page.h"
#include "common/nearest.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/consume_command.h"
#include "consumer/dead/dead_command.h"
#include "consumer/doctor/doctor_command.h"
#include "consumer/held/vote_handler.h"
#include "consumer/installation_mysql.h"
#include "consumer/maintenance/housekeep_command.h"
#include "consumer/rollup/rollup_command.h"
#include "consumer/status/status_command.h"
#include "consumer/verify/verify_command.h"
#include "outbox/adopt/adopt_command.h"
#include "outbox/client/own_handlers.h"
#include "outbox/lanes_command.h"
#include "outbox/presence_role.h"
#include "outbox/relay/cli/relay_action_command.h"
#include "outbox/relay/relay_command.h"
#include "outbox/relay/row_record.h"
#include "outbox/relay/stream/stream_mysql.h"
#include "outbox/retry/cli/retry_action_command.h"
#include "outbox/retry/handlers/exec_handler.h"
#include "outbox/retry/handlers/http_handler.h"
#include "outbox/retry/handlers/kafka_handler.h"
#include "outbox/retry/handlers/steps_handler.h"
#include "outbox/retry/retry_command.h"
#include "producer/http/openapi_command.h"
#include "producer/remark/rank_command.h"
#include "producer/serve_command.h"
#include "producer/vote/vote_command.h"
#include "schema/migrate/compare_command.h"
#include "schema/migrate/grants.h"
#include "schema/migrate/migrate_command.h"
#include "tallybox_version.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What a task of the retry queue may name as its handler. */
static const struct retry_handler *handler_table[RETRY_HANDLERS_MAX] = {
    &retry_kafka_handler, &retry_http_handler, &retry_exec_handler, &retry_steps_handler,
    &vote_handler};

/* tallybox_main() adds those of an own build. */
static struct retry_handlers handlers = {.list = handler_table, .count = 5};

static const struct role *const roles[] = {&serve_role,   &relay_role,  &retry_role,
                                           &consume_role, &rollup_role, &housekeep_role};

/* Roles that name the consumer group need the id of the installation. */
static enum rc check_sink_gate(const struct settings *settings, bool migrate, struct err *err)
{
    enum rc rc = schema_gate(settings, migrate, err);

    return rc == RC_OK ? installation_find(settings, err) : rc;
}

static enum rc check_serve_gate(const struct settings *settings, bool migrate, struct err *err)
{
    enum rc rc;

    if (!settings_serve_votes(settings))
        return schema_outbox_gate(settings, migrate, err);
    rc = schema_gate(settings, migrate, err);
    return rc == RC_OK ? serve_check_lanes(settings, err) : rc;
}

static enum rc check_run_gate(const struct settings *settings, bool migrate, struct err *err)
{
    enum rc rc = RC_OK;

    /* The other roles handle votes in any case. */
    if (!settings_serve_votes(settings))
        rc = schema_gate(settings, migrate, err);
    else
        rc = serve_check_relayed(settings, err);
    if (rc == RC_OK)
        rc = check_serve_gate(settings, migrate, err);
    return rc == RC_OK ? installation_find(settings, err) : rc;
}

static int run_command(int argc, char **argv)
{
    const struct role_process process = {
        "run",
        "Runs serve, relay, retry, consume, rollup and housekeep in one process, for a small "
        "installation.",
        roles,
        COUNT(roles),
        check_run_gate,
        &handlers,
        NULL,
        0,
        NULL};

    return role_main(&process, argc, argv);
}

static int run_role(const struct role *role, role_gate gate, int argc, char **argv)
{
    const struct role_process process = {role->name, role->about, &role, 1,   gate,
                                         &handlers,  NULL,        0,     NULL};

    return role_main(&process, argc, argv);
}

static int serve_command(int argc, char **argv)
{
    return run_role(&serve_role, check_serve_gate, argc, argv);
}

static int relay_command(int argc, char **argv)
{
    const struct role *const role = &relay_role;
    const struct role_process process = {
        role->name,    role->about,        &role, 1, schema_outbox_gate, &handlers,
        relay_actions, relay_action_count, NULL};

    if (relay_action_asked(argc, argv))
        return relay_action_command(argc, argv);
    return role_main(&process, argc, argv);
}

static int retry_command(int argc, char **argv)
{
    const struct role *const role = &retry_role;
    const struct role_process process = {
        role->name,    role->about,        &role,         1, schema_outbox_gate, &handlers,
        retry_actions, retry_action_count, retry_examples};

    if (retry_action_asked(argc, argv))
        return retry_action_command(&handlers, argc, argv);
    return role_main(&process, argc, argv);
}

static int consume_with_gate(int argc, char **argv)
{
    return consume_command(check_sink_gate, argc, argv);
}

static int rollup_with_gate(int argc, char **argv)
{
    return rollup_command(schema_gate, argc, argv);
}

static int housekeep_with_gate(int argc, char **argv)
{
    return housekeep_command(check_sink_gate, argc, argv);
}

static int doctor_with_schema(int argc, char **argv)
{
    const struct doctor_env env = {
        .outbox_gate = schema_outbox_gate,
        .full_gate = schema_gate,
        .compare = schema_compare,
        .put_grants = grants_put,
        .check_table = stream_columns_check,
        .roles = roles,
        .role_count = COUNT(roles),
        .handlers = &handlers,
        .record_extra_bytes = ROW_RECORD_OWN_BYTES_MAX,
    };

    return doctor_command(&env, argc, argv);
}

static int status_with_schema(int argc, char **argv)
{
    return status_command(schema_compare, argc, argv);
}

static int print_metrics_command(int argc, char **argv)
{
    return metrics_command(roles, COUNT(roles), argc, argv);
}

static int version_command(int argc, char **argv)
{
    const struct option_parse parse = {
        .command = "tallybox version", .arguments = "", .about = "Shows the version."};
    struct options options;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    return printf("tallybox %s\n", TALLYBOX_VERSION) > 0 ? EXIT_DONE : EXIT_FAILED;
}

/* Without a function: main() gives them this table. */
static const struct command commands[] = {
    {"run", "serve, relay, retry, consume, rollup and housekeep in one process", run_command, NULL},
    {"serve", "the HTTP API for votes and tasks", serve_command, NULL},
    {"relay", "publishes the outbox to Kafka, and events again", relay_command, "replay"},
    {"retry", "runs the tasks of the retry queue, shows and changes them", retry_command, "list"},
    {"consume", "applies the events of Kafka to the vote log", consume_with_gate, NULL},
    {"rollup", "copies changed totals to remark.votes", rollup_with_gate, NULL},
    {"housekeep", "creates and drops partitions, deletes old rows", housekeep_with_gate, NULL},
    {"vote", "votes from the command line or a CSV file", vote_command, NULL},
    {"rank", "explains the rank of a remark, shows and changes the weights", rank_command,
     "weights"},
    {"lanes", "shows and changes the number of outbox tables, and where a lane begins",
     lanes_command, NULL},
    {"adopt", "lets a lane take the place of a Debezium connector, or gives it back", adopt_command,
     NULL},
    {"migrate", "creates and checks the tables", migrate_command, NULL},
    {"verify", "checks in the databases that no vote was lost or counted twice", verify_command,
     NULL},
    {"dead", "shows, replays and drops records that could not be applied", dead_command, NULL},
    {"status", "shows the progress of every stage", status_with_schema, NULL},
    {"doctor", "checks settings, servers, privileges and topics; prints remedies",
     doctor_with_schema, NULL},
    {"health", "asks a process on this machine whether it runs, or can work", health_command, NULL},
    {"config", "shows every setting and its source", config_command, NULL},
    {"metrics", "lists every metric", print_metrics_command, NULL},
    {"openapi", "prints the description of the HTTP API", openapi_command, NULL},
    {"events", "lists every log event", events_command, NULL},
    {"help", "shows this page, or the page of a command", NULL, NULL},
    {"man", "prints the man page of tallybox or of a command", NULL, NULL},
    {"completion", "prints the completion script for bash or zsh", NULL, NULL},
    {"version", "shows the version", version_command, NULL},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COUNT(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int refuse_command(const char *name)
{
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < COUNT(commands); i++)
        nearest_offer(&nearest, commands[i].name);
    fprintf(stderr, "tallybox: unknown command \"%s\"", name);
    if (nearest.word)
        fprintf(stderr, "; did you mean \"%s\"?", nearest.word);
    fprintf(stderr, "\nTry `tallybox --help`.\n");
    return EXIT_USAGE;
}

static void print_page(FILE *out)
{
    fprintf(out, "Usage: tallybox COMMAND [OPTION]...\n\n"
                 "A transactional outbox for MySQL and Kafka, with a retry queue, and a log of\n"
                 "votes with running totals. No event is lost, and no vote is counted twice.\n\n"
                 "Commands:\n");
    for (size_t i = 0; i < COUNT(commands); i++)
        fprintf(out, "  %-12s%s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n`tallybox COMMAND --help` explains a command.\n");
}

static int refuse_arguments(const char *usage)
{
    fprintf(stderr, "Usage: tallybox %s\n", usage);
    return EXIT_USAGE;
}

/* tallybox man [COMMAND] */
static int print_man(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : NULL;

    if (argc > 2)
        return refuse_arguments("man [COMMAND]");
    if (topic && (strcmp(topic, "--help") == 0 || strcmp(topic, "-h") == 0)) {
        printf("Usage: tallybox man [COMMAND]\n\n"
               "Prints the man page of tallybox, or of a command, for man(1):\n\n"
               "  tallybox man relay | man -l -\n");
        return EXIT_DONE;
    }
    if (topic && !find_command(topic))
        return refuse_command(topic);
    help_page_print_man(commands, COUNT(commands), topic);
    return EXIT_DONE;
}

/* tallybox completion SHELL */
static int print_completion(int argc, char **argv)
{
    const char *shell = argc == 2 ? argv[1] : "";

    if (strcmp(shell, "--help") == 0 || strcmp(shell, "-h") == 0) {
        printf("Usage: tallybox completion bash|zsh\n\n"
               "Prints a script that completes commands, actions, options and settings:\n\n"
               "  tallybox completion bash > /etc/bash_completion.d/tallybox\n"
               "  tallybox completion zsh > /usr/local/share/zsh/site-functions/_tallybox\n");
        return EXIT_DONE;
    }
    if (strcmp(shell, "bash") != 0 && strcmp(shell, "zsh") != 0)
        return refuse_arguments("completion bash|zsh");
    help_page_print_completion(commands, COUNT(commands), strcmp(shell, "zsh") == 0);
    return EXIT_DONE;
}

/* topic: a command's name, or NULL for all of them. */
static int print_help(char *topic)
{
    const struct command *command = topic ? find_command(topic) : NULL;
    char option[] = "--help";

    if (topic && !command)
        return refuse_command(topic);
    if (command && command->run)
        return command->run(2, (char *[]){topic, option, NULL});
    if (command && strcmp(topic, "man") == 0)
        return print_man(2, (char *[]){topic, option, NULL});
    if (command && strcmp(topic, "completion") == 0)
        return print_completion(2, (char *[]){topic, option, NULL});
    print_page(stdout);
    return EXIT_DONE;
}

static int run_on_table(const struct command *command, int argc, char **argv)
{
    if (strcmp(command->name, "man") == 0)
        return print_man(argc, argv);
    if (strcmp(command->name, "completion") == 0)
        return print_completion(argc, argv);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return print_help(NULL);
    return print_help(argc > 1 ? argv[1] : NULL);
}

int tallybox_main(int argc, char **argv, const struct tallybox_handler *const *own, size_t count)
{
    const struct command *command;
    struct err err;

    if (own_handlers_add(handler_table, &handlers.count, own, count, &err) != RC_OK) {
        fprintf(stderr, "tallybox: %s\n", err.text);
        return EXIT_FAILED;
    }
    os_share_heaps();
    role_accompany(&presence_role);
    if (argc < 2) {
        print_page(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help(NULL);
    if (strcmp(argv[1], "--version") == 0)
        return version_command(1, argv + 1);
    command = find_command(argv[1]);
    if (!command)
        return refuse_command(argv[1]);
    return command->run ? command->run(argc - 1, argv + 1)
                        : run_on_table(command, argc - 1, argv + 1);
}
