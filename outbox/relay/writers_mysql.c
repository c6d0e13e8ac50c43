/* SPDX-License-Identifier: MIT */
#include "outbox/relay/writers_mysql.h"

#include "common/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Read-only transactions are listed with numbers from here on, or 0: they have written nothing. */
#define WRITER_ID_END "281474976710656"

void writers_mysql_init(struct writers_mysql *writers)
{
    memset(writers, 0, sizeof(*writers));
    pthread_mutex_init(&writers->lock, NULL);
    writers->number = 1;
}

void writers_mysql_done(struct writers_mysql *writers)
{
    if (writers->number > 0)
        pthread_mutex_destroy(&writers->lock);
    writers->number = 0;
}

bool writers_mysql_take(struct writers_mysql *writers, uint64_t server, int64_t now_ms,
                        struct source_writers *answer, uint64_t *number)
{
    bool ask;

    pthread_mutex_lock(&writers->lock);
    ask = !writers->asking && now_ms >= writers->ask_at_ms;
    if (ask) {
        writers->asking = true;
        *number = writers->number++;
    }
    *answer = writers->server == server ? writers->answer : (struct source_writers){0};
    pthread_mutex_unlock(&writers->lock);
    return ask;
}

/* An account that may not see the list hears nothing but answers that do not count: in the end they
 * replace what was known. */
static int64_t give_unseen(struct writers_mysql *writers, int64_t now_ms)
{
    if (++writers->unseen < WRITERS_UNSEEN_MAX)
        return now_ms + WRITERS_AGAIN_MS;
    writers->unseen = 0;
    writers->answer = (struct source_writers){0};
    return now_ms + WRITERS_REST_MS;
}

void writers_mysql_give(struct writers_mysql *writers, uint64_t server, int64_t now_ms,
                        const struct source_writers *answer)
{
    pthread_mutex_lock(&writers->lock);
    writers->asking = false;
    if (!answer) {
        writers->ask_at_ms = now_ms + WRITERS_AGAIN_MS;
    } else if (answer->known) {
        writers->answer = *answer;
        writers->server = server;
        writers->unseen = 0;
        writers->ask_at_ms = now_ms + WRITERS_EVERY_MS;
    } else {
        writers->ask_at_ms = give_unseen(writers, now_ms);
    }
    pthread_mutex_unlock(&writers->lock);
}

static enum rc on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct source_writers *answer = ctx;

    (void)err;
    answer->oldest = db_column_u64(row, 1);
    answer->newest = db_column_u64(row, 2);
    answer->known = db_column_u64(row, 3) > 0;
    return RC_OK;
}

/* MySQL's list of transactions holds the text of what they are doing: none of it can be read while
 * one of them runs a statement with bytes that are no text, as a binary literal may be. And an
 * account without the right PROCESS gets an error from one server and an empty list from the other.
 * Both are answers that do not count. */
static enum rc list_read(struct db *db, uint64_t number, struct source_writers *answer,
                         struct err *err)
{
    char sql[512];
    struct err own = {0};
    enum rc rc;

    snprintf(sql, sizeof(sql),
             "SELECT %" PRIu64 ", MIN(IF(trx_id + 0 BETWEEN 1 AND " WRITER_ID_END
             " - 1, trx_id + 0, NULL)), MAX(IF(trx_id + 0 BETWEEN 1 AND " WRITER_ID_END
             " - 1, trx_id + 0, NULL)), SUM(trx_mysql_thread_id = CONNECTION_ID() AND trx_query "
             "LIKE 'SELECT %" PRIu64 ",%%') FROM information_schema.innodb_trx",
             number, number);
    rc = db_query(db, sql, strlen(sql), on_row, answer, &own);
    if (rc == RC_OK || (rc != RC_RETRY && (own.code == DB_CANNOT_CONVERT || rc == RC_FATAL)))
        return RC_OK;
    if (err)
        *err = own;
    return rc;
}

/* A transaction that has read something stands in the list itself. */
static enum rc ask(struct db *db, uint64_t number, struct source_writers *answer, struct err *err)
{
    int64_t epoch = 0;
    enum rc rc = db_begin(db, err);

    memset(answer, 0, sizeof(*answer));
    answer->asked_ms = os_now_ms();
    if (rc == RC_OK)
        rc = db_number(db, "SELECT epoch FROM relay_lease LIMIT 1", &epoch, NULL, err);
    if (rc == RC_OK)
        rc = list_read(db, number, answer, err);
    if (db_in_transaction(db))
        db_rollback(db);
    return rc;
}

enum rc writers_mysql_ask(struct writers_mysql *writers, struct db *db, uint64_t server,
                          struct source_writers *answer, struct err *err)
{
    struct source_writers heard;
    uint64_t number = 0;
    enum rc rc;

    if (!writers_mysql_take(writers, server, os_now_ms(), answer, &number))
        return RC_OK;
    rc = ask(db, number, &heard, err);
    writers_mysql_give(writers, server, os_now_ms(), rc == RC_OK ? &heard : NULL);
    if (rc == RC_OK && heard.known)
        *answer = heard;
    return rc;
}
