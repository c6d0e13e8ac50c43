/* SPDX-License-Identifier: MIT */
#include "producer/serve_ranking.h"

#include "common/loop.h"
#include "common/os.h"
#include "producer/remark/recommended.h"
#include "producer/remark/recommended_builder.h"
#include "producer/remark/recommended_mysql.h"

#include <stdlib.h>

/* A recommended list that could not be built is tried again after this time, twice as long after
 * each further failure, up to the second one. */
#define BUILD_RETRY_MS 2000
#define BUILD_RETRY_MAX_MS 300000
/* The watcher uses the database more often than this. */
#define SILENT_MS 5000

struct serve_ranking {
    struct recommended *lists;
    struct recommended_mysql *watcher_store;
    struct recommended_watcher watcher;
    struct loop watcher_loop;
    struct recommended_mysql *builder_store;
    struct recommended_builder builder;
    struct loop builder_loop;
};

static void wake_builder(void *ctx)
{
    struct serve_ranking *ranking = ctx;

    loop_wake(&ranking->builder_loop);
}

static void wake_watcher(void *ctx)
{
    struct serve_ranking *ranking = ctx;

    loop_wake(&ranking->watcher_loop);
}

static enum rc open_lists(struct serve_ranking *ranking, const struct settings *settings,
                          struct err *err)
{
    int64_t stale_ms = settings->api.page_stale_ms;
    const struct recommended_config config = {
        .items_max = (size_t)settings->api.recommended_items_max,
        .empty_max = (size_t)settings->api.recommended_empty_max,
        .bytes_max = (size_t)settings->api.recommended_bytes_max,
        .refresh_ms = settings->api.recommended_refresh_ms,
        .retry_ms = BUILD_RETRY_MS,
        .retry_max_ms = BUILD_RETRY_MAX_MS,
        .silent_ms = SILENT_MS,
        .stale_ms = stale_ms > SILENT_MS ? stale_ms : SILENT_MS,
        .wake_builder = wake_builder,
        .wake_watcher = wake_watcher,
        .wake_ctx = ranking,
    };

    return recommended_open(&ranking->lists, &config, os_now_ms(), err);
}

static enum rc make_parts(struct serve_ranking *ranking, const struct role_env *env,
                          struct stop *stop, struct err *err)
{
    const struct settings *settings = env->settings;
    int64_t build_ms = settings->api.recommended_build_ms;
    enum rc rc = open_lists(ranking, settings, err);

    if (rc == RC_OK)
        rc = recommended_mysql_open(&ranking->watcher_store, settings, 0, err);
    if (rc == RC_OK)
        rc = recommended_mysql_open(&ranking->builder_store, settings, build_ms, err);
    if (rc != RC_OK)
        return rc;
    recommended_watcher_init(&ranking->watcher, ranking->lists,
                             recommended_mysql_store(ranking->watcher_store));
    recommended_builder_init(&ranking->builder, ranking->lists,
                             recommended_mysql_store(ranking->builder_store),
                             (size_t)settings->api.recommended_max, os_now_us, env->stop);
    rc = loop_init(&ranking->watcher_loop, "rank-watch", recommended_watcher_step,
                   &ranking->watcher, stop, err);
    if (rc == RC_OK)
        rc = loop_init(&ranking->builder_loop, "rank-build", recommended_builder_step,
                       &ranking->builder, stop, err);
    return rc;
}

enum rc serve_ranking_open(struct serve_ranking **out, const struct role_env *env,
                           struct stop *stop, struct err *err)
{
    struct serve_ranking *ranking = calloc(1, sizeof(*ranking));
    enum rc rc;

    *out = NULL;
    if (!ranking)
        return err_fail(err, RC_FATAL, 0, "no memory for recommended lists");
    rc = make_parts(ranking, env, stop, err);
    if (rc != RC_OK)
        serve_ranking_close(ranking);
    else
        *out = ranking;
    return rc;
}

void serve_ranking_close(struct serve_ranking *ranking)
{
    if (!ranking)
        return;
    loop_done(&ranking->builder_loop);
    loop_done(&ranking->watcher_loop);
    recommended_watcher_done(&ranking->watcher);
    recommended_mysql_close(ranking->builder_store);
    recommended_mysql_close(ranking->watcher_store);
    recommended_free(ranking->lists);
    free(ranking);
}

struct recommended *serve_ranking_lists(struct serve_ranking *ranking)
{
    return ranking->lists;
}

enum rc serve_ranking_start(struct serve_ranking *ranking, struct err *err)
{
    enum rc rc = loop_start(&ranking->watcher_loop, err);

    return rc == RC_OK ? loop_start(&ranking->builder_loop, err) : rc;
}

void serve_ranking_interrupt(struct serve_ranking *ranking)
{
    if (ranking)
        recommended_mysql_interrupt(ranking->builder_store);
}

void serve_ranking_join(struct serve_ranking *ranking)
{
    if (!ranking)
        return;
    loop_join(&ranking->watcher_loop);
    recommended_watcher_end(&ranking->watcher, os_now_ms());
    loop_join(&ranking->builder_loop);
}
