/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/client_mysql.h"

#include "common/buf.h"
#include "outbox/retry/clients/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TASKS_LOOKED_AT 1000

static void put_text(struct db *db, struct buf *sql, const char *words, const char *text)
{
    buf_text_put(sql, words);
    db_put_text(db, sql, text, strlen(text));
}

static enum rc run_sql(struct db *db, struct buf *sql, uint64_t *affected, struct err *err)
{
    enum rc rc = db_exec_buf(db, sql, affected, err);

    buf_reset(sql);
    return rc;
}

struct group_reading {
    bool found;
    bool is_clients;
    char config_version[RETRY_CONFIG_VERSION_SIZE];
};

static enum rc group_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct group_reading *reading = ctx;

    (void)err;
    reading->found = true;
    reading->is_clients = strcmp(row->columns[0], retry_owner_name(OWNER_CLIENT)) == 0;
    snprintf(reading->config_version, sizeof(reading->config_version), "%s",
             row->columns[1] ? row->columns[1] : "");
    return RC_OK;
}

static enum rc read_group(struct db *db, const char *group, struct group_reading *reading,
                          struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    *reading = (struct group_reading){.found = false};
    put_text(db, &sql,
             "SELECT g.owner, " CLIENT_CONFIG_VERSION " FROM retry_group g WHERE name = ", group);
    rc = db_query_buf(db, &sql, group_on_row, reading, err);
    buf_done(&sql);
    return rc;
}

/* *affected: 0 if the client has no row, or if its row has these values already. */
static enum rc renew_row(struct db *db, const struct retry_beat *beat, const char *config_version,
                         uint64_t *affected, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    put_text(db, &sql, "UPDATE retry_client SET version = ", beat->version);
    put_text(db, &sql, ", config_version = ", config_version);
    buf_print(&sql,
              ", failed_reports = failed_reports + %" PRId64 ", last_beat_at = UTC_TIMESTAMP(3)",
              beat->failed_reports);
    put_text(db, &sql, " WHERE task_group = ", beat->group);
    put_text(db, &sql, " AND address = ", beat->address);
    rc = run_sql(db, &sql, affected, err);
    buf_done(&sql);
    return rc;
}

static enum rc insert_row(struct db *db, const struct retry_beat *beat, const char *config_version,
                          struct err *err)
{
    struct buf sql = {0};
    uint64_t affected;
    enum rc rc;

    put_text(db, &sql,
             "INSERT INTO retry_client (task_group, address, version, config_version, "
             "failed_reports) VALUES (",
             beat->group);
    put_text(db, &sql, ", ", beat->address);
    put_text(db, &sql, ", ", beat->version);
    put_text(db, &sql, ", ", config_version);
    buf_print(&sql, ", %" PRId64 ") ON DUPLICATE KEY UPDATE last_beat_at = UTC_TIMESTAMP(3)",
              beat->failed_reports);
    rc = run_sql(db, &sql, &affected, err);
    buf_done(&sql);
    return rc;
}

static enum rc count_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    int64_t *count = ctx;

    (void)row;
    (void)err;
    ++*count;
    return RC_OK;
}

/* A locking read: two transactions that each registered a client meet here, and the server ends one
 * of them as a deadlock, which is repeated. */
static enum rc count_rows(struct db *db, const struct retry_beat *beat, int64_t *count,
                          struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    *count = 0;
    put_text(db, &sql, "SELECT 1 FROM retry_client WHERE task_group = ", beat->group);
    buf_print(&sql, " LIMIT %" PRId64 " FOR UPDATE", beat->clients_max + 1);
    rc = db_query_buf(db, &sql, count_on_row, count, err);
    buf_done(&sql);
    return rc;
}

static enum rc delete_expired(struct db *db, const char *group, struct err *err)
{
    struct buf sql = {0};
    uint64_t affected;
    enum rc rc;

    put_text(db, &sql, "DELETE FROM retry_client WHERE task_group = ", group);
    buf_text_put(&sql, " AND NOT " CLIENT_IS_LIVE);
    rc = run_sql(db, &sql, &affected, err);
    buf_done(&sql);
    return rc;
}

static enum rc add_client(struct db *db, const struct retry_beat *beat, const char *config_version,
                          struct err *err)
{
    int64_t count = 0;
    enum rc rc = insert_row(db, beat, config_version, err);

    if (rc == RC_OK)
        rc = count_rows(db, beat, &count, err);
    if (rc != RC_OK || count <= beat->clients_max)
        return rc;
    rc = delete_expired(db, beat->group, err);
    if (rc == RC_OK)
        rc = count_rows(db, beat, &count, err);
    if (rc == RC_OK && count > beat->clients_max)
        rc = err_fail(err, RC_REJECT, 0,
                      "group %.64s has %" PRId64 " clients, which is retry.clients_max",
                      beat->group, beat->clients_max);
    return rc;
}

static enum rc register_client(struct db *db, const struct retry_beat *beat,
                               const char *config_version, struct err *err)
{
    enum rc rc = db_begin(db, err);

    if (rc == RC_OK)
        rc = add_client(db, beat, config_version, err);
    if (rc == RC_OK)
        rc = db_commit(db, err);
    if (db_in_transaction(db))
        db_rollback(db);
    return rc;
}

enum rc retry_client_beat(struct db *db, const struct retry_beat *beat,
                          char config_version[RETRY_CONFIG_VERSION_SIZE], struct err *err)
{
    struct group_reading reading;
    uint64_t affected = 0;
    enum rc rc = read_group(db, beat->group, &reading, err);

    if (rc == RC_OK && !reading.found)
        rc = err_fail(err, RC_REJECT, 0, "group %.64s has no row in retry_group", beat->group);
    if (rc == RC_OK && !reading.is_clients)
        rc = err_fail(err, RC_REJECT, 0, "group %.64s belongs to a role of tallybox", beat->group);
    if (rc != RC_OK)
        return rc;
    memcpy(config_version, reading.config_version, RETRY_CONFIG_VERSION_SIZE);
    rc = renew_row(db, beat, config_version, &affected, err);
    if (rc == RC_OK && affected == 0)
        rc = register_client(db, beat, config_version, err);
    return rc;
}

enum rc retry_config_version(struct db *db, const char *group,
                             char config_version[RETRY_CONFIG_VERSION_SIZE], bool *found,
                             struct err *err)
{
    struct group_reading reading;
    enum rc rc = read_group(db, group, &reading, err);

    memcpy(config_version, reading.config_version, RETRY_CONFIG_VERSION_SIZE);
    *found = reading.found;
    return rc;
}

enum rc retry_client_missing(struct db *db, const char *group, const char *scene, bool *missing,
                             struct err *err)
{
    struct buf sql = {0};
    int64_t rows = 0;
    enum rc rc;

    put_text(db, &sql,
             "SELECT 1 FROM (SELECT reason FROM retry_task WHERE age_state = 1 AND task_group = ",
             group);
    put_text(db, &sql, " AND scene = ", scene);
    buf_print(&sql,
              " ORDER BY age_from, id LIMIT %d) t WHERE reason LIKE '" RETRY_CLIENT_NONE
              "%%' AND NOT EXISTS (SELECT 1 FROM retry_client WHERE " CLIENT_IS_LIVE,
              TASKS_LOOKED_AT);
    put_text(db, &sql, " AND task_group = ", group);
    buf_text_put(&sql, ") LIMIT 1");
    rc = db_query_buf(db, &sql, count_on_row, &rows, err);
    *missing = rows > 0;
    buf_done(&sql);
    return rc;
}

struct client_query {
    enum rc (*on_client)(void *ctx, const struct retry_client_view *view, struct err *err);
    void *ctx;
};

static enum rc client_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct client_query *client_query = ctx;
    const struct retry_client_view view = {
        .group = row->columns[0],
        .address = row->columns[1],
        .version = row->columns[2],
        .config_version = row->columns[3],
        .is_live = db_column_i64(row, 4) != 0,
        .config_is_current = db_column_i64(row, 5) != 0,
        .failed_reports = db_column_i64(row, 6),
        .first_beat_ms = db_column_i64(row, 7),
        .last_beat_ms = db_column_i64(row, 8),
        .expires_ms = db_column_i64(row, 8) + RETRY_CLIENT_LIVE_MS,
        .now_ms = db_column_i64(row, 9),
    };

    return client_query->on_client(client_query->ctx, &view, err);
}

enum rc retry_client_each(struct db *db, const char *group, const char *after, size_t rows_max,
                          enum rc (*on_client)(void *ctx, const struct retry_client_view *view,
                                               struct err *err),
                          void *ctx, struct err *err)
{
    struct client_query client_query = {on_client, ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(
        &sql, "SELECT c.task_group, c.address, c.version, c.config_version, " CLIENT_IS_LIVE
              ", COALESCE(c.config_version = " CLIENT_CONFIG_VERSION
              ", 0), c.failed_reports, " CLIENT_MS("c.first_beat_at") ", " CLIENT_MS(
                  "c.last_beat_at") ", " CLIENT_MS("UTC_TIMESTAMP(3)") " FROM retry_client c LEFT "
                                                                       "JOIN retry_group g ON "
                                                                       "g.name = c.task_group");
    if (group)
        put_text(db, &sql, " WHERE c.task_group = ", group);
    if (group && after)
        put_text(db, &sql, " AND c.address > ", after);
    buf_print(&sql, " ORDER BY c.task_group, c.address LIMIT %zu", rows_max);
    rc = db_query_buf(db, &sql, client_on_row, &client_query, err);
    buf_done(&sql);
    return rc;
}
