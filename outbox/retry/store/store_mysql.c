/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/store_mysql.h"

#include "outbox/retry/retry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Lock waits are short: a statement that meets a long lock fails and is repeated later. */
#define LOCK_WAIT "SET SESSION innodb_lock_wait_timeout = 2"

/* A process that freezes in a transaction keeps its locks so long, and what others wait for. */
#define LET_GO "SET SESSION wait_timeout = 15"

enum rc store_ready(struct store *store, struct err *err)
{
    buf_reset(&store->sql);
    return db_set_up_session(store->db, &store->session, LOCK_WAIT, err);
}

enum rc store_begin(struct store *store, struct err *err)
{
    enum rc rc = store_ready(store, err);

    if (rc == RC_OK)
        rc = db_set_up_session(store->db, &store->begun, LET_GO, err);
    return rc == RC_OK ? db_begin(store->db, err) : rc;
}

enum rc store_end(struct store *store, enum rc rc, struct err *err)
{
    if (rc == RC_OK)
        return db_commit(store->db, err);
    db_rollback(store->db);
    return rc;
}

void store_put(struct store *store, const char *sql)
{
    buf_text_put(&store->sql, sql);
}

void store_put_text(struct store *store, const char *text)
{
    db_put_text(store->db, &store->sql, text, text ? strlen(text) : 0);
}

void store_put_owner(struct store *store)
{
    char owner[STORE_OWNER_BYTES_MAX + 1];

    snprintf(owner, sizeof(owner), "%-*s", STORE_OWNER_BYTES, store->owner);
    store_put_text(store, owner);
}

void store_put_later(struct store *store, int64_t delay_ms)
{
    buf_print(&store->sql, "UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND",
              (long long)delay_ms * 1000);
}

#define OWNER_SIZE_MAX 9

/* As the column is made: see schema/migrate/0006_retry.sql. */
void store_put_class(struct store *store, const struct task_class *class)
{
    const char *parts[] = {class->handler, class->group, class->scene,
                           retry_owner_name(class->origin)};
    char name[TASK_HANDLER_SIZE + 2 * TASK_NAME_SIZE + OWNER_SIZE_MAX + 1];
    size_t len = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t part_len = strlen(parts[i]) + 1;

        memcpy(name + len, parts[i], part_len);
        len += part_len;
    }
    name[len++] = "0123456789ABCDEF"[class->shard % TASK_SHARDS];
    db_put_bytes(store->db, &store->sql, name, len);
}

enum rc store_exec(struct store *store, uint64_t *affected, struct err *err)
{
    enum rc rc = db_exec_buf(store->db, &store->sql, affected, err);

    buf_reset(&store->sql);
    return rc;
}

enum rc store_query(struct store *store, db_on_row on_row, void *ctx, struct err *err)
{
    enum rc rc = db_query_buf(store->db, &store->sql, on_row, ctx, err);

    buf_reset(&store->sql);
    return rc;
}

void store_put_ids(struct buf *sql, const int64_t *ids, size_t count)
{
    assert(count > 0 && count <= STORE_IDS_MAX);
    buf_text_put(sql, "IN (");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, ids[i]);
    }
    buf_char(sql, ')');
}

enum rc store_open(struct store *store, const struct settings *settings, const char *owner,
                   bool compare_and_set, struct err *err)
{
    memset(store, 0, sizeof(*store));
    store->owner = owner;
    store->compare_and_set = compare_and_set;
    return db_open(&store->db, &settings->mysql, err);
}

void store_close(struct store *store)
{
    db_close(store->db);
    buf_done(&store->json);
    buf_done(&store->sql);
    memset(store, 0, sizeof(*store));
}
