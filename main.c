/* SPDX-License-Identifier: MIT */
#include "common/command.h"
#include "common/config/config_command.h"
#include "common/daemon/log_events.h"
#include "common/daemon/metrics_command.h"
#include "common/daemon/role.h"
#include "common/nearest.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/consume_command.h"
#include "consumer/dead/dead_command.h"
#include "consumer/held/vote_handler.h"
#include "consumer/maintenance/housekeep_command.h"
#include "consumer/rollup/rollup_command.h"
#include "consumer/status/status_command.h"
#include "consumer/verify/verify_command.h"
#include "outbox/lanes_command.h"
#include "outbox/relay/relay_command.h"
#include "outbox/retry/cli/retry_action_command.h"
#include "outbox/retry/handlers/exec_handler.h"
#include "outbox/retry/handlers/http_handler.h"
#include "outbox/retry/handlers/kafka_handler.h"
#include "outbox/retry/handlers/steps_handler.h"
#include "outbox/retry/retry_command.h"
#include "producer/http/openapi_command.h"
#include "producer/serve_command.h"
#include "producer/vote/vote_command.h"
#include "schema/migrate/migrate_command.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What a task of the retry queue may name as its handler. */
static const struct retry_handler *const handler_table[] = {
    &retry_kafka_handler, &retry_http_handler, &retry_exec_handler, &retry_steps_handler,
    &vote_handler};

static const struct retry_handlers handlers = {handler_table, COUNT(handler_table), NULL};

static const struct role *const roles[] = {&serve_role,   &relay_role,  &retry_role,
                                           &consume_role, &rollup_role, &housekeep_role};

static enum rc check_serve_gate(const struct settings *settings, bool migrate, struct err *err)
{
    enum rc rc = schema_gate(settings, migrate, err);

    return rc == RC_OK ? serve_check_lanes(settings, err) : rc;
}

static enum rc check_run_gate(const struct settings *settings, bool migrate, struct err *err)
{
    enum rc rc = serve_check_relayed(settings, err);

    return rc == RC_OK ? check_serve_gate(settings, migrate, err) : rc;
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
        &handlers};

    return role_main(&process, argc, argv);
}

static int run_role(const struct role *role, role_gate gate, int argc, char **argv)
{
    const struct role_process process = {role->name, role->about, &role, 1, gate, &handlers};

    return role_main(&process, argc, argv);
}

static int serve_command(int argc, char **argv)
{
    return run_role(&serve_role, check_serve_gate, argc, argv);
}

static int relay_command(int argc, char **argv)
{
    return run_role(&relay_role, schema_gate, argc, argv);
}

static int retry_command(int argc, char **argv)
{
    return retry_action_asked(argc, argv) ? retry_action_command(&handlers, argc, argv)
                                          : run_role(&retry_role, schema_gate, argc, argv);
}

static int consume_with_gate(int argc, char **argv)
{
    return consume_command(schema_gate, argc, argv);
}

static int rollup_with_gate(int argc, char **argv)
{
    return rollup_command(schema_gate, argc, argv);
}

static int housekeep_with_gate(int argc, char **argv)
{
    return housekeep_command(schema_gate, argc, argv);
}

static int print_metrics_command(int argc, char **argv)
{
    return metrics_command(roles, COUNT(roles), argc, argv);
}

static int version_command(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return printf("tallybox %s\n", TALLYBOX_VERSION) > 0 ? EXIT_DONE : EXIT_FAILED;
}

/* help has no function: it needs this table itself. */
static const struct command commands[] = {
    {"run", "serve, relay, retry, consume, rollup and housekeep in one process", run_command},
    {"serve", "the HTTP API for votes and tasks", serve_command},
    {"relay", "publishes the outbox to Kafka", relay_command},
    {"retry", "runs the tasks of the retry queue, shows and changes them", retry_command},
    {"consume", "applies the events of Kafka to the vote log", consume_with_gate},
    {"rollup", "copies changed totals to remark.votes", rollup_with_gate},
    {"housekeep", "creates and drops partitions, deletes old rows", housekeep_with_gate},
    {"vote", "votes from the command line or a CSV file", vote_command},
    {"lanes", "shows and changes the number of outbox tables", lanes_command},
    {"migrate", "creates and checks the tables", migrate_command},
    {"verify", "checks in the databases that no vote was lost or counted twice", verify_command},
    {"dead", "shows, replays and drops records that could not be applied", dead_command},
    {"status", "shows the progress of every stage", status_command},
    {"config", "shows every setting and its source", config_command},
    {"metrics", "lists every metric", print_metrics_command},
    {"openapi", "prints the description of the HTTP API", openapi_command},
    {"events", "lists every log event", log_events_command},
    {"help", "shows this page, or the page of a command", NULL},
    {"version", "shows the version", version_command},
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
                 "Moves votes from a MySQL transaction through Kafka into an insert-only log with\n"
                 "running totals. No vote is lost, and none is counted twice.\n\n"
                 "Commands:\n");
    for (size_t i = 0; i < COUNT(commands); i++)
        fprintf(out, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n`tallybox COMMAND --help` explains a command.\n");
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
    print_page(stdout);
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    const struct command *command;

    os_share_heaps();
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
    if (!command->run)
        return print_help(argc > 2 ? argv[2] : NULL);
    return command->run(argc - 1, argv + 1);
}
