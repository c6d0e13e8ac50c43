/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* One page reads at most this many rows: a filter without matches must not load a server that has
 * millions of rows. */
#define WINDOW_ROWS 20000
#define FIRST_WINDOW_ROWS 1000 /* enough for a page where most rows match */
#define WINDOW_DIGITS "20000"
#define WINDOWS_MAX 10 /* in one page */

#define MS_OF(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time ") DIV 1000"

/* One call under way. */
struct search {
    struct db *db;
    struct buf sql;
    bool ended;
    bool whole;
    const struct retry_filter *filter;
    retry_on_view on_view;
    void *ctx;
    size_t rows;
    int64_t last_id;
};

static const char *get_table(const struct search *search)
{
    return search->ended ? "retry_task_history" : "retry_task";
}

/* The length keeps apart what the collation takes as equal: texts that differ in blanks at their
 * end. */
static void put_text_filter(struct search *search, const char *column, const char *text)
{
    if (!text)
        return;
    buf_text_put(&search->sql, " AND t.");
    db_put_name(&search->sql, column);
    buf_text_put(&search->sql, " = ");
    db_put_text(search->db, &search->sql, text, strlen(text));
    buf_text_put(&search->sql, " AND OCTET_LENGTH(t.");
    db_put_name(&search->sql, column);
    buf_print(&search->sql, ") = %zu", strlen(text));
}

/* A range of the index of the column. */
static void put_prefix(struct search *search, const char *column, const char *prefix)
{
    struct buf pattern = {0};

    for (; *prefix; prefix++) {
        if (*prefix == '%' || *prefix == '_' || *prefix == '|')
            buf_char(&pattern, '|');
        buf_char(&pattern, *prefix);
    }
    buf_char(&pattern, '%');
    buf_text_put(&search->sql, "t.");
    db_put_name(&search->sql, column);
    buf_text_put(&search->sql, " LIKE ");
    db_put_text(search->db, &search->sql, buf_text(&pattern), pattern.len);
    buf_text_put(&search->sql, " ESCAPE '|'");
    search->sql.failed |= pattern.failed;
    buf_done(&pattern);
}

static void put_time_filter(struct search *search, const char *comparison, int64_t ms)
{
    buf_text_put(&search->sql, " AND t.");
    db_put_name(&search->sql, search->ended ? "ended_at" : "created_at");
    buf_text_put(&search->sql, comparison);
    buf_print(&search->sql,
              "TIMESTAMPADD(MICROSECOND, %" PRId64 ", TIMESTAMPADD(SECOND, %" PRId64
              ", '1970-01-01'))",
              ms % 1000 * 1000, ms / 1000);
}

static void put_states(struct search *search, unsigned states)
{
    char before = '(';

    buf_text_put(&search->sql, "t.state IN ");
    for (unsigned i = 0; i < TASK_STATES; i++) {
        if ((states & 1U << i) == 0)
            continue;
        buf_char(&search->sql, before);
        buf_u64(&search->sql, i);
        before = ',';
    }
    buf_char(&search->sql, ')');
}

static void put_ids(struct search *search)
{
    const struct retry_filter *filter = search->filter;

    buf_text_put(&search->sql, " AND t.id IN (");
    for (size_t i = 0; i < filter->id_count; i++)
        buf_print(&search->sql, i > 0 ? ",%" PRId64 : "%" PRId64, filter->ids[i]);
    buf_char(&search->sql, ')');
}

static void put_groups(struct search *search)
{
    const struct retry_filter *filter = search->filter;

    buf_text_put(&search->sql, " AND t.task_group IN (");
    for (size_t i = 0; i < filter->group_count; i++) {
        if (i > 0)
            buf_char(&search->sql, ',');
        db_put_text(search->db, &search->sql, filter->groups[i], strlen(filter->groups[i]));
    }
    buf_char(&search->sql, ')');
}

static void put_filter(struct search *search, int64_t after)
{
    const struct retry_filter *filter = search->filter;

    buf_print(&search->sql, " WHERE t.id > %" PRId64, after);
    if (filter->id_max > 0)
        buf_print(&search->sql, " AND t.id <= %" PRId64, filter->id_max);
    if (filter->id_count > 0)
        put_ids(search);
    put_text_filter(search, "task_group", filter->group);
    if (filter->group_count > 0)
        put_groups(search);
    put_text_filter(search, "origin", filter->origin);
    put_text_filter(search, "scene", filter->scene);
    put_text_filter(search, "handler", filter->handler);
    put_text_filter(search, "ordering_key", filter->ordering_key);
    put_text_filter(search, "biz_no", filter->biz_no);
    if (filter->biz_no_prefix) {
        buf_text_put(&search->sql, " AND ");
        put_prefix(search, "biz_no", filter->biz_no_prefix);
    }
    put_text_filter(search, "reason_class", filter->reason_class);
    if (search->ended)
        put_text_filter(search, "outcome", filter->outcome);
    if (filter->states != 0) {
        buf_text_put(&search->sql, " AND ");
        put_states(search, filter->states);
    }
    if (filter->since_ms > 0)
        put_time_filter(search, " >= ", filter->since_ms);
    if (filter->until_ms != INT64_MAX)
        put_time_filter(search, " < ", filter->until_ms);
}

static void put_select(struct search *search)
{
    struct buf *sql = &search->sql;

    buf_reset(sql);
    buf_text_put(sql, "SELECT t.id, t.task_group, t.scene, t.handler, t.ordering_key, "
                      "t.idempotency_key, t.biz_no, t.params_type, t.state, t.attempts, ");
    buf_text_put(sql, MS_OF("t.next_at") ", t.reason_class, t.reason, RTRIM(t.owner), t.epoch, ");
    buf_text_put(sql, search->ended ? MS_OF("t.lease_until")
                                    : MS_OF("IF(t.state = 1, t.lease_until, NULL)"));
    buf_text_put(sql, ", t.parent_id, t.step, ");
    buf_text_put(sql, MS_OF("t.created_at") ", ");
    buf_text_put(sql, MS_OF("t.updated_at") ", LENGTH(t.params), ");
    buf_text_put(sql, search->ended ? "t.outcome, " MS_OF("t.ended_at") ", t.requeued_as"
                                    : "NULL, 0, 0");
    buf_text_put(sql, ", t.origin, ");
    buf_text_put(sql, search->ended ? "0" : MS_OF("t.exhausts_at"));
    if (search->whole)
        buf_text_put(sql, ", t.options, t.params, t.step_result");
    buf_text_put(sql, " FROM ");
    db_put_name(sql, get_table(search));
    buf_text_put(sql, " t");
}

static enum rc view_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct search *search = ctx;
    struct retry_view view = {
        .id = db_column_i64(row, 0),
        .group = row->columns[1],
        .scene = row->columns[2],
        .handler = row->columns[3],
        .ordering_key = row->columns[4],
        .idempotency_key = row->columns[5],
        .biz_no = row->columns[6],
        .params_type = row->columns[7],
        .state = (enum task_state)db_column_i64(row, 8),
        .attempts = db_column_i64(row, 9),
        .next_ms = db_column_i64(row, 10),
        .reason_class = row->columns[11],
        .reason = row->columns[12],
        .owner = row->columns[13],
        .epoch = db_column_i64(row, 14),
        .lease_ms = db_column_i64(row, 15),
        .parent_id = db_column_i64(row, 16),
        .step = db_column_i64(row, 17),
        .made_ms = db_column_i64(row, 18),
        .changed_ms = db_column_i64(row, 19),
        .has_params = row->columns[20] != NULL,
        .params_len = (size_t)db_column_u64(row, 20),
        .outcome = row->columns[21],
        .ended_ms = db_column_i64(row, 22),
        .requeued_as = db_column_i64(row, 23),
        .origin = row->columns[24],
        .exhausts_ms = db_column_i64(row, 25),
    };

    if (search->whole) {
        view.options = row->columns[26];
        view.params = row->columns[27];
        view.step_result = row->columns[28];
        view.step_result_len = row->lengths[28];
    }
    search->rows++;
    search->last_id = view.id;
    return search->on_view(search->ctx, &view, err);
}

/* Reads the matching rows after `after` with the given index. */
static enum rc read_rows(struct search *search, const char *index, int64_t after, int64_t id_max,
                         size_t rows_max, struct err *err)
{
    put_select(search);
    buf_text_put(&search->sql, " FORCE INDEX (");
    db_put_name(&search->sql, index);
    buf_char(&search->sql, ')');
    put_filter(search, after);
    if (id_max > 0)
        buf_print(&search->sql, " AND t.id <= %" PRId64, id_max);
    buf_print(&search->sql, " ORDER BY t.id LIMIT %zu", rows_max);
    return db_query_buf(search->db, &search->sql, view_on_row, search, err);
}

/* How many rows a condition on an index has, no further than a window. */
static enum rc count_few(struct search *search, bool *few, struct err *err)
{
    int64_t count = 0;
    enum rc rc;

    buf_reset(&search->sql);
    buf_text_put(&search->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM retry_task t FORCE INDEX "
                               "(ix_retry_task_due) WHERE ");
    put_states(search, search->filter->states);
    buf_text_put(&search->sql, " LIMIT " WINDOW_DIGITS ") few");
    rc = db_number(search->db, buf_text(&search->sql), &count, NULL, err);
    *few = count < WINDOW_ROWS;
    return rc;
}

static const char *get_biz_index(const struct search *search)
{
    return search->ended ? "ix_retry_task_history_biz" : "ix_retry_task_biz";
}

/* Few rows of a prefix are read by its index and sorted; many are read in windows. */
static enum rc count_few_of_prefix(struct search *search, bool *few, struct err *err)
{
    int64_t count = 0;
    enum rc rc;

    buf_reset(&search->sql);
    buf_text_put(&search->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM ");
    db_put_name(&search->sql, get_table(search));
    buf_text_put(&search->sql, " t FORCE INDEX (");
    db_put_name(&search->sql, get_biz_index(search));
    buf_text_put(&search->sql, ") WHERE ");
    put_prefix(search, "biz_no", search->filter->biz_no_prefix);
    buf_text_put(&search->sql, " LIMIT " WINDOW_DIGITS ") few");
    rc = db_number(search->db, buf_text(&search->sql), &count, NULL, err);
    *few = count < WINDOW_ROWS;
    return rc;
}

/* The last id of the next window of so many rows; *last: the table ends in it. */
static enum rc find_window_end(struct search *search, int64_t after, int rows, int64_t *id_max,
                               bool *last, struct err *err)
{
    bool found = false;
    enum rc rc;

    buf_reset(&search->sql);
    buf_text_put(&search->sql, "SELECT id FROM ");
    db_put_name(&search->sql, get_table(search));
    buf_print(&search->sql, " WHERE id > %" PRId64 " ORDER BY id LIMIT %d, 1", after, rows - 1);
    rc = db_number(search->db, buf_text(&search->sql), id_max, &found, err);
    *last = !found;
    if (!found)
        *id_max = INT64_MAX;
    return rc;
}

static enum rc read_windows(struct search *search, size_t rows_max, struct retry_page *page,
                            struct err *err)
{
    for (int i = 0; i < WINDOWS_MAX; i++) {
        int64_t id_max = 0;
        bool last = false;
        enum rc rc = find_window_end(search, page->after, i == 0 ? FIRST_WINDOW_ROWS : WINDOW_ROWS,
                                     &id_max, &last, err);

        if (rc == RC_OK)
            rc = read_rows(search, "PRIMARY", page->after, id_max, rows_max - search->rows, err);
        if (rc != RC_OK)
            return rc;
        if (search->rows == rows_max) {
            page->after = search->last_id;
            page->more = true;
            return RC_OK;
        }
        if (last) {
            page->more = false;
            return RC_OK;
        }
        page->after = id_max;
    }
    page->more = true;
    return RC_OK;
}

static enum rc choose_index(struct search *search, const char **index, bool *chosen,
                            struct err *err)
{
    const struct retry_filter *filter = search->filter;
    unsigned usual = 1U << TASK_WAITING;
    bool few = false;
    enum rc rc;

    *index = NULL;
    *chosen = true;
    if (filter->id_count > 0) {
        *index = "PRIMARY";
        return RC_OK;
    }
    if (filter->biz_no) {
        *index = get_biz_index(search);
        return RC_OK;
    }
    if (filter->biz_no_prefix) {
        rc = count_few_of_prefix(search, &few, err);
        *chosen = rc == RC_OK && few;
        *index = get_biz_index(search);
        return rc;
    }
    if (search->ended && filter->group && filter->scene) {
        *index = "ix_retry_task_history_scene";
        return RC_OK;
    }
    *chosen = false;
    if (search->ended || filter->states == 0 || (filter->states & usual) != 0)
        return RC_OK;
    rc = count_few(search, &few, err);
    if (rc == RC_OK && few) {
        *index = "ix_retry_task_due";
        *chosen = true;
    }
    return rc;
}

enum rc retry_find(struct db *db, bool ended, const struct retry_filter *filter, bool whole,
                   size_t rows_max, retry_on_view on_view, void *ctx, struct retry_page *page,
                   struct err *err)
{
    struct search search = {.db = db,
                            .ended = ended,
                            .whole = whole,
                            .filter = filter,
                            .on_view = on_view,
                            .ctx = ctx,
                            .last_id = filter->after};
    const char *index = NULL;
    bool chosen = false;
    enum rc rc;

    assert(rows_max > 0 && rows_max <= RETRY_PAGE_ROWS_MAX);
    *page = (struct retry_page){.after = filter->after};
    rc = choose_index(&search, &index, &chosen, err);
    if (rc == RC_OK && !chosen)
        rc = read_windows(&search, rows_max, page, err);
    else if (rc == RC_OK) {
        rc = read_rows(&search, index, filter->after, 0, rows_max, err);
        page->more = search.rows == rows_max;
        page->after = search.last_id;
    }
    buf_done(&search.sql);
    return rc;
}

struct attempt_query {
    enum rc (*on_attempt)(void *ctx, const struct retry_attempt_view *attempt, struct err *err);
    void *ctx;
};

static enum rc attempt_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct attempt_query *reading = ctx;
    struct retry_attempt_view attempt = {
        .at_ms = db_column_i64(row, 0),
        .took_ms = db_column_i64(row, 1),
        .owner = row->columns[2],
        .step = db_column_i64(row, 3),
        .outcome = row->columns[4],
        .reason_class = row->columns[5],
        .reason = row->columns[6],
    };

    return reading->on_attempt(reading->ctx, &attempt, err);
}

enum rc retry_attempts(struct db *db, int64_t task_id,
                       enum rc (*on_attempt)(void *ctx, const struct retry_attempt_view *attempt,
                                             struct err *err),
                       void *ctx, struct err *err)
{
    struct attempt_query reading = {on_attempt, ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_print(
        &sql,
        "SELECT * FROM (SELECT " MS_OF("attempted_at") " AS at_ms, took_ms, owner, step, outcome, "
                                                       "reason_class, reason, id FROM "
                                                       "retry_attempt WHERE task_id = %" PRId64
                                                       " ORDER BY id DESC LIMIT %d) newest "
                                                       "ORDER BY id",
        task_id, RETRY_ATTEMPTS_MAX);
    rc = db_query_buf(db, &sql, attempt_on_row, &reading, err);
    buf_done(&sql);
    return rc;
}

/* In the index of each state the tasks of a handler, group and scene are neighbours, because their
 * class begins with these names. */
static void put_pending(struct db *db, struct buf *sql, const char *handler, const char *group,
                        const char *scene, int64_t limit)
{
    const char *const parts[] = {handler, group, scene, retry_owner_name(OWNER_CLIENT)};

    for (int state = TASK_WAITING; state <= TASK_BLOCKED; state++) {
        struct buf class = {0};

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            buf_text_put(&class, parts[i]);
            buf_char(&class, '\0');
        }
        if (sql->len > 0 && sql->data[sql->len - 1] == ')')
            buf_text_put(sql, " UNION ALL ");
        buf_print(sql,
                  "(SELECT 1 FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE state = %d AND "
                  "class > ",
                  state);
        db_put_bytes(db, sql, class.data, class.len);
        buf_text_put(sql, " AND class < ");
        buf_char(&class, 'z');
        db_put_bytes(db, sql, class.data, class.len);
        buf_print(sql, " LIMIT %" PRId64 ")", limit);
        sql->failed = sql->failed || class.failed;
        buf_done(&class);
    }
}

struct scene_query {
    struct retry_room *room;
    struct buf *options;
};

static enum rc scene_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct scene_query *reading = ctx;

    (void)err;
    reading->room->limit = db_column_i64(row, 0);
    if (row->columns[1])
        buf_put(reading->options, row->columns[1], row->lengths[1]);
    reading->room->configured = db_column_i64(row, 2) != 0;
    reading->room->paused = db_column_i64(row, 3) != 0;
    return RC_OK;
}

enum rc retry_room(struct db *db, const char *group, const char *scene, const char *const *handlers,
                   size_t handler_count, struct retry_room *room, struct buf *options,
                   struct err *err)
{
    struct scene_query reading = {room, options};
    struct buf sql = {0};
    enum rc rc;

    *room = (struct retry_room){0};
    /* The engine reports an invalid policy and pauses the scene. */
    buf_text_put(
        &sql, "SELECT IF(JSON_VALID(policy), CAST(COALESCE(JSON_UNQUOTE(JSON_EXTRACT(policy, "
              "'$.max_pending')), '0') AS UNSIGNED), 0), options, configured, paused FROM "
              "(SELECT IF(s.scene IS NULL, g.init_scene, s.policy) AS policy, s.options, s.scene "
              "IS NOT NULL AS configured, COALESCE(s.paused, 0) AS paused FROM (SELECT 1) AS one "
              "LEFT JOIN retry_group g ON g.owner = 'client' AND g.name = ");
    db_put_text(db, &sql, group, strlen(group));
    buf_text_put(&sql, " LEFT JOIN retry_scene s ON s.task_group = ");
    db_put_text(db, &sql, group, strlen(group));
    buf_text_put(&sql, " AND s.scene = ");
    db_put_text(db, &sql, scene, strlen(scene));
    buf_text_put(&sql, ") AS found");
    rc = db_query_buf(db, &sql, scene_on_row, &reading, err);
    if (rc == RC_OK && room->limit > 0 && handler_count > 0) {
        buf_reset(&sql);
        buf_text_put(&sql, "SELECT COUNT(*) FROM (");
        for (size_t i = 0; i < handler_count; i++)
            put_pending(db, &sql, handlers[i], group, scene, room->limit);
        buf_text_put(&sql, ") pending");
        rc = sql.failed ? err_fail(err, RC_FATAL, 0, "no memory to count tasks")
                        : db_number(db, buf_text(&sql), &room->pending, NULL, err);
    }
    buf_done(&sql);
    return rc;
}
