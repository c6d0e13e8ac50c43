// SPDX-License-Identifier: MIT
/* tallybox-broker: librdkafka's in-process broker as a process of its own, for the demo and for
 * tests that need a Kafka within half a second. It keeps all data in memory, at most the newest 5
 * MiB of a partition, and supports neither transactions nor the admin API. */
#include "tests/support/broker_sockets.h"

#include <errno.h>
#include <getopt.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOPICS_MAX = 64, PARTITIONS_MAX = 1000, POLL_MS = 200 };

struct options {
    const char *port_file;
    const char *topics[TOPICS_MAX];
    int topics_count;
    int partitions;
    int port;
    bool ends_with_stdin;
};

static volatile sig_atomic_t stop_asked;

static const char help_text[] =
    "tallybox-broker [OPTION...]: librdkafka's in-process Kafka broker as a process\n"
    "\n"
    "Prints its bootstrap server on the first line and serves until SIGTERM or SIGINT.\n"
    "\n"
    "  --topic NAME      makes this topic at start; may be repeated (default: vote-events)\n"
    "  --partitions N    partitions of these topics (default 12); a topic that a client's first\n"
    "                    use makes has librdkafka's own number, which is 4\n"
    "  --port P          listens on this port of 127.0.0.1 (default: a free one)\n"
    "  --port-file FILE  also writes the bootstrap server into FILE, when it is ready\n"
    "  --stdin           ends when its standard input does\n"
    "  --help            prints this\n"
    "\n"
    "It is not Kafka: each partition keeps 5 MiB and silently drops what is older, aborted\n"
    "transactions are read, and there is no admin API, TLS or SASL. Nothing is kept on disk.\n";

static void signal_handle(int number)
{
    (void)number;
    stop_asked = 1;
}

static bool number_parse(const char *text, int min, int max, int *out)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
        return false;
    *out = (int)value;
    return true;
}

/* Returns -1 to continue, else the exit code. */
static int option_take(struct options *options, int option)
{
    switch (option) {
    case 't':
        if (options->topics_count == TOPICS_MAX)
            break;
        options->topics[options->topics_count++] = optarg;
        return -1;
    case 'n':
        if (!number_parse(optarg, 1, PARTITIONS_MAX, &options->partitions))
            break;
        return -1;
    case 'p':
        if (!number_parse(optarg, 1, 65535, &options->port))
            break;
        return -1;
    case 'f':
        options->port_file = optarg;
        return -1;
    case 's':
        options->ends_with_stdin = true;
        return -1;
    case 'h':
        fputs(help_text, stdout);
        return 0;
    default:
        fputs("see tallybox-broker --help\n", stderr);
        return 2;
    }
    fprintf(stderr, "tallybox-broker: bad value '%s'; see --help\n", optarg);
    return 2;
}

static int options_parse(struct options *options, int argc, char **argv)
{
    static const struct option known[] = {
        {"topic", required_argument, NULL, 't'},
        {"partitions", required_argument, NULL, 'n'},
        {"port", required_argument, NULL, 'p'},
        {"port-file", required_argument, NULL, 'f'},
        {"stdin", no_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    int code;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        code = option_take(options, option);
        if (code >= 0)
            return code;
    }
    if (optind < argc) {
        fprintf(stderr, "tallybox-broker: unexpected '%s'; see --help\n", argv[optind]);
        return 2;
    }
    if (options->topics_count == 0)
        options->topics[options->topics_count++] = "vote-events";
    return -1;
}

/* Writes another file and renames it, so that a process that waits for it reads all. */
static bool port_file_write(const char *path, const char *bootstrap)
{
    char beside[4096];
    int length = snprintf(beside, sizeof(beside), "%s.new", path);
    FILE *file;
    bool written;

    if (length < 0 || (size_t)length >= sizeof(beside))
        return false;
    file = fopen(beside, "w");
    if (file == NULL)
        return false;
    written = fprintf(file, "%s\n", bootstrap) > 0;
    if (fclose(file) != 0 || !written)
        return false;
    return rename(beside, path) == 0;
}

static void serve(bool ends_with_stdin)
{
    struct pollfd input = {.fd = ends_with_stdin ? STDIN_FILENO : -1, .events = POLLIN};
    char ignored[256];

    // A signal that comes just before poll() is met one round later.
    while (!stop_asked) {
        if (poll(&input, 1, POLL_MS) <= 0)
            continue;
        if (read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0)
            return;
    }
}

static bool topics_make(rd_kafka_mock_cluster_t *cluster, const struct options *options)
{
    for (int i = 0; i < options->topics_count; i++) {
        rd_kafka_resp_err_t error =
            rd_kafka_mock_topic_create(cluster, options->topics[i], options->partitions, 1);

        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            fprintf(stderr, "tallybox-broker: topic %s: %s\n", options->topics[i],
                    rd_kafka_err2str(error));
            return false;
        }
    }
    return true;
}

static int broker_run(rd_kafka_t *kafka, const struct options *options)
{
    rd_kafka_mock_cluster_t *cluster;
    const char *bootstrap;
    int code = 1;

    // The cluster aborts the process when it cannot bind, so it is asked for nothing impossible.
    if (options->port != 0 && !broker_sockets_port_is_free(options->port)) {
        fprintf(stderr, "tallybox-broker: port %d of 127.0.0.1: %s\n", options->port,
                strerror(errno));
        return 1;
    }
    broker_sockets_set_port(options->port);
    cluster = rd_kafka_mock_cluster_new(kafka, 1);
    broker_sockets_set_port(0);
    if (cluster == NULL) {
        fputs("tallybox-broker: librdkafka cannot make its in-process broker\n", stderr);
        return 1;
    }
    if (!topics_make(cluster, options))
        goto out;
    bootstrap = rd_kafka_mock_cluster_bootstraps(cluster);
    if (options->port_file != NULL && !port_file_write(options->port_file, bootstrap)) {
        fprintf(stderr, "tallybox-broker: %s: %s\n", options->port_file, strerror(errno));
        goto out;
    }
    puts(bootstrap);
    fflush(stdout);
    serve(options->ends_with_stdin);
    code = 0;
out:
    rd_kafka_mock_cluster_destroy(cluster);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {.partitions = 12};
    struct sigaction action = {.sa_handler = signal_handle};
    char error[512];
    rd_kafka_conf_t *settings;
    rd_kafka_t *kafka;
    int code = options_parse(&options, argc, argv);

    if (code >= 0)
        return code;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);

    settings = rd_kafka_conf_new();
    // The cluster wants a client to live in; this one never connects and has nothing to say.
    rd_kafka_conf_set(settings, "log_level", "3", NULL, 0);
    kafka = rd_kafka_new(RD_KAFKA_PRODUCER, settings, error, sizeof(error));
    if (kafka == NULL) {
        rd_kafka_conf_destroy(settings);
        fprintf(stderr, "tallybox-broker: %s\n", error);
        return 1;
    }
    code = broker_run(kafka, &options);
    rd_kafka_destroy(kafka);
    return code;
}
