/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/stream_wakeup_mysql.h"

#include "common/buf.h"
#include "common/hash.h"
#include "common/loop.h"
#include "common/metrics.h"
#include "common/os.h"
#include "outbox/relay/binlog/gtid_set.h"
#include "outbox/relay/binlog/written_tables.h"

#include <stdio.h>
#include <string.h>

#define HEARTBEAT_MS 1000
#define SILENCE_MS 5000
#define SILENCE_MS_MAX 300000
/* What is larger is not looked at, only the lanes are woken. */
#define EVENT_BYTES_MAX (16 << 20)
/* A stream that has lived so long does not fail again and again. */
#define STABLE_MS 60000
#define BACKOFF_BASE_MS 500
#define BACKOFF_CAP_MS 5000
#define FATAL_WAIT_MS 60000

/* Above the ids that people give to their servers. */
#define OWN_SERVER_IDS UINT32_C(0x80000000)

#define NO_SUCH_STATEMENT 1064

/* The end of the log, in whichever form the server has. */
struct log_end {
    char file[512];
    uint64_t offset;
    struct buf gtids;
    bool by_gtid;
};

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
                                                      : OWN_SERVER_IDS | (uint32_t)hash;
    wakeup->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    wakeup->rng = os_random_u64();
    wakeup->silence_ms = SILENCE_MS;
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

static enum rc take_place(void *ctx, const struct db_row *row, struct err *err)
{
    struct log_end *end = ctx;

    (void)err;
    snprintf(end->file, sizeof(end->file), "%s", row->columns[0]);
    end->offset = db_column_u64(row, 1);
    return RC_OK;
}

/* MySQL 8.4 has given the statement another name, and MariaDB has both. */
static enum rc read_place(struct db *db, struct log_end *end, struct err *err)
{
    static const char *const statements[] = {"SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"};
    struct err own = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        rc = db_query(db, statements[i], strlen(statements[i]), take_place, end, &own);
        if (rc == RC_OK || own.code != NO_SUCH_STATEMENT)
            break;
    }
    if (rc == RC_OK && !end->file[0])
        return err_fail(err, RC_FATAL, 0, "the server writes no binary log: log_bin is off");
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

static enum rc take_gtids(void *ctx, const struct db_row *row, struct err *err)
{
    struct log_end *end = ctx;

    (void)err;
    buf_put(&end->gtids, row->columns[0], row->lengths[0]);
    return RC_OK;
}

static enum rc read_gtids(struct db *db, const char *sql, struct log_end *end, struct err *err)
{
    end->by_gtid = true;
    return db_query(db, sql, strlen(sql), take_gtids, end, err);
}

static enum rc read_end(struct db *db, struct log_end *end, struct err *err)
{
    int64_t has_gtids = 0;
    enum rc rc = db_connect(db, err);

    if (rc != RC_OK)
        return rc;
    if (db_server_kind(db) == DB_MARIADB)
        return read_gtids(db, "SELECT @@GLOBAL.gtid_binlog_pos", end, err);
    rc = db_number(db, "SELECT @@GLOBAL.gtid_mode = 'ON'", &has_gtids, NULL, err);
    if (rc != RC_OK)
        return rc;
    return has_gtids ? read_gtids(db, "SELECT @@GLOBAL.gtid_executed", end, err)
                     : read_place(db, end, err);
}

static enum rc open_link(struct stream_wakeup *wakeup, struct log_end *end,
                         struct binlog_link **link, struct err *err)
{
    struct gtid_set set = {0};
    struct buf bytes = {0};
    struct binlog_start start = {
        .server_id = wakeup->server_id,
        .file = end->by_gtid ? NULL : end->file,
        .offset = end->offset,
        .gtid_text = buf_text(&end->gtids),
        .heartbeat_ms = HEARTBEAT_MS,
        .silence_ms = wakeup->silence_ms,
        .event_bytes_max = EVENT_BYTES_MAX,
    };
    enum rc rc = RC_OK;

    if (end->by_gtid && db_server_kind(wakeup->db) == DB_MYSQL)
        rc = gtid_set_parse_mysql(&set, start.gtid_text, err);
    gtid_set_put_bytes(&set, &bytes);
    start.gtid_bytes = bytes.data;
    start.gtid_bytes_len = bytes.len;
    if (rc == RC_OK && (bytes.failed || end->gtids.failed))
        rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    if (rc == RC_OK)
        rc = binlog_link_open(link, &wakeup->settings->mysql, &start, NULL, NULL, err);
    gtid_set_done(&set);
    buf_done(&bytes);
    return rc;
}

static enum rc connect_stream(struct stream_wakeup *wakeup, struct err *err)
{
    struct log_end end = {0};
    struct binlog_link *link = NULL;
    enum rc rc = read_end(wakeup->db, &end, err);

    if (rc == RC_OK)
        rc = open_link(wakeup, &end, &link, err);
    if (rc == RC_OK)
        set_link(wakeup, link);
    buf_done(&end.gtids);
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
    if (wakeup->link && !wakeup->connected && wakeup->silence_ms < SILENCE_MS_MAX)
        wakeup->silence_ms *= 2;
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
        wakeup->silence_ms = SILENCE_MS;
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
