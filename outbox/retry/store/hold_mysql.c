/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/hold_mysql.h"

#include "outbox/relay/relay_ops.h"
#include "outbox/retry/store/wake_mysql.h"

#include <string.h>

struct renewal {
    const int64_t *ids;
    const int64_t *epochs;
    size_t count;
    bool *lost;
};

static enum rc held_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct renewal *renewal = ctx;

    (void)err;
    for (size_t i = 0; i < renewal->count; i++) {
        if (renewal->ids[i] == db_column_i64(row, 0) && renewal->epochs[i] == db_column_i64(row, 1))
            renewal->lost[i] = false;
    }
    return RC_OK;
}

/* Runs only if the number of changed rows differs; a row that was renewed twice in one millisecond
 * is not counted either. */
static enum rc mark_lost(struct store *store, struct renewal *renewal, struct err *err)
{
    for (size_t i = 0; i < renewal->count; i++)
        renewal->lost[i] = true;
    store_put(store, "SELECT id, epoch FROM retry_task FORCE INDEX (PRIMARY) WHERE state = 1 "
                     "AND id ");
    store_put_ids(&store->sql, renewal->ids, renewal->count);
    return store_query(store, held_on_row, renewal, err);
}

static enum rc beat_some(struct store *store, struct renewal *renewal, int64_t lease_ms,
                         struct err *err)
{
    uint64_t affected = 0;
    enum rc rc = store_ready(store, err);

    if (rc != RC_OK)
        return rc;
    store_put(store, "UPDATE JSON_TABLE('[");
    for (size_t i = 0; i < renewal->count; i++)
        buf_print(&store->sql, "%s[%lld,%lld]", i > 0 ? "," : "", (long long)renewal->ids[i],
                  (long long)renewal->epochs[i]);
    store_put(store, "]', '$[*]' COLUMNS (id BIGINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS l "
                     "STRAIGHT_JOIN retry_task t FORCE INDEX (PRIMARY) ON t.id = l.id "
                     "SET t.lease_until = ");
    store_put_later(store, lease_ms);
    store_put(store, " WHERE t.epoch = l.epoch AND t.state = 1");
    rc = store_exec(store, &affected, err);
    for (size_t i = 0; i < renewal->count; i++)
        renewal->lost[i] = false;
    if (rc != RC_OK || affected == renewal->count)
        return rc;
    return mark_lost(store, renewal, err);
}

enum rc hold_beat(struct store *store, const int64_t *ids, const int64_t *epochs, size_t count,
                  int64_t lease_ms, bool *lost, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t done = 0; done < count && rc == RC_OK; done += STORE_IDS_MAX) {
        struct renewal renewal = {
            .ids = ids + done,
            .epochs = epochs + done,
            .count = count - done < STORE_IDS_MAX ? count - done : STORE_IDS_MAX,
            .lost = lost + done,
        };

        rc = beat_some(store, &renewal, lease_ms, err);
    }
    return rc;
}

struct rescue {
    int64_t ids[STORE_IDS_MAX];
    struct order_key keys[STORE_IDS_MAX];
    size_t count, key_count;
};

#define OVERDUE "state = 1 AND (lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(3))"
/* A row that was claimed by a version that wrote no length is left as it is. */
#define IMPLAUSIBLE                   \
    "state = 1 AND lease_ms > 0 AND " \
    "lease_until > UTC_TIMESTAMP(3) + INTERVAL lease_ms * 2000 MICROSECOND"
_Static_assert(LEASE_LENGTHS_MAX == 2, "IMPLAUSIBLE says so");

static enum rc overdue_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct rescue *rescue = ctx;

    (void)err;
    rescue->ids[rescue->count++] = db_column_i64(row, 0);
    if (!row->columns[1] || row->lengths[1] >= sizeof(rescue->keys[0].hash))
        return RC_OK;
    memset(&rescue->keys[rescue->key_count], 0, sizeof(rescue->keys[0]));
    memcpy(rescue->keys[rescue->key_count++].hash, row->columns[1], row->lengths[1]);
    return RC_OK;
}

static enum rc find_overdue(struct store *store, struct rescue *rescue, size_t rows_max,
                            struct err *err)
{
    rescue->count = rescue->key_count = 0;
    buf_print(&store->sql,
              "SELECT id, NULL FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE " OVERDUE
              " LIMIT %zu",
              rows_max);
    return store_query(store, overdue_on_row, rescue, err);
}

/* Those that their owner finishes or beats just now are left to him. */
static enum rc lock_overdue(struct store *store, struct rescue *rescue, struct err *err)
{
    store_put(store,
              "SELECT id, HEX(order_hash) FROM retry_task FORCE INDEX (PRIMARY) WHERE " OVERDUE
              " AND id ");
    store_put_ids(&store->sql, rescue->ids, rescue->count);
    store_put(store, store->compare_and_set ? " FOR UPDATE" : " FOR UPDATE SKIP LOCKED");
    rescue->count = rescue->key_count = 0;
    return store_query(store, overdue_on_row, rescue, err);
}

static enum rc give_back(struct store *store, struct rescue *rescue, struct err *err)
{
    enum rc rc = lock_overdue(store, rescue, err);

    if (rc != RC_OK || rescue->count == 0)
        return rc;
    store_put(store, "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 0, owner = '', "
                     "lease_until = NULL, next_at = LEAST(next_at, UTC_TIMESTAMP(3)), "
                     "updated_at = UTC_TIMESTAMP(3) WHERE id ");
    store_put_ids(&store->sql, rescue->ids, rescue->count);
    rc = store_exec(store, NULL, err);
    return rc == RC_OK ? wake_keys(store->db, rescue->keys, rescue->key_count, err) : rc;
}

/* The rows that are locked by their owner just now are renewed by it. */
static enum rc shorten_implausible(struct store *store, size_t rows_max, size_t *shortened,
                                   struct err *err)
{
    struct rescue rescue;
    uint64_t affected = 0;
    enum rc rc;

    rescue.count = rescue.key_count = 0;
    buf_print(&store->sql,
              "SELECT id, NULL FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE " IMPLAUSIBLE
              " LIMIT %zu",
              rows_max);
    rc = store_query(store, overdue_on_row, &rescue, err);
    if (rc != RC_OK || rescue.count == 0)
        return rc;
    store_put(store, "UPDATE retry_task FORCE INDEX (PRIMARY) SET lease_until = UTC_TIMESTAMP(3) + "
                     "INTERVAL lease_ms * 1000 MICROSECOND WHERE " IMPLAUSIBLE " AND id ");
    store_put_ids(&store->sql, rescue.ids, rescue.count);
    rc = store_exec(store, &affected, err);
    *shortened = (size_t)affected;
    return rc;
}

enum rc hold_rescue(struct store *store, size_t rows_max, size_t *count, size_t *shortened,
                    struct err *err)
{
    struct rescue rescue;
    enum rc rc = store_ready(store, err);

    *count = *shortened = 0;
    if (rows_max > STORE_IDS_MAX)
        rows_max = STORE_IDS_MAX;
    if (rc == RC_OK)
        rc = shorten_implausible(store, rows_max, shortened, err);
    if (rc == RC_OK)
        rc = find_overdue(store, &rescue, rows_max, err);
    if (rc != RC_OK || rescue.count == 0)
        return rc;
    rc = store_begin(store, err);
    if (rc != RC_OK)
        return rc;
    rc = store_end(store, give_back(store, &rescue, err), err);
    if (rc == RC_OK)
        *count = rescue.count;
    return rc;
}
