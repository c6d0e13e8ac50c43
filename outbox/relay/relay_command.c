/* SPDX-License-Identifier: MIT */
#include "outbox/relay/relay_command.h"

#include "common/hash.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/os.h"
#include "outbox/lease/lease_mysql.h"
#include "outbox/lease/leases.h"
#include "outbox/relay/broker_kafka.h"
#include "outbox/relay/deleter.h"
#include "outbox/relay/deleter_mysql.h"
#include "outbox/relay/diverter_mysql.h"
#include "outbox/relay/exact/takeover.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/probe_kafka.h"
#include "outbox/relay/reader.h"
#include "outbox/relay/sender.h"
#include "outbox/relay/shared/shared_stream.h"
#include "outbox/relay/source_mysql.h"
#include "outbox/relay/stream/stream_lane.h"
#include "outbox/relay/stream/stream_wakeup_mysql.h"
#include "outbox/relay/topics.h"
#include "outbox/relay/writers_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A clean stop may drain the lanes for this part of admin.stop_timeout_ms. */
#define STOP_PART_NUMERATOR 3
#define STOP_PART_DENOMINATOR 4
#define STOP_PAUSE_MS 2

/* A lane with its engines, its adapters and its threads. A lane that reads the binary log has
 * `streams` instead of reader, source and deletion. */
struct lane_runtime {
    const struct lane_settings *own;
    struct lane lane;
    struct takeover takeover; /* of a lane that publishes exactly once */
    struct stream_lane streams;
    struct reader reader;
    struct sender sender;
    struct deleter deleter;
    struct origin_mysql origin;
    struct source_mysql source;
    struct deleter_mysql deletes;
    struct diverter_mysql diverts;
    struct broker_kafka broker;
    struct loop loops[LANE_STEPS];
};

struct relay {
    const struct role_env *env;
    struct lane_runtime *runtimes[RELAY_LANES_MAX];
    const char *tables[RELAY_LANES_MAX];
    const char *sources[RELAY_LANES_MAX];
    size_t count;
    char group[LEASES_GROUP_SIZE];
    struct writers_mysql writers;
    struct lease_mysql store;
    struct leases leases;
    struct loop renewer;
    struct probe_kafka probe;
    struct loop prober;
    bool has_wakeup; /* relay.wakeup = binlog */
    struct stream_wakeup wakeup;
    struct loop waker;
    bool has_shared; /* of two lanes or more that read the binary log */
    struct shared_stream shared;
    struct loop sharer;
};

static void wake_step(void *ctx, enum lane_step step)
{
    struct lane_runtime *runtime = ctx;

    loop_wake(&runtime->loops[step]);
}

static void report_origin_lost(void *ctx, const struct err *why)
{
    struct lane_runtime *runtime = ctx;

    lane_origin_lost(&runtime->lane, why);
}

static int64_t read_clock(void *ctx)
{
    (void)ctx;
    return os_now_ms();
}

static enum rc init_loops(struct lane_runtime *runtime, struct stop *stop, struct err *err)
{
    struct loop *loops = runtime->loops;
    struct stream_lane *streams = &runtime->streams;
    bool is_stream = runtime->lane.is_stream;
    enum rc rc = is_stream ? loop_init(&loops[LANE_READER], "relay-read", stream_reader_step,
                                       &streams->reader, stop, err)
                           : loop_init(&loops[LANE_READER], "relay-read", reader_step,
                                       &runtime->reader, stop, err);

    if (rc == RC_OK)
        rc = loop_init(&loops[LANE_SENDER], "relay-send", sender_step, &runtime->sender, stop, err);
    if (rc == RC_OK)
        rc = is_stream ? loop_init(&loops[LANE_DELETER], "relay-keep", stream_keeper_step,
                                   &streams->keeper, stop, err)
                       : loop_init(&loops[LANE_DELETER], "relay-delete", deleter_step,
                                   &runtime->deleter, stop, err);
    return rc;
}

/* The same in each process, so that a stream that was left open is ended by the next one. With
 * relay.server_id each lane has one of its own, too. */
static uint32_t choose_server_id(const struct settings *settings, const char *table, size_t number)
{
    const char *database = settings->mysql.database;
    uint64_t hash = hash_bytes(HASH_START, database, strlen(database));

    if (settings->relay.server_id > 0)
        return (uint32_t)(settings->relay.server_id + 1 + (int64_t)number);
    hash = hash_bytes(hash, table, strlen(table));
    return STREAM_OWN_SERVER_IDS | (uint32_t)hash;
}

/* Of the process: two of them may share the lanes, and each has a shared stream. */
static uint32_t choose_shared_id(const struct role_env *env)
{
    const struct settings *settings = env->settings;
    uint64_t hash = hash_bytes(HASH_START, env->instance, strlen(env->instance));

    if (settings->relay.server_id > 0)
        return (uint32_t)(settings->relay.server_id + 1 + (int64_t)settings->lane_count);
    return STREAM_OWN_SERVER_IDS | (uint32_t)hash_bytes(hash, "shared", strlen("shared"));
}

static enum rc open_adapters(struct lane_runtime *runtime, struct relay *relay, struct err *err)
{
    const struct role_env *env = relay->env;
    enum rc rc = RC_OK;

    if (!runtime->lane.is_stream)
        rc = source_mysql_open(&runtime->source, runtime->own->table, &runtime->origin,
                               &relay->writers, env->settings, err);
    if (rc == RC_OK)
        rc = deleter_mysql_open(&runtime->deletes, runtime->own, env->instance, &runtime->origin,
                                env->settings, err);
    diverter_mysql_open(&runtime->diverts, runtime->own, &runtime->deletes, env->settings);
    broker_kafka_open(&runtime->broker, runtime->own, env->settings,
                      runtime->loops[LANE_SENDER].wakeup.fd);
    if (runtime->lane.takeover)
        broker_kafka_use_transactions(&runtime->broker);
    return rc;
}

static enum rc init_table_engines(struct lane_runtime *runtime, struct err *err)
{
    const struct source source = source_mysql_ops(&runtime->source);
    const struct deleter_ops deletes = deleter_mysql_ops(&runtime->deletes);
    const struct diverter_ops diverts = diverter_mysql_ops(&runtime->diverts);
    enum rc rc = reader_init(&runtime->reader, &runtime->lane, &source, os_random_u64(), err);

    if (rc == RC_OK)
        rc = deleter_init(&runtime->deleter, &runtime->lane, &deletes, &diverts, os_random_u64(),
                          err);
    return rc;
}

static enum rc init_engines(struct lane_runtime *runtime, struct relay *relay, size_t number,
                            struct err *err)
{
    const struct role_env *env = relay->env;
    const struct diverter_ops diverts = diverter_mysql_ops(&runtime->diverts);
    const struct broker broker = broker_kafka_ops(&runtime->broker);
    enum rc rc = sender_init(&runtime->sender, &runtime->lane, &broker, os_random_u64(), err);

    if (rc == RC_OK && runtime->lane.is_stream) {
        const struct stream_ids ids = {
            .own = choose_server_id(env->settings, runtime->own->table, number),
            .together = choose_shared_id(env),
            .shared = relay->has_shared ? &relay->shared : NULL,
        };

        return stream_lane_open(&runtime->streams, &runtime->lane, env->instance, &runtime->origin,
                                &ids, &diverts, env->stop, err);
    }
    return rc == RC_OK ? init_table_engines(runtime, err) : rc;
}

static void close_runtime(struct lane_runtime *runtime)
{
    if (!runtime)
        return;
    stream_lane_close(&runtime->streams);
    broker_kafka_close(&runtime->broker);
    diverter_mysql_close(&runtime->diverts);
    deleter_mysql_close(&runtime->deletes);
    source_mysql_close(&runtime->source);
    origin_mysql_done(&runtime->origin);
    deleter_done(&runtime->deleter);
    sender_done(&runtime->sender);
    reader_done(&runtime->reader);
    for (size_t i = 0; i < LANE_STEPS; i++)
        loop_done(&runtime->loops[i]);
    lane_done(&runtime->lane);
    takeover_done(&runtime->takeover);
    free(runtime);
}

static enum rc open_runtime(struct relay *relay, const struct lane_settings *own, struct err *err)
{
    struct lane_runtime *runtime = calloc(1, sizeof(*runtime));
    size_t number = relay->count;
    enum rc rc;

    if (!runtime)
        return err_fail(err, RC_FATAL, 0, "out of memory for lane %s", own->name);
    for (size_t i = 0; i < LANE_STEPS; i++)
        runtime->loops[i].wakeup.fd = -1;
    origin_mysql_init(&runtime->origin, report_origin_lost, runtime);
    relay->runtimes[relay->count] = runtime;
    runtime->own = own;
    relay->tables[relay->count] = own->table;
    relay->sources[relay->count] = own->source;
    rc = lane_init(&runtime->lane, own, relay->env->settings,
                   relay_metrics_of(relay->count, own->name), err);
    relay->count++;
    if (transaction_kafka_wanted(own)) {
        takeover_init(&runtime->takeover);
        runtime->lane.takeover = &runtime->takeover;
    }
    runtime->lane.wake = wake_step;
    runtime->lane.wake_ctx = runtime;
    runtime->lane.time_ms = read_clock;
    if (rc == RC_OK)
        rc = init_loops(runtime, relay->env->stop, err);
    if (rc == RC_OK)
        rc = open_adapters(runtime, relay, err);
    if (rc == RC_OK)
        rc = init_engines(runtime, relay, number, err);
    return rc;
}

static enum rc check_lane(const struct lane_settings *lane, struct err *err)
{
    bool is_stream = strcmp(lane->source, LANE_SOURCE_BINLOG) == 0;
    struct topic_rule rule;
    enum rc rc = topic_rule_init(&rule, lane->topic, lane->topic_regex, err);

    topic_rule_done(&rule);
    if (rc != RC_OK) {
        err_wrap(err, "lane.%s", lane->name);
        return rc;
    }
    if (transaction_kafka_wanted(lane) && !is_stream)
        return err_fail(err, RC_REJECT, 0,
                        "lane.%s.exactly_once = yes needs lane.%s.source = " LANE_SOURCE_BINLOG
                        ": a lane that polls has no position that could be kept in Kafka",
                        lane->name, lane->name);
    if (transaction_kafka_wanted(lane) && lane->keep_ids_max > 0)
        return err_fail(err, RC_REJECT, 0,
                        "lane.%s.exactly_once = yes needs lane.%s.keep_ids_max = 0: the position "
                        "in Kafka has no ids of published rows, so a kill would leave rows behind",
                        lane->name, lane->name);
    if (lane->columns[0] && !is_stream)
        return err_fail(err, RC_REJECT, 0,
                        "lane.%s.columns needs lane.%s.source = " LANE_SOURCE_BINLOG
                        ": a lane that polls needs the columns of the outbox",
                        lane->name, lane->name);
    if (lane->header_columns[0] && !is_stream)
        return err_fail(err, RC_REJECT, 0,
                        "lane.%s.header_columns needs lane.%s.source = " LANE_SOURCE_BINLOG
                        ": a lane that polls reads the columns of the outbox alone; its headers "
                        "are those of the column headers",
                        lane->name, lane->name);
    if (strcmp(lane->empty_payload, LANE_EMPTY_VALUE) != 0 && !is_stream)
        return err_fail(err, RC_REJECT, 0,
                        "lane.%s.empty_payload needs lane.%s.source = " LANE_SOURCE_BINLOG
                        ": a lane that polls publishes the payload as it is",
                        lane->name, lane->name);
    return RC_OK;
}

static enum rc check_settings(const struct settings *settings, struct err *err)
{
    enum rc rc = RC_OK;

    if (settings->relay.send_timeout_ms >= settings->relay.lease_ms)
        return err_fail(err, RC_REJECT, 0,
                        "relay.send_timeout_ms = %" PRId64 " has to be less than relay.lease_ms "
                        "= %" PRId64 ": a relay that lost a lane must not send its rows",
                        settings->relay.send_timeout_ms, settings->relay.lease_ms);
    for (size_t i = 0; i < settings->lane_count && rc == RC_OK; i++)
        rc = check_lane(&settings->lanes[i], err);
    return rc == RC_OK ? broker_kafka_check(settings, err) : rc;
}

_Static_assert(SETTINGS_LANES_MAX <= RELAY_LANES_MAX, "each lane has its metrics");

static enum rc open_runtimes(struct relay *relay, struct err *err)
{
    const struct settings *settings = relay->env->settings;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < settings->lane_count && rc == RC_OK; i++)
        rc = open_runtime(relay, &settings->lanes[i], err);
    return rc;
}

static void relay_close(void *role)
{
    struct relay *relay = role;

    if (!relay)
        return;
    for (size_t i = 0; i < relay->count; i++)
        close_runtime(relay->runtimes[i]);
    writers_mysql_done(&relay->writers);
    lease_mysql_close(&relay->store);
    leases_done(&relay->leases);
    loop_done(&relay->renewer);
    probe_kafka_close(&relay->probe);
    loop_done(&relay->prober);
    stream_wakeup_close(&relay->wakeup);
    loop_done(&relay->waker);
    shared_stream_done(&relay->shared);
    loop_done(&relay->sharer);
    free(relay);
}

static void wake_sharer(void *ctx)
{
    loop_wake(ctx);
}

/* A lane that is alone needs no shared stream. */
static enum rc open_shared(struct relay *relay, struct err *err)
{
    const struct settings *settings = relay->env->settings;
    size_t count = 0;
    enum rc rc;

    for (size_t i = 0; i < settings->lane_count; i++)
        count += strcmp(settings->lanes[i].source, LANE_SOURCE_BINLOG) == 0;
    if (count < 2)
        return RC_OK;
    rc = shared_stream_init(&relay->shared, relay->env->stop, err);
    if (rc != RC_OK)
        return rc;
    relay->has_shared = true;
    relay->shared.wake = wake_sharer;
    relay->shared.wake_ctx = &relay->sharer;
    return loop_init(&relay->sharer, "relay-share", shared_stream_step, &relay->shared,
                     relay->env->stop, err);
}

static void note_write(void *ctx, size_t table)
{
    const struct relay *relay = ctx;

    lane_note_write(&relay->runtimes[table]->lane);
}

static void set_watched(void *ctx, size_t table, bool connected)
{
    const struct relay *relay = ctx;

    lane_set_watched(&relay->runtimes[table]->lane, connected);
}

static enum rc open_wakeup(struct relay *relay, struct err *err)
{
    const struct role_env *env = relay->env;
    enum rc rc;

    relay->has_wakeup = strcmp(env->settings->relay.wakeup, RELAY_WAKEUP_BINLOG) == 0;
    if (!relay->has_wakeup)
        return RC_OK;
    rc = stream_wakeup_open(&relay->wakeup, env->settings, relay->tables, relay->count,
                            env->instance, note_write, set_watched, relay, err);
    return rc == RC_OK ? loop_init(&relay->waker, "relay-wakeup", stream_wakeup_step,
                                   &relay->wakeup, env->stop, err)
                       : rc;
}

/* Relays that read a lane by another source do not share the lanes with this one: of them only one
 * kind may hold the lane. */
static void name_group(struct relay *relay)
{
    char texts[RELAY_LANES_MAX][2 * SETTING_NAME_SIZE];
    const char *lanes[RELAY_LANES_MAX];

    for (size_t i = 0; i < relay->count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s%s", relay->tables[i],
                 relay->runtimes[i]->lane.is_stream ? "@" LANE_SOURCE_BINLOG : "");
        lanes[i] = texts[i];
    }
    leases_group(relay->group, lanes, relay->count);
}

static enum rc open_leases(struct relay *relay, struct err *err)
{
    const struct role_env *env = relay->env;
    const struct lease_claim claim = {
        .owner = env->instance,
        .role = "relay",
        .group = relay->group,
        .weight = 1,
        .lanes = relay->tables,
        .lane_count = relay->count,
        .sources = relay->sources,
    };
    struct lease_store store;
    enum rc rc;

    name_group(relay);
    rc = lease_mysql_open(&relay->store, &claim, env->settings, err);
    if (rc != RC_OK)
        return rc;
    store = lease_mysql_ops(&relay->store);
    leases_init(&relay->leases, "relay", "lane", env->instance, &store,
                env->settings->relay.lease_ms, os_random_u64());
    for (size_t i = 0; i < relay->count; i++)
        leases_add(&relay->leases, &relay->runtimes[i]->lane.lease);
    return loop_init(&relay->renewer, "relay-lease", leases_step, &relay->leases, env->stop, err);
}

static int64_t probe_step(void *ctx, int64_t now_ms)
{
    struct relay *relay = ctx;
    int64_t wait_ms = probe_kafka_step(&relay->probe, now_ms);

    if (relay->probe.failed)
        stop_fail(relay->env->stop);
    return wait_ms;
}

static enum rc relay_open(void **role, const struct role_env *env, struct err *err)
{
    struct relay *relay;
    enum rc rc = check_settings(env->settings, err);

    if (rc != RC_OK)
        return rc;
    relay = calloc(1, sizeof(*relay));
    if (!relay)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    relay->env = env;
    relay->renewer.wakeup.fd = -1;
    relay->prober.wakeup.fd = -1;
    relay->waker.wakeup.fd = -1;
    relay->sharer.wakeup.fd = -1;
    probe_kafka_open(&relay->probe, env->settings);
    writers_mysql_init(&relay->writers);
    rc = open_shared(relay, err);
    if (rc == RC_OK)
        rc = open_runtimes(relay, err);
    if (rc == RC_OK)
        rc = open_leases(relay, err);
    if (rc == RC_OK)
        rc = loop_init(&relay->prober, "relay-kafka", probe_step, relay, env->stop, err);
    if (rc == RC_OK)
        rc = open_wakeup(relay, err);
    if (rc == RC_OK)
        *role = relay;
    else
        relay_close(relay);
    return rc;
}

static void join_threads(struct relay *relay)
{
    if (relay->has_wakeup)
        stream_wakeup_stop(&relay->wakeup);
    if (relay->has_shared)
        shared_stream_stop(&relay->shared);
    for (size_t i = 0; i < relay->count; i++)
        stream_lane_stop(&relay->runtimes[i]->streams);
    for (size_t i = 0; i < relay->count; i++) {
        for (size_t step = 0; step < LANE_STEPS; step++)
            loop_join(&relay->runtimes[i]->loops[step]);
        stream_lane_join(&relay->runtimes[i]->streams);
    }
    loop_join(&relay->renewer);
    loop_join(&relay->prober);
    loop_join(&relay->waker);
    loop_join(&relay->sharer);
}

static enum rc relay_start(void *role, struct err *err)
{
    struct relay *relay = role;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < relay->count; i++) {
        for (size_t step = 0; step < LANE_STEPS && rc == RC_OK; step++)
            rc = loop_start(&relay->runtimes[i]->loops[step], err);
        if (rc == RC_OK && relay->runtimes[i]->lane.is_stream)
            rc = stream_lane_start(&relay->runtimes[i]->streams, err);
    }
    if (rc == RC_OK)
        rc = loop_start(&relay->renewer, err);
    if (rc == RC_OK)
        rc = loop_start(&relay->prober, err);
    if (rc == RC_OK && relay->has_wakeup)
        rc = loop_start(&relay->waker, err);
    if (rc == RC_OK && relay->has_shared)
        rc = loop_start(&relay->sharer, err);
    if (rc != RC_OK) {
        stop_request(relay->env->stop);
        join_threads(relay);
    }
    return rc;
}

/* say: health_bad() or health_warn(). */
static void add_condition_health(struct health *health, const char *lane, const char *what,
                                 struct condition *condition,
                                 void (*say)(struct health *, const char *, const char *, ...))
{
    char dependency[SETTING_NAME_SIZE + 32];
    struct err err;

    if (!condition_read(condition, &err))
        return;
    snprintf(dependency, sizeof(dependency), "%s %s", lane, what);
    say(health, dependency, "%s", err.text);
}

static void add_stream_health(struct lane_runtime *runtime, struct health *health)
{
    struct stream_lane *streams = &runtime->streams;
    const char *name = runtime->lane.name;

    add_condition_health(health, name, "removing", &streams->cleaner.removing, health_bad);
    add_condition_health(health, name, "log", &streams->keeper.log_kept, health_warn);
    add_condition_health(health, name, "unpublished rows", &streams->cleaner.unpublished,
                         health_warn);
    add_condition_health(health, name, "from table", &streams->fallback.going, health_warn);
    add_condition_health(health, name, "kept ids", &streams->cleaner.kept_ids, health_warn);
    add_condition_health(health, name, "partitions", &streams->cleaner.dropping, health_warn);
}

/* The metric oldest_age is 0 while another process holds the lane, which then reports its health.
 */
static void add_lane_health(const struct relay *relay, struct lane_runtime *runtime,
                            struct health *health)
{
    struct lane *lane = &runtime->lane;
    int64_t age_ms = metric_value(&lane->metrics->oldest_age);
    int64_t stale_ms = relay->env->settings->admin.stale_ms;
    char dependency[SETTING_NAME_SIZE + 32];

    add_condition_health(health, lane->name, "reading", &lane->reading, health_bad);
    add_condition_health(health, lane->name, "sending", &lane->sending, health_bad);
    add_condition_health(health, lane->name, lane->is_stream ? "position" : "deleting",
                         &lane->deleting, health_bad);
    add_condition_health(health, lane->name, "diverting", &lane->diverting, health_bad);
    add_condition_health(health, lane->name, "diverted keys", &lane->lane_delivery, health_bad);
    if (lane->is_stream)
        add_stream_health(runtime, health);
    snprintf(dependency, sizeof(dependency), "%s source", lane->name);
    if (atomic_load(&lane->lease.other_source))
        health_bad(health, dependency,
                   "`tallybox relay source` has changed the source of the lane to %s: start this "
                   "relay with lane.%s.source = %s",
                   lane->is_stream ? LANE_SOURCE_TABLE : LANE_SOURCE_BINLOG, lane->name,
                   lane->is_stream ? LANE_SOURCE_TABLE : LANE_SOURCE_BINLOG);
    else
        health_good(health, dependency);
    snprintf(dependency, sizeof(dependency), "%s age", lane->name);
    if (age_ms > stale_ms)
        health_bad(health, dependency,
                   "the oldest row waits for %" PRId64 " ms, admin.stale_ms is %" PRId64, age_ms,
                   stale_ms);
    else
        health_good(health, dependency);
}

static void relay_health(void *role, struct health *health)
{
    struct relay *relay = role;
    struct err err;

    if (probe_kafka_failing(&relay->probe, &err))
        health_bad(health, "kafka", "%s", err.text);
    else
        health_good(health, "kafka");
    if (leases_failing(&relay->leases, &err))
        health_bad(health, "leases", "%s", err.text);
    else
        health_good(health, "leases");
    if (relay->has_wakeup && stream_wakeup_failing(&relay->wakeup, &err))
        health_warn(health, "wakeup",
                    "no binary log comes, so the lanes are polled as without it: %s", err.text);
    else if (relay->has_wakeup)
        health_good(health, "wakeup");
    for (size_t i = 0; i < relay->count; i++)
        add_lane_health(relay, relay->runtimes[i], health);
}

/* After the threads have ended, runs the steps of all lanes on this thread until no row is in
 * flight or the time is up, and releases the leases. */
static void drain_lanes(struct relay *relay)
{
    int64_t now_ms = os_now_ms();
    int64_t until_ms = now_ms + relay->env->settings->admin.stop_timeout_ms /
                                    STOP_PART_DENOMINATOR * STOP_PART_NUMERATOR;
    struct stop pause;

    if (stop_init(&pause, NULL) != RC_OK)
        return;
    leases_drain(&relay->leases, now_ms);
    while (now_ms < until_ms && !leases_drained(&relay->leases)) {
        for (size_t i = 0; i < relay->count; i++) {
            const struct loop *loops = relay->runtimes[i]->loops;

            for (size_t step = 0; step < LANE_STEPS; step++)
                loops[step].step(loops[step].engine, now_ms);
        }
        stop_wait(&pause, STOP_PAUSE_MS);
        now_ms = os_now_ms();
    }
    stop_done(&pause);
    if (!leases_drained(&relay->leases))
        log_event(LOG_WARN, "stopped_early",
                  "text=\"some rows are not acknowledged or not deleted; they will be published "
                  "again\"");
    leases_release(&relay->leases);
}

static void relay_join(void *role)
{
    struct relay *relay = role;

    join_threads(relay);
    drain_lanes(relay);
}

static void register_metrics(void)
{
    relay_metrics_register();
    stream_wakeup_register();
}

const struct role relay_role = {
    .name = "relay",
    .about = "Publishes the rows of outbox tables to Kafka, in the order of each key, and deletes "
             "them once the broker has acknowledged them. Several relays share the lanes. With an "
             "ACTION it is an operator's command for a lane; `tallybox relay ACTION --help` "
             "explains it.",
    .register_metrics = register_metrics,
    .open = relay_open,
    .start = relay_start,
    .health = relay_health,
    .join = relay_join,
    .close = relay_close,
    .sections = "mysql,kafka,relay," SETTINGS_LANE,
    .beats = true,
};
