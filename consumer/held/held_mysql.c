/* SPDX-License-Identifier: MIT */
#include "consumer/held/held_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "consumer/installation_mysql.h"
#include "outbox/retry/retry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct held_mysql {
    const struct settings *settings;
    struct db *sink;
    struct db *writers;
    struct buf sql;
    struct held_store store;
};

struct key_reader {
    void (*on_key)(void *ctx, const struct held_key *key);
    void *ctx;
};

static enum rc on_key_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct key_reader *reader = ctx;
    struct held_key key = {.id = db_column_i64(row, 0),
                           .partition = (int32_t)db_column_i64(row, 2)};

    (void)err;
    snprintf(key.topic, sizeof(key.topic), "%s", row->columns[1]);
    snprintf(key.key, sizeof(key.key), "%s", row->columns[3] ? row->columns[3] : "");
    reader->on_key(reader->ctx, &key);
    return RC_OK;
}

static enum rc store_read_keys(void *ctx, int64_t after, size_t rows_max,
                               void (*on_key)(void *key_ctx, const struct held_key *key),
                               void *key_ctx, struct err *err)
{
    struct held_mysql *held = ctx;
    struct key_reader reader = {on_key, key_ctx};
    const char *group = installation_group(held->settings);
    enum rc rc = db_connect(held->sink, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&held->sql);
    buf_print(&held->sql,
              "SELECT id, topic, partition_id, LEFT(record_key, %d) FROM dead_record "
              "FORCE INDEX (PRIMARY) WHERE id > %" PRId64 " AND consumer_group = ",
              VOTE_KEY_SIZE - 1, after);
    db_put_text(held->sink, &held->sql, group, strlen(group));
    buf_print(&held->sql,
              " AND reason_class IN ('" REASON_REFUSED "', '" REASON_BEHIND
              "') ORDER BY id LIMIT %zu",
              rows_max);
    return db_query_buf(held->sink, &held->sql, on_key_row, &reader, err);
}

static enum rc submit_in_transaction(struct held_mysql *held, const struct retry_new_task *tasks,
                                     struct retry_ticket *tickets, size_t count, struct err *err)
{
    enum rc rc = db_begin(held->writers, err);
    enum retry_owner owner;

    if (rc != RC_OK)
        return rc;
    /* All tasks belong to one consumer group. */
    if (count > 0)
        rc = retry_group_own(held->writers, tasks[0].group, OWNER_CONSUMER, &owner, err);
    if (rc == RC_OK)
        rc = retry_append_own(held->writers, OWNER_CONSUMER, tasks, count, tickets, err);
    if (rc == RC_OK)
        return db_commit(held->writers, err);
    if (db_in_transaction(held->writers))
        db_rollback(held->writers);
    return rc;
}

static enum rc store_submit(void *ctx, const struct retry_new_task *tasks, size_t count,
                            size_t *made, struct err *err)
{
    struct retry_ticket tickets[HELD_SUBMIT_MAX];
    enum rc rc = submit_in_transaction(ctx, tasks, tickets, count, err);

    *made = 0;
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        *made += !tickets[i].existed;
    return rc;
}

enum rc held_mysql_open(struct held_mysql **out, const struct settings *settings, struct err *err)
{
    struct held_mysql *held = calloc(1, sizeof(*held));
    enum rc rc;

    if (!held)
        return err_fail(err, RC_FATAL, 0, "no memory for a database");
    held->settings = settings;
    held->store =
        (struct held_store){.ctx = held, .read_keys = store_read_keys, .submit = store_submit};
    rc = db_open(&held->sink, &settings->sink, err);
    if (rc == RC_OK)
        rc = db_open(&held->writers, &settings->mysql, err);
    if (rc == RC_OK)
        *out = held;
    else
        held_mysql_close(held);
    return rc;
}

void held_mysql_close(struct held_mysql *held)
{
    if (!held)
        return;
    db_close(held->sink);
    db_close(held->writers);
    buf_done(&held->sql);
    free(held);
}

const struct held_store *held_mysql_store(struct held_mysql *held)
{
    return &held->store;
}
