/* SPDX-License-Identifier: MIT */
#include "consumer/consume_command.h"

#include "common/log.h"
#include "common/loop.h"
#include "common/os.h"
#include "consumer/apply/applier.h"
#include "consumer/apply/sink_mysql.h"
#include "consumer/held/held_mysql.h"
#include "consumer/held/submitter.h"
#include "consumer/ingest/fetch.h"
#include "consumer/ingest/part.h"
#include "consumer/ingest/stream_kafka.h"
#include "consumer/installation_mysql.h"
#include "consumer/restart_command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Batches that partitions are filling, beyond the PART_SENT_MAX per applier. */
#define BATCHES_EXTRA 10
#define JOBS_EXTRA 64 /* room in an applier's rings for jobs without a batch, such as claims */

/* Longest silence of a session before the server rolls its transaction back. Half of the overlap,
 * so that the next roll-up still reads a row that commits late. */
#define IDLE_MS_MAX(overlap_ms) ((overlap_ms) / 2)

struct consume;

struct consume_applier {
    struct consume *consume;
    struct sink_mysql *sink;
    struct applier applier;
    struct loop loop;
    bool ready; /* applier and loop are initialised */
};

struct consume {
    const struct settings *settings;
    struct stop *stop;
    const char *instance;
    struct consume_applier *appliers;
    struct fetch_link *links;
    size_t count;
    struct stream_kafka *stream;
    struct fetch fetch;
    struct loop loop;
    bool fetch_ready;
    bool loop_ready;
    struct held_mysql *held;
    struct submitter submitter;
    struct loop submit_loop;
    bool submit_ready;
    atomic_uint dead_logged; /* see struct applier_config */
};

static void loop_wake_any(void *loop)
{
    loop_wake(loop);
}

static int64_t fetch_loop_step(void *ctx, int64_t now_ms)
{
    struct consume *consume = ctx;
    int64_t wait_ms;

    consume->fetch.config.batch_wait_ms = consume->settings->consumer.batch_wait_ms;
    wait_ms = fetch_step(&consume->fetch, now_ms);
    if (consume->fetch.failed)
        stop_fail(consume->stop);
    return wait_ms;
}

static int64_t applier_loop_step(void *ctx, int64_t now_ms)
{
    struct consume_applier *one = ctx;
    int64_t wait_ms = applier_step(&one->applier, now_ms);

    if (one->applier.failed)
        stop_fail(one->consume->stop);
    return wait_ms;
}

static void wake_submitter(void *ctx)
{
    struct consume *consume = ctx;

    submitter_request(&consume->submitter);
    loop_wake(&consume->submit_loop);
}

static size_t batches_max(const struct consume *consume)
{
    return consume->count * PART_SENT_MAX + BATCHES_EXTRA;
}

static enum rc open_applier(struct consume *consume, size_t index, struct err *err)
{
    struct consume_applier *one = &consume->appliers[index];
    const struct settings *settings = consume->settings;
    struct applier_config config = {
        .owner = consume->instance,
        .batch_rows_max = (size_t)settings->consumer.batch_rows_max,
        .keep_lasts = strcmp(settings->consumer.votes_from, "anyone") == 0,
        .dead_max = &settings->consumer.dead_max,
        .jobs_max = batches_max(consume) + JOBS_EXTRA,
        .rng = os_random_u64,
        .clock_us = os_now_us,
        .wake_fetch = loop_wake_any,
        .wake_ctx = &consume->loop,
        .on_held = wake_submitter,
        .held_ctx = consume,
        .dead_logged = &consume->dead_logged,
    };
    enum rc rc;

    one->consume = consume;
    rc = sink_mysql_open(&one->sink, &settings->sink, installation_group(settings),
                         IDLE_MS_MAX(settings->rollup.overlap_ms), err);
    if (rc != RC_OK)
        return rc;
    config.sink = sink_mysql_ops(one->sink);
    rc = applier_init(&one->applier, &config, err);
    if (rc != RC_OK)
        return rc;
    rc = loop_init(&one->loop, "apply", applier_loop_step, one, consume->stop, err);
    if (rc != RC_OK) {
        applier_done(&one->applier);
        return rc;
    }
    one->ready = true;
    consume->links[index] = (struct fetch_link){
        .given = &one->applier.given,
        .done = &one->applier.done,
        .wake = loop_wake_any,
        .wake_ctx = &one->loop,
        .reconnects = &one->applier.reconnects,
    };
    return RC_OK;
}

/* The process ends within admin.stop_timeout_ms. A broker that does not answer uses at most half of
 * it. */
static void close_stream(struct consume *consume)
{
    int64_t timeout_ms = consume->settings->admin.stop_timeout_ms;
    int64_t until_ms = stop_until_ms(consume->stop, timeout_ms / 20 * 19);
    int64_t half_ms = os_now_ms() + timeout_ms / 2;

    if (!stream_kafka_close(consume->stream, until_ms < half_ms ? until_ms : half_ms))
        log_event(LOG_WARN, "kafka_close_abandoned",
                  "role=consume what=\"no broker answers: the group notices the end of this member "
                  "by itself, and its offsets may be behind those of the database, which count\"");
    consume->stream = NULL;
}

static void consume_close(void *role)
{
    struct consume *consume = role;

    for (size_t i = 0; i < consume->count; i++) {
        struct consume_applier *one = &consume->appliers[i];

        sink_mysql_close(one->sink);
        if (!one->ready)
            continue;
        applier_done(&one->applier);
        loop_done(&one->loop);
    }
    if (consume->fetch_ready)
        fetch_done(&consume->fetch);
    close_stream(consume);
    if (consume->loop_ready)
        loop_done(&consume->loop);
    if (consume->submit_ready) {
        submitter_done(&consume->submitter);
        loop_done(&consume->submit_loop);
    }
    held_mysql_close(consume->held);
    free(consume->appliers);
    free(consume->links);
    free(consume);
}

static enum rc open_submitter(struct consume *consume, struct err *err)
{
    const struct settings *settings = consume->settings;
    enum rc rc = held_mysql_open(&consume->held, settings, err);

    if (rc == RC_OK)
        rc = submitter_init(&consume->submitter, held_mysql_store(consume->held),
                            installation_group(settings), os_random_u64, err);
    if (rc != RC_OK)
        return rc;
    rc = loop_init(&consume->submit_loop, "submit", submitter_step, &consume->submitter,
                   consume->stop, err);
    consume->submit_ready = rc == RC_OK;
    if (rc != RC_OK)
        submitter_done(&consume->submitter);
    return rc;
}

static enum rc open_parts(struct consume *consume, struct err *err)
{
    enum rc rc = stream_kafka_check(consume->settings, consume->instance, err);

    if (rc == RC_OK)
        rc = loop_init(&consume->loop, "fetch", fetch_loop_step, consume, consume->stop, err);
    consume->loop_ready = rc == RC_OK;
    if (rc == RC_OK)
        rc = open_submitter(consume, err);
    for (size_t i = 0; rc == RC_OK && i < consume->count; i++)
        rc = open_applier(consume, i, err);
    return rc;
}

static enum rc consume_open(void **role, const struct role_env *env, struct err *err)
{
    struct consume *consume = calloc(1, sizeof(*consume));
    enum rc rc;

    if (!consume)
        return err_fail(err, RC_FATAL, 0, "no memory for the consumer");
    consume->settings = env->settings;
    consume->stop = env->stop;
    consume->instance = env->instance;
    consume->count = (size_t)env->settings->consumer.appliers;
    consume->appliers = calloc(consume->count, sizeof(*consume->appliers));
    consume->links = calloc(consume->count, sizeof(*consume->links));
    if (!consume->appliers || !consume->links) {
        consume->count = 0;
        rc = err_fail(err, RC_FATAL, 0, "no memory for the consumer");
    } else {
        rc = open_parts(consume, err);
    }
    if (rc != RC_OK) {
        consume_close(consume);
        return rc;
    }
    *role = consume;
    return RC_OK;
}

static void threads_join(struct consume *consume)
{
    for (size_t i = 0; i < consume->count; i++)
        loop_join(&consume->appliers[i].loop);
    loop_join(&consume->loop);
    loop_join(&consume->submit_loop);
}

static enum rc open_fetch(struct consume *consume, struct err *err)
{
    const struct settings *settings = consume->settings;
    struct fetch_config config = {
        .links = consume->links,
        .link_count = consume->count,
        .batch_rows_max = (size_t)settings->consumer.batch_rows_max,
        .batch_bytes_max = (size_t)settings->consumer.batch_bytes_max,
        .batches_max = batches_max(consume),
        .batch_wait_ms = settings->consumer.batch_wait_ms,
        .rng = os_random_u64,
        .wall_ms = os_wall_ms,
    };
    enum rc rc = stream_kafka_open(&consume->stream, settings, consume->instance,
                                   consume->loop.wakeup.fd, err);

    if (rc != RC_OK)
        return rc;
    config.stream = stream_kafka_ops(consume->stream);
    rc = fetch_init(&consume->fetch, &config, err);
    consume->fetch_ready = rc == RC_OK;
    return rc;
}

static enum rc consume_start(void *role, struct err *err)
{
    struct consume *consume = role;
    enum rc rc = open_fetch(consume, err);

    for (size_t i = 0; rc == RC_OK && i < consume->count; i++)
        rc = loop_start(&consume->appliers[i].loop, err);
    if (rc == RC_OK)
        rc = loop_start(&consume->submit_loop, err);
    if (rc == RC_OK)
        rc = loop_start(&consume->loop, err);
    if (rc != RC_OK) {
        stop_fail(consume->stop);
        threads_join(consume);
    }
    return rc;
}

static void consume_health(void *role, struct health *health)
{
    struct consume *consume = role;
    int64_t age_ms = metric_value(&consume_oldest_age);
    struct err err = {0};
    bool bad = false;

    for (size_t i = 0; i < consume->count && !bad; i++)
        bad = condition_read(&consume->appliers[i].applier.database, &err);
    if (bad)
        health_bad(health, "sink", "%s", err.text);
    else
        health_good(health, "sink");
    if (condition_read(&consume->fetch.broker, &err))
        health_bad(health, "kafka", "%s", err.text);
    else
        health_good(health, "kafka");
    if (condition_read(&consume->fetch.partitions, &err))
        health_bad(health, "partitions", "%s", err.text);
    else
        health_good(health, "partitions");
    if (condition_read(&consume->fetch.group, &err))
        health_bad(health, "group", "%s", err.text);
    if (condition_read(&consume->fetch.access, &err))
        health_bad(health, "rights", "%s", err.text);
    if (condition_read(&consume->fetch.topics, &err))
        health_warn(health, "topics", "%s", err.text);
    if (age_ms > consume->settings->admin.stale_ms)
        health_bad(health, "records",
                   "the oldest record that waits to be applied is %" PRId64 " s old",
                   age_ms / 1000);
    else
        health_good(health, "records");
}

/* Records that are not applied now stay in Kafka. The next owner of the partition applies them. */
static void consume_join(void *role)
{
    struct consume *consume = role;

    threads_join(consume);
    fetch_finish(&consume->fetch, os_now_ms());
    close_stream(consume);
}

const struct role consume_role = {
    .name = "consume",
    .about = "Applies the events of Kafka to the vote log, in batches of one transaction each. "
             "Several may run: the consumer group shares the partitions among them.\n\n"
             "`tallybox consume --restart-partition TOPIC/PARTITION@earliest|latest|OFFSET` sets "
             "the offset at which a stopped partition continues, and exits.",
    .register_metrics = consume_metrics_register,
    .open = consume_open,
    .start = consume_start,
    .health = consume_health,
    .join = consume_join,
    .close = consume_close,
    .sections = "mysql,sink,kafka,consumer",
};

int consume_command(role_gate gate, int argc, char **argv)
{
    const struct role *const role = &consume_role;
    const struct role_process process = {role->name, role->about, &role, 1,   gate,
                                         NULL,       NULL,        0,     NULL};

    if (restart_asked(argc, argv))
        return restart_command(argc, argv);
    return role_main(&process, argc, argv);
}
