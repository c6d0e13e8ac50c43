/* SPDX-License-Identifier: MIT */
#include "outbox/lease/lease_mysql.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A command asks for a few seconds at a time: what is later was written before the clock was set
 * back. */
#define WANTED \
    "COALESCE(wanted_until BETWEEN UTC_TIMESTAMP(3) AND UTC_TIMESTAMP(3) + INTERVAL 1 MINUTE, 0)"

static void put_text(struct lease_mysql *store, const char *text)
{
    db_put_text(store->db, &store->sql, text, strlen(text));
}

static void put_like_pattern(struct lease_mysql *store, const char *text, const char *rest)
{
    char pattern[2 * LEASE_ROLE_SIZE];

    snprintf(pattern, sizeof(pattern), "%s%s", text, rest);
    put_text(store, pattern);
}

static void put_lease_end(struct lease_mysql *store, int64_t lease_ms)
{
    buf_print(&store->sql, "UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND",
              (long long)lease_ms * 1000);
}

static void put_lease_ms(struct lease_mysql *store, int64_t lease_ms)
{
    buf_print(&store->sql, ", lease_ms = %lld", (long long)lease_ms);
}

static enum rc begin_statement(struct lease_mysql *store, const char *sql, struct err *err)
{
    enum rc rc = db_connect(store->db, err);

    buf_reset(&store->sql);
    buf_text_put(&store->sql, sql);
    return rc;
}

static enum rc run_statement(struct lease_mysql *store, uint64_t *affected, struct err *err)
{
    return db_exec_buf(store->db, &store->sql, affected, err);
}

static enum rc query_rows(struct lease_mysql *store, db_on_row on_row, void *ctx, struct err *err)
{
    return db_query_buf(store->db, &store->sql, on_row, ctx, err);
}

/* Deletes rows of instances that were killed: such an instance has not deleted its own row. */
static enum rc delete_old_instances(struct lease_mysql *store, struct err *err)
{
    enum rc rc;

    if (store->old_deleted)
        return RC_OK;
    rc = begin_statement(store, "DELETE FROM instance WHERE role LIKE ", err);
    if (rc != RC_OK)
        return rc;
    put_like_pattern(store, store->role, "%");
    buf_text_put(&store->sql, " AND seen_at < UTC_TIMESTAMP(3) - INTERVAL 1 DAY");
    rc = run_statement(store, NULL, err);
    store->old_deleted = rc == RC_OK;
    return rc;
}

static enum rc put_heartbeat(struct lease_mysql *store, int64_t lease_ms, struct err *err)
{
    enum rc rc = begin_statement(
        store, "INSERT INTO instance (name, role, started_at, seen_at, lease_ms) VALUES (", err);

    if (rc != RC_OK)
        return rc;
    put_text(store, store->owner);
    buf_text_put(&store->sql, ", ");
    put_text(store, store->role);
    buf_print(&store->sql, ", UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), %lld), (", (long long)lease_ms);
    put_text(store, store->owner);
    buf_text_put(&store->sql, ", ");
    put_text(store, store->entry);
    buf_print(&store->sql,
              ", UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), %lld) ON DUPLICATE KEY UPDATE "
              "seen_at = UTC_TIMESTAMP(3)",
              (long long)lease_ms);
    put_lease_ms(store, lease_ms);
    return run_statement(store, NULL, err);
}

static void put_lane_list(struct lease_mysql *store, const char *const *lanes, size_t count)
{
    buf_text_put(&store->sql, " lane IN (");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_text_put(&store->sql, ", ");
        put_text(store, lanes[i]);
    }
    buf_char(&store->sql, ')');
}

static enum rc store_beat(void *ctx, int64_t lease_ms, struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = put_heartbeat(store, lease_ms, err);

    if (rc == RC_OK)
        rc = delete_old_instances(store, err);
    if (rc != RC_OK || store->lane_count == 0)
        return rc;
    rc = begin_statement(store, "UPDATE relay_lease SET lease_until = ", err);
    if (rc != RC_OK)
        return rc;
    put_lease_end(store, lease_ms);
    put_lease_ms(store, lease_ms);
    buf_text_put(&store->sql, " WHERE owner = ");
    put_text(store, store->owner);
    buf_text_put(&store->sql, " AND");
    put_lane_list(store, store->lanes, store->lane_count);
    return run_statement(store, NULL, err);
}

/* "": it has none. */
static const char *source_of(const struct lease_mysql *store, const char *lane)
{
    for (size_t i = 0; store->sources && i < store->lane_count; i++)
        if (strcmp(store->lanes[i], lane) == 0)
            return store->sources[i];
    return "";
}

struct views_query {
    const struct lease_mysql *store;
    const char *const *lanes;
    size_t count;
    struct lease_view *views;
    bool found[LEASES_MAX];
    size_t found_count;
};

static enum rc add_view_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct views_query *query = ctx;

    (void)err;
    for (size_t i = 0; i < query->count; i++) {
        struct lease_view *view = &query->views[i];
        const char *lane = query->lanes[i];

        if (strcmp(lane, row->columns[0]) != 0)
            continue;
        snprintf(view->owner, sizeof(view->owner), "%s", row->columns[1]);
        view->epoch = db_column_i64(row, 2);
        view->left_ms = db_column_i64(row, 3);
        view->length_ms = db_column_i64(row, 4);
        view->wanted = db_column_i64(row, 5) != 0;
        view->other_source =
            row->columns[6][0] && strcmp(row->columns[6], source_of(query->store, lane)) != 0;
        query->found[i] = true;
        query->found_count++;
    }
    return RC_OK;
}

static enum rc insert_missing_leases(struct lease_mysql *store, const struct views_query *query,
                                     struct err *err)
{
    bool first = true;
    enum rc rc = begin_statement(store,
                                 "INSERT IGNORE INTO relay_lease (lane, owner, epoch, lease_until) "
                                 "VALUES ",
                                 err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < query->count; i++) {
        if (query->found[i])
            continue;
        buf_text_put(&store->sql, first ? "(" : ", (");
        put_text(store, query->lanes[i]);
        buf_text_put(&store->sql, ", '', 0, UTC_TIMESTAMP(3))");
        first = false;
    }
    return run_statement(store, NULL, err);
}

static enum rc store_read(void *ctx, const char *const *lanes, size_t count,
                          struct lease_view *views, struct err *err)
{
    struct lease_mysql *store = ctx;
    struct views_query query = {.store = store, .lanes = lanes, .count = count, .views = views};
    enum rc rc =
        begin_statement(store,
                        "SELECT lane, owner, epoch, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), "
                        "lease_until) DIV 1000, lease_ms, " WANTED ", source FROM relay_lease "
                        "WHERE",
                        err);

    assert(count > 0 && count <= LEASES_MAX);
    memset(views, 0, count * sizeof(*views));
    if (rc != RC_OK)
        return rc;
    put_lane_list(store, lanes, count);
    rc = query_rows(store, add_view_row, &query, err);
    if (rc != RC_OK || query.found_count == count)
        return rc;
    return insert_missing_leases(store, &query, err);
}

struct instances_query {
    lease_on_instance on_instance;
    void *ctx;
};

static enum rc add_instance_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct instances_query *query = ctx;
    const char *star = strrchr(row->columns[1], '*');
    int64_t weight = star ? strtoll(star + 1, NULL, 10) : 1;

    return query->on_instance(query->ctx, row->columns[0], weight > 0 ? weight : 1, err);
}

static enum rc store_instances(void *ctx, int64_t lease_ms, lease_on_instance on_instance,
                               void *on_instance_ctx, struct err *err)
{
    struct lease_mysql *store = ctx;
    struct instances_query query = {on_instance, on_instance_ctx};
    enum rc rc = begin_statement(store, "SELECT name, role FROM instance WHERE (role = ", err);

    if (rc != RC_OK)
        return rc;
    put_text(store, store->group);
    buf_text_put(&store->sql, " OR role LIKE ");
    put_like_pattern(store, store->group, "*%");
    buf_print(&store->sql,
              ") AND seen_at > UTC_TIMESTAMP(3) - INTERVAL %lld MICROSECOND AND "
              "seen_at < UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND ORDER BY name LIMIT 256",
              (long long)lease_ms * 1000, (long long)lease_ms * LEASE_LENGTHS_MAX * 1000);
    return query_rows(store, add_instance_row, &query, err);
}

static enum rc read_epoch(struct lease_mysql *store, const char *lane, int64_t *epoch,
                          struct err *err)
{
    struct lease_view view;
    enum rc rc = store_read(store, &lane, 1, &view, err);

    if (rc == RC_OK && strcmp(view.owner, store->owner) != 0)
        return err_fail(err, RC_RETRY, 0, "lane %s was taken and lost at once", lane);
    *epoch = view.epoch;
    return rc;
}

static enum rc store_take(void *ctx, const char *lane, int64_t lease_ms, bool *taken,
                          int64_t *epoch, struct err *err)
{
    struct lease_mysql *store = ctx;
    uint64_t affected = 0;
    enum rc rc = begin_statement(store, "UPDATE relay_lease SET owner = ", err);

    *taken = false;
    if (rc != RC_OK)
        return rc;
    put_text(store, store->owner);
    buf_text_put(&store->sql, ", epoch = epoch + 1, diverted_keys = 0, diverted_reason = '', "
                              "lease_until = ");
    put_lease_end(store, lease_ms);
    put_lease_ms(store, lease_ms);
    buf_text_put(&store->sql, " WHERE lane = ");
    put_text(store, lane);
    buf_text_put(&store->sql, " AND (owner = '' OR lease_until < UTC_TIMESTAMP(3)) AND NOT " WANTED
                              " AND source IN ('', ");
    put_text(store, source_of(store, lane));
    buf_char(&store->sql, ')');
    rc = run_statement(store, &affected, err);
    if (rc != RC_OK || affected == 0)
        return rc;
    *taken = true;
    return read_epoch(store, lane, epoch, err);
}

static void put_own_lease(struct lease_mysql *store, const char *lane, int64_t epoch)
{
    buf_text_put(&store->sql, " WHERE lane = ");
    put_text(store, lane);
    buf_text_put(&store->sql, " AND owner = ");
    put_text(store, store->owner);
    buf_print(&store->sql, " AND epoch = %lld", (long long)epoch);
}

static enum rc store_shorten(void *ctx, const char *lane, int64_t epoch, int64_t length_ms,
                             struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = begin_statement(store, "UPDATE relay_lease SET lease_until = ", err);

    if (rc != RC_OK)
        return rc;
    put_lease_end(store, length_ms);
    buf_text_put(&store->sql, " WHERE lane = ");
    put_text(store, lane);
    buf_print(&store->sql, " AND epoch = %lld AND lease_until > ", (long long)epoch);
    put_lease_end(store, length_ms * LEASE_LENGTHS_MAX);
    return run_statement(store, NULL, err);
}

static enum rc store_put_status(void *ctx, const char *lane, int64_t epoch,
                                const struct lease_status *status, struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = begin_statement(store, "UPDATE relay_lease SET diverted_keys = ", err);

    if (rc != RC_OK)
        return rc;
    buf_i64(&store->sql, status->diverted_keys);
    buf_text_put(&store->sql, ", diverted_reason = ");
    put_text(store, status->diverted_reason);
    put_own_lease(store, lane, epoch);
    return run_statement(store, NULL, err);
}

static enum rc store_release(void *ctx, const char *lane, int64_t epoch, struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = begin_statement(store, "UPDATE relay_lease SET owner = ''", err);

    if (rc != RC_OK)
        return rc;
    put_own_lease(store, lane, epoch);
    return run_statement(store, NULL, err);
}

static enum rc store_remove_instance(void *ctx, struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = begin_statement(store, "DELETE FROM instance WHERE name = ", err);

    if (rc != RC_OK)
        return rc;
    put_text(store, store->owner);
    buf_text_put(&store->sql, " AND role IN (");
    put_text(store, store->role);
    buf_text_put(&store->sql, ", ");
    put_text(store, store->entry);
    buf_char(&store->sql, ')');
    return run_statement(store, NULL, err);
}

enum rc lease_mysql_open(struct lease_mysql *store, const struct lease_claim *claim,
                         const struct settings *settings, struct err *err)
{
    memset(store, 0, sizeof(*store));
    store->owner = claim->owner;
    store->role = claim->role;
    store->group = claim->group;
    store->lanes = claim->lanes;
    store->lane_count = claim->lane_count;
    store->sources = claim->sources;
    if (claim->weight == 1)
        snprintf(store->entry, sizeof(store->entry), "%s", claim->group);
    else
        snprintf(store->entry, sizeof(store->entry), "%s*%lld", claim->group,
                 (long long)claim->weight);
    store->owns_db = !claim->with;
    if (claim->with)
        store->db = claim->with->db;
    return claim->with ? RC_OK : db_open(&store->db, &settings->mysql, err);
}

void lease_mysql_close(struct lease_mysql *store)
{
    if (store->owns_db)
        db_close(store->db);
    store->db = NULL;
    buf_done(&store->sql);
}

enum rc lease_mysql_check(struct db *db, struct buf *sql, const char *lane, const char *owner,
                          int64_t epoch, bool lock, bool *fenced, struct err *err)
{
    int64_t now = 0;
    bool found = false;
    enum rc rc;

    buf_reset(sql);
    buf_text_put(sql, "SELECT epoch FROM relay_lease WHERE lane = ");
    db_put_text(db, sql, lane, strlen(lane));
    buf_text_put(sql, " AND owner = ");
    db_put_text(db, sql, owner, strlen(owner));
    if (lock)
        buf_text_put(sql, " FOR UPDATE");
    rc = db_number(db, buf_text(sql), &now, &found, err);
    *fenced = rc == RC_OK && (!found || now != epoch);
    return rc;
}

struct lease_store lease_mysql_ops(struct lease_mysql *store)
{
    return (struct lease_store){
        .ctx = store,
        .beat = store_beat,
        .read = store_read,
        .instances = store_instances,
        .take = store_take,
        .shorten = store_shorten,
        .put_status = store_put_status,
        .release = store_release,
        .remove_instance = store_remove_instance,
    };
}
