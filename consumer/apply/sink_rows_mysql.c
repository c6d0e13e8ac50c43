/* SPDX-License-Identifier: MIT */
#include "consumer/apply/sink_rows_mysql.h"

#include "consumer/apply/date.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* MariaDB converts an IN list of 1000 values into a join with a temporary table
 * (in_predicate_conversion_threshold), which would lock the rows in an undefined order. */
#define IN_MAX 500

/* The time that both servers need to plan a list of pairs grows faster than its length. */
#define PAIRS_MAX 500

/* Larger statements are not faster, and this size fits every server's max_allowed_packet. */
#define STATEMENT_BYTES 524288

/* With more days than this, all partitions are searched. */
#define DAYS_MAX 32

/* The position in tallies[] up to which the rows of a SELECT have filled it. Both are in the same
 * order. */
struct tally_cursor {
    struct tally_row *tallies;
    size_t count;
    size_t at;
};

static enum rc fill_tally(void *ctx, const struct db_row *row, struct err *err)
{
    struct tally_cursor *cursor = ctx;
    int64_t content_id = db_column_i64(row, 0);

    (void)err;
    while (cursor->at < cursor->count && cursor->tallies[cursor->at].content_id < content_id)
        cursor->at++;
    if (cursor->at == cursor->count || cursor->tallies[cursor->at].content_id != content_id)
        return RC_OK;
    cursor->tallies[cursor->at].votes = db_column_i64(row, 1);
    cursor->tallies[cursor->at].seq = db_column_i64(row, 2);
    cursor->tallies[cursor->at].ended = db_column_i64(row, 3) != 0;
    cursor->tallies[cursor->at].found = true;
    return RC_OK;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* FORCE INDEX, because a scan of a small table would lock all of its rows. */
enum rc sink_rows_lock_tallies(struct db *db, struct buf *sql, struct tally_row *tallies,
                               size_t count, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t from = 0; rc == RC_OK && from < count; from += IN_MAX) {
        struct tally_cursor cursor = {tallies + from, min_size(IN_MAX, count - from), 0};

        buf_reset(sql);
        buf_text_put(sql, "SELECT content_id, votes, seq, ended_at IS NOT NULL FROM vote_tally "
                          "FORCE INDEX (PRIMARY) WHERE content_id IN (");
        for (size_t i = 0; i < cursor.count; i++) {
            cursor.tallies[i].found = false;
            if (i > 0)
                buf_char(sql, ',');
            buf_i64(sql, cursor.tallies[i].content_id);
        }
        buf_text_put(sql, ") ORDER BY content_id FOR UPDATE");
        rc = db_query_buf(db, sql, fill_tally, &cursor, err);
    }
    return rc;
}

/* A statement "head (row),(row)... tail" that is run in parts of about STATEMENT_BYTES. */
struct statement {
    struct db *db;
    struct buf *sql;
    size_t head_len;
    const char *tail;
};

static struct statement begin_statement(struct db *db, struct buf *sql, const char *head,
                                        const char *tail)
{
    buf_reset(sql);
    buf_text_put(sql, head);
    return (struct statement){db, sql, sql->len, tail};
}

/* Runs the rows that were put since the last run, if they are many enough or the last ones. */
static enum rc run_statement(const struct statement *statement, bool last, struct err *err)
{
    struct buf *sql = statement->sql;
    enum rc rc;

    if (sql->len == statement->head_len || (!last && sql->len < STATEMENT_BYTES))
        return RC_OK;
    buf_text_put(sql, statement->tail);
    rc = db_exec_buf(statement->db, sql, NULL, err);
    buf_cut(sql, statement->head_len);
    return rc;
}

/* Appends "(1,2,..." of a row, without the end. */
static void put_numbers(const struct statement *statement, const int64_t *numbers, size_t count)
{
    struct buf *sql = statement->sql;

    buf_text_put(sql, sql->len == statement->head_len ? "(" : ",(");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_char(sql, ',');
        buf_i64(sql, numbers[i]);
    }
}

static void put_tally(const struct statement *statement, int64_t content_id, int64_t votes,
                      int64_t seq)
{
    const int64_t numbers[] = {content_id, votes, seq};

    put_numbers(statement, numbers, 3);
    buf_text_put(statement->sql, ",UTC_TIMESTAMP(3))");
}

enum rc sink_rows_make_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                               size_t count, struct err *err)
{
    const struct statement statement = begin_statement(
        db, sql, "INSERT IGNORE INTO vote_tally (content_id, votes, seq, changed_at) VALUES ", "");
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (!tallies[i].found)
            put_tally(&statement, tallies[i].content_id, 0, 0);
        rc = run_statement(&statement, i + 1 == count, err);
    }
    return rc;
}

enum rc sink_rows_write_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                                size_t count, struct err *err)
{
    const struct statement statement = begin_statement(
        db, sql, "INSERT INTO vote_tally (content_id, votes, seq, changed_at) VALUES ",
        " ON DUPLICATE KEY UPDATE votes = VALUES(votes), seq = VALUES(seq), "
        "changed_at = VALUES(changed_at)");
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (tallies[i].changed)
            put_tally(&statement, tallies[i].content_id, tallies[i].votes, tallies[i].seq);
        rc = run_statement(&statement, i + 1 == count, err);
    }
    return rc;
}

/* FORCE INDEX as above. */
enum rc sink_rows_end_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                              size_t count, struct err *err)
{
    const struct statement statement =
        begin_statement(db, sql,
                        "UPDATE vote_tally FORCE INDEX (PRIMARY) SET ended_at = UTC_TIMESTAMP(3) "
                        "WHERE content_id IN (",
                        ") AND ended_at IS NULL");
    size_t listed = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (tallies[i].ends) {
            if (listed++ > 0)
                buf_char(sql, ',');
            buf_i64(sql, tallies[i].content_id);
        }
        if (listed < IN_MAX && i + 1 < count)
            continue;
        rc = run_statement(&statement, true, err);
        listed = 0;
    }
    return rc;
}

/* As struct tally_cursor, for lasts[]. */
struct last_cursor {
    struct last_row *lasts;
    size_t count;
    size_t at;
};

static bool is_last_of(const struct last_row *last, int64_t content_id, int64_t voter_id)
{
    return last->content_id == content_id && last->voter_id == voter_id;
}

static enum rc fill_last(void *ctx, const struct db_row *row, struct err *err)
{
    struct last_cursor *cursor = ctx;
    int64_t content_id = db_column_i64(row, 0);
    int64_t voter_id = db_column_i64(row, 1);

    while (cursor->at < cursor->count &&
           !is_last_of(&cursor->lasts[cursor->at], content_id, voter_id))
        cursor->at++;
    if (cursor->at == cursor->count)
        return err_fail(err, RC_FATAL, 0, "the database returned last votes out of order");
    cursor->lasts[cursor->at].voting = (int)db_column_i64(row, 2);
    cursor->lasts[cursor->at].occurred_ms = db_column_i64(row, 3);
    cursor->lasts[cursor->at].found = true;
    return RC_OK;
}

enum rc sink_rows_read_lasts(struct db *db, struct buf *sql, struct last_row *lasts, size_t count,
                             struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t from = 0; rc == RC_OK && from < count; from += PAIRS_MAX) {
        struct last_cursor cursor = {lasts + from, min_size(PAIRS_MAX, count - from), 0};

        buf_reset(sql);
        buf_text_put(sql, "SELECT content_id, voter_id, voting, occurred_ms FROM vote_last "
                          "FORCE INDEX (PRIMARY) WHERE ");
        for (size_t i = 0; i < cursor.count; i++) {
            buf_text_put(sql, i > 0 ? " OR (content_id=" : "(content_id=");
            buf_i64(sql, cursor.lasts[i].content_id);
            buf_text_put(sql, " AND voter_id=");
            buf_i64(sql, cursor.lasts[i].voter_id);
            buf_char(sql, ')');
        }
        buf_text_put(sql, " ORDER BY content_id, voter_id");
        rc = db_query_buf(db, sql, fill_last, &cursor, err);
    }
    return rc;
}

enum rc sink_rows_write_lasts(struct db *db, struct buf *sql, const struct last_row *lasts,
                              size_t count, struct err *err)
{
    const struct statement statement = begin_statement(
        db, sql, "INSERT INTO vote_last (content_id, voter_id, voting, occurred_ms) VALUES ",
        " ON DUPLICATE KEY UPDATE voting = VALUES(voting), occurred_ms = VALUES(occurred_ms)");
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const int64_t numbers[] = {lasts[i].content_id, lasts[i].voter_id, lasts[i].voting,
                                   lasts[i].occurred_ms};

        if (lasts[i].changed) {
            put_numbers(&statement, numbers, 4);
            buf_char(sql, ')');
        }
        rc = run_statement(&statement, i + 1 == count, err);
    }
    return rc;
}

static void write_two_digits(char *text, int64_t value)
{
    text[0] = (char)('0' + value / 10);
    text[1] = (char)('0' + value % 10);
}

/* The date of the row before as text. Most rows have the same date as the row before. */
struct date_cache {
    int64_t day;
    char text[DATE_SIZE]; /* "": empty */
};

static void put_date(struct buf *sql, struct date_cache *date, int64_t ms)
{
    if (date->day != ms / MS_PER_DAY || !date->text[0]) {
        date->day = ms / MS_PER_DAY;
        date_write(date->day, date->text);
    }
    buf_put(sql, date->text, DATE_SIZE - 1);
}

static void put_time_of_day(struct buf *sql, int64_t ms)
{
    int64_t of_day = ms % MS_PER_DAY;
    int64_t seconds = of_day / 1000;
    char text[] = " 00:00:00.000";

    write_two_digits(text + 1, seconds / 3600);
    write_two_digits(text + 4, seconds / 60 % 60);
    write_two_digits(text + 7, seconds % 60);
    text[10] = (char)('0' + of_day % 1000 / 100);
    write_two_digits(text + 11, of_day % 100);
    buf_put(sql, text, sizeof(text) - 1);
}

static void put_vote(const struct statement *statement, const struct vote_row *row,
                     struct date_cache *date)
{
    const struct vote_event *event = &row->event;
    struct buf *sql = statement->sql;

    buf_text_put(sql, sql->len == statement->head_len ? "('" : ",('");
    put_date(sql, date, event->occurred_ms);
    put_time_of_day(sql, event->occurred_ms);
    buf_text_put(sql, "',");
    buf_i64(sql, event->voter_id);
    buf_char(sql, ',');
    buf_i64(sql, event->content_id);
    buf_char(sql, ',');
    buf_char(sql, event->voting ? '1' : '0');
    buf_char(sql, ',');
    buf_i64(sql, row->votes);
    buf_text_put(sql, ",'");
    put_date(sql, date, event->occurred_ms);
    buf_text_put(sql, "',0x");
    buf_hex(sql, event->event_id.bytes, ID_BYTES);
    buf_char(sql, ',');
    buf_i64(sql, row->content_seq);
    buf_char(sql, ')');
}

enum rc sink_rows_insert_votes(struct db *db, struct buf *sql, const struct vote_row *rows,
                               size_t count, bool *duplicate, struct err *err)
{
    const struct statement statement =
        begin_statement(db, sql,
                        "INSERT INTO vote_document (gmt_create, voter_id, content_id, voting, "
                        "votes, create_date, event_id, content_seq) VALUES ",
                        "");
    struct date_cache date = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (!rows[i].skip)
            put_vote(&statement, &rows[i], &date);
        rc = run_statement(&statement, i + 1 == count, err);
    }
    *duplicate = rc == RC_REJECT && err->code == DB_DUPLICATE;
    return *duplicate ? RC_OK : rc;
}

/* Stores the days of the rows, each once. False: there are more than DAYS_MAX. */
static bool collect_days(const struct vote_row *rows, size_t count, int64_t days[DAYS_MAX],
                         size_t *day_count)
{
    *day_count = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t day = rows[i].event.occurred_ms / MS_PER_DAY;
        size_t at = 0;

        if (rows[i].skip)
            continue;
        while (at < *day_count && days[at] != day)
            at++;
        if (at < *day_count)
            continue;
        if (*day_count == DAYS_MAX)
            return false;
        days[(*day_count)++] = day;
    }
    return true;
}

struct event_search {
    void (*on_found)(void *ctx, const struct id *event_id);
    void *ctx;
};

static enum rc on_event_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct event_search *search = ctx;
    struct id event_id;

    (void)err;
    if (row->lengths[0] != ID_BYTES)
        return RC_OK;
    memcpy(event_id.bytes, row->columns[0], ID_BYTES);
    search->on_found(search->ctx, &event_id);
    return RC_OK;
}

/* The days let the server prune partitions. A row is found only on one of these days.
 * Invariant C3 presumes that an event id always has the same occurred_ms. */
static void put_days(struct buf *sql, const int64_t days[DAYS_MAX], size_t day_count)
{
    char text[DATE_SIZE];

    buf_char(sql, ')');
    for (size_t i = 0; i < day_count; i++) {
        date_write(days[i], text);
        buf_print(sql, "%s%s", i == 0 ? " AND create_date IN ('" : "','", text);
    }
    if (day_count > 0)
        buf_text_put(sql, "')");
}

enum rc sink_rows_find_events(struct db *db, struct buf *sql, const struct vote_row *rows,
                              size_t count,
                              void (*on_found)(void *found_ctx, const struct id *event_id),
                              void *found_ctx, struct err *err)
{
    struct event_search search = {on_found, found_ctx};
    const struct statement statement =
        begin_statement(db, sql, "SELECT event_id FROM vote_document WHERE event_id IN (", "");
    int64_t days[DAYS_MAX];
    size_t day_count;
    size_t listed = 0;
    enum rc rc = RC_OK;

    if (!collect_days(rows, count, days, &day_count))
        day_count = 0;
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (!rows[i].skip) {
            buf_text_put(sql, listed++ == 0 ? "0x" : ",0x");
            buf_hex(sql, rows[i].event.event_id.bytes, ID_BYTES);
        }
        if (listed == 0 || (listed < IN_MAX && i + 1 < count))
            continue;
        put_days(sql, days, day_count);
        rc = db_query_buf(db, sql, on_event_row, &search, err);
        buf_cut(sql, statement.head_len);
        listed = 0;
    }
    return rc;
}
