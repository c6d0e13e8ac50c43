/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* One page looks at no more rows than this: a filter that fits nothing must not hold up a server
 * that has millions of them. */
#define WINDOW_ROWS 20000
#define WINDOW_DIGITS "20000"
#define WINDOWS_MAX 10 /* in one page */

#define MS_OF(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time ") DIV 1000"

/* One call under way. */
struct finding {
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

static const char *table_of(const struct finding *finding)
{
    return finding->ended ? "retry_task_history" : "retry_task";
}

static void text_put(struct finding *finding, const char *column, const char *text)
{
    if (!text)
        return;
    buf_text_put(&finding->sql, " AND t.");
    db_put_name(&finding->sql, column);
    buf_text_put(&finding->sql, " = ");
    db_put_text(finding->db, &finding->sql, text, strlen(text));
}

static void time_put(struct finding *finding, const char *comparison, int64_t ms)
{
    buf_text_put(&finding->sql, " AND t.");
    db_put_name(&finding->sql, finding->ended ? "ended_at" : "created_at");
    buf_text_put(&finding->sql, comparison);
    buf_print(&finding->sql,
              "TIMESTAMPADD(MICROSECOND, %" PRId64 ", TIMESTAMPADD(SECOND, %" PRId64
              ", '1970-01-01'))",
              ms % 1000 * 1000, ms / 1000);
}

static void states_put(struct finding *finding, unsigned states)
{
    char before = '(';

    buf_text_put(&finding->sql, "t.state IN ");
    for (unsigned i = 0; i < TASK_STATES; i++) {
        if ((states & 1U << i) == 0)
            continue;
        buf_char(&finding->sql, before);
        buf_u64(&finding->sql, i);
        before = ',';
    }
    buf_char(&finding->sql, ')');
}

static void ids_put(struct finding *finding)
{
    const struct retry_filter *filter = finding->filter;

    buf_text_put(&finding->sql, " AND t.id IN (");
    for (size_t i = 0; i < filter->id_count; i++)
        buf_print(&finding->sql, i > 0 ? ",%" PRId64 : "%" PRId64, filter->ids[i]);
    buf_char(&finding->sql, ')');
}

static void groups_put(struct finding *finding)
{
    const struct retry_filter *filter = finding->filter;

    buf_text_put(&finding->sql, " AND t.task_group IN (");
    for (size_t i = 0; i < filter->group_count; i++) {
        if (i > 0)
            buf_char(&finding->sql, ',');
        db_put_text(finding->db, &finding->sql, filter->groups[i], strlen(filter->groups[i]));
    }
    buf_char(&finding->sql, ')');
}

static void filter_put(struct finding *finding, int64_t after)
{
    const struct retry_filter *filter = finding->filter;

    buf_print(&finding->sql, " WHERE t.id > %" PRId64, after);
    if (filter->id_max > 0)
        buf_print(&finding->sql, " AND t.id <= %" PRId64, filter->id_max);
    if (filter->id_count > 0)
        ids_put(finding);
    text_put(finding, "task_group", filter->group);
    if (filter->group_count > 0)
        groups_put(finding);
    text_put(finding, "origin", filter->origin);
    text_put(finding, "scene", filter->scene);
    text_put(finding, "handler", filter->handler);
    text_put(finding, "ordering_key", filter->ordering_key);
    text_put(finding, "biz_no", filter->biz_no);
    text_put(finding, "reason_class", filter->reason_class);
    if (finding->ended)
        text_put(finding, "outcome", filter->outcome);
    if (filter->states != 0) {
        buf_text_put(&finding->sql, " AND ");
        states_put(finding, filter->states);
    }
    if (filter->since_ms > 0)
        time_put(finding, " >= ", filter->since_ms);
    if (filter->until_ms != INT64_MAX)
        time_put(finding, " < ", filter->until_ms);
}

static void select_put(struct finding *finding)
{
    struct buf *sql = &finding->sql;

    buf_reset(sql);
    buf_text_put(
        sql, "SELECT t.id, t.task_group, t.scene, t.handler, t.ordering_key, "
             "t.idempotency_key, t.biz_no, t.params_type, t.state, t.attempts, " MS_OF("t.next_at") ", t.reason_class, t.reason, t.owner, t.epoch, " MS_OF(
                 "t.lease_until") ", t.parent_id, t.step, " MS_OF("t.created_at") ", " MS_OF("t."
                                                                                             "updat"
                                                                                             "ed_"
                                                                                             "at") ", LENGTH(t.params), ");
    buf_text_put(sql, finding->ended ? "t.outcome, " MS_OF("t.ended_at") ", t.requeued_as"
                                     : "NULL, 0, 0");
    buf_text_put(sql, ", t.origin");
    if (finding->whole)
        buf_text_put(sql, ", t.options, t.params, t.step_result");
    buf_text_put(sql, " FROM ");
    db_put_name(sql, table_of(finding));
    buf_text_put(sql, " t");
}

static enum rc view_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct finding *finding = ctx;
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
    };

    if (finding->whole) {
        view.options = row->columns[25];
        view.params = row->columns[26];
        view.step_result = row->columns[27];
        view.step_result_len = row->lengths[27];
    }
    finding->rows++;
    finding->last_id = view.id;
    return finding->on_view(finding->ctx, &view, err);
}

/* The rows behind `after` that fit, as the index finds them. */
static enum rc rows_read(struct finding *finding, const char *index, int64_t after, int64_t id_max,
                         size_t rows_max, struct err *err)
{
    select_put(finding);
    buf_text_put(&finding->sql, " FORCE INDEX (");
    db_put_name(&finding->sql, index);
    buf_char(&finding->sql, ')');
    filter_put(finding, after);
    if (id_max > 0)
        buf_print(&finding->sql, " AND t.id <= %" PRId64, id_max);
    buf_print(&finding->sql, " ORDER BY t.id LIMIT %zu", rows_max);
    return db_query_buf(finding->db, &finding->sql, view_row, finding, err);
}

/* How many rows a condition on an index has, no further than a window. */
static enum rc few_ask(struct finding *finding, bool *few, struct err *err)
{
    int64_t count = 0;
    enum rc rc;

    buf_reset(&finding->sql);
    buf_text_put(&finding->sql, "SELECT COUNT(*) FROM (SELECT 1 FROM retry_task t FORCE INDEX "
                                "(ix_retry_task_due) WHERE ");
    states_put(finding, finding->filter->states);
    buf_text_put(&finding->sql, " LIMIT " WINDOW_DIGITS ") few");
    rc = db_number(finding->db, buf_text(&finding->sql), &count, NULL, err);
    *few = count < WINDOW_ROWS;
    return rc;
}

/* The last id of the next window; *last: the table ends in it. */
static enum rc window_ask(struct finding *finding, int64_t after, int64_t *id_max, bool *last,
                          struct err *err)
{
    bool found = false;
    enum rc rc;

    buf_reset(&finding->sql);
    buf_text_put(&finding->sql, "SELECT id FROM ");
    db_put_name(&finding->sql, table_of(finding));
    buf_print(&finding->sql, " WHERE id > %" PRId64 " ORDER BY id LIMIT %d, 1", after,
              WINDOW_ROWS - 1);
    rc = db_number(finding->db, buf_text(&finding->sql), id_max, &found, err);
    *last = !found;
    if (!found)
        *id_max = INT64_MAX;
    return rc;
}

static enum rc windows_read(struct finding *finding, size_t rows_max, struct retry_page *page,
                            struct err *err)
{
    for (int i = 0; i < WINDOWS_MAX; i++) {
        int64_t id_max = 0;
        bool last = false;
        enum rc rc = window_ask(finding, page->after, &id_max, &last, err);

        if (rc == RC_OK)
            rc = rows_read(finding, "PRIMARY", page->after, id_max, rows_max - finding->rows, err);
        if (rc != RC_OK)
            return rc;
        if (finding->rows == rows_max) {
            page->after = finding->last_id;
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

static enum rc index_choose(struct finding *finding, const char **index, bool *chosen,
                            struct err *err)
{
    const struct retry_filter *filter = finding->filter;
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
        *index = finding->ended ? "ix_retry_task_history_biz" : "ix_retry_task_biz";
        return RC_OK;
    }
    if (finding->ended && filter->group && filter->scene) {
        *index = "ix_retry_task_history_scene";
        return RC_OK;
    }
    *chosen = false;
    if (finding->ended || filter->states == 0 || (filter->states & usual) != 0)
        return RC_OK;
    rc = few_ask(finding, &few, err);
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
    struct finding finding = {.db = db,
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
    rc = index_choose(&finding, &index, &chosen, err);
    if (rc == RC_OK && !chosen)
        rc = windows_read(&finding, rows_max, page, err);
    else if (rc == RC_OK) {
        rc = rows_read(&finding, index, filter->after, 0, rows_max, err);
        page->more = finding.rows == rows_max;
        page->after = finding.last_id;
    }
    buf_done(&finding.sql);
    return rc;
}

struct attempts_reading {
    enum rc (*on_attempt)(void *ctx, const struct retry_attempt_view *attempt, struct err *err);
    void *ctx;
};

static enum rc attempt_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct attempts_reading *reading = ctx;
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
    struct attempts_reading reading = {on_attempt, ctx};
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
    rc = db_query_buf(db, &sql, attempt_row, &reading, err);
    buf_done(&sql);
    return rc;
}

/* The clients' tasks of a handler, group and scene stand together in the index of each state: their
 * class has these in front. */
static void pending_put(struct db *db, struct buf *sql, const char *handler, const char *group,
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

struct scene_reading {
    struct retry_room *room;
    struct buf *options;
};

static enum rc scene_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct scene_reading *reading = ctx;

    (void)err;
    reading->room->limit = db_column_i64(row, 0);
    if (row->columns[1])
        buf_put(reading->options, row->columns[1], row->lengths[1]);
    return RC_OK;
}

enum rc retry_room(struct db *db, const char *group, const char *scene, const char *const *handlers,
                   size_t handler_count, struct retry_room *room, struct buf *options,
                   struct err *err)
{
    struct scene_reading reading = {room, options};
    struct buf sql = {0};
    enum rc rc;

    *room = (struct retry_room){0};
    /* What is no policy is said by the engine, which pauses the scene. */
    buf_text_put(&sql, "SELECT IF(JSON_VALID(policy), CAST(COALESCE(JSON_UNQUOTE(JSON_EXTRACT("
                       "policy, '$.max_pending')), '0') AS UNSIGNED), 0), options FROM "
                       "retry_scene WHERE task_group = ");
    db_put_text(db, &sql, group, strlen(group));
    buf_text_put(&sql, " AND scene = ");
    db_put_text(db, &sql, scene, strlen(scene));
    rc = db_query_buf(db, &sql, scene_row, &reading, err);
    if (rc == RC_OK && room->limit > 0 && handler_count > 0) {
        buf_reset(&sql);
        buf_text_put(&sql, "SELECT COUNT(*) FROM (");
        for (size_t i = 0; i < handler_count; i++)
            pending_put(db, &sql, handlers[i], group, scene, room->limit);
        buf_text_put(&sql, ") pending");
        rc = sql.failed ? err_fail(err, RC_FATAL, 0, "no memory to count tasks")
                        : db_number(db, buf_text(&sql), &room->pending, NULL, err);
    }
    buf_done(&sql);
    return rc;
}
