/* SPDX-License-Identifier: MIT */
#include "outbox/relay/writers_mysql.h"

#include "common/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Read-only transactions, which have written nothing, are listed with 0 or numbers from this one
 * on. */
#define WRITER_ID_END "281474976710656"

/* Counts an unknown answer. An account without the privilege gets only unknown answers: after
 * WRITERS_UNSEEN_MAX of them the last known answer is dropped. Returns the time of the next query.
 */
static int64_t count_unknown(struct writers_mysql *writers, int64_t now_ms)
{
    if (++writers->unseen < WRITERS_UNSEEN_MAX)
        return now_ms + WRITERS_AGAIN_MS;
    writers->unseen = 0;
    writers->answer = (struct source_writers){0};
    return now_ms + WRITERS_REST_MS;
}

static enum rc take_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct source_writers *answer = ctx;

    (void)err;
    answer->oldest = db_column_u64(row, 1);
    answer->newest = db_column_u64(row, 2);
    answer->known = db_column_u64(row, 3) > 0;
    return RC_OK;
}

/* MySQL's list contains the text of each running statement, and cannot be read while one of them
 * contains invalid text, such as a binary literal. An account without the privilege PROCESS gets an
 * error from one server and an empty list from the other. All three cases are unknown answers. */
static enum rc read_list(struct db *db, uint64_t number, struct source_writers *answer,
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
    rc = db_query(db, sql, strlen(sql), take_row, answer, &own);
    if (rc == RC_OK || (rc != RC_RETRY && (own.code == DB_CANNOT_CONVERT || rc == RC_FATAL)))
        return RC_OK;
    if (err)
        *err = own;
    return rc;
}

/* Reads a row first: the list contains only transactions that have accessed a table. */
static enum rc query_writers(struct db *db, uint64_t number, struct source_writers *answer,
                             struct err *err)
{
    int64_t epoch = 0;
    enum rc rc = db_begin(db, err);

    memset(answer, 0, sizeof(*answer));
    answer->asked_ms = os_now_ms();
    if (rc == RC_OK)
        rc = db_number(db, "SELECT epoch FROM relay_lease LIMIT 1", &epoch, NULL, err);
    if (rc == RC_OK)
        rc = read_list(db, number, answer, err);
    if (db_in_transaction(db))
        db_rollback(db);
    return rc;
}

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
        writers->ask_at_ms = count_unknown(writers, now_ms);
    }
    pthread_mutex_unlock(&writers->lock);
}

enum rc writers_mysql_ask(struct writers_mysql *writers, struct db *db, uint64_t server,
                          struct source_writers *answer, struct err *err)
{
    struct source_writers fresh;
    uint64_t number = 0;
    enum rc rc;

    if (!writers_mysql_take(writers, server, os_now_ms(), answer, &number))
        return RC_OK;
    rc = query_writers(db, number, &fresh, err);
    writers_mysql_give(writers, server, os_now_ms(), rc == RC_OK ? &fresh : NULL);
    if (rc == RC_OK && fresh.known)
        *answer = fresh;
    return rc;
}
