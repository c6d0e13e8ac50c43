/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/adopt_command.h"

#include "common/config/lane_texts.h"
#include "common/options.h"
#include "outbox/adopt/adopt_log_mysql.h"
#include "outbox/adopt/adopt_report.h"
#include "outbox/adopt/connect_http.h"
#include "outbox/adopt/connect_state.h"
#include "outbox/adopt/offset_topic_kafka.h"
#include "outbox/relay/stream/position_store_mysql.h"
#include "outbox/relay/stream/stream_mysql.h"
#include "outbox/relay/stream/table_cut_mysql.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)4 << 20)
#define TOPIC_PREFIX "topic:"

/* What the command line asks for. */
struct request {
    const char *lane; /* NULL: made from the name of the table */
    const char *connector;
    const char *offsets; /* NULL: with the connector's URL, its offsets */
    bool begins;
    bool replaces;
    bool accepts; /* differences */
    bool back;
    bool applies;
    bool json;
};

/* The parts of one run. */
struct run {
    const struct request *request;
    const struct settings *settings;
    const struct lane_settings *lane; /* NULL: no lane of the settings */
    struct connector connector;
    struct router_map map;
    struct connect_offset offset;
    struct adopt_log log;
    struct position_store_mysql store;
    struct position_begun begun;
    struct err unreadable; /* why the lane would not start; "": it would */
    bool unchecked;        /* nothing has said whether the connector is stopped */
};

/* A file, - or a URL. */
static enum rc read_source(struct buf *out, const char *option, const char *source,
                           const char *path, struct err *err)
{
    if (connect_url_is(source))
        return connect_http_get(source, path, out, err);
    return options_read_file(out, option, source, FILE_BYTES_MAX, err);
}

static enum rc read_connector(struct run *run, struct err *err)
{
    struct buf text = {0};
    enum rc rc = read_source(&text, "connector", run->request->connector, "", err);

    if (rc == RC_OK)
        rc = connector_parse(&run->connector, buf_text(&text), text.len, err);
    if (rc == RC_REJECT)
        err_wrap(err, "--connector");
    buf_done(&text);
    return rc;
}

static const char *offset_source(const struct request *request)
{
    if (request->offsets)
        return request->offsets;
    return connect_url_is(request->connector) ? request->connector : NULL;
}

/* Without a URL nothing says whether the connector is stopped. */
static enum rc check_stopped(struct run *run, struct err *err)
{
    const struct request *request = run->request;
    const char *source = connect_url_is(request->connector) ? request->connector : request->offsets;
    struct buf url = {0};
    enum rc rc;

    run->unchecked = !source || !connect_url_is(source);
    if (run->unchecked)
        return RC_OK;
    connect_url_put(&url, source);
    rc = url.failed ? err_fail(err, RC_FATAL, 0, "no memory for a URL")
                    : connect_http_check_stopped(buf_text(&url), err);
    buf_done(&url);
    return rc;
}

static enum rc read_offset_topic(struct run *run, const char *topic, const char *prefix,
                                 struct err *err)
{
    struct buf text = {0};
    enum rc rc = offset_topic_read(run->settings, topic, run->connector.name, prefix, &text, err);

    if (rc == RC_OK)
        rc = connect_offset_parse_value(&run->offset, buf_text(&text), text.len, err);
    buf_done(&text);
    return rc;
}

/* The URL of the connector may also be that of its offsets. */
static enum rc read_offset_list(struct run *run, const char *source, const char *prefix,
                                struct err *err)
{
    struct buf url = {0};
    struct buf text = {0};
    enum rc rc;

    if (connect_url_is(source))
        connect_url_put(&url, source);
    else
        buf_text_put(&url, source);
    rc = url.failed ? err_fail(err, RC_FATAL, 0, "no memory for a URL")
                    : read_source(&text, "offsets", buf_text(&url), "/offsets", err);
    if (rc == RC_OK)
        rc = connect_offset_parse(&run->offset, buf_text(&text), text.len, prefix, err);
    buf_done(&text);
    buf_done(&url);
    return rc;
}

static enum rc read_offset(struct run *run, struct err *err)
{
    const char *source = offset_source(run->request);
    const char *prefix = connector_option(&run->connector, "topic.prefix");
    enum rc rc;

    if (!prefix)
        return err_fail(err, RC_REJECT, 0,
                        "the connector has no topic.prefix, by which its offsets are found");
    rc = check_stopped(run, err);
    if (rc != RC_OK)
        return rc;
    if (strncmp(source, TOPIC_PREFIX, strlen(TOPIC_PREFIX)) == 0)
        return read_offset_topic(run, source + strlen(TOPIC_PREFIX), prefix, err);
    return read_offset_list(run, source, prefix, err);
}

static enum rc open_log(struct run *run, struct err *err)
{
    bool annotated =
        strcmp(connector_option_or(&run->connector, "include.query", "false"), "true") == 0;

    return adopt_log_open(&run->log, run->settings, run->lane->table, run->connector.mariadb,
                          annotated, err);
}

/* The connector prints some types otherwise; see docs/debezium.md. */
static const char *compare_header_type(const char *type)
{
    static const struct {
        const char *type; /* or the end of it */
        const char *text;
    } types[] = {
        {"", "the table has no such column: the lane would stop"},
        {"date", "in a header the connector writes days since 1970; tallybox writes 2026-03-04"},
        {"datetime", "in a header the connector writes milliseconds or microseconds since 1970; "
                     "tallybox writes 2026-03-04 05:06:07"},
        {"timestamp", "in a header the connector writes 2026-03-04T05:06:07Z; tallybox writes "
                      "2026-03-04 05:06:07, in UTC"},
        {"time", "in a header the connector writes microseconds; tallybox writes 05:06:07"},
        {"json", "in a header the connector writes JSON without blanks; tallybox writes the text "
                 "of the server"},
        {"float", "a lane that has a column of this type in header_columns does not start"},
        {"double", "a lane that has a column of this type in header_columns does not start"},
        {"bit", "a lane that has a column of this type in header_columns does not start"},
        {"set", "a lane that has a column of this type in header_columns does not start"},
        {"geometry", "a lane that has a column of this type in header_columns does not start"},
        {"point", "a lane that has a column of this type in header_columns does not start"},
    };

    if (strstr(type, "binary") || strstr(type, "blob"))
        return "in a header the connector writes base64; tallybox writes the bytes";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].type, type) == 0)
            return types[i].text;
    return NULL;
}

static enum rc compare_headers(struct run *run, struct err *err)
{
    const char *rest = router_map_headers(&run->map);
    struct lane_header header;
    char type[COLUMN_TYPE_SIZE];
    enum rc rc = RC_OK;

    while (rc == RC_OK && lane_header_next(&rest, &header)) {
        const char *text;

        rc = adopt_log_column_type(&run->log, run->lane->table, header.column, type, err);
        text = rc == RC_OK ? compare_header_type(type) : NULL;
        if (text)
            router_map_add_difference(&run->map, header.column, type, text);
    }
    return rc;
}

static enum rc note_uses(struct run *run, struct err *err)
{
    char option[SETTING_NAME_SIZE + 16];
    char type[COLUMN_TYPE_SIZE] = "";
    char text[LANE_USES_SIZE];
    bool has_seq = false;
    enum rc rc = table_cut_mysql_has_seq(run->log.db, run->lane->table, &has_seq, err);

    if (rc == RC_OK)
        rc = adopt_log_column_type(&run->log, run->lane->table, "created_at", type, err);
    if (rc != RC_OK)
        return rc;
    snprintf(option, sizeof(option), "table %s", run->lane->table);
    lane_put_uses(text, run->lane,
                  has_seq && (strcmp(type, "datetime") == 0 || strcmp(type, "timestamp") == 0));
    router_map_add_note(&run->map, option, text);
    return RC_OK;
}

/* Lists what stops the lane among the differences. */
static enum rc list_unreadable(struct run *run, struct err *err)
{
    struct err *why = &run->unreadable;
    enum rc rc = stream_columns_check(run->log.db, run->settings->mysql.database, run->lane, why);

    if (rc == RC_REJECT)
        router_map_refuse_table(&run->map, run->lane->table, why->text);
    else if (rc != RC_OK)
        return err_fail(err, rc, why->code, "%s", why->text);
    return RC_OK;
}

/* What the definition of the table makes of some columns. Tables of tallybox have a column seq. */
static enum rc compare_table(struct run *run, struct err *err)
{
    char payload[SETTING_NAME_SIZE];
    char id[SETTING_NAME_SIZE];
    char payload_type[COLUMN_TYPE_SIZE] = "";
    char id_type[COLUMN_TYPE_SIZE] = "";
    char seq_type[COLUMN_TYPE_SIZE] = "";
    enum rc rc;

    router_map_column(&run->map, "payload", payload);
    router_map_column(&run->map, "id", id);
    rc = adopt_log_column_type(&run->log, run->lane->table, payload, payload_type, err);
    if (rc == RC_OK)
        rc = adopt_log_column_type(&run->log, run->lane->table, id, id_type, err);
    if (rc == RC_OK)
        rc = adopt_log_column_type(&run->log, run->lane->table, "seq", seq_type, err);
    if (rc == RC_OK && seq_type[0])
        router_map_drop_rename(&run->map);
    if (rc == RC_OK && strcmp(payload_type, "json") == 0)
        router_map_add_difference(&run->map, payload, payload_type,
                                  "the connector prints the payload as JSON without blanks; "
                                  "tallybox prints it as the server does, {\"a\": 1}");
    if (rc == RC_OK && strstr(id_type, "binary"))
        router_map_add_difference(&run->map, id, id_type,
                                  "the connector writes the bytes into the header id in a form of "
                                  "its own; tallybox writes the text of the UUID");
    if (rc == RC_OK)
        rc = compare_headers(run, err);
    if (rc == RC_OK)
        rc = list_unreadable(run, err);
    return rc == RC_OK ? note_uses(run, err) : rc;
}

static enum rc find_position(struct run *run, struct err *err)
{
    enum rc rc = read_offset(run, err);

    if (rc == RC_OK)
        rc = adopt_log_check_offset(&run->log, &run->offset, err);
    if (rc == RC_OK)
        rc = adopt_log_explain(
            &run->log, offset_find_position(&run->log.log, &run->offset, &run->begun.position, err),
            err);
    return rc;
}

static enum rc save_position(struct run *run, struct err *err)
{
    enum rc rc = position_store_mysql_open(&run->store, run->lane, "", NULL, run->settings, err);

    if (rc == RC_OK)
        rc = position_store_mysql_begin_at(&run->store, run->request->replaces, &run->begun, err);
    return rc;
}

static enum rc check_may_begin(struct run *run, struct err *err)
{
    size_t count = json_array_size(run->map.differences);

    if (run->unreadable.text[0])
        return err_fail(err, RC_REJECT, 0, "the lane would not start: table %s: %s",
                        run->lane->table, run->unreadable.text);
    if (count > 0 && !run->request->accepts)
        return err_fail(err, RC_REJECT, 0,
                        "%zu options of the connector have no equal, and records would differ: see "
                        "`tallybox adopt` without --begin, and add --accept-differences once you "
                        "have read the list",
                        count);
    if (!offset_source(run->request))
        return err_fail(err, RC_REJECT, 0,
                        "--begin needs the offsets of the connector: name its URL, or --offsets");
    return RC_OK;
}

static enum rc look_at_server(struct run *run, struct err *err)
{
    enum rc rc = router_map_check_lane(&run->map, run->lane, run->settings, err);

    if (rc == RC_OK)
        rc = open_log(run, err);
    if (rc == RC_OK)
        rc = compare_table(run, err);
    if (rc == RC_OK && !offset_source(run->request))
        rc = err_fail(err, RC_REJECT, 0,
                      "there are no offsets: name the connector's URL, or --offsets");
    return rc == RC_OK ? find_position(run, err) : rc;
}

static enum rc begin_lane(struct run *run, struct err *err)
{
    enum rc rc = router_map_check_lane(&run->map, run->lane, run->settings, err);

    if (rc == RC_OK)
        rc = open_log(run, err);
    if (rc == RC_OK)
        rc = compare_table(run, err);
    if (rc == RC_OK)
        rc = check_may_begin(run, err);
    if (rc == RC_OK)
        rc = find_position(run, err);
    return rc == RC_OK ? save_position(run, err) : rc;
}

/* The connector keeps no record of the rows that it has published. */
static void warn_of_rows(const struct run *run)
{
    if (!run->begun.unknown)
        return;
    fprintf(stderr,
            "tallybox adopt: warning: table %s has rows, and it is not known which of them the "
            "connector has published: `tallybox relay publish-missing` and `tallybox relay source` "
            "would publish those again. Delete the published rows before you use one of them\n",
            run->lane->table);
}

/* Without a position the report says why, and is of use all the same. *seen: why there is none. */
static enum rc look(struct run *run, struct adopt_report *report, enum rc *seen, struct err *why,
                    struct err *err)
{
    if (run->request->begins) {
        enum rc rc = begin_lane(run, err);

        report->position = &run->begun.position;
        report->begun = true;
        report->replaced = run->begun.replaced;
        report->unchecked = run->unchecked;
        return rc;
    }
    if (!run->lane)
        err_set(why,
                "the settings have no lane %s with source = binlog yet: add what is printed here "
                "and run the command again, to see the position",
                run->map.lane);
    else
        *seen = look_at_server(run, why);
    report->looked = run->lane != NULL;
    if (report->looked && *seen == RC_OK)
        report->position = &run->begun.position;
    report->unchecked = run->unchecked;
    report->why_not = why->text;
    return RC_OK;
}

static const struct lane_settings *find_lane(const struct settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->lane_count; i++)
        if (strcmp(settings->lanes[i].name, name) == 0)
            return &settings->lanes[i];
    return NULL;
}

static enum rc choose_lane(struct run *run, struct err *err)
{
    const char *name = run->map.lane;

    run->lane = find_lane(run->settings, name);
    if (run->lane && strcmp(run->lane->source, LANE_SOURCE_BINLOG) != 0)
        run->lane = NULL;
    if (run->lane || !(run->request->begins || run->request->back))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "the settings have no lane %s with source = binlog: add what `tallybox adopt` "
                    "prints, or name the lane",
                    name);
}

/* The code of a report that was printed. seen: RC_OK also if the settings have no lane yet. */
static int choose_code(const struct run *run, enum rc seen)
{
    if (run->request->begins)
        return EXIT_DONE;
    if (seen == RC_RETRY)
        return EXIT_UNAVAILABLE;
    return seen != RC_OK || json_array_size(run->map.differences) > 0 ? EXIT_FAILED : EXIT_DONE;
}

static int take_over(struct run *run)
{
    struct adopt_report report = {.connector = &run->connector, .map = &run->map, .why_not = ""};
    struct buf out = {0};
    struct err err = {0};
    struct err why = {0};
    enum rc seen = RC_OK;
    enum rc rc = look(run, &report, &seen, &why, &err);
    int code;

    if (rc != RC_OK)
        return options_fail(rc, &err);
    if (run->request->json)
        adopt_report_put_json(&out, &report);
    else
        adopt_report_put_text(&out, &report);
    code = options_print(&out);
    warn_of_rows(run);
    return code == EXIT_DONE ? choose_code(run, seen) : code;
}

/* The position stays as it is, because no relay holds the lane. */
static enum rc load_position(struct run *run, struct err *err)
{
    struct position_store ops;
    bool found = false;
    enum rc rc = position_store_mysql_open(&run->store, run->lane, "", NULL, run->settings, err);

    if (rc == RC_OK)
        rc = position_store_mysql_check_free(&run->store, err);
    ops = position_store_mysql_ops(&run->store);
    if (rc == RC_OK)
        rc = ops.load(ops.ctx, &run->begun.position, &found, err);
    if (rc == RC_OK && !found)
        rc = err_fail(err, RC_REJECT, 0, "lane %s has no position: no relay has read it yet",
                      run->lane->name);
    return rc;
}

/* With exactly_once the position is in Kafka, and relay_position may be behind. */
static enum rc check_may_go_back(const struct run *run, struct err *err)
{
    const struct lane_settings *lane = run->lane;

    assert(lane);
    if (strcmp(lane->exactly_once, "yes") == 0)
        return err_fail(
            err, RC_REJECT, 0,
            "the position of lane %s is in Kafka (lane.%s.exactly_once = yes): set "
            "lane.%s.exactly_once = no, start the relay once, stop it with SIGTERM, and "
            "run this again",
            lane->name, lane->name, lane->name);
    return router_map_check_table(&run->map, lane, run->settings, err);
}

static enum rc make_offset(struct run *run, struct err *err)
{
    enum rc rc = check_may_go_back(run, err);

    if (rc == RC_OK)
        rc = load_position(run, err);
    if (rc == RC_OK)
        rc = open_log(run, err);
    if (rc == RC_OK)
        rc = adopt_log_explain(
            &run->log, offset_find_offset(&run->log.log, &run->begun.position, &run->offset, err),
            err);
    return rc == RC_OK ? adopt_log_note_server(&run->log, &run->offset, err) : rc;
}

static enum rc apply_offset(struct run *run, const char *body, struct err *err)
{
    enum rc rc = check_stopped(run, err);

    return rc == RC_OK ? connect_http_patch_offsets(run->request->connector, body, err) : rc;
}

static void tell_back(const struct request *request)
{
    const char *url = connect_url_is(request->connector) ? request->connector : "URL";

    if (!request->applies)
        fprintf(stderr,
                "tallybox adopt: give this to the stopped connector: curl -X PATCH -H "
                "'Content-Type: application/json' -d @FILE %s/offsets\n",
                url);
    fprintf(stderr,
            "tallybox adopt: resume the connector with `curl -X PUT %s/resume`, and start no relay "
            "on the lane: both would publish the same rows. If the table was altered since the "
            "connector stopped, set its snapshot.mode to recovery first\n",
            url);
}

static int give_back(struct run *run)
{
    const char *prefix = connector_option(&run->connector, "topic.prefix");
    struct buf body = {0};
    struct err err = {0};
    enum rc rc = prefix ? make_offset(run, &err)
                        : err_fail(&err, RC_REJECT, 0, "the connector has no topic.prefix");

    if (rc == RC_OK)
        connect_offset_put(&body, &run->offset, prefix);
    if (rc == RC_OK && run->request->applies)
        rc = apply_offset(run, buf_text(&body), &err);
    if (rc != RC_OK) {
        buf_done(&body);
        return options_fail(rc, &err);
    }
    if (!run->request->json)
        tell_back(run->request);
    buf_char(&body, '\n');
    return options_print(&body);
}

static int run_request(const struct request *request, const struct settings *settings)
{
    struct run run = {.request = request, .settings = settings};
    struct err err = {0};
    enum rc rc = read_connector(&run, &err);
    int code;

    if (rc == RC_OK)
        rc = router_map_make(&run.map, &run.connector, request->lane, &err);
    if (rc == RC_OK)
        rc = choose_lane(&run, &err);
    if (rc != RC_OK)
        code = options_fail(rc, &err);
    else
        code = request->back ? give_back(&run) : take_over(&run);
    position_store_mysql_close(&run.store);
    adopt_log_close(&run.log);
    connect_offset_done(&run.offset);
    buf_done(&run.begun.position.before);
    router_map_done(&run.map);
    connector_done(&run.connector);
    return code;
}

/* Returns -1 when the arguments are valid, else the exit code. */
static int check_arguments(const struct options *options, struct request *request)
{
    const char *wrong = NULL;

    if (options->argument_count == 1)
        request->lane = options->arguments[0];
    if (options->argument_count > 1)
        wrong = "expected one lane at most";
    else if (!request->connector)
        wrong = "--connector is needed: a file with the connector's JSON, or its URL";
    else if (request->begins && request->back)
        wrong = "--begin and --back exclude each other";
    else if ((request->replaces || request->accepts) && !request->begins)
        wrong = "--replace-position and --accept-differences belong to --begin";
    else if (request->offsets && request->back)
        wrong = "--offsets does not belong to --back";
    else if (request->applies && !request->back)
        wrong = "--apply belongs to --back";
    else if (request->applies && !connect_url_is(request->connector))
        wrong = "--apply needs the URL of the connector";
    if (!wrong)
        return -1;
    fprintf(stderr, "tallybox adopt: %s\nTry `tallybox adopt --help`.\n", wrong);
    return EXIT_USAGE;
}

int adopt_command(int argc, char **argv)
{
    struct request request = {0};
    const struct option_entry entries[] = {
        {"connector", OPTION_TEXT, &request.connector, "FILE|URL",
         "JSON of the connector, - for standard input, or http://HOST:8083/connectors/NAME", NULL},
        {"offsets", OPTION_TEXT, &request.offsets, "FILE|URL|topic:NAME",
         "its offsets: JSON of GET /connectors/NAME/offsets, that URL, or the topic in which "
         "Connect keeps them; default: from the URL of the connector",
         NULL},
        {"begin", OPTION_FLAG, &request.begins, NULL,
         "save the position: the lane takes the place of the connector", NULL},
        {"replace-position", OPTION_FLAG, &request.replaces, NULL,
         "with begin: also if the lane has a position", NULL},
        {"accept-differences", OPTION_FLAG, &request.accepts, NULL,
         "with begin: although options of the connector have no equal", NULL},
        {"back", OPTION_FLAG, &request.back, NULL,
         "print the offsets at which the connector goes on behind the lane", NULL},
        {"apply", OPTION_FLAG, &request.applies, NULL,
         "with back: give them to the connector at its URL, which has to be stopped", NULL},
        {"json", OPTION_FLAG, &request.json, NULL, "print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox adopt",
        .role = "relay",
        .arguments = "[LANE]",
        .about =
            "Lets a lane with source = binlog take the place of a Debezium connector for MySQL or "
            "MariaDB with the outbox event router, at the connector's own position and while the "
            "application writes. It prints the settings that publish the same records, and each "
            "option of the connector that has no equal. Nothing is changed without --begin or "
            "--apply. LANE is by default named as the table.\n\n"
            "--begin needs a stopped connector without tasks (PUT /connectors/NAME/stop) and that "
            "no relay holds the lane. The state is read from the URL of --connector, or else of "
            "--offsets; with a file for --connector, and a file or a topic for --offsets, it is "
            "not checked. --begin counts in the binary log which rows of the last transaction the "
            "connector has published. Records that a connector sent after its last commit of "
            "offsets, before it was killed, come again with the same ids.\n\n"
            "--back needs that no relay holds the lane. Without --apply it prints the body of "
            "PATCH /connectors/NAME/offsets.\n\n"
            "Exit code 0: done, or no difference; without --begin and --back also if the settings "
            "have no such lane yet. 1: there is a difference, the lane has other settings, or "
            "something was refused; the output says what. 2: the command line or a setting is "
            "wrong. 3: a server could not be reached, or tasks of the connector have not ended; "
            "try again.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples =
            "Examples:\n"
            "  tallybox adopt --connector http://connect:8083/connectors/shop\n"
            "  tallybox adopt outboxevent --connector http://connect:8083/connectors/shop --begin\n"
            "  tallybox adopt outboxevent --connector shop.json --offsets topic:connect-offsets\n"
            "  tallybox adopt outboxevent --connector http://connect:8083/connectors/shop --back "
            "--apply\n",
        .sections = "mysql,relay,lane.NAME,kafka",
    };
    struct options options;
    struct config *config = NULL;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = check_arguments(&options, &request);
    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    code = run_request(&request, config_settings(config));
    config_free(config);
    return code;
}
