/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_command.h"

#include "common/options.h"
#include "common/os.h"
#include "consumer/dead/dead_cli.h"
#include "consumer/dead/dead_decide_command.h"
#include "consumer/dead/dead_mysql.h"
#include "consumer/installation_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct list_output {
    struct buf out;
    bool json;
    int64_t now_ms;
    size_t rows_max;
    size_t rows;
    bool more;
    int64_t last_id;
};

static enum rc on_listed(void *ctx, const struct dead_view *view, struct err *err)
{
    struct list_output *output = ctx;

    (void)err;
    if (output->rows == output->rows_max) {
        output->more = true;
        return RC_OK;
    }
    if (output->json) {
        buf_text_put(&output->out, output->rows == 0 ? "\n  " : ",\n  ");
        dead_json(&output->out, view, false);
    } else {
        if (output->rows == 0)
            dead_list_head(&output->out, view->decision != NULL);
        dead_list_row(&output->out, view, output->now_ms);
    }
    output->rows++;
    output->last_id = view->id;
    return RC_OK;
}

static void end_list(struct list_output *output, bool decided, uint64_t count)
{
    struct buf *out = &output->out;

    if (output->json) {
        buf_print(out, "%s],\n\"more\": %s,\n\"after\": %" PRId64 "}\n",
                  output->rows > 0 ? "\n" : "", output->more ? "true" : "false", output->last_id);
        return;
    }
    if (output->rows == 0)
        buf_print(out, "no %s record%s\n", decided ? "decided" : "dead",
                  output->last_id > 0 ? " behind that one" : "");
    if (output->more && !decided)
        buf_print(out, "%zu of %" PRIu64 " dead records; continue with --after %" PRId64 "\n",
                  output->rows, count, output->last_id);
    else if (output->more)
        buf_print(out, "there are more; continue with --after %" PRId64 "\n", output->last_id);
}

static int list_records(struct dead_mysql *mysql, struct dead_request *request, int64_t now_ms)
{
    const struct dead_options *options = &request->options;
    struct list_output output = {
        .json = options->json,
        .now_ms = now_ms,
        .rows_max = options->limit > 0 ? (size_t)options->limit : DEAD_LIST_ROWS,
        .last_id = options->after,
    };
    struct err err = {0};
    uint64_t count = 0;
    int64_t id_max = 0;
    enum rc rc;

    if (output.rows_max > DEAD_LIST_ROWS_MAX)
        output.rows_max = DEAD_LIST_ROWS_MAX;
    if (output.json)
        buf_text_put(&output.out, "{\"records\": [");
    rc = dead_mysql_list(mysql, &request->filter, options->decided, options->after,
                         output.rows_max + 1, on_listed, &output, &err);
    if (rc == RC_OK && output.more && !options->decided && !output.json)
        rc = dead_mysql_count(mysql, &request->filter, &count, &id_max, &err);
    if (rc != RC_OK) {
        buf_done(&output.out);
        return options_fail(rc, &err);
    }
    end_list(&output, options->decided, count);
    return options_print(&output.out);
}

struct show_output {
    struct buf out;
    const struct dead_options *options;
    int64_t now_ms;
    bool found;
    bool no_payload;
};

static enum rc on_shown(void *ctx, const struct dead_view *view, struct err *err)
{
    struct show_output *output = ctx;

    (void)err;
    output->found = true;
    if (output->options->payload) {
        output->no_payload = !view->value;
        buf_put(&output->out, view->value ? view->value : "", view->value_len);
    } else if (output->options->json) {
        dead_json(&output->out, view, true);
        buf_char(&output->out, '\n');
    } else {
        dead_show_text(&output->out, view, output->now_ms);
    }
    return RC_OK;
}

static int show_record(struct dead_mysql *mysql, struct dead_request *request, const char *group,
                       int64_t now_ms)
{
    struct show_output output = {.options = &request->options, .now_ms = now_ms};
    struct err err = {0};
    enum rc rc = dead_mysql_show(mysql, request->ids[0], on_shown, &output, &err);

    if (rc == RC_OK && !output.found)
        rc = err_fail(&err, RC_FATAL, 0, "there is no dead record %" PRId64 " of group %s",
                      request->ids[0], group);
    if (rc == RC_OK && output.no_payload)
        rc = err_fail(&err, RC_FATAL, 0,
                      "dead record %" PRId64 " has no payload: it is a tombstone", request->ids[0]);
    if (rc == RC_OK)
        return options_print(&output.out);
    buf_done(&output.out);
    return options_fail(rc, &err);
}

static int run_action(struct dead_mysql *mysql, struct dead_request *request,
                      const struct settings *settings)
{
    struct err err = {0};
    int64_t now_ms = 0;
    enum rc rc = dead_mysql_clock(mysql, &now_ms, &err);

    if (rc != RC_OK)
        return options_fail(rc, &err);
    dead_request_times(request, now_ms);
    switch (request->action) {
    case DEAD_LIST:
        return list_records(mysql, request, now_ms);
    case DEAD_SHOW:
        return show_record(mysql, request, installation_group(settings), now_ms);
    case DEAD_REPLAY:
    case DEAD_DROP:
        break;
    }
    return dead_decide(mysql, request, settings, now_ms);
}

static int run_with_options(const struct options *options, struct dead_request *request)
{
    struct dead_mysql *mysql = NULL;
    const struct settings *settings;
    struct config *config;
    struct err err = {0};
    char by[OS_OPERATOR_SIZE];
    int code = options_load(options, &config);
    enum rc rc;

    if (code >= 0)
        return code;
    settings = config_settings(config);
    os_operator_name(by);
    rc = installation_find(settings, &err);
    if (rc == RC_OK)
        rc = dead_mysql_open(&mysql, settings, installation_group(settings), by, &err);
    if (rc == RC_OK)
        code = run_action(mysql, request, settings);
    else
        code = options_fail(rc, &err);
    dead_mysql_close(mysql);
    config_free(config);
    return code;
}

static const char about[] =
    "Shows, replays and drops the records of the consumer group that could not be applied. replay "
    "applies them to the log with the rules of this program; nothing is published to Kafka. A "
    "record that still cannot be applied stays dead, and so do the later records of its key. "
    "Replayed and dropped records are kept in dead_history.\n\n"
    "drop, and replay without IDs, print how many records match and ask for a confirmation; --yes "
    "confirms and is required without a terminal. The exit code is 1 if a record stays dead.";

static const struct option_action actions[] = {
    {"list", "[ID]...", "one line for each record, by id"},
    {"show", "ID", "one record with headers and payload"},
    {"replay", "[ID]...", "apply the records now"},
    {"drop", "[ID]...", "give the records up"},
};

static const char examples[] = "Examples:\n"
                               "  tallybox dead list --class decode --since 2h\n"
                               "  tallybox dead show 17 --payload > corrected.json\n"
                               "  tallybox dead replay 17 --value corrected.json\n"
                               "  tallybox dead replay --all --yes\n";

int dead_command(int argc, char **argv)
{
    static struct dead_request request;
    struct dead_options given = {.partition = DEAD_NUMBER_ANY, .limit = DEAD_NUMBER_ANY};
    const struct option_entry entries[] = {
        {"topic", OPTION_TEXT, &given.topic, "TOPIC", "only records of this topic", NULL},
        {"partition", OPTION_NUMBER, &given.partition, "NUMBER", "only of this partition", NULL},
        {"class", OPTION_TEXT, &given.reason_class, "CLASS",
         "only of this reason: decode, rule, key, tombstone, too_old, refused or behind", NULL},
        {"key", OPTION_TEXT, &given.key, "KEY", "only with exactly this key, a vote's contentId",
         NULL},
        {"since", OPTION_TEXT, &given.since, "TIME",
         "only records that died at or after this time: 2h (ago), 7d, 2026-11-21T17:05:00Z", NULL},
        {"until", OPTION_TEXT, &given.until, "TIME", "only records that died before this time",
         NULL},
        {"all", OPTION_FLAG, &given.all, NULL, "replay, drop: every dead record of the group",
         NULL},
        {"limit", OPTION_NUMBER, &given.limit, "NUMBER",
         "at most so many records (list: 50 by default)", NULL},
        {"after", OPTION_NUMBER, &given.after, "ID", "list: only records with a higher id", NULL},
        {"decided", OPTION_FLAG, &given.decided, NULL,
         "list: records that were replayed or dropped", NULL},
        {"payload", OPTION_FLAG, &given.payload, NULL, "show: write only the bytes of the payload",
         NULL},
        {"value", OPTION_TEXT, &given.value_path, "FILE",
         "replay: apply the content of FILE (-: standard input) instead of the payload", NULL},
        {"ignore-key", OPTION_FLAG, &given.ignore_key, NULL,
         "replay: accept votes whose key is not their contentId", NULL},
        {"queue", OPTION_FLAG, &given.queue, NULL,
         "replay: submit the records as tasks of the retry queue, which retries by its policy",
         NULL},
        {"reason", OPTION_TEXT, &given.reason, "TEXT",
         "replay, drop: why, for the audit (tallybox retry audit)", NULL},
        {"yes", OPTION_FLAG, &given.yes, NULL, "replay, drop: do not ask for a confirmation", NULL},
        {"json", OPTION_FLAG, &given.json, NULL, "print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox dead",
        .arguments = "ACTION [ID]...",
        .about = about,
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .actions = actions,
        .action_count = sizeof(actions) / sizeof(actions[0]),
        .examples = examples,
    };
    struct options options;
    struct err err = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (dead_request_read(&request, &given, (const char *const *)options.arguments,
                          (size_t)options.argument_count, &err) != RC_OK) {
        fprintf(stderr, "tallybox dead: %s\nTry `tallybox dead --help`.\n", err.text);
        return EXIT_USAGE;
    }
    return run_with_options(&options, &request);
}
