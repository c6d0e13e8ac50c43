/* SPDX-License-Identifier: MIT */
#include "outbox/relay/cli/relay_replay_command.h"

#include "common/daemon/role.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "common/text.h"
#include "common/utc.h"
#include "outbox/relay/broker_kafka.h"
#include "outbox/relay/replay/replay.h"
#include "outbox/relay/replay/replay_log.h"
#include "outbox/relay/replay/replay_log_mysql.h"
#include "outbox/relay/replay/replay_mysql.h"
#include "outbox/relay/replay/replay_request.h"
#include "outbox/relay/replay/replay_table.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define REPLAYED_AT "replayed-at"

#define PROGRESS_MS 2000

#define LOG_FIRST_OFFSET 4 /* of the first event of a file */

struct command_state {
    struct replay_request *request;
    const struct settings *settings;
    const struct lane_settings *lane;
    bool from_log;
    struct replay_facts facts; /* of a replay from the table */
    struct replay_log_facts log_facts;
    int64_t log_begin_ms; /* of the log; UTC_UNKNOWN_MS: it was not asked for */
    struct replay_mysql kept;
    struct replay_log_mysql logged;
    struct replay_table table;
    struct replay_log log;
    struct broker_kafka broker;
    struct replay replay;
    bool has_replay;
    bool is_misused; /* the command line or a setting is wrong */
    char replayed_at[UTC_TEXT_SIZE];
    int64_t progress_ms;
};

static struct stop stop; /* requested by SIGINT or SIGTERM */

static void on_signal(int number)
{
    (void)number;
    stop_request(&stop);
}

static void handle_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* The id is made printable: it may be any bytes. */
static void print_refused(void *ctx, const struct relay_row *row, const struct err *why)
{
    char uuid[ID_TEXT_SIZE];
    struct bytes id = relay_row_id(row, uuid);
    char shown[ID_TEXT_SIZE + 28];
    char seq[32] = "";
    size_t len = id.len < sizeof(shown) - 1 ? id.len : sizeof(shown) - 1;

    (void)ctx;
    if (row->table_seq > 0)
        snprintf(seq, sizeof(seq), "seq %" PRId64 ", ", row->table_seq);
    for (size_t i = 0; i < len; i++)
        shown[i] = id.data[i] >= ' ' && id.data[i] < 0x7f ? id.data[i] : '?';
    shown[len] = '\0';
    fprintf(stderr, "tallybox relay replay: not published: %sid %s: %s\n", seq, shown, why->text);
}

static const struct lane_settings *find_lane(const struct settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->lane_count; i++)
        if (strcmp(settings->lanes[i].name, name) == 0)
            return &settings->lanes[i];
    return NULL;
}

/* Whether the lane has deleted rows since --from. A row that is not published may be older than
 * those that are deleted. */
static bool lacks_rows(const struct command_state *state)
{
    const struct replay_facts *facts = &state->facts;
    int64_t from_ms = state->request->from_ms;

    return !state->from_log && (facts->oldest_ms == UTC_UNKNOWN_MS || from_ms < facts->oldest_ms ||
                                from_ms < facts->now_ms - state->lane->keep_ms);
}

static void print_oldest(const struct command_state *state)
{
    const char *hint = lacks_rows(state)
                           ? ": rows since --from that are deleted are not replayed; "
                             "`--from-log` reads them from the binary log, as long as "
                             "the server keeps it"
                           : "";
    char oldest[WHEN_TEXT_SIZE];

    if (state->facts.oldest_ms == UTC_UNKNOWN_MS) {
        fprintf(stderr, "tallybox relay replay: table %s has no row%s\n", state->lane->table, hint);
        return;
    }
    when_text(oldest, state->facts.oldest_ms);
    fprintf(stderr, "tallybox relay replay: the oldest row that table %s still has is of %s%s\n",
            state->lane->table, oldest, hint);
}

static enum rc read_times(struct command_state *state, int64_t now_ms, struct err *err)
{
    enum rc rc = replay_request_times(state->request, now_ms, err);

    state->is_misused = rc != RC_OK;
    utc_format(now_ms, state->replayed_at);
    return rc;
}

static enum rc prepare_table(struct command_state *state, struct err *err)
{
    const struct replay_request *request = state->request;
    struct replay_table_ops ops;
    enum rc rc = replay_mysql_look(&state->kept, &state->facts, err);

    if (rc == RC_OK)
        rc = read_times(state, state->facts.now_ms, err);
    if (rc != RC_OK)
        return rc;
    state->kept.filter = (struct source_filter){.from_ms = request->from_ms,
                                                .to_ms = request->to_ms,
                                                .key = request->words->key,
                                                .type = request->words->type};
    ops = replay_mysql_ops(&state->kept);
    replay_table_init(&state->table, &ops, request->after, state->facts.last_entry);
    print_oldest(state);
    return RC_OK;
}

static enum rc fail_too_early(const struct command_state *state, struct err *err)
{
    char begin[UTC_TEXT_SIZE];

    utc_format(state->log_begin_ms, begin);
    return err_fail(err, RC_REJECT, 0,
                    "the binary log of the server has nothing from before %s, when its oldest file "
                    "was begun: --from %s is earlier, give that time or a later one",
                    begin, state->request->words->from);
}

/* Sets where reading begins. */
static enum rc choose_begin(struct command_state *state, struct replay_log_place *after,
                            struct err *err)
{
    const struct replay_request *request = state->request;
    const struct replay_log_mysql *logged = &state->logged;
    const struct replay_log_ops ops = replay_log_mysql_ops(&state->logged);
    size_t number = 0;
    enum rc rc;

    *after = request->log_after;
    if (after->at.file[0])
        return replay_log_mysql_check_place(logged, after, err);
    rc = replay_log_find_file(&ops, logged->file_count, request->from_ms, &number,
                              &state->log_begin_ms, err);
    if (rc == RC_REJECT)
        return fail_too_early(state, err);
    memcpy(after->at.file, logged->files[number], sizeof(after->at.file));
    after->at.offset = LOG_FIRST_OFFSET;
    memcpy(after->server, state->log_facts.server, sizeof(after->server));
    return rc;
}

static enum rc prepare_log(struct command_state *state, struct err *err)
{
    const struct replay_request *request = state->request;
    size_t bytes = replay_batch_bytes(state->settings->relay.row_bytes_max,
                                      state->settings->relay.read_bytes_max);
    struct replay_log_options options = {.key = request->words->key,
                                         .type = request->words->type,
                                         .rows_max = REPLAY_ROWS_MAX,
                                         .batch_bytes = bytes};
    struct replay_log_ops ops;
    enum rc rc = replay_log_mysql_open(&state->logged, state->lane, state->settings,
                                       &state->kept.origin, state->kept.source.db, bytes, err);

    if (rc == RC_OK)
        rc = replay_log_mysql_look(&state->logged, &state->log_facts, err);
    if (rc == RC_OK)
        rc = read_times(state, state->log_facts.now_ms, err);
    if (rc == RC_OK)
        rc = choose_begin(state, &options.after, err);
    if (rc != RC_OK)
        return rc;
    options.from_ms = request->from_ms;
    options.to_ms = request->to_ms;
    options.end = state->log_facts.end;
    ops = replay_log_mysql_ops(&state->logged);
    fprintf(stderr, "tallybox relay replay: the binary log is read from file %s on\n",
            options.after.at.file);
    return replay_log_init(&state->log, &options, &ops, err);
}

/* why: the rows of the table cannot be replayed; empty: they can. */
static enum rc choose_source(struct command_state *state, const struct err *why, struct err *err)
{
    const struct replay_request *request = state->request;

    state->from_log = request->from_log || why->text[0];
    if (!why->text[0])
        return RC_OK;
    if (request->from_table) {
        state->is_misused = true;
        return err_fail(err, RC_REJECT, 0,
                        "--after %s is a place of a replay from the table, but %s",
                        request->words->after, why->text);
    }
    fprintf(stderr, "tallybox relay replay: the rows come from the binary log: %s\n", why->text);
    return RC_OK;
}

static enum rc prepare(struct command_state *state, struct err *err)
{
    struct replay_request *request = state->request;
    struct err why = {0};
    enum rc rc;

    state->log_begin_ms = state->facts.oldest_ms = UTC_UNKNOWN_MS;
    state->lane = find_lane(state->settings, request->lane);
    if (!state->lane)
        return err_fail(err, RC_REJECT, 0, "%.64s is not in relay.lanes", request->lane);
    rc = replay_mysql_open(&state->kept, state->lane, state->settings, err);
    if (rc == RC_OK)
        rc = replay_mysql_check(&state->kept, &why, err);
    if (rc == RC_OK)
        rc = choose_source(state, &why, err);
    if (rc == RC_OK)
        rc = state->from_log ? prepare_log(state, err) : prepare_table(state, err);
    if (rc == RC_OK)
        rc = replay_mysql_load_keys(&state->kept, err);
    if (rc != RC_OK)
        return rc;
    broker_kafka_open(&state->broker, state->lane, state->settings, -1);
    broker_kafka_add_header(&state->broker, REPLAYED_AT, state->replayed_at);
    return RC_OK;
}

static enum rc init_replay(struct command_state *state, struct err *err)
{
    const struct replay_words *words = state->request->words;
    const struct settings *settings = state->settings;
    const struct replay_source source =
        state->from_log ? replay_log_source(&state->log) : replay_table_source(&state->table);
    const struct broker broker = broker_kafka_ops(&state->broker);
    const struct replay_options options = {
        .map = state->lane->topics,
        .prefix = settings->relay.topic_prefix,
        .rule = state->lane->topic,
        .regex = state->lane->topic_regex,
        .topic = words->topic,
        .rate = words->rate,
        .row_bytes_max = settings->relay.row_bytes_max,
        .batch_bytes_max = settings->relay.read_bytes_max,
        .send_timeout_ms = settings->relay.send_timeout_ms,
        .dry_run = words->dry_run,
        .tasks_keys = state->kept.keys,
        .tasks_key_count = state->kept.key_count,
        .on_refused = print_refused,
    };
    enum rc rc =
        replay_init(&state->replay, &options, &source, &broker, os_now_ms(), os_random_u64(), err);

    state->has_replay = rc == RC_OK;
    state->is_misused = rc == RC_REJECT; /* a topic rule that cannot be used */
    return rc;
}

static void put_place(struct buf *out, const struct command_state *state)
{
    if (state->from_log)
        replay_log_place_put(&state->log.place, out);
    else
        buf_print(out, "%" PRId64 "/%" PRId64, state->table.place.entry, state->table.place.seq);
}

static void put_quoted(struct buf *out, const char *option, const char *text)
{
    if (!text)
        return;
    buf_print(out, " --%s '", option);
    for (; *text; text++) {
        if (*text == '\'')
            buf_text_put(out, "'\\''");
        else
            buf_char(out, *text);
    }
    buf_char(out, '\'');
}

/* Times are absolute, so that the range is the same later. */
static void put_resume(struct buf *out, const struct command_state *state)
{
    const struct replay_words *words = state->request->words;
    char from[UTC_TEXT_SIZE];
    char to[UTC_TEXT_SIZE];

    utc_format(state->request->from_ms, from);
    utc_format(state->request->to_ms, to);
    buf_print(out, "tallybox relay replay %s --from %s --to %s", state->lane->name, from, to);
    put_quoted(out, "key", words->key);
    put_quoted(out, "type", words->type);
    put_quoted(out, "topic", words->topic);
    if (words->rate != REPLAY_RATE)
        buf_print(out, " --rate %" PRId64, words->rate);
    if (words->dry_run)
        buf_text_put(out, " --dry-run");
    if (state->from_log)
        buf_text_put(out, " --from-log");
    buf_text_put(out, " --after ");
    put_place(out, state);
}

static void print_progress(struct command_state *state, int64_t now_ms)
{
    const struct replay *replay = &state->replay;
    struct buf place = {0};

    if (now_ms < state->progress_ms)
        return;
    state->progress_ms = now_ms + PROGRESS_MS;
    put_place(&place, state);
    fprintf(stderr,
            "tallybox relay replay: %" PRId64 " rows read, %" PRId64 " published, %" PRId64
            " refused; done up to --after %s%s%s\n",
            replay->counts.read, replay->counts.published, replay->counts.refused, buf_text(&place),
            replay->trouble_ms > 0 ? "; waiting: " : "",
            replay->trouble_ms > 0 ? replay->why.text : "");
    buf_done(&place);
}

static enum rc run_replay(struct command_state *state, struct err *err)
{
    struct replay *replay = &state->replay;
    struct stop pause; /* waits also after a signal */
    enum rc rc = stop_init(&pause, err);

    if (rc != RC_OK)
        return rc;
    state->progress_ms = os_now_ms() + PROGRESS_MS;
    while (rc == RC_OK && !replay->ended) {
        int64_t wait_ms = 0;

        if (stop_requested(&stop) || state->kept.origin_lost)
            replay_stop(replay);
        rc = replay_step(replay, os_now_ms(), &wait_ms, err);
        print_progress(state, os_now_ms());
        if (rc == RC_OK && wait_ms > 0)
            stop_wait(stop_requested(&stop) ? &pause : &stop, wait_ms);
    }
    stop_done(&pause);
    if (rc == RC_FATAL && state->from_log)
        replay_log_mysql_explain(&state->logged, err);
    if (rc == RC_OK && !replay->complete && state->kept.origin_lost)
        return err_fail(err, RC_RETRY, 0, "%s: a %s there", state->kept.lost.text,
                        state->from_log ? "place in the log may be another one"
                                        : "seq may belong to another row");
    if (rc == RC_OK && !replay->complete)
        return err_fail(err, RC_RETRY, 0, "stopped by a signal");
    return rc;
}

static void put_time_json(struct buf *out, const char *before, int64_t ms)
{
    char time[UTC_TEXT_SIZE];

    buf_text_put(out, before);
    if (ms == UTC_UNKNOWN_MS) {
        buf_text_put(out, "null");
        return;
    }
    utc_format(ms, time);
    buf_print(out, "\"%s\"", time);
}

static void put_edge_json(struct buf *out, const struct command_state *state, const char *name,
                          const struct replay_edge *edge)
{
    buf_print(out, ", \"%s\": ", name);
    if (!edge->known) {
        buf_text_put(out, "null");
        return;
    }
    if (edge->seq > 0)
        buf_print(out, "{\"seq\": %" PRId64, edge->seq);
    else
        buf_text_put(out, "{\"seq\": null");
    put_time_json(out, ", \"created_at\": ", edge->created_ms);
    if (state->from_log)
        put_time_json(out, ", \"committed_at\": ", edge->committed_ms);
    buf_char(out, '}');
}

static void put_json(struct buf *out, const struct command_state *state)
{
    const struct replay *replay = &state->replay;
    const struct replay_counts *counts = &replay->counts;
    const struct replay_words *words = state->request->words;

    buf_text_put(out, "{\"lane\": ");
    json_text_put(out, state->lane->name);
    buf_text_put(out, ", \"topic\": ");
    if (words->topic)
        json_text_put(out, words->topic);
    else
        buf_text_put(out, "null");
    put_time_json(out, ", \"from\": ", state->request->from_ms);
    put_time_json(out, ", \"to\": ", state->request->to_ms);
    put_time_json(out, ", \"oldest_row\": ", state->facts.oldest_ms);
    buf_print(out, ", \"from_log\": %s", state->from_log ? "true" : "false");
    put_time_json(out, ", \"log_begins\": ", state->log_begin_ms);
    buf_print(out, ", \"replayed_at\": \"%s\", \"dry_run\": %s", state->replayed_at,
              words->dry_run ? "true" : "false");
    buf_print(out,
              ", \"read\": %" PRId64 ", \"published\": %" PRId64 ", \"refused\": %" PRId64
              ", \"in_retry_queue\": %" PRId64,
              counts->read, counts->published, counts->refused, counts->left);
    put_edge_json(out, state, "first", &replay->first);
    put_edge_json(out, state, "last", &replay->last);
    buf_print(out, ", \"complete\": %s, \"after\": \"", replay->complete ? "true" : "false");
    put_place(out, state);
    buf_text_put(out, "\"}\n");
}

static void put_edge(struct buf *out, const struct command_state *state, const char *name,
                     const struct replay_edge *edge)
{
    char time[WHEN_TEXT_SIZE];

    if (!edge->known)
        return;
    when_text(time, state->from_log ? edge->committed_ms : edge->created_ms);
    buf_text_put(out, name);
    if (edge->seq > 0)
        buf_print(out, " seq %" PRId64, edge->seq);
    buf_print(out, " %s %s\n", state->from_log ? "committed" : "of", time);
}

static void put_text(struct buf *out, const struct command_state *state)
{
    const struct replay *replay = &state->replay;
    const struct replay_counts *counts = &replay->counts;

    put_edge(out, state, "first    ", &replay->first);
    put_edge(out, state, "last     ", &replay->last);
    buf_print(out, "read      %" PRId64 "\npublished %" PRId64 "%s\nrefused   %" PRId64 "\n",
              counts->read, counts->published, state->request->words->dry_run ? " (--dry-run)" : "",
              counts->refused);
    if (counts->left > 0)
        buf_print(out, "left out  %" PRId64 ", their keys have tasks in the retry queue\n",
                  counts->left);
    if (counts->read == 0 && lacks_rows(state))
        buf_text_put(out, "the table has no such row: `--from-log` reads deleted ones from the "
                          "binary log\n");
}

static int end_command(const struct command_state *state, enum rc rc, const struct err *err)
{
    struct buf out = {0};
    const struct replay_counts *counts = &state->replay.counts;
    int code;

    if (!state->has_replay) {
        code = options_fail(rc, err);
        return state->is_misused ? EXIT_USAGE : code;
    }
    if (state->request->words->json)
        put_json(&out, state);
    else
        put_text(&out, state);
    code = options_print(&out);
    if (rc != RC_OK) {
        code = options_fail(rc, err);
        put_resume(&out, state);
        fprintf(stderr, "tallybox relay replay: not complete; go on with\n  %s\n", buf_text(&out));
        buf_done(&out);
    }
    return code == EXIT_DONE && counts->refused + counts->left > 0 ? EXIT_FAILED : code;
}

static int run_command(struct replay_request *request, const struct settings *settings)
{
    static struct command_state state; /* a process runs one command */
    struct err err = {0};
    enum rc rc = stop_init(&stop, &err);
    int code;

    state.request = request;
    state.settings = settings;
    if (rc == RC_OK) {
        handle_signals();
        rc = prepare(&state, &err);
    }
    if (rc == RC_OK)
        rc = init_replay(&state, &err);
    if (rc == RC_OK)
        rc = run_replay(&state, &err);
    code = end_command(&state, rc, &err);
    if (state.has_replay)
        replay_done(&state.replay);
    broker_kafka_close(&state.broker);
    replay_log_done(&state.log);
    replay_log_mysql_close(&state.logged);
    replay_table_done(&state.table);
    replay_mysql_close(&state.kept);
    stop_done(&stop);
    return code;
}

/* What the command line gives. */
static struct replay_words words = {.rate = REPLAY_RATE};

static const struct option_entry entries[] = {
    {"from", OPTION_TEXT, &words.from, "TIME",
     "rows made (created_at), or from the log committed, at or after this time: 2h (ago), 7d, "
     "2026-11-21T17:05:00Z",
     NULL},
    {"to", OPTION_TEXT, &words.to, "TIME", "rows made before this time; 0s is now", NULL},
    {"from-log", OPTION_FLAG, &words.from_log, NULL,
     "take the rows from the binary log, also if the table could be read", NULL},
    {"key", OPTION_TEXT, &words.key, "KEY", "only rows with this aggregateid", NULL},
    {"type", OPTION_TEXT, &words.type, "TYPE", "only rows of this type", NULL},
    {"topic", OPTION_TEXT, &words.topic, "TOPIC", "publish to this topic, not to those of the lane",
     NULL},
    {"rate", OPTION_NUMBER, &words.rate, "ROWS",
     "at most so many rows a second; default 1000; 0: without a limit", NULL},
    {"after", OPTION_TEXT, &words.after, "PLACE",
     "go on behind this place of an earlier replay, which printed it", NULL},
    {"dry-run", OPTION_FLAG, &words.dry_run, NULL, "count the rows, and publish none", NULL},
    {"json", OPTION_FLAG, &words.json, NULL, "print one JSON object", NULL},
};

static const struct option_parse parse = {
    .command = "tallybox relay replay",
    .arguments = "LANE",
    .about =
        "Publishes events again that a lane with source = binlog has published and still keeps in "
        "its table (lane.NAME.keep_ms). Each record is as the first one, with the same id, and has "
        "the header replayed-at with the time of the replay besides. Consumers of the topic see "
        "these old events behind newer ones of the same key; they may tell them by the header. The "
        "lane goes on meanwhile, and nothing of it is changed.\n\n"
        "The rows come from the binary log, as far as the server keeps it, with --from-log, and if "
        "those of the table cannot be told apart: it lacks the primary key seq or a column "
        "created_at, or the lane has columns, header_columns, empty_payload = tombstone or keep_ms "
        "= -1. --from and --to are then times of COMMIT, in whole seconds. Nothing is done if "
        "--from is earlier than the log.\n\n"
        "A replay that is stopped prints the command that goes on where it ended, and every two "
        "seconds the place for --after. Exit code 1: rows were refused, or left out because their "
        "keys have tasks in the retry queue; stderr names each. 3: it was stopped, or a server "
        "could not be reached; try again with --after.",
    .entries = entries,
    .count = sizeof(entries) / sizeof(entries[0]),
    .examples = "Examples:\n"
                "  tallybox relay replay outbox --from 2h --to 30m --dry-run\n"
                "  tallybox relay replay outbox --from 2026-11-21T17:00:00Z --to "
                "2026-11-21T18:00:00Z\n"
                "  tallybox relay replay outbox --from 1d --to 0s --key 4711 --topic repair\n"
                "  tallybox relay replay outbox --from 2h --to 0s --from-log\n",
    .sections = "mysql,kafka,relay," SETTINGS_LANE,
};

int relay_replay_command(int argc, char **argv)
{
    struct replay_request request;
    struct options options;
    struct config *config = NULL;
    struct err err = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0 && replay_request_read(&request, &words, options.arguments,
                                        (size_t)options.argument_count, &err) != RC_OK) {
        fprintf(stderr, "tallybox relay replay: %s\nTry `tallybox relay replay --help`.\n",
                err.text);
        code = EXIT_USAGE;
    }
    if (code < 0)
        code = role_load_config(&options, &config);
    if (code >= 0)
        return code;
    code = run_command(&request, config_settings(config));
    config_free(config);
    return code;
}
