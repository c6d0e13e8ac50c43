/* SPDX-License-Identifier: MIT */
#include "consumer/restart_command.h"

#include "common/config/config.h"
#include "common/daemon/role.h"
#include "common/options.h"
#include "common/text.h"
#include "consumer/apply/sink_mysql.h"
#include "consumer/ingest/topic_query_kafka.h"
#include "consumer/installation_mysql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses the digits up to end. */
static bool read_number(const char *text, const char *end, int64_t max, int64_t *value)
{
    char *stopped;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoll(text, &stopped, 10);
    return errno == 0 && stopped == end && *value <= max;
}

enum rc restart_request_read(struct restart_request *request, const char *text, struct err *err)
{
    const char *at = strrchr(text, '@');
    const char *slash = strrchr(text, '/');
    const char *where = at ? at + 1 : "";
    int64_t partition = 0;

    request->earliest = strcmp(where, "earliest") == 0;
    request->latest = strcmp(where, "latest") == 0;
    if (!at || !slash || slash > at || slash == text ||
        (size_t)(slash - text) >= sizeof(request->topic) ||
        !read_number(slash + 1, at, INT32_MAX, &partition) ||
        (!request->earliest && !request->latest &&
         !read_number(where, where + strlen(where), INT64_MAX - 1, &request->offset)))
        return err_fail(err, RC_FATAL, 0,
                        "--" RESTART_OPTION " %.100s: expected TOPIC/PARTITION@earliest, @latest "
                        "or @OFFSET, such as vote-events/3@1200",
                        text);
    memcpy(request->topic, text, (size_t)(slash - text));
    request->topic[slash - text] = '\0';
    request->place = (struct place){request->topic, (int32_t)partition};
    return RC_OK;
}

#define ANSWER_MS 10000
#define IDLE_MS 60000

bool restart_asked(int argc, char **argv)
{
    static const char name[] = "--" RESTART_OPTION;
    size_t len = sizeof(name) - 1;

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, len) == 0 && (argv[i][len] == '\0' || argv[i][len] == '='))
            return true;
    return false;
}

/* Resolves the request to an offset between the partition's watermarks. */
static enum rc resolve_offset(struct restart_request *request, const struct settings *settings,
                              int64_t *low, int64_t *high, struct err *err)
{
    enum rc rc = topic_query_offsets(settings, &request->place, low, high, ANSWER_MS, err);

    if (rc != RC_OK)
        return rc;
    if (request->earliest)
        request->offset = *low;
    if (request->latest)
        request->offset = *high;
    if (request->offset >= *low && request->offset <= *high)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "%s/%" PRId32 " has no offset %" PRId64 ": it has %" PRId64 " to %" PRId64,
                    request->topic, request->place.partition, request->offset, *low, *high);
}

/* One transaction. The new epoch fences the consumer that applies batches of the partition now. */
static enum rc write_progress(const struct sink *sink, const struct restart_request *request,
                              struct progress_row *before, struct err *err)
{
    struct progress_row after;
    enum rc rc = sink->begin(sink->ctx, err);

    if (rc != RC_OK)
        return rc;
    rc = sink->make_progress(sink->ctx, &request->place, before, err);
    after = *before;
    after.epoch++;
    after.owner[0] = '\0';
    after.topic_id[0] = '\0';
    after.next_offset = request->offset;
    after.leader_epoch = -1;
    if (rc == RC_OK)
        rc = sink->own_progress(sink->ctx, &request->place, &after, err);
    if (rc == RC_OK)
        rc = sink->move_progress(sink->ctx, &request->place, &after, 1, err);
    if (rc == RC_OK)
        rc = sink->commit(sink->ctx, err);
    sink->rollback(sink->ctx);
    return rc;
}

static enum rc restart_partition(struct restart_request *request, const struct settings *settings,
                                 struct err *err)
{
    struct sink_mysql *sink = NULL;
    struct progress_row before = {0};
    int64_t low = 0;
    int64_t high = 0;
    enum rc rc = resolve_offset(request, settings, &low, &high, err);

    if (rc == RC_OK)
        rc = installation_find(settings, err);
    if (rc == RC_OK)
        rc = sink_mysql_open(&sink, &settings->sink, installation_group(settings), IDLE_MS, err);
    if (rc != RC_OK)
        return rc;
    rc = write_progress(sink_mysql_ops(sink), request, &before, err);
    sink_mysql_close(sink);
    if (rc != RC_OK)
        return rc;
    printf("%s/%" PRId32 " of group %s continues at %" PRId64 " instead of %" PRId64
           "; Kafka has %" PRId64 " to %" PRId64 ".\n",
           request->topic, request->place.partition, installation_group(settings), request->offset,
           before.next_offset, low, high);
    if (before.owner[0])
        printf("It was held by %s: if that consumer runs, it continues there within seconds.\n",
               before.owner);
    return RC_OK;
}

static int restart_from_text(const char *text, const struct settings *settings)
{
    struct restart_request request = {0};
    struct err err = {0};
    enum rc rc = restart_request_read(&request, text, &err);

    if (rc == RC_OK && !list_has(settings->consumer.topics, request.topic))
        rc = err_fail(&err, RC_FATAL, 0, "topic %s is not one of consumer.topics (%s)",
                      request.topic, settings->consumer.topics);
    if (rc != RC_OK) {
        options_fail(rc, &err);
        return EXIT_USAGE;
    }
    rc = restart_partition(&request, settings, &err);
    return rc == RC_OK ? EXIT_DONE : options_fail(rc, &err);
}

int restart_command(int argc, char **argv)
{
    const char *text = NULL;
    const struct option_entry entries[] = {
        {RESTART_OPTION, OPTION_TEXT, &text, "TOPIC/PARTITION@WHERE",
         "where the partition continues: earliest, latest or an offset", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox consume",
        .arguments = "",
        .about = "Sets the offset at which a stopped partition continues, and exits. Consumers may "
                 "run: the one that holds the partition continues there within seconds.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "  tallybox consume --restart-partition vote-events/3@earliest\n",
    };
    struct options options;
    struct config *config = NULL;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = role_load_config(&options, &config);
    if (code >= 0)
        return code;
    code = restart_from_text(text, config_settings(config));
    config_free(config);
    return code;
}
