/* SPDX-License-Identifier: MIT */
#include "outbox/relay/cli/backfill_run_command.h"

#include "common/text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct stop *signalled; /* for the signal handler */

static void on_signal(int number)
{
    (void)number;
    stop_request(signalled);
}

static void handle_signals(struct stop *stop)
{
    struct sigaction action = {.sa_handler = on_signal};

    signalled = stop;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static const struct lane_settings *find_lane(const struct settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->lane_count; i++)
        if (strcmp(settings->lanes[i].name, name) == 0)
            return &settings->lanes[i];
    return NULL;
}

enum rc backfill_run_open(struct backfill_run **out, const struct settings *settings,
                          const char *lane, int64_t wait_ms, struct err *err)
{
    const struct lane_settings *own = find_lane(settings, lane);
    struct backfill_run *run;
    enum rc rc;

    *out = NULL;
    if (!own)
        return err_fail(err, RC_REJECT, 0, "%.64s is not in relay.lanes", lane);
    run = calloc(1, sizeof(*run));
    if (!run)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    *out = run;
    run->settings = settings;
    run->lane = own;
    run->wait_ms = wait_ms;
    run->stop.fd = -1;
    broker_kafka_open(&run->broker, own, settings, -1);
    rc = stop_init(&run->stop, err);
    if (rc != RC_OK)
        return rc;
    handle_signals(&run->stop);
    return backfill_mysql_open(&run->base, own, settings, &run->stop, wait_ms, err);
}

void backfill_run_close(struct backfill_run *run)
{
    if (!run)
        return;
    backfill_done(&run->backfill);
    broker_kafka_close(&run->broker);
    backfill_mysql_close(&run->base);
    if (run->stop.fd >= 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        stop_done(&run->stop);
    }
    free(run);
}

static void note_refused(void *ctx, int64_t seq, bool moved, const struct err *why)
{
    struct backfill_run *run = ctx;
    struct backfill_named *named;

    if (run->named_count == BACKFILL_NAMED_MAX)
        return;
    named = &run->named[run->named_count++];
    named->seq = seq;
    named->moved = moved;
    if (why)
        named->why = *why;
}

enum rc backfill_run_rows(struct backfill_run *run, int64_t upto, bool may_publish, struct err *err)
{
    struct backfill_ops ops = backfill_mysql_ops(&run->base);
    const struct broker broker = broker_kafka_ops(&run->broker);
    enum rc rc;

    ops.on_refused = note_refused;
    ops.on_refused_ctx = run;
    rc = backfill_init(&run->backfill, &ops, &broker, run->lane, run->settings, run->wait_ms, err);
    return rc == RC_OK ? backfill_run(&run->backfill, upto, may_publish, err) : rc;
}

static int64_t count_unnamed(const struct backfill_run *run)
{
    const struct backfill_result *result = &run->backfill.result;

    return result->moved + result->left - (int64_t)run->named_count;
}

void backfill_run_put_text(const struct backfill_run *run, struct buf *out)
{
    const struct backfill_result *result = &run->backfill.result;

    buf_print(out, "%" PRId64 " rows are published", result->published);
    if (result->found > 0)
        buf_print(out, ", of %" PRId64 " from seq %" PRId64 " to %" PRId64, result->found,
                  result->first_seq, result->last_seq);
    buf_char(out, '\n');
    for (size_t i = 0; i < run->named_count; i++) {
        const struct backfill_named *named = &run->named[i];

        buf_print(out, "seq %" PRId64 " %s: %s\n", named->seq,
                  named->moved ? "is moved into the retry queue" : "is refused and stays",
                  named->why.text[0] ? named->why.text : "its key has an earlier row that waits");
    }
    if (count_unnamed(run) > 0)
        buf_print(out, "and %" PRId64 " more rows\n", count_unnamed(run));
}

void backfill_run_put_json(const struct backfill_run *run, struct buf *out)
{
    const struct backfill_result *result = &run->backfill.result;

    buf_print(out,
              "\"found\": %" PRId64 ", \"published\": %" PRId64 ", \"moved\": %" PRId64
              ", \"left\": %" PRId64,
              result->found, result->published, result->moved, result->left);
    if (result->found > 0)
        buf_print(out, ", \"first_seq\": %" PRId64 ", \"last_seq\": %" PRId64, result->first_seq,
                  result->last_seq);
    else
        buf_text_put(out, ", \"first_seq\": null, \"last_seq\": null");
    buf_text_put(out, ", \"refused\": [");
    for (size_t i = 0; i < run->named_count; i++) {
        const struct backfill_named *named = &run->named[i];

        buf_print(out, "%s{\"seq\": %" PRId64 ", \"moved\": %s, \"reason\": ", i > 0 ? ", " : "",
                  named->seq, named->moved ? "true" : "false");
        json_text_put(out, named->why.text);
        buf_char(out, '}');
    }
    buf_char(out, ']');
}
