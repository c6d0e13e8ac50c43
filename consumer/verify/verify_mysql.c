/* SPDX-License-Identifier: MIT */
#include "consumer/verify/verify_mysql.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "consumer/verify/vote_sum_mysql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A full scan of a long log may take hours. If the server fails, the statement ends with an
 * error. */
#define CHECK_TIMEOUT_MS (24LL * 3600 * 1000)

struct verify_mysql {
    const struct settings *settings;
    struct mysql_settings sides[2]; /* with the longer time-out; index: enum verify_side */
    struct db *db[2];
    struct buf sql;
    bool outbox_only; /* as `migrate up --only outbox` recorded it */
};

/* Contents whose tallies have ended, in one statement of the writers' side, of some 200 kB. */
#define ENDED_MAX 10000

/* One check on one server. `count` counts the rows that it reads. `offenders` returns a row for
 * each violation, whose first column describes it; %lld in it stands for rollup.overlap_ms. */
struct check {
    const char *name;
    const char *holds;
    enum verify_side side;
    const char *count;
    const char *offenders;
};

/* The rows of the log that are not in vote_base. Rows of a month that is being dropped are in
 * vote_base up to an id. */
#define LOG                                                                                        \
    "(SELECT v.* FROM vote_document v JOIN log_begin g ON g.name = 'vote_document' JOIN "          \
    "housekeep_state h ON h.name = 'vote_document' WHERE v.create_date >= g.begin_date OR v.id > " \
    "h.folded_id) counted"

/* Contents whose rows serve removes, in several transactions: no vote counts any more. */
#define CLOSED "(SELECT content_id FROM deleted_content WHERE closed_at IS NOT NULL)"

static const struct check checks[] = {
    {
        "counts_match_states",
        "vote_count is the number of voters whose last vote is 1, but for deleted contents",
        VERIFY_WRITERS,
        "SELECT COUNT(*) FROM vote_state",
        "SELECT CONCAT('content ', c.content_id, ': vote_count has ', c.votes, ', vote_state ',"
        " COALESCE(s.votes, 0)) FROM vote_count c LEFT JOIN (SELECT content_id, SUM(voting) AS"
        " votes FROM vote_state GROUP BY content_id) s ON s.content_id = c.content_id"
        " WHERE c.votes <> COALESCE(s.votes, 0) AND c.content_id NOT IN " CLOSED
        " UNION ALL SELECT CONCAT('content ', s.content_id, ': ', COUNT(*), ' rows in vote_state"
        " but none in vote_count') FROM vote_state s LEFT JOIN vote_count c ON c.content_id ="
        " s.content_id WHERE c.content_id IS NULL AND s.content_id NOT IN " CLOSED
        " GROUP BY s.content_id",
    },
    {
        "sequence_whole",
        "content_seq of each content is 1, 2, 3 ... without holes, but for the rows in vote_base",
        VERIFY_LOG,
        "SELECT COUNT(*) FROM vote_document",
        "SELECT CONCAT('content ', d.content_id, ': content_seq ', d.content_seq, ' follows ',"
        " d.seq_was, ' (id ', d.id, ')') FROM (SELECT id, content_id, content_seq,"
        " COALESCE(LAG(content_seq) OVER (PARTITION BY content_id ORDER BY content_seq, id), 0) AS"
        " seq_was FROM " LOG ") d LEFT JOIN vote_base b ON b.content_id = d.content_id"
        " WHERE d.content_seq <= d.seq_was OR d.content_seq = b.seq OR (d.content_seq >"
        " d.seq_was + 1 AND d.content_seq - 1 > COALESCE(b.seq, 0))"
        " UNION ALL SELECT CONCAT('content ', d.content_id, ': ', d.row_count, ' rows and ',"
        " b.row_count, ' in vote_base, but the last content_seq is ', GREATEST(d.seq, b.seq)) FROM"
        " (SELECT content_id, COUNT(*) AS row_count, MAX(content_seq) AS seq FROM " LOG
        " GROUP BY content_id) d JOIN vote_base b ON b.content_id = d.content_id"
        " WHERE d.row_count + b.row_count <> GREATEST(d.seq, b.seq)",
    },
    {
        "totals_running",
        "votes of each row is the running sum of its content's votings, and the newest is no less"
        " than 0",
        VERIFY_LOG,
        "SELECT COUNT(*) FROM vote_document",
        "SELECT CONCAT('content ', d.content_id, ', content_seq ', d.content_seq, ': voting ',"
        " d.voting, ' makes ', d.votes, ' votes of ', IF(d.seq_was = d.content_seq - 1,"
        " d.votes_was, COALESCE(b.votes, 0)), ' (id ', d.id, ')') FROM (SELECT id, content_id,"
        " content_seq, voting, votes, COALESCE(LAG(votes) OVER (PARTITION BY content_id ORDER BY"
        " content_seq, id), 0) AS votes_was, COALESCE(LAG(content_seq) OVER (PARTITION BY"
        " content_id ORDER BY content_seq, id), 0) AS seq_was, LEAD(id) OVER (PARTITION BY"
        " content_id ORDER BY content_seq, id) AS later FROM " LOG ") d LEFT JOIN vote_base b"
        " ON b.content_id = d.content_id WHERE (d.votes < 0 AND d.later IS NULL) OR d.voting NOT"
        " IN (0, 1) OR CASE"
        " WHEN d.content_seq - 1 = d.seq_was THEN d.votes <> d.votes_was + " VOTE_SUM_SIGN
        " WHEN d.content_seq - 1 = b.seq THEN d.votes <> b.votes + " VOTE_SUM_SIGN
        " ELSE d.content_seq - 1 > COALESCE(b.seq, 0) END",
    },
    {
        "tally_is_newest",
        "vote_tally is the newest row of each content, and the sum of all rows and vote_base",
        VERIFY_LOG,
        "SELECT COUNT(*) FROM vote_tally",
        "SELECT CONCAT('content ', t.content_id, ': vote_tally has seq ', t.seq, ' and ', t.votes,"
        " ' votes, the log ends at ', GREATEST(COALESCE(d.seq, 0), COALESCE(b.seq, 0)), ' and sums"
        " up to ', COALESCE(d.vote_sum, 0) + COALESCE(b.vote_sum, 0)) FROM vote_tally t"
        " LEFT JOIN (SELECT content_id, MAX(content_seq) AS seq, SUM(" VOTE_SUM_SIGN
        ") AS vote_sum FROM " LOG " GROUP BY content_id) d ON d.content_id = t.content_id"
        " LEFT JOIN vote_base b ON b.content_id = t.content_id"
        " LEFT JOIN vote_document n ON n.content_id = t.content_id AND n.content_seq = t.seq"
        " WHERE t.seq <> GREATEST(COALESCE(d.seq, 0), COALESCE(b.seq, 0))"
        " OR t.votes <> COALESCE(d.vote_sum, 0) + COALESCE(b.vote_sum, 0)"
        " OR NOT t.votes <=> COALESCE(n.votes, IF(t.seq = b.seq, b.votes, NULL),"
        " IF(t.seq = 0, 0, NULL))"
        " UNION ALL SELECT CONCAT('content ', d.content_id, ': ', COUNT(*), ' rows in vote_document"
        " but none in vote_tally') FROM vote_document d LEFT JOIN vote_tally t ON t.content_id ="
        " d.content_id WHERE t.content_id IS NULL GROUP BY d.content_id"
        " UNION ALL SELECT CONCAT('content ', b.content_id, ': in vote_base, but not in "
        "vote_tally')"
        " FROM vote_base b LEFT JOIN vote_tally t ON t.content_id = b.content_id"
        " WHERE t.content_id IS NULL",
    },
    {
        "log_begins",
        "no vote from before the log's beginning is in it, unless its month is being dropped",
        VERIFY_LOG,
        "SELECT COUNT(*) FROM log_begin",
        "SELECT CONCAT('id ', d.id, ': create_date ', d.create_date, ', but the log begins on ',"
        " b.begin_date) FROM vote_document d JOIN log_begin b ON b.name = 'vote_document' AND"
        " d.create_date < b.begin_date WHERE NOT EXISTS (SELECT 1 FROM"
        " information_schema.partitions p WHERE p.table_schema = DATABASE() AND p.table_name ="
        " 'vote_document' AND p.partition_description <> 'MAXVALUE' AND"
        " CAST(SUBSTRING(p.partition_description, 2, 10) AS DATE) <= b.begin_date)",
    },
    {
        "events_unique",
        "no event is in vote_document twice",
        VERIFY_LOG,
        "SELECT COUNT(*) FROM vote_document",
        "SELECT CONCAT('event ', LOWER(HEX(event_id)), ': ', COUNT(*), ' rows (ids ', MIN(id),"
        " ' to ', MAX(id), ')') FROM vote_document GROUP BY event_id HAVING COUNT(*) > 1",
    },
    {
        "dates_from_events",
        "create_date is the date of gmt_create",
        VERIFY_LOG,
        "SELECT COUNT(*) FROM vote_document",
        "SELECT CONCAT('id ', id, ': create_date ', create_date, ' of ', gmt_create) FROM"
        " vote_document WHERE create_date <> DATE(gmt_create)",
    },
    {
        "remark_is_rolled_up",
        "remark.votes is the total at votes_seq, and no content waits longer than a roll-up; a "
        "remark newer than the last one may still wait",
        VERIFY_LOG,
        "SELECT COUNT(*) FROM remark",
        "SELECT CONCAT('remark ', r.id, ': ', r.votes, ' votes at votes_seq ', r.votes_seq,"
        " ', the log has ', COALESCE(d.votes, IF(b.seq = r.votes_seq, b.votes, 'no such row')))"
        " FROM remark r LEFT JOIN vote_document d ON d.content_id = r.id AND d.content_seq ="
        " r.votes_seq LEFT JOIN vote_base b ON b.content_id = r.id WHERE CASE"
        " WHEN r.votes_seq = 0 THEN r.votes <> 0"
        " WHEN d.id IS NOT NULL THEN d.votes <> r.votes"
        " WHEN b.seq = r.votes_seq THEN b.votes <> r.votes"
        " ELSE r.votes_seq > COALESCE(b.seq, 0) END"
        " UNION ALL SELECT CONCAT('remark ', r.id, ': at votes_seq ', r.votes_seq, ', but seq ',"
        " t.seq, ' is from ', t.changed_at, ', before the roll-up of ', s.rolled_until)"
        " FROM rollup_state s JOIN vote_tally t ON t.changed_at < s.rolled_until - INTERVAL"
        " %lld * 1000 MICROSECOND JOIN remark r ON r.id = t.content_id WHERE r.votes_seq < t.seq"
        " AND r.rollup_due IS NULL",
    },
};

#define CHECK_COUNT (sizeof(checks) / sizeof(checks[0]))

enum rc verify_mysql_open(struct verify_mysql **out, const struct settings *settings,
                          struct err *err)
{
    struct verify_mysql *verify = calloc(1, sizeof(*verify));
    enum rc rc;

    if (!verify)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    verify->settings = settings;
    verify->sides[VERIFY_WRITERS] = settings->mysql;
    verify->sides[VERIFY_LOG] = settings->sink;
    rc = RC_OK;
    for (size_t i = 0; i < 2 && rc == RC_OK; i++) {
        verify->sides[i].query_timeout_ms = CHECK_TIMEOUT_MS;
        rc = db_open(&verify->db[i], &verify->sides[i], err);
    }
    if (rc == RC_OK)
        *out = verify;
    else
        verify_mysql_close(verify);
    return rc;
}

void verify_mysql_close(struct verify_mysql *verify)
{
    if (!verify)
        return;
    for (size_t i = 0; i < 2; i++)
        db_close(verify->db[i]);
    buf_done(&verify->sql);
    free(verify);
}

/* An account that may not read the history verifies votes. */
static enum rc read_scope(struct verify_mysql *verify, struct err *err)
{
    int64_t left_out = 0;
    enum rc rc =
        db_number(verify->db[VERIFY_WRITERS],
                  "SELECT COUNT(*) FROM schema_history WHERE state = 'left_out' AND side = 'votes'",
                  &left_out, NULL, err);

    verify->outbox_only = rc == RC_OK && left_out > 0;
    return rc == RC_RETRY ? rc : RC_OK;
}

struct lane {
    uint64_t rows;
    double age_s; /* below 0: not known */
};

static enum rc lane_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct lane *lane = ctx;

    (void)err;
    lane->rows = db_column_u64(row, 0);
    lane->age_s = row->columns[1] ? (double)db_column_i64(row, 1) / 1e6 : -1;
    return RC_OK;
}

/* Calls on_lane for each configured lane, with its number of rows and the age of the oldest one. */
static enum rc for_each_lane(struct verify_mysql *verify,
                             void (*on_lane)(void *ctx, const char *name, const struct lane *lane),
                             void *ctx, struct err *err)
{
    for (size_t i = 0; i < verify->settings->lane_count; i++) {
        const struct lane_settings *own = &verify->settings->lanes[i];
        struct lane lane = {0};
        struct buf *sql = &verify->sql;
        bool has_age = false;
        enum rc rc;

        rc = db_has_column(verify->db[VERIFY_WRITERS], own->table, "created_at", &has_age, err);
        if (rc != RC_OK)
            return rc;
        buf_reset(sql);
        buf_text_put(sql, "SELECT COUNT(seq), ");
        buf_text_put(sql, has_age ? "TIMESTAMPDIFF(MICROSECOND, MIN(created_at), UTC_TIMESTAMP(6))"
                                  : "NULL");
        buf_text_put(sql, " FROM ");
        db_put_name(sql, own->table);
        if (sql->failed)
            return err_fail(err, RC_FATAL, 0, "lane.%s.table: %s is not the name of a table",
                            own->name, own->table);
        rc = db_query(verify->db[VERIFY_WRITERS], sql->data, sql->len, lane_on_row, &lane, err);
        if (rc != RC_OK)
            return rc;
        on_lane(ctx, own->name, &lane);
    }
    return RC_OK;
}

static void check_lane(void *ctx, const char *name, const struct lane *lane)
{
    struct verify_result *result = ctx;

    result->rows += lane->rows;
    if (lane->rows == 0)
        return;
    if (lane->age_s < 0)
        verify_found(result, "lane %s: %llu rows wait", name, (unsigned long long)lane->rows);
    else
        verify_found(result, "lane %s: %llu rows wait, the oldest for %.1f s", name,
                     (unsigned long long)lane->rows, lane->age_s);
    result->violations += lane->rows - 1;
}

static enum rc place_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    (void)err;
    verify_found(ctx, "%s", row->columns[0] ? row->columns[0] : "a row with NULL in it");
    return RC_OK;
}

static enum rc run_check(struct verify_mysql *verify, const struct check *check,
                         struct verify_result *result, struct err *err)
{
    struct db *db = verify->db[check->side];
    const char *overlap = strstr(check->offenders, "%lld");
    int64_t rows = 0;
    enum rc rc = db_number(db, check->count, &rows, NULL, err);

    if (rc != RC_OK)
        return rc;
    result->rows = (uint64_t)rows;
    buf_reset(&verify->sql);
    if (overlap) {
        buf_put(&verify->sql, check->offenders, (size_t)(overlap - check->offenders));
        buf_i64(&verify->sql, verify->settings->rollup.overlap_ms);
        buf_text_put(&verify->sql, overlap + strlen("%lld"));
    } else {
        buf_text_put(&verify->sql, check->offenders);
    }
    return db_stream(db, buf_text(&verify->sql), verify->sql.len, place_on_row, result, err);
}

static enum rc source_check(void *ctx, size_t index, struct verify_result *result, bool *more,
                            struct err *err)
{
    struct verify_mysql *verify = ctx;

    *more = verify->outbox_only ? index == 0 : index <= CHECK_COUNT;
    if (!*more)
        return RC_OK;
    if (index == 0) {
        result->name = "outbox_drained";
        result->holds = "every committed event is published";
        return for_each_lane(verify, check_lane, result, err);
    }
    result->name = checks[index - 1].name;
    result->holds = checks[index - 1].holds;
    return run_check(verify, &checks[index - 1], result, err);
}

struct page {
    struct verify_total *totals;
    size_t count;
};

static enum rc total_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct page *page = ctx;

    (void)err;
    page->totals[page->count].content_id = db_column_i64(row, 0);
    page->totals[page->count].ended = db_column_i64(row, 1) != 0;
    page->totals[page->count].value = db_column_i64(row, 2);
    page->count++;
    return RC_OK;
}

static const char *const fingerprints[] = {
    [VERIFY_WRITERS] = "SUM(voting * " VOTE_SUM_WEIGHT ") AS weight FROM vote_state",
    [VERIFY_LOG] = "SUM(" VOTE_SUM_SIGN " * " VOTE_SUM_WEIGHT ") AS weight FROM " LOG,
};

#define ENDED " WHERE content_id IN (SELECT content_id FROM vote_tally WHERE ended_at IS NOT NULL)"

/* A page of contents whose tallies have ended, in the memory of a statement of the writers' side:
 * head, their ids, tail. */
struct ended_page {
    struct buf *sql;
    size_t count;
    int64_t last;
};

static enum rc ended_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct ended_page *page = ctx;

    (void)err;
    page->last = db_column_i64(row, 0);
    if (page->count++ > 0)
        buf_char(page->sql, ',');
    buf_i64(page->sql, page->last);
    return RC_OK;
}

/* Runs "head (ids) tail" on the writers' side, for all contents whose tallies have ended, page by
 * page. The two sides may be on two servers, so no statement can join them. */
static enum rc query_ended(struct verify_mysql *verify, const char *head, const char *tail,
                           db_on_row on_row, void *ctx, struct err *err)
{
    struct ended_page page = {.sql = &verify->sql, .last = INT64_MIN};
    enum rc rc = RC_OK;

    do {
        char sql[256];
        int len = snprintf(sql, sizeof(sql),
                           "SELECT content_id FROM vote_tally WHERE ended_at IS NOT NULL AND "
                           "content_id > %lld ORDER BY content_id LIMIT %d",
                           (long long)page.last, ENDED_MAX);

        page.count = 0;
        buf_reset(&verify->sql);
        buf_text_put(&verify->sql, head);
        rc = db_query(verify->db[VERIFY_LOG], sql, (size_t)len, ended_on_row, &page, err);
        if (rc != RC_OK || page.count == 0)
            return rc;
        buf_text_put(&verify->sql, tail);
        rc = db_query_buf(verify->db[VERIFY_WRITERS], &verify->sql, on_row, ctx, err);
    } while (rc == RC_OK && page.count == ENDED_MAX);
    return rc;
}

#define GROUPS_HEAD "SELECT MOD(content_id, %d) AS content_group, COUNT(*), "
#define GROUPS_TAIL " GROUP BY content_group"
#define BASE_SUM "SUM(fingerprint) FROM vote_base"

struct groups {
    int64_t *sums;
    uint64_t rows;
    int64_t sign; /* 1, or -1 for rows that were added before */
};

static enum rc group_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct groups *groups = ctx;
    int64_t group = db_column_i64(row, 0);

    (void)err;
    if (group >= 0 && group < VERIFY_GROUPS)
        groups->sums[group] += groups->sign * db_column_i64(row, 2);
    groups->rows += groups->sign > 0 ? db_column_u64(row, 1) : 0;
    return RC_OK;
}

/* Adds the rows of one statement on one side: sums is "sum FROM table". */
static enum rc add_groups(struct verify_mysql *verify, enum verify_side side, const char *sums,
                          const char *where, struct groups *groups, struct err *err)
{
    struct buf *sql = &verify->sql;

    buf_reset(sql);
    /* Ids are 1 to 2^63-1, so MOD() is never negative. */
    buf_print(sql, GROUPS_HEAD "%s%s" GROUPS_TAIL, VERIFY_GROUPS, sums, where);
    return db_query_buf(verify->db[side], sql, group_on_row, groups, err);
}

/* Few contents have ended, so their rows are read again and subtracted: a condition on each row
 * would slow down the scan. */
static enum rc subtract_ended(struct verify_mysql *verify, enum verify_side side,
                              struct groups *groups, struct err *err)
{
    char head[256];
    enum rc rc;

    groups->sign = -1;
    if (side == VERIFY_WRITERS) {
        snprintf(head, sizeof(head), GROUPS_HEAD "%s WHERE content_id IN (", VERIFY_GROUPS,
                 fingerprints[side]);
        return query_ended(verify, head, ")" GROUPS_TAIL, group_on_row, groups, err);
    }
    rc = add_groups(verify, side, fingerprints[side], ENDED, groups, err);
    return rc == RC_OK ? add_groups(verify, side, BASE_SUM, ENDED, groups, err) : rc;
}

static enum rc source_groups(void *ctx, enum verify_side side, int64_t sums[VERIFY_GROUPS],
                             uint64_t *rows, struct err *err)
{
    struct verify_mysql *verify = ctx;
    struct groups groups = {.sums = sums, .sign = 1};
    enum rc rc;

    memset(sums, 0, VERIFY_GROUPS * sizeof(sums[0]));
    rc = add_groups(verify, side, fingerprints[side], "", &groups, err);
    *rows = groups.rows;
    if (rc == RC_OK && side == VERIFY_LOG)
        rc = add_groups(verify, side, BASE_SUM, "", &groups, err);
    return rc == RC_OK ? subtract_ended(verify, side, &groups, err) : rc;
}

/* The first max contents of all parts together are among the first max of each part. */
static void put_fingerprints(struct buf *sql, enum verify_side side, int group, int64_t after,
                             size_t max)
{
    char where[128];

    snprintf(where, sizeof(where), " WHERE content_id > %lld AND MOD(content_id, %d) = %d",
             (long long)after, VERIFY_GROUPS, group);
    if (side == VERIFY_LOG)
        buf_text_put(sql, "SELECT content_id, MAX(ended), SUM(weight) FROM ((");
    buf_print(sql, "SELECT content_id, 0 AS ended, %s%s GROUP BY content_id", fingerprints[side],
              where);
    if (side == VERIFY_LOG)
        buf_print(
            sql,
            " ORDER BY content_id LIMIT %zu) UNION ALL (SELECT content_id, 0, fingerprint FROM "
            "vote_base%s ORDER BY content_id LIMIT %zu) UNION ALL (SELECT content_id, 1, 0 "
            "FROM vote_tally%s AND ended_at IS NOT NULL ORDER BY content_id LIMIT %zu)) sides "
            "GROUP BY content_id",
            max, where, max, where, max);
}

static const char *contents_of(enum verify_side side, int group)
{
    if (group == VERIFY_TOTALS)
        return side == VERIFY_WRITERS ? "0, votes FROM vote_count WHERE"
                                      : "ended_at IS NOT NULL, votes FROM vote_tally WHERE";
    return side == VERIFY_WRITERS ? "closed_at IS NOT NULL, 1 FROM deleted_content WHERE"
                                  : "1, 1 FROM vote_tally WHERE ended_at IS NOT NULL AND";
}

static enum rc source_contents(void *ctx, enum verify_side side, int group, int64_t after,
                               struct verify_total *totals, size_t max, size_t *count,
                               struct err *err)
{
    struct verify_mysql *verify = ctx;
    struct page page = {.totals = totals};
    struct buf *sql = &verify->sql;
    enum rc rc;

    buf_reset(sql);
    if (group < 0)
        buf_print(sql, "SELECT content_id, %s content_id > %lld", contents_of(side, group),
                  (long long)after);
    else
        put_fingerprints(sql, side, group, after, max);
    buf_print(sql, " ORDER BY content_id LIMIT %zu", max);
    rc = db_query(verify->db[side], buf_text(sql), sql->len, total_on_row, &page, err);
    *count = page.count;
    return rc;
}

enum rc verify_mysql_begin(struct verify_mysql *verify, struct verify_source *source,
                           struct err *err)
{
    enum rc rc = read_scope(verify, err);
    size_t count = verify->outbox_only ? 1 : 2;

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        rc = db_run(verify->db[i], "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", err);
        if (rc == RC_OK)
            rc = db_begin(verify->db[i], err);
    }
    source->ctx = verify;
    source->outbox_only = verify->outbox_only;
    source->others_end = strcmp(verify->settings->consumer.votes_from, "tallybox") != 0;
    source->check = source_check;
    source->groups = source_groups;
    source->contents = source_contents;
    return rc;
}

struct drain {
    uint64_t rows;
    double age_s;
};

static void add_lane_rows(void *ctx, const char *name, const struct lane *lane)
{
    struct drain *drain = ctx;

    (void)name;
    drain->rows += lane->rows;
    if (lane->age_s > drain->age_s)
        drain->age_s = lane->age_s;
}

static enum rc subtract_votes(void *ctx, const struct db_row *row, struct err *err)
{
    int64_t *votes = ctx;

    (void)err;
    *votes -= db_column_i64(row, 0);
    return RC_OK;
}

/* Closed contents whose tombstones the consumer has not applied. */
static enum rc count_unended(struct verify_mysql *verify, int64_t *count, struct err *err)
{
    enum rc rc = db_number(verify->db[VERIFY_WRITERS],
                           "SELECT COUNT(*) FROM deleted_content WHERE closed_at IS NOT NULL",
                           count, NULL, err);

    if (rc != RC_OK || *count == 0)
        return rc;
    return query_ended(verify,
                       "SELECT COUNT(*) FROM deleted_content WHERE closed_at IS NOT NULL AND "
                       "content_id IN (",
                       ")", subtract_votes, count, err);
}

enum rc verify_mysql_drained(struct verify_mysql *verify, bool *drained, char *waiting, size_t size,
                             struct err *err)
{
    struct drain drain = {0};
    int64_t written = 0;
    int64_t logged = 0;
    int64_t unended = 0;
    enum rc rc = read_scope(verify, err);

    if (rc == RC_OK)
        rc = for_each_lane(verify, add_lane_rows, &drain, err);
    if (rc == RC_OK && !verify->outbox_only)
        rc = db_number(verify->db[VERIFY_WRITERS], "SELECT COALESCE(SUM(votes), 0) FROM vote_count",
                       &written, NULL, err);
    if (rc == RC_OK && !verify->outbox_only)
        rc = db_number(verify->db[VERIFY_LOG],
                       "SELECT COALESCE(SUM(votes), 0) FROM vote_tally WHERE ended_at IS NULL",
                       &logged, NULL, err);
    if (rc == RC_OK && !verify->outbox_only)
        rc = query_ended(verify,
                         "SELECT COALESCE(SUM(votes), 0) FROM vote_count WHERE content_id IN (",
                         ")", subtract_votes, &written, err);
    if (rc == RC_OK && !verify->outbox_only)
        rc = count_unended(verify, &unended, err);
    *drained = rc == RC_OK && drain.rows == 0 && written == logged && unended == 0;
    snprintf(waiting, size,
             "%llu rows in the outbox, %lld votes counted and %lld logged, %lld tombstones",
             (unsigned long long)drain.rows, (long long)written, (long long)logged,
             (long long)unended);
    return rc;
}
