/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_wakeup_mysql.h"

#include "common/hash.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/os.h"
#include "outbox/relay/binlog/written_tables.h"
#include "outbox/relay/stream/position_mysql.h"

#include <string.h>

#define HEARTBEAT_MS 1000
#define SILENCE_MS 5000
/* What is larger is not looked at, only the lanes are woken. */
#define EVENT_BYTES_MAX (16 << 20)
/* A stream that has lived so long does not fail again and again. */
#define STABLE_MS 60000
#define BACKOFF_BASE_MS 500
#define BACKOFF_CAP_MS 5000
#define FATAL_WAIT_MS 60000

static struct metric connected_metric = {
    .name = "tallybox_relay_wakeup_connected",
    .kind = METRIC_GAUGE,
    .help = "1 while the binary log wakes the lanes of this process (relay.wakeup = binlog)."};

void stream_wakeup_register(void)
{
    metrics_register(&connected_metric);
}

enum rc stream_wakeup_open(struct stream_wakeup *wakeup, const struct settings *settings,
                           const char *const *tables, size_t count, const char *instance,
                           void (*on_write)(void *ctx, size_t table),
                           void (*on_state)(void *ctx, size_t table, bool connected), void *ctx,
                           struct err *err)
{
    uint64_t hash = hash_bytes(HASH_START, instance, strlen(instance));

    stream_wakeup_register();
    memset(wakeup, 0, sizeof(*wakeup));
    wakeup->settings = settings;
    wakeup->tables = tables;
    wakeup->count = count;
    wakeup->on_write = on_write;
    wakeup->on_state = on_state;
    wakeup->ctx = ctx;
    wakeup->server_id = settings->relay.server_id > 0 ? (uint32_t)settings->relay.server_id
                                                      : STREAM_OWN_SERVER_IDS | (uint32_t)hash;
    wakeup->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    wakeup->rng = os_random_u64();
    condition_init(&wakeup->stream, CONDITION_CHECK, "check=wakeup role=relay");
    condition_assume_failing(&wakeup->stream, "not connected yet");
    pthread_mutex_init(&wakeup->lock, NULL);
    return db_open(&wakeup->db, &settings->mysql, err);
}

static void set_link(struct stream_wakeup *wakeup, struct binlog_link *link)
{
    struct binlog_link *old;

    pthread_mutex_lock(&wakeup->lock);
    old = wakeup->link;
    wakeup->link = link;
    /* It was stopped while this link was made. */
    if (link && wakeup->stopping)
        binlog_link_shutdown(link);
    pthread_mutex_unlock(&wakeup->lock);
    binlog_link_close(old);
}

void stream_wakeup_close(struct stream_wakeup *wakeup)
{
    if (!wakeup->settings)
        return;
    set_link(wakeup, NULL);
    db_close(wakeup->db);
    condition_done(&wakeup->stream);
    pthread_mutex_destroy(&wakeup->lock);
    wakeup->settings = NULL;
}

static enum rc connect_stream(struct stream_wakeup *wakeup, struct err *err)
{
    struct binlog_start how = {.server_id = wakeup->server_id,
                               .heartbeat_ms = HEARTBEAT_MS,
                               .silence_ms = silence_choose_ms(&wakeup->silence, SILENCE_MS),
                               .event_bytes_max = EVENT_BYTES_MAX};
    struct stream_position end = {0};
    struct binlog_link *link = NULL;
    enum rc rc = position_mysql_read_end(wakeup->db, &end, err);

    if (rc == RC_OK)
        rc = position_mysql_open(&link, &wakeup->settings->mysql, NULL, db_server_kind(wakeup->db),
                                 &end, &how, err);
    if (rc == RC_OK)
        set_link(wakeup, link);
    buf_done(&end.before);
    return rc;
}

static void set_connected(struct stream_wakeup *wakeup, bool connected)
{
    wakeup->connected = connected;
    metric_set(&connected_metric, connected);
    for (size_t i = 0; i < wakeup->count; i++) {
        wakeup->on_state(wakeup->ctx, i, connected);
        /* A row may have come while nothing was told. */
        wakeup->on_write(wakeup->ctx, i);
    }
}

static int64_t record_failure(struct stream_wakeup *wakeup, enum rc rc, const struct err *err,
                              int64_t now_ms)
{
    bool replaced = wakeup->link && binlog_link_refusal(wakeup->link) == BINLOG_REFUSAL_REPLACED;
    int64_t wait_ms = FATAL_WAIT_MS;

    if (wakeup->connected && now_ms - wakeup->connected_ms >= STABLE_MS)
        backoff_reset(&wakeup->backoff);
    if (rc != RC_FATAL && !replaced)
        wait_ms = backoff_next_ms(&wakeup->backoff, rng_next(&wakeup->rng));
    if (wakeup->link && !wakeup->connected)
        silence_note_failure(&wakeup->silence, binlog_link_was_silent(wakeup->link));
    set_link(wakeup, NULL);
    if (wakeup->connected)
        set_connected(wakeup, false);
    condition_fail(&wakeup->stream, now_ms, err);
    wakeup->try_at_ms = now_ms + wait_ms;
    return wait_ms;
}

static bool is_stopping(struct stream_wakeup *wakeup)
{
    bool stopping;

    pthread_mutex_lock(&wakeup->lock);
    stopping = wakeup->stopping;
    pthread_mutex_unlock(&wakeup->lock);
    return stopping;
}

int64_t stream_wakeup_step(void *arg, int64_t now_ms)
{
    struct stream_wakeup *wakeup = arg;
    struct err err = {0};
    const void *event = NULL;
    uint64_t written;
    size_t len = 0;
    enum rc rc;

    if (is_stopping(wakeup))
        return LOOP_END;
    if (now_ms < wakeup->try_at_ms)
        return wakeup->try_at_ms - now_ms;
    rc = wakeup->link ? RC_OK : connect_stream(wakeup, &err);
    if (rc == RC_OK)
        rc = binlog_link_next(wakeup->link, &event, &len, &err);
    if (rc != RC_OK)
        return is_stopping(wakeup) ? LOOP_END : record_failure(wakeup, rc, &err, now_ms);
    if (!wakeup->connected) {
        set_connected(wakeup, true);
        wakeup->connected_ms = now_ms;
        silence_note_found(&wakeup->silence);
        condition_ok(&wakeup->stream, now_ms);
    }
    written = written_tables_find(wakeup->settings->mysql.database, wakeup->tables, wakeup->count,
                                  event, len);
    for (size_t i = 0; i < wakeup->count && written >> i; i++)
        if (written >> i & 1)
            wakeup->on_write(wakeup->ctx, i);
    return 0;
}

void stream_wakeup_stop(struct stream_wakeup *wakeup)
{
    pthread_mutex_lock(&wakeup->lock);
    wakeup->stopping = true;
    if (wakeup->link)
        binlog_link_shutdown(wakeup->link);
    pthread_mutex_unlock(&wakeup->lock);
}

bool stream_wakeup_failing(struct stream_wakeup *wakeup, struct err *err)
{
    return condition_read(&wakeup->stream, err);
}
