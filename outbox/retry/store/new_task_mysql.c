/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/retry/store/new_task.h"

#include <stdlib.h>
#include <string.h>

/* One INSERT is closed at about this many bytes: past it, fewer statements gain nothing. */
#define STATEMENT_BYTES ((size_t)1 << 20)
#define PACKET_SPARE_BYTES 64
/* Hashes in one look. */
#define LOOK_TASKS 500
/* Each further try means that another transaction made or ended the same task. */
#define TRIES_MAX 5

struct appended {
    struct new_task_hash hash;
    size_t number; /* of its task */
    size_t same;   /* the first task with this hash; itself where there is none */
    int64_t id;    /* 0: not there yet */
    bool existed;
    char outcome[RETRY_OUTCOME_SIZE]; /* of an ended task; "": active */
};

struct append {
    struct db *db;
    enum retry_owner origin;
    bool once; /* also if the task of a key has ended and the key is still refused */
    const struct retry_new_task *tasks;
    struct appended *list; /* in the order of the tasks */
    const struct appended **sorted;
    size_t count;
    struct buf sql;
};

static int compare_hashes(const void *one, const void *other)
{
    const struct appended *const *a = one;
    const struct appended *const *b = other;
    int order = memcmp((*a)->hash.bytes, (*b)->hash.bytes, NEW_TASK_HASH_BYTES);

    return order != 0 ? order : ((*a)->number > (*b)->number) - ((*a)->number < (*b)->number);
}

static enum rc prepare_tasks(struct append *append, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < append->count && rc == RC_OK; i++)
        rc = new_task_check(&append->tasks[i], i, err);
    for (size_t i = 0; i < append->count && rc == RC_OK; i++) {
        append->list[i].number = append->list[i].same = i;
        append->sorted[i] = &append->list[i];
        rc = new_task_hash(&append->tasks[i], append->origin, &append->list[i].hash, err);
    }
    if (rc != RC_OK)
        return rc;
    qsort(append->sorted, append->count, sizeof(const struct appended *), compare_hashes);
    for (size_t i = 1; i < append->count; i++) {
        const struct appended *before = append->sorted[i - 1];

        if (memcmp(before->hash.bytes, append->sorted[i]->hash.bytes, NEW_TASK_HASH_BYTES) == 0)
            append->list[append->sorted[i]->number].same = before->same;
    }
    return RC_OK;
}

/* Returns the first task with the hash in this column, or NULL. */
static struct appended *find_hash(const struct append *append, const struct db_row *row,
                                  size_t column)
{
    struct appended like = {0};
    const struct appended *key = &like;
    const struct appended *const *found = NULL;

    if (row->lengths[column] == NEW_TASK_HASH_BYTES)
        memcpy(like.hash.bytes, row->columns[column], NEW_TASK_HASH_BYTES);
    /* Of several tasks with one hash the first one counts. */
    for (size_t from = 0, to = append->count; from < to && !found;) {
        size_t middle = from + (to - from) / 2;
        int order =
            memcmp(append->sorted[middle]->hash.bytes, key->hash.bytes, NEW_TASK_HASH_BYTES);

        if (order == 0)
            found = &append->sorted[middle];
        else if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return found ? &append->list[(*found)->same] : NULL;
}

static enum rc found_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct appended *appended = find_hash(ctx, row, 1);

    (void)err;
    if (appended) {
        appended->id = db_column_i64(row, 0);
        appended->outcome[0] = '\0';
    }
    return RC_OK;
}

static enum rc ended_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct appended *appended = find_hash(ctx, row, 1);

    (void)err;
    if (appended && appended->id == 0 && row->lengths[2] < sizeof(appended->outcome)) {
        appended->id = db_column_i64(row, 0);
        memcpy(appended->outcome, row->columns[2], row->lengths[2]);
    }
    return RC_OK;
}

static void put_hashes(struct append *append, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++) {
        if (i > from)
            buf_char(&append->sql, ',');
        buf_text_put(&append->sql, "X'");
        buf_hex(&append->sql, append->list[i].hash.bytes, NEW_TASK_HASH_BYTES);
        buf_char(&append->sql, '\'');
    }
    buf_char(&append->sql, ')');
}

/* Finds the active tasks with the hashes of these tasks. Without `locking` the statement waits for
 * no lock and takes none. */
static enum rc find_active(struct append *append, size_t from, size_t count, const char *locking,
                           struct err *err)
{
    buf_reset(&append->sql);
    buf_text_put(&append->sql, "SELECT id, active_hash FROM retry_task FORCE INDEX "
                               "(uq_retry_task_active) WHERE active_hash IN (");
    put_hashes(append, from, count);
    buf_text_put(&append->sql, locking);
    return db_query_buf(append->db, &append->sql, found_on_row, append, err);
}

static enum rc find_all_active(struct append *append, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < append->count && rc == RC_OK; i += LOOK_TASKS)
        rc = find_active(append, i, append->count - i < LOOK_TASKS ? append->count - i : LOOK_TASKS,
                         "", err);
    return rc;
}

/* Finds the ended tasks whose idempotency keys are still refused. A task that ends after this
 * search is found when the new one is claimed. */
static enum rc find_all_ended(struct append *append, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < append->count && rc == RC_OK; i += LOOK_TASKS) {
        buf_reset(&append->sql);
        buf_text_put(&append->sql,
                     "SELECT id, dedup_hash, outcome FROM retry_task_history FORCE INDEX "
                     "(ix_retry_task_history_dedup) WHERE dedup_hash IN (");
        put_hashes(append, i, append->count - i < LOOK_TASKS ? append->count - i : LOOK_TASKS);
        buf_text_put(&append->sql, " AND dedup_until > UTC_TIMESTAMP(3)");
        rc = db_query_buf(append->db, &append->sql, ended_on_row, append, err);
    }
    return rc;
}

static void put_text(struct append *append, const char *text)
{
    buf_char(&append->sql, ',');
    if (text)
        db_put_text(append->db, &append->sql, text, strlen(text));
    else
        buf_text_put(&append->sql, "NULL");
}

static void put_row(struct append *append, const struct retry_new_task *task)
{
    struct buf *sql = &append->sql;

    buf_print(sql, "(UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND",
              (long long)task->delay_ms * 1000);
    put_text(append, new_task_group(task));
    put_text(append, task->scene);
    put_text(append, task->handler);
    put_text(append, task->ordering_key);
    put_text(append, task->idempotency_key);
    put_text(append, task->biz_no);
    put_text(append, task->options);
    buf_char(sql, ',');
    db_put_bytes(append->db, sql, task->params, task->params_len);
    put_text(append, task->params_type ? task->params_type : "application/json");
    put_text(append, task->traceparent);
    if (task->parent_id > 0)
        buf_print(sql, ",%lld", (long long)task->parent_id);
    else
        buf_text_put(sql, ",NULL");
    if (append->origin != OWNER_CLIENT)
        put_text(append, retry_owner_name(append->origin));
    buf_char(sql, ')');
}

static void put_insert(struct append *append)
{
    buf_reset(&append->sql);
    buf_text_put(&append->sql,
                 "INSERT INTO retry_task (next_at, task_group, scene, handler, ordering_key, "
                 "idempotency_key, biz_no, options, params, params_type, traceparent, parent_id");
    /* An application has no privilege on the column. */
    buf_text_put(&append->sql, append->origin != OWNER_CLIENT ? ", origin) VALUES " : ") VALUES ");
}

static bool is_new(const struct append *append, size_t i)
{
    return append->list[i].same == i && append->list[i].id == 0;
}

static enum rc check_packet(struct append *append, size_t number, struct err *err)
{
    uint64_t packet = db_packet_bytes_max(append->db);

    if (packet == 0 || append->sql.len + PACKET_SPARE_BYTES <= packet)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "task %zu takes %zu bytes as SQL, the server reads at most %llu: make params "
                    "smaller or raise max_allowed_packet",
                    number, append->sql.len, (unsigned long long)packet);
}

/* Builds one INSERT of the new tasks from *next on, and moves *next past the last of them. *rows:
 * their number. */
static enum rc build_statement(struct append *append, size_t *next, size_t *rows, struct err *err)
{
    size_t limit = STATEMENT_BYTES;
    size_t last = *next;
    uint64_t packet = db_packet_bytes_max(append->db);

    if (packet > PACKET_SPARE_BYTES && packet - PACKET_SPARE_BYTES < limit)
        limit = (size_t)(packet - PACKET_SPARE_BYTES);
    put_insert(append);
    for (*rows = 0; *next < append->count; ++*next) {
        size_t len = append->sql.len;

        if (!is_new(append, *next))
            continue;
        if (*rows > 0)
            buf_char(&append->sql, ',');
        put_row(append, &append->tasks[*next]);
        if (*rows > 0 && append->sql.len > limit) {
            buf_cut(&append->sql, len);
            break;
        }
        ++*rows;
        last = *next;
    }
    if (append->sql.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for an INSERT into retry_task");
    return *rows == 1 ? check_packet(append, last, err) : RC_OK;
}

/* Another transaction made the same task since the search. The locking read waits for that
 * transaction, so that its end is known; only this read locks existing tasks. */
static enum rc insert_one(struct append *append, size_t i, struct err *err)
{
    enum rc rc = RC_OK;

    for (int tries = 0; tries < TRIES_MAX && rc == RC_OK; tries++) {
        rc = find_active(append, i, 1, " FOR UPDATE", err);
        append->list[i].existed = append->list[i].id > 0;
        if (rc != RC_OK || append->list[i].existed)
            return rc;
        put_insert(append);
        put_row(append, &append->tasks[i]);
        rc = db_exec_buf(append->db, &append->sql, NULL, err);
        if (rc == RC_OK)
            return find_active(append, i, 1, " FOR UPDATE", err);
        if (rc == RC_REJECT && err->code == DB_DUPLICATE)
            rc = RC_OK;
    }
    return rc == RC_OK ? err_fail(err, RC_REJECT, DB_DUPLICATE,
                                  "task %zu is made and ended by others all the time", i)
                       : rc;
}

static enum rc insert_each(struct append *append, size_t from, size_t to, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = from; i < to && rc == RC_OK; i++) {
        if (is_new(append, i))
            rc = insert_one(append, i, err);
    }
    return rc;
}

static enum rc insert_new_tasks(struct append *append, struct err *err)
{
    size_t next = 0;
    enum rc rc = RC_OK;

    while (rc == RC_OK && next < append->count) {
        size_t from = next;
        size_t rows = 0;

        rc = build_statement(append, &next, &rows, err);
        if (rc != RC_OK || rows == 0)
            break;
        rc = db_exec_buf(append->db, &append->sql, NULL, err);
        if (rc == RC_REJECT && err->code == DB_DUPLICATE)
            rc = insert_each(append, from, next, err);
    }
    return rc;
}

static void note_existing(struct append *append)
{
    for (size_t i = 0; i < append->count; i++)
        append->list[i].existed = append->list[i].same != i || append->list[i].id > 0;
}

static void give_tickets(const struct append *append, struct retry_ticket *tickets)
{
    for (size_t i = 0; i < append->count; i++) {
        tickets[i].id = append->list[append->list[i].same].id;
        tickets[i].existed = append->list[i].existed;
        memcpy(tickets[i].outcome, append->list[append->list[i].same].outcome,
               sizeof(tickets[i].outcome));
    }
}

static enum rc append_tasks(struct append append, struct retry_ticket *tickets, struct err *err)
{
    struct db *db = append.db;
    const struct retry_new_task *tasks = append.tasks;
    size_t count = append.count;
    enum rc rc;

    if (count == 0)
        return RC_OK;
    append.list = calloc(count, sizeof(append.list[0]));
    append.sorted = calloc(count, sizeof(const struct appended *));
    if (!append.list || !append.sorted) {
        rc = err_fail(err, RC_FATAL, 0, "no memory for %zu tasks", count);
        goto out;
    }
    rc = prepare_tasks(&append, err);
    if (rc == RC_OK && append.origin == OWNER_CLIENT)
        rc = retry_group_refuse_owned(db, tasks, count, err);
    if (rc == RC_OK)
        rc = find_all_active(&append, err);
    if (rc == RC_OK && append.once)
        rc = find_all_ended(&append, err);
    if (rc == RC_OK) {
        note_existing(&append);
        rc = insert_new_tasks(&append, err);
    }
    if (rc == RC_OK && tickets) {
        rc = find_all_active(&append, err);
        give_tickets(&append, tickets);
    }
out:
    free(append.sorted);
    free(append.list);
    buf_done(&append.sql);
    return rc;
}

enum rc retry_append_own(struct db *db, enum retry_owner origin, const struct retry_new_task *tasks,
                         size_t count, struct retry_ticket *tickets, struct err *err)
{
    const struct append append = {.db = db, .origin = origin, .tasks = tasks, .count = count};

    return append_tasks(append, tickets, err);
}

enum rc retry_append_once(struct db *db, const struct retry_new_task *tasks, size_t count,
                          struct retry_ticket *tickets, struct err *err)
{
    const struct append append = {
        .db = db, .origin = OWNER_CLIENT, .once = true, .tasks = tasks, .count = count};

    return append_tasks(append, tickets, err);
}

enum rc retry_append(struct db *db, const struct retry_new_task *tasks, size_t count,
                     struct retry_ticket *tickets, struct err *err)
{
    return retry_append_own(db, OWNER_CLIENT, tasks, count, tickets, err);
}
