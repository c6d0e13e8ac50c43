/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "consumer/apply/date.h"
#include "consumer/installation_mysql.h"
#include "consumer/maintenance/old_rows_mysql.h"
#include "consumer/singleton_mysql.h"
#include "consumer/verify/vote_sum_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of the row in housekeep_state and in log_begin. */
#define NAME "vote_document"

#define MS_OF(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time ") DIV 1000"
#define DAY_OF(date) "TO_DAYS(" date ") - TO_DAYS('1970-01-01')"

enum {
    NOTHING_TO_DROP = 1507,
    NO_SUCH_PARTITION = 1735,
};

struct housekeep_mysql {
    const struct settings *settings;
    struct db *sink;
    struct db *writers;
    uint64_t sink_session; /* the session whose lock waits are limited */
    uint64_t writers_session;
    struct buf sql; /* scratch memory for one statement */
    struct singleton_mysql singleton;
    struct housekeep_store store;
};

/* No statement waits longer than a second for a lock. */
#define LOCK_WAIT "SET SESSION lock_wait_timeout = 1, SESSION innodb_lock_wait_timeout = 1"

static enum rc prepare_sink(struct housekeep_mysql *mysql, struct err *err)
{
    return db_set_up_session(mysql->sink, &mysql->sink_session, LOCK_WAIT, err);
}

static enum rc prepare_writers(struct housekeep_mysql *mysql, struct err *err)
{
    return db_set_up_session(mysql->writers, &mysql->writers_session, LOCK_WAIT, err);
}

static enum rc query_sql(struct housekeep_mysql *mysql, db_on_row on_row, void *ctx,
                         struct err *err)
{
    return db_query_buf(mysql->sink, &mysql->sql, on_row, ctx, err);
}

struct state_reader {
    struct housekeep_state *state;
    bool found;
};

static enum rc state_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct state_reader *reader = ctx;
    struct housekeep_state *state = reader->state;

    (void)err;
    state->now_ms = db_column_i64(row, 0);
    state->finished_ms = db_column_i64(row, 1);
    state->lease_until_ms = db_column_i64(row, 2);
    state->epoch = db_column_i64(row, 3);
    snprintf(state->owner, sizeof(state->owner), "%s", row->columns[4] ? row->columns[4] : "");
    state->begin_day = db_column_i64(row, 5);
    state->newest_day = row->columns[6] ? db_column_i64(row, 6) : INT64_MIN;
    reader->found = true;
    return RC_OK;
}

static enum rc store_read_state(void *ctx, struct housekeep_state *state, struct err *err)
{
    struct housekeep_mysql *mysql = ctx;
    struct state_reader reader = {.state = state};
    enum rc rc = prepare_sink(mysql, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&mysql->sql);
    buf_text_put(&mysql->sql, "SELECT " MS_OF("UTC_TIMESTAMP(3)") ", " MS_OF("s.finished_at"));
    buf_text_put(&mysql->sql, ", " MS_OF("s.lease_until") ", s.epoch, s.owner, ");
    buf_text_put(&mysql->sql, DAY_OF("b.begin_date") ", (SELECT " DAY_OF("create_date"));
    buf_text_put(&mysql->sql,
                 " FROM vote_document ORDER BY id DESC LIMIT 1) FROM housekeep_state s "
                 "JOIN log_begin b ON b.name = s.name WHERE s.name = '" NAME "'");
    rc = query_sql(mysql, state_on_row, &reader, err);
    if (rc == RC_OK && !reader.found)
        rc = err_fail(err, RC_FATAL, 0,
                      "housekeep_state or log_begin has no row " NAME
                      ": restore it with its last content");
    return rc;
}

static enum rc store_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                          struct err *err)
{
    struct housekeep_mysql *mysql = ctx;
    enum rc rc = prepare_sink(mysql, err);

    return rc == RC_OK ? singleton_mysql_take(&mysql->singleton, lease, taken, err) : rc;
}

static enum rc update_state(struct housekeep_mysql *mysql, const char *what, struct err *err)
{
    buf_text_put(&mysql->sql, what);
    buf_text_put(&mysql->sql, " WHERE name = '" NAME "'");
    return singleton_mysql_run(&mysql->singleton, NULL, err);
}

static enum rc renew_lease(struct housekeep_mysql *mysql, const struct singleton_lease *lease,
                           const char *more, struct err *err)
{
    buf_reset(&mysql->sql);
    buf_text_put(&mysql->sql, "UPDATE housekeep_state SET ");
    singleton_mysql_put_lease(&mysql->singleton, lease);
    return update_state(mysql, more, err);
}

/* The part of a transaction after the check that the lease is held. */
typedef enum rc (*transaction_body)(struct housekeep_mysql *mysql,
                                    const struct singleton_lease *lease, void *ctx,
                                    struct err *err);

/* singleton_mysql_check() or singleton_mysql_check_end(). */
typedef enum rc (*lease_check)(const struct singleton_mysql *row,
                               const struct singleton_lease *lease, bool *held, struct err *err);

static enum rc run_checked(struct housekeep_mysql *mysql, const struct singleton_lease *lease,
                           lease_check is_held, bool *held, transaction_body run, void *ctx,
                           struct err *err)
{
    enum rc rc = prepare_sink(mysql, err);

    if (rc == RC_OK)
        rc = singleton_mysql_begin(&mysql->singleton, err);
    if (rc != RC_OK)
        return rc;
    rc = is_held(&mysql->singleton, lease, held, err);
    if (rc == RC_OK && *held)
        rc = run(mysql, lease, ctx, err);
    if (rc == RC_OK && *held)
        return db_commit(mysql->sink, err);
    db_rollback(mysql->sink);
    return rc;
}

static enum rc run_in_transaction(struct housekeep_mysql *mysql,
                                  const struct singleton_lease *lease, bool *held,
                                  transaction_body run, void *ctx, struct err *err)
{
    return run_checked(mysql, lease, singleton_mysql_check, held, run, ctx, err);
}

static enum rc renew_in_transaction(struct housekeep_mysql *mysql,
                                    const struct singleton_lease *lease, void *ctx, struct err *err)
{
    (void)ctx;
    return renew_lease(mysql, lease, "", err);
}

static enum rc store_renew(void *ctx, const struct singleton_lease *lease, bool *held,
                           struct err *err)
{
    return run_in_transaction(ctx, lease, held, renew_in_transaction, NULL, err);
}

struct part_reader {
    struct housekeep_part *parts;
    size_t max;
    size_t count;
};

/* Parses the limit as the servers show it: '2026-01-01' in quotes, or MAXVALUE. */
static bool read_limit(const char *text, int64_t *limit_day)
{
    char date[DATE_SIZE];

    if (strcmp(text, "MAXVALUE") == 0) {
        *limit_day = HOUSEKEEP_NO_LIMIT;
        return true;
    }
    if (strlen(text) != DATE_SIZE + 1 || text[0] != '\'' || text[DATE_SIZE] != '\'')
        return false;
    memcpy(date, text + 1, DATE_SIZE - 1);
    date[DATE_SIZE - 1] = '\0';
    return date_parse(date, limit_day);
}

static enum rc part_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct part_reader *reader = ctx;
    struct housekeep_part *part = &reader->parts[reader->count];

    if (!row->columns[0])
        return err_fail(err, RC_REJECT, 0, "vote_document has no partitions");
    if (reader->count == reader->max)
        return err_fail(err, RC_REJECT, 0, "vote_document has more than %zu partitions",
                        reader->max);
    snprintf(part->name, sizeof(part->name), "%s", row->columns[0]);
    if (!row->columns[1] || !read_limit(row->columns[1], &part->limit_day))
        return err_fail(err, RC_REJECT, 0,
                        "partition %s of vote_document does not end at a date, but at %s",
                        part->name, row->columns[1] ? row->columns[1] : "nothing");
    reader->count++;
    return RC_OK;
}

static enum rc store_read_parts(void *ctx, struct housekeep_part *parts, size_t max, size_t *count,
                                struct err *err)
{
    struct housekeep_mysql *mysql = ctx;
    struct part_reader reader = {.parts = parts, .max = max};
    enum rc rc = prepare_sink(mysql, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&mysql->sql);
    buf_print(&mysql->sql,
              "SELECT partition_name, partition_description FROM information_schema.partitions "
              "WHERE table_schema = DATABASE() AND table_name = 'vote_document' "
              "ORDER BY partition_ordinal_position LIMIT %zu",
              max + 1);
    rc = query_sql(mysql, part_on_row, &reader, err);
    *count = reader.count;
    return rc;
}

static enum rc query_number(struct housekeep_mysql *mysql, uint64_t *rows, struct err *err)
{
    int64_t number = 0;
    enum rc rc;

    if (mysql->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(mysql->sink, buf_text(&mysql->sql), &number, NULL, err);
    *rows = (uint64_t)number;
    return rc;
}

static enum rc store_count_rows(void *ctx, const struct housekeep_part *part, uint64_t max,
                                uint64_t *rows, struct err *err)
{
    struct housekeep_mysql *mysql = ctx;
    enum rc rc = prepare_sink(mysql, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&mysql->sql);
    buf_text_put(&mysql->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM vote_document PARTITION (");
    db_put_name(&mysql->sql, part->name);
    buf_print(&mysql->sql, ") LIMIT %" PRIu64 ") some", max);
    return query_number(mysql, rows, err);
}

static void put_part(struct buf *sql, const struct housekeep_part *part)
{
    char date[DATE_SIZE];

    date_write(part->limit_day, date);
    buf_text_put(sql, "(PARTITION ");
    db_put_name(sql, part->name);
    buf_print(sql, " VALUES LESS THAN ('%s')", date);
}

static enum rc store_make_part(void *ctx, const struct housekeep_part *part,
                               const struct housekeep_part *last, struct err *err)
{
    struct housekeep_mysql *mysql = ctx;
    struct buf *sql = &mysql->sql;
    enum rc rc = prepare_sink(mysql, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(sql);
    if (last) {
        buf_text_put(sql, "ALTER TABLE vote_document REORGANIZE PARTITION ");
        db_put_name(sql, last->name);
        buf_text_put(sql, " INTO ");
        put_part(sql, part);
        buf_text_put(sql, ", PARTITION ");
        db_put_name(sql, last->name);
        buf_text_put(sql, " VALUES LESS THAN (MAXVALUE))");
    } else {
        buf_text_put(sql, "ALTER TABLE vote_document ADD PARTITION ");
        put_part(sql, part);
        buf_char(sql, ')');
    }
    return singleton_mysql_run(&mysql->singleton, NULL, err);
}

/* Invariant C7: rows from before log_begin are in one partition at most, because folded_id is valid
 * for one partition. A fail-over that lost commits may bring back a dropped partition after the
 * plan was made. */
static enum rc check_begin(struct housekeep_mysql *mysql, const char *date, struct err *err)
{
    uint64_t earlier = 0;
    enum rc rc;

    buf_reset(&mysql->sql);
    buf_print(&mysql->sql,
              "SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = DATABASE() "
              "AND table_name = 'vote_document' AND partition_description < '''%s'''",
              date);
    rc = query_number(mysql, &earlier, err);
    if (rc != RC_OK || earlier == 0)
        return rc;
    return err_fail(err, RC_RETRY, 0,
                    "the log cannot begin on %s while vote_document has %" PRIu64
                    " earlier partitions: the database has changed since they were read",
                    date, earlier);
}

/* A transaction that applies a batch holds a shared lock on the row of log_begin until its end.
 * When this transaction has the exclusive lock, no other one has votes from before the new
 * beginning. folded_id is set to 0 only by the call that moves the beginning, not by a repeat. */
static enum rc begin_in_transaction(struct housekeep_mysql *mysql,
                                    const struct singleton_lease *lease, void *ctx, struct err *err)
{
    const int64_t *begin_day = ctx;
    uint64_t affected = 0;
    char date[DATE_SIZE];
    enum rc rc;

    date_write(*begin_day, date);
    rc = check_begin(mysql, date, err);
    if (rc != RC_OK)
        return rc;
    buf_reset(&mysql->sql);
    buf_print(&mysql->sql,
              "UPDATE log_begin SET begin_date = '%s' WHERE name = '" NAME
              "' AND begin_date < '%s'",
              date, date);
    rc = singleton_mysql_run(&mysql->singleton, &affected, err);
    if (rc != RC_OK)
        return rc;
    return renew_lease(mysql, lease, affected > 0 ? ", folded_id = 0" : "", err);
}

static enum rc store_move_begin(void *ctx, const struct singleton_lease *lease, int64_t begin_day,
                                bool *held, struct err *err)
{
    return run_in_transaction(ctx, lease, held, begin_in_transaction, &begin_day, err);
}

struct fold_work {
    const struct housekeep_part *part;
    size_t rows_max;
    int64_t from_id; /* exclusive */
    int64_t until_id;
    uint64_t rows;
    bool begun; /* the log begins at the end of the partition or later */
};

static enum rc fold_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct fold_work *work = ctx;

    (void)err;
    work->from_id = db_column_i64(row, 0);
    work->until_id = db_column_i64(row, 1);
    work->rows = db_column_u64(row, 2);
    work->begun = db_column_i64(row, 3) != 0;
    return RC_OK;
}

static enum rc read_fold_range(struct housekeep_mysql *mysql, struct fold_work *work,
                               struct err *err)
{
    struct buf *sql = &mysql->sql;
    char date[DATE_SIZE];
    enum rc rc;

    date_write(work->part->limit_day, date);
    buf_reset(sql);
    buf_print(sql,
              "SELECT MAX(s.folded_id), MAX(d.id), COUNT(d.id), COALESCE((SELECT begin_date >= "
              "'%s' FROM log_begin WHERE name = '" NAME
              "'), 0) FROM housekeep_state s LEFT JOIN (SELECT id FROM vote_document PARTITION (",
              date);
    db_put_name(sql, work->part->name);
    buf_print(sql,
              ") WHERE id > (SELECT folded_id FROM housekeep_state WHERE name = '" NAME
              "') ORDER BY id LIMIT %zu) d ON TRUE WHERE s.name = '" NAME "'",
              work->rows_max);
    rc = query_sql(mysql, fold_on_row, work, err);
    if (rc != RC_OK || work->begun)
        return rc;
    return err_fail(err, RC_RETRY, 0,
                    "partition %s is not folded in, because the log begins before its end, %s: "
                    "the database has changed since the beginning was moved",
                    work->part->name, date);
}

/* Both servers assign from left to right: votes must come before the seq that decides about it. */
static enum rc fold_range(struct housekeep_mysql *mysql, const struct fold_work *work,
                          struct err *err)
{
    struct buf *sql = &mysql->sql;

    buf_reset(sql);
    buf_text_put(sql,
                 "INSERT INTO vote_base (content_id, seq, votes, row_count, vote_sum, fingerprint) "
                 "SELECT content_id, MAX(content_seq), MAX(IF(place = 1, votes, NULL)), COUNT(*), "
                 "SUM(" VOTE_SUM_SIGN "), SUM(" VOTE_SUM_SIGN " * " VOTE_SUM_WEIGHT
                 ") FROM (SELECT content_id, content_seq, voter_id, voting, votes, ROW_NUMBER() "
                 "OVER (PARTITION BY content_id ORDER BY content_seq DESC) AS place "
                 "FROM vote_document PARTITION (");
    db_put_name(sql, work->part->name);
    buf_print(sql,
              ") WHERE id > %" PRId64 " AND id <= %" PRId64 ") d GROUP BY content_id "
              "ON DUPLICATE KEY UPDATE "
              "votes = IF(VALUES(seq) > vote_base.seq, VALUES(votes), vote_base.votes), "
              "seq = GREATEST(vote_base.seq, VALUES(seq)), "
              "row_count = vote_base.row_count + VALUES(row_count), "
              "vote_sum = vote_base.vote_sum + VALUES(vote_sum), "
              "fingerprint = vote_base.fingerprint + VALUES(fingerprint)",
              work->from_id, work->until_id);
    return singleton_mysql_run(&mysql->singleton, NULL, err);
}

static enum rc fold_in_transaction(struct housekeep_mysql *mysql,
                                   const struct singleton_lease *lease, void *ctx, struct err *err)
{
    struct fold_work *work = ctx;
    char more[64] = "";
    enum rc rc = read_fold_range(mysql, work, err);

    if (rc == RC_OK && work->rows > 0) {
        snprintf(more, sizeof(more), ", folded_id = %" PRId64, work->until_id);
        rc = fold_range(mysql, work, err);
    }
    return rc == RC_OK ? renew_lease(mysql, lease, more, err) : rc;
}

static enum rc store_fold(void *ctx, const struct singleton_lease *lease,
                          const struct housekeep_part *part, size_t rows_max, uint64_t *rows,
                          bool *held, struct err *err)
{
    struct fold_work work = {.part = part, .rows_max = rows_max};
    enum rc rc = run_in_transaction(ctx, lease, held, fold_in_transaction, &work, err);

    *rows = work.rows;
    return rc;
}

static enum rc check_drop(struct housekeep_mysql *mysql, const struct housekeep_part *part,
                          struct err *err)
{
    struct buf *sql = &mysql->sql;
    char date[DATE_SIZE];
    uint64_t rows = 0;
    enum rc rc;

    date_write(part->limit_day, date);
    buf_reset(sql);
    buf_print(sql,
              "SELECT COALESCE((SELECT begin_date < '%s' FROM log_begin WHERE name = '" NAME
              "'), 1) + EXISTS (SELECT 1 FROM vote_document PARTITION (",
              date);
    db_put_name(sql, part->name);
    buf_text_put(sql,
                 ") WHERE id > (SELECT folded_id FROM housekeep_state WHERE name = '" NAME "'))");
    rc = query_number(mysql, &rows, err);
    if (rc != RC_OK || rows == 0)
        return rc;
    return err_fail(err, RC_REJECT, 0, "partition %s has rows that are not in vote_base",
                    part->name);
}

static enum rc store_drop_part(void *ctx, const struct housekeep_part *part, struct err *err)
{
    struct housekeep_mysql *mysql = ctx;
    struct err failure = {0};
    enum rc rc = prepare_sink(mysql, err);

    if (rc != RC_OK)
        return rc;
    rc = check_drop(mysql, part, &failure);
    if (rc == RC_OK) {
        buf_reset(&mysql->sql);
        buf_text_put(&mysql->sql, "ALTER TABLE vote_document DROP PARTITION ");
        db_put_name(&mysql->sql, part->name);
        rc = singleton_mysql_run(&mysql->singleton, NULL, &failure);
    }
    if (rc == RC_OK || failure.code == NOTHING_TO_DROP || failure.code == NO_SUCH_PARTITION)
        return RC_OK;
    if (err)
        *err = failure;
    return rc;
}

static enum rc prepare_kind(struct housekeep_mysql *mysql, enum housekeep_kind kind,
                            struct old_rows *rows, struct err *err)
{
    bool writers = kind == HOUSEKEEP_INSTANCES || kind == HOUSEKEEP_TASKS ||
                   kind == HOUSEKEEP_ATTEMPTS || kind == HOUSEKEEP_AUDIT ||
                   kind == HOUSEKEEP_EXPIRED_CONTENTS;

    *rows = (struct old_rows){
        .db = writers ? mysql->writers : mysql->sink,
        .sql = &mysql->sql,
        .group = installation_group(mysql->settings),
        .topics = mysql->settings->consumer.topics,
    };
    return writers ? prepare_writers(mysql, err) : prepare_sink(mysql, err);
}

static enum rc store_delete_old(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                                uint64_t *count, struct err *err)
{
    struct old_rows rows;
    enum rc rc = prepare_kind(ctx, kind, &rows, err);

    return rc == RC_OK ? old_rows_delete(&rows, kind, days, rows_max, count, err) : rc;
}

static enum rc store_count_old(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                               uint64_t *count, struct err *err)
{
    struct old_rows rows;
    enum rc rc = prepare_kind(ctx, kind, &rows, err);

    return rc == RC_OK ? old_rows_count(&rows, kind, days, max, count, err) : rc;
}

static enum rc finish_in_transaction(struct housekeep_mysql *mysql,
                                     const struct singleton_lease *lease, void *ctx,
                                     struct err *err)
{
    (void)ctx;
    buf_reset(&mysql->sql);
    buf_text_put(&mysql->sql, "UPDATE housekeep_state SET " SINGLETON_MYSQL_FINISHED);
    singleton_mysql_put_where(&mysql->singleton, lease);
    return singleton_mysql_run(&mysql->singleton, NULL, err);
}

static enum rc store_finish(void *ctx, const struct singleton_lease *lease, bool *held,
                            struct err *err)
{
    return run_checked(ctx, lease, singleton_mysql_check_end, held, finish_in_transaction, NULL,
                       err);
}

static void store_release(void *ctx, const struct singleton_lease *lease)
{
    struct housekeep_mysql *mysql = ctx;

    singleton_mysql_release(&mysql->singleton, lease);
}

enum rc housekeep_mysql_open(struct housekeep_mysql **out, const struct settings *settings,
                             struct err *err)
{
    struct housekeep_mysql *mysql = calloc(1, sizeof(*mysql));
    enum rc rc;

    if (!mysql)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    mysql->settings = settings;
    mysql->store = (struct housekeep_store){
        .ctx = mysql,
        .read_state = store_read_state,
        .take = store_take,
        .renew = store_renew,
        .read_parts = store_read_parts,
        .count_rows = store_count_rows,
        .make_part = store_make_part,
        .move_begin = store_move_begin,
        .fold = store_fold,
        .drop_part = store_drop_part,
        .delete_old = store_delete_old,
        .count_old = store_count_old,
        .finish = store_finish,
        .release = store_release,
    };
    rc = db_open(&mysql->sink, &settings->sink, err);
    if (rc == RC_OK)
        rc = db_open(&mysql->writers, &settings->mysql, err);
    mysql->singleton = (struct singleton_mysql){
        .db = mysql->sink, .sql = &mysql->sql, .table = "housekeep_state", .name = NAME};
    if (rc == RC_OK)
        *out = mysql;
    else
        housekeep_mysql_close(mysql);
    return rc;
}

void housekeep_mysql_close(struct housekeep_mysql *mysql)
{
    if (!mysql)
        return;
    db_close(mysql->sink);
    db_close(mysql->writers);
    buf_done(&mysql->sql);
    free(mysql);
}

enum rc housekeep_mysql_forget(struct housekeep_mysql *mysql, const char *name, uint64_t *count,
                               struct err *err)
{
    enum rc rc = prepare_writers(mysql, err);

    if (rc != RC_OK)
        return rc;
    buf_reset(&mysql->sql);
    buf_text_put(&mysql->sql,
                 "DELETE FROM instance WHERE seen_at NOT BETWEEN UTC_TIMESTAMP(3) - INTERVAL "
                 "lease_ms * 1000 MICROSECOND AND UTC_TIMESTAMP(3) + INTERVAL lease_ms * 2000 "
                 "MICROSECOND AND name = ");
    db_put_text(mysql->writers, &mysql->sql, name, strlen(name));
    return db_exec_buf(mysql->writers, &mysql->sql, count, err);
}

const struct housekeep_store *housekeep_mysql_store(const struct housekeep_mysql *mysql)
{
    return &mysql->store;
}
