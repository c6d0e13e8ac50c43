/* SPDX-License-Identifier: MIT */
#include "consumer/apply/sink_rows_mysql.h"

#include "consumer/apply/date.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* MariaDB turns an IN list of 1000 values into a join with a temporary table
 * (in_predicate_conversion_threshold), which would lock in no order. */
#define IN_MAX 500

/* Both servers plan long lists of pairs ever more slowly. */
#define PAIRS_MAX 500

/* Larger statements are no faster; smaller ones fit every server's max_allowed_packet. */
#define STATEMENT_BYTES 524288

/* Days that are worth a list: more, and every partition is searched. */
#define DAYS_MAX 32

/* Where the answer to a SELECT goes on filling tallies[]: both are in the same order. */
struct filling {
    struct tally_row *tallies;
    size_t count;
    size_t at;
};

static enum rc fill_tally(void *ctx, const struct db_row *row, struct err *err)
{
    struct filling *filling = ctx;
    int64_t content_id = db_column_i64(row, 0);

    (void)err;
    while (filling->at < filling->count && filling->tallies[filling->at].content_id < content_id)
        filling->at++;
    if (filling->at == filling->count || filling->tallies[filling->at].content_id != content_id)
        return RC_OK;
    filling->tallies[filling->at].votes = db_column_i64(row, 1);
    filling->tallies[filling->at].seq = db_column_i64(row, 2);
    filling->tallies[filling->at].found = true;
    return RC_OK;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The primary key is forced, or a small table would be locked as a whole. */
enum rc sink_lock_tallies(struct db *db, struct buf *sql, struct tally_row *tallies, size_t count,
                          struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t from = 0; rc == RC_OK && from < count; from += IN_MAX) {
        struct filling filling = {tallies + from, least(IN_MAX, count - from), 0};

        buf_reset(sql);
        buf_text_put(sql, "SELECT content_id, votes, seq FROM vote_tally FORCE INDEX (PRIMARY) "
                          "WHERE content_id IN (");
        for (size_t i = 0; i < filling.count; i++) {
            filling.tallies[i].found = false;
            if (i > 0)
                buf_char(sql, ',');
            buf_i64(sql, filling.tallies[i].content_id);
        }
        buf_text_put(sql, ") ORDER BY content_id FOR UPDATE");
        rc = db_query_buf(db, sql, fill_tally, &filling, err);
    }
    return rc;
}

/* Runs what has been put behind the statement's head, when it is big enough or the last. */
static enum rc values_run(struct db *db, struct buf *sql, size_t head_len, const char *tail,
                          bool last, struct err *err)
{
    enum rc rc;

    if (sql->len == head_len || (!last && sql->len < STATEMENT_BYTES))
        return RC_OK;
    buf_text_put(sql, tail);
    rc = db_exec_buf(db, sql, NULL, err);
    buf_cut(sql, head_len);
    return rc;
}

static size_t head_put(struct buf *sql, const char *head)
{
    buf_reset(sql);
    buf_text_put(sql, head);
    return sql->len;
}

static void tally_put(struct buf *sql, size_t head_len, const struct tally_row *tally)
{
    buf_text_put(sql, sql->len == head_len ? "(" : ",(");
    buf_i64(sql, tally->content_id);
    buf_char(sql, ',');
    buf_i64(sql, tally->votes);
    buf_char(sql, ',');
    buf_i64(sql, tally->seq);
    buf_text_put(sql, ",UTC_TIMESTAMP(3))");
}

enum rc sink_make_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                          size_t count, struct err *err)
{
    size_t head_len =
        head_put(sql, "INSERT IGNORE INTO vote_tally (content_id, votes, seq, changed_at) VALUES ");
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct tally_row empty = {.content_id = tallies[i].content_id};

        if (!tallies[i].found)
            tally_put(sql, head_len, &empty);
        rc = values_run(db, sql, head_len, "", i + 1 == count, err);
    }
    return rc;
}

enum rc sink_write_tallies(struct db *db, struct buf *sql, const struct tally_row *tallies,
                           size_t count, struct err *err)
{
    size_t head_len =
        head_put(sql, "INSERT INTO vote_tally (content_id, votes, seq, changed_at) VALUES ");
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (tallies[i].changed)
            tally_put(sql, head_len, &tallies[i]);
        rc = values_run(db, sql, head_len,
                        " ON DUPLICATE KEY UPDATE votes = VALUES(votes), seq = VALUES(seq), "
                        "changed_at = VALUES(changed_at)",
                        i + 1 == count, err);
    }
    return rc;
}

/* Where the answer to a SELECT goes on filling lasts[]: both are in the same order. */
struct last_filling {
    struct last_row *lasts;
    size_t count;
    size_t at;
};

static bool last_is(const struct last_row *last, int64_t content_id, int64_t voter_id)
{
    return last->content_id == content_id && last->voter_id == voter_id;
}

static enum rc fill_last(void *ctx, const struct db_row *row, struct err *err)
{
    struct last_filling *filling = ctx;
    int64_t content_id = db_column_i64(row, 0);
    int64_t voter_id = db_column_i64(row, 1);

    while (filling->at < filling->count &&
           !last_is(&filling->lasts[filling->at], content_id, voter_id))
        filling->at++;
    if (filling->at == filling->count)
        return err_fail(err, RC_FATAL, 0, "the database gives last votes out of order");
    filling->lasts[filling->at].voting = (int)db_column_i64(row, 2);
    filling->lasts[filling->at].occurred_ms = db_column_i64(row, 3);
    filling->lasts[filling->at].found = true;
    return RC_OK;
}

enum rc sink_read_lasts(struct db *db, struct buf *sql, struct last_row *lasts, size_t count,
                        struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t from = 0; rc == RC_OK && from < count; from += PAIRS_MAX) {
        struct last_filling filling = {lasts + from, least(PAIRS_MAX, count - from), 0};

        buf_reset(sql);
        buf_text_put(sql, "SELECT content_id, voter_id, voting, occurred_ms FROM vote_last "
                          "FORCE INDEX (PRIMARY) WHERE ");
        for (size_t i = 0; i < filling.count; i++) {
            buf_text_put(sql, i > 0 ? " OR (content_id=" : "(content_id=");
            buf_i64(sql, filling.lasts[i].content_id);
            buf_text_put(sql, " AND voter_id=");
            buf_i64(sql, filling.lasts[i].voter_id);
            buf_char(sql, ')');
        }
        buf_text_put(sql, " ORDER BY content_id, voter_id");
        rc = db_query_buf(db, sql, fill_last, &filling, err);
    }
    return rc;
}

static void last_put(struct buf *sql, size_t head_len, const struct last_row *last)
{
    buf_text_put(sql, sql->len == head_len ? "(" : ",(");
    buf_i64(sql, last->content_id);
    buf_char(sql, ',');
    buf_i64(sql, last->voter_id);
    buf_char(sql, ',');
    buf_i64(sql, last->voting);
    buf_char(sql, ',');
    buf_i64(sql, last->occurred_ms);
    buf_char(sql, ')');
}

enum rc sink_write_lasts(struct db *db, struct buf *sql, const struct last_row *lasts, size_t count,
                         struct err *err)
{
    size_t head_len =
        head_put(sql, "INSERT INTO vote_last (content_id, voter_id, voting, occurred_ms) VALUES ");
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (lasts[i].changed)
            last_put(sql, head_len, &lasts[i]);
        rc = values_run(db, sql, head_len,
                        " ON DUPLICATE KEY UPDATE voting = VALUES(voting), occurred_ms = "
                        "VALUES(occurred_ms)",
                        i + 1 == count, err);
    }
    return rc;
}

static void two_digits(char *text, int64_t value)
{
    text[0] = (char)('0' + value / 10);
    text[1] = (char)('0' + value % 10);
}

/* The date of the last row, as text: most rows are of the same day as the one before. */
struct day {
    int64_t day;
    char text[DATE_SIZE]; /* "": none yet */
};

static void date_put(struct buf *sql, struct day *day, int64_t ms)
{
    if (day->day != ms / DATE_MS || !day->text[0]) {
        day->day = ms / DATE_MS;
        date_text(day->day, day->text);
    }
    buf_put(sql, day->text, DATE_SIZE - 1);
}

static void time_put(struct buf *sql, int64_t ms)
{
    int64_t of_day = ms % DATE_MS;
    int64_t seconds = of_day / 1000;
    char text[] = " 00:00:00.000";

    two_digits(text + 1, seconds / 3600);
    two_digits(text + 4, seconds / 60 % 60);
    two_digits(text + 7, seconds % 60);
    text[10] = (char)('0' + of_day % 1000 / 100);
    two_digits(text + 11, of_day % 100);
    buf_put(sql, text, sizeof(text) - 1);
}

static void vote_put(struct buf *sql, size_t head_len, const struct vote_row *row, struct day *day)
{
    const struct vote_event *event = &row->event;

    buf_text_put(sql, sql->len == head_len ? "('" : ",('");
    date_put(sql, day, event->occurred_ms);
    time_put(sql, event->occurred_ms);
    buf_text_put(sql, "',");
    buf_i64(sql, event->voter_id);
    buf_char(sql, ',');
    buf_i64(sql, event->content_id);
    buf_char(sql, ',');
    buf_char(sql, event->voting ? '1' : '0');
    buf_char(sql, ',');
    buf_i64(sql, row->votes);
    buf_text_put(sql, ",'");
    date_put(sql, day, event->occurred_ms);
    buf_text_put(sql, "',0x");
    buf_hex(sql, event->event_id.bytes, ID_BYTES);
    buf_char(sql, ',');
    buf_i64(sql, row->content_seq);
    buf_char(sql, ')');
}

enum rc sink_insert_votes(struct db *db, struct buf *sql, const struct vote_row *rows, size_t count,
                          bool *duplicate, struct err *err)
{
    size_t head_len = head_put(sql, "INSERT INTO vote_document (gmt_create, voter_id, content_id, "
                                    "voting, votes, create_date, event_id, content_seq) VALUES ");
    struct day day = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (!rows[i].skip)
            vote_put(sql, head_len, &rows[i], &day);
        rc = values_run(db, sql, head_len, "", i + 1 == count, err);
    }
    *duplicate = rc == RC_REJECT && err->code == DB_DUPLICATE;
    return *duplicate ? RC_OK : rc;
}

/* The days of the rows, each once; false when they are too many. */
static bool days_collect(const struct vote_row *rows, size_t count, int64_t days[DAYS_MAX],
                         size_t *day_count)
{
    *day_count = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t day = rows[i].event.occurred_ms / DATE_MS;
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

struct finding {
    void (*on_found)(void *ctx, const struct id *event_id);
    void *ctx;
};

static enum rc found_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct finding *finding = ctx;
    struct id event_id;

    (void)err;
    if (row->lengths[0] != ID_BYTES)
        return RC_OK;
    memcpy(event_id.bytes, row->columns[0], ID_BYTES);
    finding->on_found(finding->ctx, &event_id);
    return RC_OK;
}

/* The days prune partitions; they are no part of the comparison. */
static void find_tail_put(struct buf *sql, const int64_t days[DAYS_MAX], size_t day_count)
{
    char text[DATE_SIZE];

    buf_char(sql, ')');
    for (size_t i = 0; i < day_count; i++) {
        date_text(days[i], text);
        buf_print(sql, "%s%s", i == 0 ? " AND create_date IN ('" : "','", text);
    }
    if (day_count > 0)
        buf_text_put(sql, "')");
}

enum rc sink_find_events(struct db *db, struct buf *sql, const struct vote_row *rows, size_t count,
                         void (*on_found)(void *found_ctx, const struct id *event_id),
                         void *found_ctx, struct err *err)
{
    struct finding finding = {on_found, found_ctx};
    size_t head_len = head_put(sql, "SELECT event_id FROM vote_document WHERE event_id IN (");
    int64_t days[DAYS_MAX];
    size_t day_count;
    size_t listed = 0;
    enum rc rc = RC_OK;

    if (!days_collect(rows, count, days, &day_count))
        day_count = 0;
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (!rows[i].skip) {
            buf_text_put(sql, listed++ == 0 ? "0x" : ",0x");
            buf_hex(sql, rows[i].event.event_id.bytes, ID_BYTES);
        }
        if (listed == 0 || (listed < IN_MAX && i + 1 < count))
            continue;
        find_tail_put(sql, days, day_count);
        rc = db_query_buf(db, sql, found_row, &finding, err);
        buf_cut(sql, head_len);
        listed = 0;
    }
    return rc;
}
