/* SPDX-License-Identifier: MIT */
#include "producer/serve_command.h"

#include "common/db/db.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/os.h"
#include "consumer/dead/dead_admin.h"
#include "outbox/lanes.h"
#include "outbox/retry/handler.h"
#include "producer/dead/dead_worker.h"
#include "producer/http/api.h"
#include "producer/lane_watch.h"
#include "producer/producer_mysql.h"
#include "producer/remark/page_cache.h"
#include "producer/remark/recommended.h"
#include "producer/remark/remark_mysql.h"
#include "producer/remark/remark_worker.h"
#include "producer/remark/removal_mysql.h"
#include "producer/remark/remover.h"
#include "producer/remark/totals_reader.h"
#include "producer/serve_metrics.h"
#include "producer/serve_ranking.h"
#include "producer/serve_tries.h"
#include "producer/task/task_intake.h"
#include "producer/vote/committer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BREAKER_BASE_MS 100
#define BREAKER_CAP_MS 2000
#define DRAIN_LOOK_MS 5
/* Every worker uses the database more often than this. */
#define SILENT_MS 5000

/* One shard of the queues: four workers, each with a connection. */
struct shard {
    struct producer_mysql *vote_store;
    struct committer *committer;
    struct loop commit_loop;
    struct producer_mysql *totals_store;
    struct totals_reader *totals_reader;
    struct loop totals_loop;
    struct remark_mysql *remark_store; /* NULL: api.lists is off, as remark_worker */
    struct remark_worker *remark_worker;
    struct loop remark_loop;
    struct producer_mysql *task_store;
    struct task_intake *intake;
    struct loop task_loop;
};

struct serve {
    struct role_env env;
    struct retry_handlers handlers; /* that check a submitted task */
    struct stop stop; /* of the threads of this role: requested when the queues are empty */
    struct queue *votes;
    struct queue *reads;
    struct queue *remarks;
    struct queue *tasks;
    struct queue *removals;
    struct queue *dead;
    struct page_cache *pages;
    struct serve_ranking *ranking; /* NULL: api.lists is off */
    bool has_votes;                /* api.votes is on; otherwise a shard has a task intake only */
    bool lists;                    /* api.lists is on, and has_votes */
    bool has_dead; /* api.operate is on, and has_votes: dead records are those of votes */
    struct serve_tries *tries; /* NULL: no task is tried first */
    struct shard *shards;
    size_t shard_count;
    struct loop expire_loop;
    struct db *watch_db;
    struct lane_watch lane_watch;
    struct loop watch_loop;
    struct producer_mysql *close_store; /* NULL: api.lists is off, as the remover */
    struct removal_mysql *removal_store;
    struct remover *remover;
    struct loop removal_loop;
    struct dead_admin *dead_admin; /* NULL: has_dead is false, as dead_worker */
    struct dead_worker *dead_worker;
    struct loop dead_loop;
    struct api *api;
};

static void wake_committer(void *ctx, size_t shard)
{
    struct serve *serve = ctx;

    if (serve->has_votes)
        loop_wake(&serve->shards[shard].commit_loop);
}

static void wake_totals_reader(void *ctx, size_t shard)
{
    struct serve *serve = ctx;

    if (serve->has_votes)
        loop_wake(&serve->shards[shard].totals_loop);
}

static void wake_remark_worker(void *ctx, size_t shard)
{
    struct serve *serve = ctx;

    if (serve->lists)
        loop_wake(&serve->shards[shard].remark_loop);
}

static void wake_task_intake(void *ctx, size_t shard)
{
    struct serve *serve = ctx;

    loop_wake(&serve->shards[shard].task_loop);
}

static void wake_remover(void *ctx, size_t shard)
{
    struct serve *serve = ctx;

    (void)shard;
    if (serve->lists)
        loop_wake(&serve->removal_loop);
}

static void wake_dead_worker(void *ctx, size_t shard)
{
    struct serve *serve = ctx;

    (void)shard;
    if (serve->has_dead)
        loop_wake(&serve->dead_loop);
}

static void announce_item(void *ctx, int64_t item_id)
{
    struct serve *serve = ctx;

    recommended_written(serve_ranking_lists(serve->ranking), item_id, os_now_ms());
}

static int64_t min_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_ms(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t expire_step(void *ctx, int64_t now_ms)
{
    struct serve *serve = ctx;
    int64_t votes_ms = queue_expire(serve->votes, now_ms);
    int64_t reads_ms = queue_expire(serve->reads, now_ms);
    int64_t remarks_ms = queue_expire(serve->remarks, now_ms);
    int64_t tasks_ms = queue_expire(serve->tasks, now_ms);
    int64_t removals_ms = queue_expire(serve->removals, now_ms);
    int64_t dead_ms = queue_expire(serve->dead, now_ms);

    if (serve->tries)
        dead_ms = min_ms(dead_ms, queue_expire(serve_tries_queue(serve->tries), now_ms));
    return min_ms(min_ms(min_ms(votes_ms, reads_ms), min_ms(remarks_ms, tasks_ms)),
                  min_ms(removals_ms, dead_ms));
}

static enum rc open_queues(struct serve *serve, struct err *err)
{
    struct queue_config config = {
        .shards = serve->shard_count,
        .weight_max = (size_t)serve->env.settings->api.queue_votes_max,
        .timeout_ms = serve->env.settings->api.request_timeout_ms,
        .breaker_base_ms = BREAKER_BASE_MS,
        .breaker_cap_ms = BREAKER_CAP_MS,
        .wake = wake_committer,
        .wake_ctx = serve,
        .waiting = &serve_queue_votes,
        .name = "votes",
        .dep = "mysql",
    };
    enum rc rc = queue_open(&serve->votes, &config, err);

    config.wake = wake_totals_reader;
    config.waiting = &serve_queue_reads;
    config.name = "totals";
    if (rc == RC_OK)
        rc = queue_open(&serve->reads, &config, err);
    config.wake = wake_remark_worker;
    config.waiting = &serve_queue_remarks;
    config.name = "remarks";
    config.dep = "sink";
    if (rc == RC_OK)
        rc = queue_open(&serve->remarks, &config, err);
    config.dep = "mysql";
    config.wake = wake_task_intake;
    config.waiting = &serve_queue_tasks;
    config.name = "tasks";
    if (rc == RC_OK)
        rc = queue_open(&serve->tasks, &config, err);
    config.dep = "sink";
    config.dep_more = "mysql";
    config.shards = 1;
    config.wake = wake_remover;
    config.waiting = &serve_queue_removals;
    config.name = "removals";
    if (rc == RC_OK)
        rc = queue_open(&serve->removals, &config, err);
    config.wake = wake_dead_worker;
    config.waiting = &serve_queue_dead;
    config.name = "dead records";
    return rc == RC_OK ? queue_open(&serve->dead, &config, err) : rc;
}

static enum rc make_committer(struct serve *serve, size_t number, struct err *err)
{
    const struct settings *settings = serve->env.settings;
    struct shard *shard = &serve->shards[number];
    struct committer_config config = {
        .queue = serve->votes,
        .shard = number,
        .batch_votes_max = (size_t)settings->api.batch_votes_max,
        .lane_count = (size_t)settings->api.lane_count,
        .rng_bytes = os_random,
        .rng = os_random_u64,
        .clock_us = os_now_us,
        .stop = serve->env.stop,
    };
    enum rc rc =
        producer_mysql_open(&shard->vote_store, &settings->mysql, settings->api.request_timeout_ms,
                            settings->api.lane_count, err);

    if (rc != RC_OK)
        return rc;
    config.store = producer_mysql_votes(shard->vote_store);
    rc = committer_open(&shard->committer, &config, err);
    if (rc != RC_OK)
        return rc;
    return loop_init(&shard->commit_loop, "commit", committer_step, shard->committer, &serve->stop,
                     err);
}

static enum rc make_totals_reader(struct serve *serve, size_t number, struct err *err)
{
    struct shard *shard = &serve->shards[number];
    struct totals_reader_config config = {
        .queue = serve->reads,
        .shard = number,
        .clock_ms = os_now_ms,
        .rng = os_random_u64,
        .stop = serve->env.stop,
    };
    enum rc rc = producer_mysql_open(&shard->totals_store, &serve->env.settings->mysql, 0, 0, err);

    if (rc != RC_OK)
        return rc;
    config.store = producer_mysql_totals(shard->totals_store);
    rc = totals_reader_open(&shard->totals_reader, &config, err);
    if (rc != RC_OK)
        return rc;
    return loop_init(&shard->totals_loop, "totals", totals_reader_step, shard->totals_reader,
                     &serve->stop, err);
}

static enum rc make_remark_worker(struct serve *serve, size_t number, struct err *err)
{
    struct shard *shard = &serve->shards[number];
    struct remark_worker_config config = {
        .queue = serve->remarks,
        .shard = number,
        .pages = serve->pages,
        .clock_ms = os_now_ms,
        .rng = os_random_u64,
        .stop = serve->env.stop,
    };
    enum rc rc = remark_mysql_open(&shard->remark_store, &serve->env.settings->sink, err);

    if (rc != RC_OK)
        return rc;
    config.store = remark_mysql_store(shard->remark_store);
    rc = remark_worker_open(&shard->remark_worker, &config, err);
    if (rc != RC_OK)
        return rc;
    return loop_init(&shard->remark_loop, "remarks", remark_worker_step, shard->remark_worker,
                     &serve->stop, err);
}

static enum rc make_task_intake(struct serve *serve, size_t number, struct err *err)
{
    struct shard *shard = &serve->shards[number];
    struct task_intake_config config = {
        .queue = serve->tasks,
        .shard = number,
        .handlers = &serve->handlers,
        .clock_ms = os_now_ms,
        .rng = os_random_u64,
        .stop = serve->env.stop,
    };
    enum rc rc = producer_mysql_open(&shard->task_store, &serve->env.settings->mysql, 0, 0, err);

    if (rc != RC_OK)
        return rc;
    config.store = producer_mysql_tasks(shard->task_store);
    rc = task_intake_open(&shard->intake, &config, err);
    if (rc != RC_OK)
        return rc;
    return loop_init(&shard->task_loop, "task", task_intake_step, shard->intake, &serve->stop, err);
}

static enum rc make_remover(struct serve *serve, struct err *err)
{
    const struct settings *settings = serve->env.settings;
    struct remover_config config = {
        .queue = serve->removals,
        .close = {.lane_count = (size_t)settings->api.lane_count, .rng_bytes = os_random},
        .pages = serve->pages,
        .rng = os_random_u64,
        .stop = serve->env.stop,
    };
    enum rc rc =
        producer_mysql_open(&serve->close_store, &settings->mysql, settings->api.request_timeout_ms,
                            settings->api.lane_count, err);

    if (rc == RC_OK)
        rc = removal_mysql_open(&serve->removal_store, &settings->sink,
                                producer_mysql_db(serve->close_store), err);
    if (rc != RC_OK)
        return rc;
    config.close.store = producer_mysql_votes(serve->close_store);
    config.store = removal_mysql_store(serve->removal_store);
    for (enum removal_kind kind = 0; kind < REMOVAL_KINDS; kind++)
        config.marks[kind] = removal_mysql_marks(serve->removal_store, kind);
    rc = remover_open(&serve->remover, &config, err);
    if (rc != RC_OK)
        return rc;
    return loop_init(&serve->removal_loop, "removal", remover_step, serve->remover, &serve->stop,
                     err);
}

static enum rc make_dead_worker(struct serve *serve, struct err *err)
{
    struct dead_worker_config config = {
        .queue = serve->dead,
        .rng = os_random_u64,
        .stop = serve->env.stop,
    };
    enum rc rc = dead_admin_open(&serve->dead_admin, serve->env.settings, err);

    if (rc != RC_OK)
        return rc;
    config.ops = dead_admin_ops(serve->dead_admin);
    rc = dead_worker_open(&serve->dead_worker, &config, err);
    if (rc != RC_OK)
        return rc;
    return loop_init(&serve->dead_loop, "dead", dead_worker_step, serve->dead_worker, &serve->stop,
                     err);
}

static enum rc read_lanes(void *ctx, struct lanes *lanes, bool served[LANES_MAX], struct err *err)
{
    struct serve *serve = ctx;
    enum rc rc = lanes_read(serve->watch_db, lanes, err);

    return rc == RC_OK ? lanes_served(serve->watch_db, 0, served, err) : rc;
}

static enum rc make_lane_watch(struct serve *serve, struct err *err)
{
    const struct settings *settings = serve->env.settings;
    const struct lane_watch_ops ops = {serve, read_lanes};
    enum rc rc = db_open(&serve->watch_db, &settings->mysql, err);

    if (rc != RC_OK)
        return rc;
    lane_watch_init(&serve->lane_watch, &ops, settings->api.lane_count, settings->relay.lease_ms);
    return loop_init(&serve->watch_loop, "lane-watch", lane_watch_step, &serve->lane_watch,
                     &serve->stop, err);
}

static void serve_close(void *role)
{
    struct serve *serve = role;

    for (size_t i = 0; serve->shards && i < serve->shard_count; i++) {
        struct shard *shard = &serve->shards[i];

        loop_done(&shard->task_loop);
        task_intake_close(shard->intake);
        producer_mysql_close(shard->task_store);
        loop_done(&shard->remark_loop);
        remark_worker_close(shard->remark_worker);
        remark_mysql_close(shard->remark_store);
        loop_done(&shard->totals_loop);
        totals_reader_close(shard->totals_reader);
        producer_mysql_close(shard->totals_store);
        loop_done(&shard->commit_loop);
        committer_close(shard->committer);
        producer_mysql_close(shard->vote_store);
    }
    serve_tries_close(serve->tries);
    loop_done(&serve->removal_loop);
    remover_close(serve->remover);
    removal_mysql_close(serve->removal_store);
    producer_mysql_close(serve->close_store);
    loop_done(&serve->dead_loop);
    dead_worker_close(serve->dead_worker);
    dead_admin_close(serve->dead_admin);
    loop_done(&serve->watch_loop);
    lane_watch_done(&serve->lane_watch);
    db_close(serve->watch_db);
    loop_done(&serve->expire_loop);
    queue_free(serve->dead);
    queue_free(serve->removals);
    queue_free(serve->tasks);
    queue_free(serve->remarks);
    queue_free(serve->reads);
    queue_free(serve->votes);
    page_cache_free(serve->pages);
    serve_ranking_close(serve->ranking);
    free(serve->shards);
    stop_done(&serve->stop);
    free(serve);
}

static enum rc open_pages(struct serve *serve, struct err *err)
{
    const struct settings *settings = serve->env.settings;
    const struct page_cache_config config = {
        .bytes_max = (size_t)settings->api.page_cache_bytes_max,
        .fresh_ms = settings->api.page_cache_ms,
        .stale_ms = settings->api.page_stale_ms,
        .hash_start = os_random_u64(),
        .dropped = announce_item,
        .dropped_ctx = serve,
    };

    return serve->lists ? page_cache_open(&serve->pages, &config, err) : RC_OK;
}

static enum rc open_parts(struct serve *serve, struct err *err)
{
    enum rc rc = stop_init(&serve->stop, err);

    /* The API opens after the gate, which may wait for the database. */
    if (rc == RC_OK)
        rc = api_check(serve->env.settings, err);
    serve->shards = calloc(serve->shard_count, sizeof(*serve->shards));
    if (rc == RC_OK && !serve->shards)
        rc = err_fail(err, RC_FATAL, 0, "no memory for %zu committers", serve->shard_count);
    if (rc == RC_OK)
        rc = open_queues(serve, err);
    if (rc == RC_OK)
        rc = open_pages(serve, err);
    if (rc == RC_OK)
        rc = loop_init(&serve->expire_loop, "expire", expire_step, serve, &serve->stop, err);
    if (rc == RC_OK && serve->has_votes)
        rc = make_lane_watch(serve, err);
    if (rc == RC_OK && serve->lists)
        rc = make_remover(serve, err);
    if (rc == RC_OK && serve->lists)
        rc = serve_ranking_open(&serve->ranking, &serve->env, &serve->stop, err);
    if (rc == RC_OK && serve->has_dead)
        rc = make_dead_worker(serve, err);
    if (rc == RC_OK)
        rc = serve_tries_open(&serve->tries, &serve->env, &serve->handlers, &serve->stop, err);
    for (size_t i = 0; rc == RC_OK && i < serve->shard_count; i++) {
        if (serve->has_votes)
            rc = make_committer(serve, i, err);
        if (rc == RC_OK && serve->has_votes)
            rc = make_totals_reader(serve, i, err);
        if (rc == RC_OK && serve->lists)
            rc = make_remark_worker(serve, i, err);
        if (rc == RC_OK)
            rc = make_task_intake(serve, i, err);
    }
    return rc;
}

static enum rc serve_open(void **role, const struct role_env *env, struct err *err)
{
    struct serve *serve = calloc(1, sizeof(*serve));
    enum rc rc;

    if (!serve)
        return err_fail(err, RC_FATAL, 0, "no memory for the API");
    serve->env = *env;
    serve->handlers = *env->handlers;
    serve->handlers.settings = env->settings;
    serve->handlers.http_hosts = env->settings->retry.http_hosts;
    serve->shard_count = (size_t)env->settings->api.committers;
    serve->has_votes = settings_serve_votes(env->settings);
    serve->lists = serve->has_votes && strcmp(env->settings->api.lists, "on") == 0;
    serve->has_dead = serve->has_votes && strcmp(env->settings->api.operate, "on") == 0;
    rc = open_parts(serve, err);
    if (rc != RC_OK)
        serve_close(serve);
    else
        *role = serve;
    return rc;
}

/* Closing the workers answers the requests that they still have: every request must be answered
 * before the HTTP server closes. */
static void join_threads(struct serve *serve)
{
    int64_t stop_ms = serve->env.settings->admin.stop_timeout_ms;
    int64_t until_ms = stop_until_ms(serve->env.stop, stop_ms / 8 * 7);

    stop_request(&serve->stop);
    serve_tries_join(serve->tries, until_ms);
    if (serve->lists)
        serve_ranking_interrupt(serve->ranking);
    for (size_t i = 0; i < serve->shard_count; i++) {
        struct shard *shard = &serve->shards[i];

        loop_join(&shard->commit_loop);
        loop_join(&shard->totals_loop);
        loop_join(&shard->remark_loop);
        loop_join(&shard->task_loop);
        remark_worker_close(shard->remark_worker);
        shard->remark_worker = NULL;
        committer_close(shard->committer);
        shard->committer = NULL;
        totals_reader_close(shard->totals_reader);
        shard->totals_reader = NULL;
        task_intake_close(shard->intake);
        shard->intake = NULL;
    }
    loop_join(&serve->removal_loop);
    remover_close(serve->remover);
    serve->remover = NULL;
    loop_join(&serve->dead_loop);
    dead_worker_close(serve->dead_worker);
    serve->dead_worker = NULL;
    serve_ranking_join(serve->ranking);
    loop_join(&serve->watch_loop);
    loop_join(&serve->expire_loop);
}

static enum rc serve_start(void *role, struct err *err)
{
    struct serve *serve = role;
    struct api_config config = {
        .settings = serve->env.settings,
        .votes = serve->votes,
        .reads = serve->reads,
        .remarks = serve->remarks,
        .pages = serve->pages,
        .removals = serve->removals,
        .recommended = serve->ranking ? serve_ranking_lists(serve->ranking) : NULL,
        .tasks = serve->tasks,
        .dead = serve->dead,
        .tries = serve->tries ? serve_tries_queue(serve->tries) : NULL,
        .handlers = &serve->handlers,
        .shards = serve->shard_count,
    };
    enum rc rc = loop_start(&serve->expire_loop, err);

    if (rc == RC_OK && serve->has_votes)
        rc = loop_start(&serve->watch_loop, err);
    if (rc == RC_OK && serve->lists)
        rc = loop_start(&serve->removal_loop, err);
    if (rc == RC_OK && serve->lists)
        rc = serve_ranking_start(serve->ranking, err);
    if (rc == RC_OK && serve->has_dead)
        rc = loop_start(&serve->dead_loop, err);
    if (rc == RC_OK && serve->tries)
        rc = serve_tries_start(serve->tries, err);
    for (size_t i = 0; rc == RC_OK && i < serve->shard_count; i++) {
        if (serve->has_votes)
            rc = loop_start(&serve->shards[i].commit_loop, err);
        if (rc == RC_OK && serve->has_votes)
            rc = loop_start(&serve->shards[i].totals_loop, err);
        if (rc == RC_OK && serve->lists)
            rc = loop_start(&serve->shards[i].remark_loop, err);
        if (rc == RC_OK)
            rc = loop_start(&serve->shards[i].task_loop, err);
    }
    if (rc == RC_OK)
        rc = api_open(&serve->api, &config, err);
    if (rc != RC_OK)
        join_threads(serve);
    else
        log_event(LOG_INFO, "api_listening", "listen=%s port=%d scheme=%s committers=%zu",
                  serve->env.settings->api.listen, api_port(serve->api), api_scheme(serve->api),
                  serve->shard_count);
    return rc;
}

static bool is_silent(const struct serve *serve, int64_t silent_ms)
{
    return silent_ms > serve->env.settings->api.request_timeout_ms + SILENT_MS;
}

static void report_database(struct health *health, struct queue *queue, int64_t silent_ms,
                            const struct serve *serve, const char *name)
{
    if (queue_is_unavailable(queue))
        health_bad(health, name, "cannot be reached or does not take the work; the log says why");
    else if (is_silent(serve, silent_ms))
        health_bad(health, name, "has not answered a statement for %" PRId64 " s",
                   silent_ms / 1000);
    else
        health_good(health, name);
}

/* For what is no reason to take votes elsewhere when it fails. A process that starts is not ready
 * before it knows: until then it would refuse requests for no reason. */
static void report_extra(struct health *health, struct queue *queue, bool silent, const char *name,
                         const char *without)
{
    if (!queue_was_tried(queue))
        health_bad(health, name, "not reached yet");
    else if (queue_is_unavailable(queue) || silent)
        health_warn(health, name, "cannot be reached: %s; the log says why", without);
    else
        health_good(health, name);
}

/* Votes are taken while the sink is away, and lists are answered from memory. */
static void report_remarks(struct health *health, const struct serve *serve, int64_t silent_ms)
{
    report_extra(health, serve->remarks, is_silent(serve, silent_ms), "database for remarks",
                 "lists are old or answered 503");
}

static void report_dead(struct health *health, const struct serve *serve)
{
    report_extra(health, serve->dead, false, "databases for dead records", "/v1/dead answers 503");
}

/* Deleted remarks are listed no more, whatever their removal waits for. */
static void report_removals(struct health *health, struct serve *serve)
{
    struct err err;

    if (remover_waits(serve->remover, &err))
        health_warn(health, "removal of deleted remarks", "%s", err.text);
    else
        health_good(health, "removal of deleted remarks");
}

static void report_queue(struct health *health, struct queue *queue, const char *name)
{
    if (queue_is_full(queue))
        health_bad(health, name, "full, %zu wait", queue_waiting(queue));
    else
        health_good(health, name);
}

static void report_lanes(struct health *health, struct serve *serve)
{
    struct err err;

    if (condition_read(&serve->lane_watch.number, &err))
        health_bad(health, "number of lanes", "%s", err.text);
    if (condition_read(&serve->lane_watch.unserved, &err))
        health_bad(health, "lanes", "%s", err.text);
    else
        health_good(health, "lanes");
}

static int64_t measure_silence_ms(struct loop *loop)
{
    return os_now_ms() - atomic_load(&loop->beat_ms);
}

static void report_votes(struct health *health, struct serve *serve)
{
    int64_t votes_ms = 0;
    int64_t reads_ms = 0;
    int64_t remarks_ms = 0;

    for (size_t i = 0; i < serve->shard_count; i++) {
        int64_t vote_ms = measure_silence_ms(&serve->shards[i].commit_loop);
        int64_t read_ms = measure_silence_ms(&serve->shards[i].totals_loop);

        votes_ms = max_ms(votes_ms, vote_ms);
        reads_ms = max_ms(reads_ms, read_ms);
        if (serve->lists)
            remarks_ms = max_ms(remarks_ms, measure_silence_ms(&serve->shards[i].remark_loop));
    }
    report_database(health, serve->votes, votes_ms, serve, "database for votes");
    report_database(health, serve->reads, reads_ms, serve, "database for totals");
    if (serve->lists)
        report_remarks(health, serve, remarks_ms);
    if (serve->lists && serve->remover)
        report_removals(health, serve);
    if (serve->has_dead)
        report_dead(health, serve);
    report_lanes(health, serve);
    report_queue(health, serve->votes, "vote queue");
    report_queue(health, serve->reads, "read queue");
}

/* Without votes, the workers of tasks tell whether the database answers. */
static void report_tasks(struct health *health, struct serve *serve)
{
    int64_t tasks_ms = 0;

    for (size_t i = 0; i < serve->shard_count; i++)
        tasks_ms = max_ms(tasks_ms, measure_silence_ms(&serve->shards[i].task_loop));
    if (serve->has_votes)
        report_extra(health, serve->tasks, is_silent(serve, tasks_ms), "database for tasks",
                     "/v1/tasks answers 503");
    else
        report_database(health, serve->tasks, tasks_ms, serve, "database for tasks");
    report_queue(health, serve->tasks, "task queue");
    if (serve->tries) {
        report_extra(health, serve_tries_queue(serve->tries), false, "database for tries",
                     "/v1/tasks?try=1 answers 503");
        report_queue(health, serve_tries_queue(serve->tries), "try queue");
    }
}

static void serve_health(void *role, struct health *health)
{
    struct serve *serve = role;

    if (serve->has_votes)
        report_votes(health, serve);
    report_tasks(health, serve);
}

static void drain_queues(struct serve *serve, int64_t until_ms)
{
    while (os_now_ms() < until_ms &&
           !(queue_idle(serve->votes) && queue_idle(serve->reads) && queue_idle(serve->remarks) &&
             queue_idle(serve->tasks) && queue_idle(serve->removals) && queue_idle(serve->dead) &&
             (!serve->tries || queue_idle(serve_tries_queue(serve->tries)))))
        stop_wait(&serve->stop, DRAIN_LOOK_MS);
}

static void interrupt_removals(struct serve *serve)
{
    if (queue_idle(serve->removals) || !serve->lists)
        return;
    producer_mysql_interrupt(serve->close_store);
    removal_mysql_interrupt(serve->removal_store);
}

static void drop_queues(struct serve *serve)
{
    struct queue *const queues[] = {serve->votes, serve->remarks,  serve->reads,
                                    serve->tasks, serve->removals, serve->dead};

    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++)
        queue_close(queues[i]);
    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++)
        queue_drop(queues[i]);
}

/* Requests that wait are processed for half of the time that a clean stop may take. Statements that
 * still run then are interrupted, and their clients get the answer that the outcome is unknown. */
static void serve_join(void *role)
{
    struct serve *serve = role;
    int64_t half_ms = serve->env.settings->admin.stop_timeout_ms / 2;

    api_quiesce(serve->api);
    drain_queues(serve, os_now_ms() + half_ms);
    if (serve->tries)
        serve_tries_refuse(serve->tries);
    drop_queues(serve);
    for (size_t i = 0; i < serve->shard_count; i++) {
        if (!queue_idle(serve->votes) && serve->has_votes)
            producer_mysql_interrupt(serve->shards[i].vote_store);
        if (!queue_idle(serve->reads) && serve->has_votes)
            producer_mysql_interrupt(serve->shards[i].totals_store);
        if (!queue_idle(serve->remarks) && serve->lists)
            remark_mysql_interrupt(serve->shards[i].remark_store);
        if (!queue_idle(serve->tasks))
            producer_mysql_interrupt(serve->shards[i].task_store);
    }
    if (serve->tries)
        serve_tries_interrupt(serve->tries);
    interrupt_removals(serve);
    if (serve->has_dead && !queue_idle(serve->dead))
        dead_admin_interrupt(serve->dead_admin);
    join_threads(serve);
    api_close(serve->api);
    serve->api = NULL;
}

enum rc serve_check_lanes(const struct settings *settings, struct err *err)
{
    struct lanes lanes = {0};
    struct db *db = NULL;
    enum rc rc = db_open(&db, &settings->mysql, err);

    if (rc == RC_OK)
        rc = lanes_read(db, &lanes, err);
    db_close(db);
    return rc == RC_OK ? lanes_check_start(&lanes, settings->api.lane_count, err) : rc;
}

static bool is_relayed(const struct settings *settings, const char *table)
{
    for (size_t i = 0; i < settings->lane_count; i++)
        if (strcmp(settings->lanes[i].table, table) == 0)
            return true;
    return false;
}

enum rc serve_check_relayed(const struct settings *settings, struct err *err)
{
    for (int64_t i = 0; i < settings->api.lane_count; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        outbox_lane_name(name, (size_t)i);
        if (!is_relayed(settings, name))
            return err_fail(err, RC_REJECT, 0,
                            "api.lane_count = %" PRId64
                            " writes votes into %s, which no lane of relay.lanes = %s reads: they "
                            "would wait there for ever; add it, or make api.lane_count smaller",
                            settings->api.lane_count, name, settings->relay.lanes);
    }
    return RC_OK;
}

const struct role serve_role = {
    .name = "serve",
    .about = "Serves the HTTP API for votes, lists of remarks and tasks of the retry queue. Each "
             "vote is "
             "answered "
             "after the COMMIT of its transaction; votes that wait at the same time share one.",
    .register_metrics = serve_metrics_register,
    .open = serve_open,
    .start = serve_start,
    .health = serve_health,
    .join = serve_join,
    .close = serve_close,
    .sections = "mysql,sink,consumer,retry,api",
};
