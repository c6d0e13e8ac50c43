/* SPDX-License-Identifier: MIT */
#include "outbox/lease/lease_mysql.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_text(struct lease_mysql *store, const char *text)
{
    db_put_text(store->db, &store->sql, text, strlen(text));
}

static void put_pattern(struct lease_mysql *store, const char *text, const char *rest)
{
    char pattern[2 * LEASE_ROLE_SIZE];

    snprintf(pattern, sizeof(pattern), "%s%s", text, rest);
    put_text(store, pattern);
}

static void put_until(struct lease_mysql *store, int64_t lease_ms)
{
    buf_print(&store->sql, "UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND",
              (long long)lease_ms * 1000);
}

static void put_length(struct lease_mysql *store, int64_t lease_ms)
{
    buf_print(&store->sql, ", lease_ms = %lld", (long long)lease_ms);
}

static enum rc start(struct lease_mysql *store, const char *sql, struct err *err)
{
    enum rc rc = db_connect(store->db, err);

    buf_reset(&store->sql);
    buf_text_put(&store->sql, sql);
    return rc;
}

static enum rc run(struct lease_mysql *store, uint64_t *affected, struct err *err)
{
    return db_exec_buf(store->db, &store->sql, affected, err);
}

static enum rc ask(struct lease_mysql *store, db_on_row on_row, void *ctx, struct err *err)
{
    return db_query_buf(store->db, &store->sql, on_row, ctx, err);
}

/* An instance that is killed does not delete its own row. */
static enum rc delete_old_instances(struct lease_mysql *store, struct err *err)
{
    enum rc rc;

    if (store->old_deleted)
        return RC_OK;
    rc = start(store, "DELETE FROM instance WHERE role LIKE ", err);
    if (rc != RC_OK)
        return rc;
    put_pattern(store, store->role, "%");
    buf_text_put(&store->sql, " AND seen_at < UTC_TIMESTAMP(3) - INTERVAL 1 DAY");
    rc = run(store, NULL, err);
    store->old_deleted = rc == RC_OK;
    return rc;
}

static enum rc instance_beat(struct lease_mysql *store, struct err *err)
{
    enum rc rc =
        start(store, "INSERT INTO instance (name, role, started_at, seen_at) VALUES (", err);

    if (rc != RC_OK)
        return rc;
    put_text(store, store->owner);
    buf_text_put(&store->sql, ", ");
    put_text(store, store->role);
    buf_text_put(&store->sql, ", UTC_TIMESTAMP(3), UTC_TIMESTAMP(3)), (");
    put_text(store, store->owner);
    buf_text_put(&store->sql, ", ");
    put_text(store, store->entry);
    buf_text_put(&store->sql, ", UTC_TIMESTAMP(3), UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE "
                              "seen_at = UTC_TIMESTAMP(3)");
    return run(store, NULL, err);
}

static void put_list(struct lease_mysql *store, const char *const *lanes, size_t count)
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
    enum rc rc = instance_beat(store, err);

    if (rc == RC_OK)
        rc = delete_old_instances(store, err);
    if (rc != RC_OK || store->lane_count == 0)
        return rc;
    rc = start(store, "UPDATE relay_lease SET lease_until = ", err);
    if (rc != RC_OK)
        return rc;
    put_until(store, lease_ms);
    put_length(store, lease_ms);
    buf_text_put(&store->sql, " WHERE owner = ");
    put_text(store, store->owner);
    buf_text_put(&store->sql, " AND");
    put_list(store, store->lanes, store->lane_count);
    return run(store, NULL, err);
}

struct looking {
    const char *const *lanes;
    size_t count;
    struct lease_view *views;
    bool found[LEASES_MAX];
    size_t found_count;
};

static enum rc looking_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct looking *looking = ctx;

    (void)err;
    for (size_t i = 0; i < looking->count; i++) {
        struct lease_view *view = &looking->views[i];

        if (strcmp(looking->lanes[i], row->columns[0]) != 0)
            continue;
        snprintf(view->owner, sizeof(view->owner), "%s", row->columns[1]);
        view->epoch = db_column_i64(row, 2);
        view->left_ms = db_column_i64(row, 3);
        view->length_ms = db_column_i64(row, 4);
        looking->found[i] = true;
        looking->found_count++;
    }
    return RC_OK;
}

static enum rc leases_make(struct lease_mysql *store, const struct looking *looking,
                           struct err *err)
{
    bool first = true;
    enum rc rc = start(store,
                       "INSERT IGNORE INTO relay_lease (lane, owner, epoch, lease_until) "
                       "VALUES ",
                       err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < looking->count; i++) {
        if (looking->found[i])
            continue;
        buf_text_put(&store->sql, first ? "(" : ", (");
        put_text(store, looking->lanes[i]);
        buf_text_put(&store->sql, ", '', 0, UTC_TIMESTAMP(3))");
        first = false;
    }
    return run(store, NULL, err);
}

static enum rc store_look(void *ctx, const char *const *lanes, size_t count,
                          struct lease_view *views, struct err *err)
{
    struct lease_mysql *store = ctx;
    struct looking looking = {.lanes = lanes, .count = count, .views = views};
    enum rc rc = start(store,
                       "SELECT lane, owner, epoch, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), "
                       "lease_until) DIV 1000, lease_ms FROM relay_lease WHERE",
                       err);

    assert(count > 0 && count <= LEASES_MAX);
    memset(views, 0, count * sizeof(*views));
    if (rc != RC_OK)
        return rc;
    put_list(store, lanes, count);
    rc = ask(store, looking_on_row, &looking, err);
    if (rc != RC_OK || looking.found_count == count)
        return rc;
    return leases_make(store, &looking, err);
}

struct counting {
    lease_on_instance on_instance;
    void *ctx;
};

static enum rc counting_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct counting *counting = ctx;
    const char *star = strrchr(row->columns[1], '*');
    int64_t weight = star ? strtoll(star + 1, NULL, 10) : 1;

    return counting->on_instance(counting->ctx, row->columns[0], weight > 0 ? weight : 1, err);
}

static enum rc store_instances(void *ctx, int64_t lease_ms, lease_on_instance on_instance,
                               void *on_instance_ctx, struct err *err)
{
    struct lease_mysql *store = ctx;
    struct counting counting = {on_instance, on_instance_ctx};
    enum rc rc = start(store, "SELECT name, role FROM instance WHERE (role = ", err);

    if (rc != RC_OK)
        return rc;
    put_text(store, store->group);
    buf_text_put(&store->sql, " OR role LIKE ");
    put_pattern(store, store->group, "*%");
    buf_print(&store->sql,
              ") AND seen_at > UTC_TIMESTAMP(3) - INTERVAL %lld MICROSECOND AND "
              "seen_at < UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND ORDER BY name LIMIT 256",
              (long long)lease_ms * 1000, (long long)lease_ms * LEASE_LENGTHS_MAX * 1000);
    return ask(store, counting_on_row, &counting, err);
}

static enum rc epoch_of(struct lease_mysql *store, const char *lane, int64_t *epoch,
                        struct err *err)
{
    struct lease_view view;
    enum rc rc = store_look(store, &lane, 1, &view, err);

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
    enum rc rc = start(store, "UPDATE relay_lease SET owner = ", err);

    *taken = false;
    if (rc != RC_OK)
        return rc;
    put_text(store, store->owner);
    buf_text_put(&store->sql, ", epoch = epoch + 1, diverted_keys = 0, diverted_reason = '', "
                              "lease_until = ");
    put_until(store, lease_ms);
    put_length(store, lease_ms);
    buf_text_put(&store->sql, " WHERE lane = ");
    put_text(store, lane);
    buf_text_put(&store->sql, " AND (owner = '' OR lease_until < UTC_TIMESTAMP(3))");
    rc = run(store, &affected, err);
    if (rc != RC_OK || affected == 0)
        return rc;
    *taken = true;
    return epoch_of(store, lane, epoch, err);
}

static void put_mine(struct lease_mysql *store, const char *lane, int64_t epoch)
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
    enum rc rc = start(store, "UPDATE relay_lease SET lease_until = ", err);

    if (rc != RC_OK)
        return rc;
    put_until(store, length_ms);
    buf_text_put(&store->sql, " WHERE lane = ");
    put_text(store, lane);
    buf_print(&store->sql, " AND epoch = %lld AND lease_until > ", (long long)epoch);
    put_until(store, length_ms * LEASE_LENGTHS_MAX);
    return run(store, NULL, err);
}

static enum rc store_tell(void *ctx, const char *lane, int64_t epoch, const struct lease_news *news,
                          struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = start(store, "UPDATE relay_lease SET diverted_keys = ", err);

    if (rc != RC_OK)
        return rc;
    buf_i64(&store->sql, news->diverted_keys);
    buf_text_put(&store->sql, ", diverted_reason = ");
    put_text(store, news->diverted_reason);
    put_mine(store, lane, epoch);
    return run(store, NULL, err);
}

static enum rc store_release(void *ctx, const char *lane, int64_t epoch, struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = start(store, "UPDATE relay_lease SET owner = ''", err);

    if (rc != RC_OK)
        return rc;
    put_mine(store, lane, epoch);
    return run(store, NULL, err);
}

static enum rc store_leave(void *ctx, struct err *err)
{
    struct lease_mysql *store = ctx;
    enum rc rc = start(store, "DELETE FROM instance WHERE name = ", err);

    if (rc != RC_OK)
        return rc;
    put_text(store, store->owner);
    buf_text_put(&store->sql, " AND role IN (");
    put_text(store, store->role);
    buf_text_put(&store->sql, ", ");
    put_text(store, store->entry);
    buf_char(&store->sql, ')');
    return run(store, NULL, err);
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

struct lease_store lease_mysql_ops(struct lease_mysql *store)
{
    return (struct lease_store){
        .ctx = store,
        .beat = store_beat,
        .look = store_look,
        .instances = store_instances,
        .take = store_take,
        .shorten = store_shorten,
        .tell = store_tell,
        .release = store_release,
        .leave = store_leave,
    };
}
