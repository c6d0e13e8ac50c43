/* SPDX-License-Identifier: MIT */
/* The ceiling of the retry queue: one connection claims due tasks and deletes them in a bare loop,
 * by the statements of outbox/retry and so many at a time, and does nothing with them.
 *
 *     ceiling_retry --database D [--batch 250] [--first 0] [--shards 16]
 *
 * Tasks of the handler noop, group bench and scene work, in --shards shards from --first on, until
 * none of them is due. */
#include "common/buf.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_db.h"

#include <stdbool.h>
#include <stdlib.h>

#define TASKS_MAX 500

struct loop {
    MYSQL *db;
    struct buf sql;
    struct buf ids; /* an IN list */
    struct buf list;
    long long batch;
};

static void run(struct loop *loop)
{
    if (loop->sql.failed || loop->ids.failed || loop->list.failed)
        bench_fail("no memory for a statement");
    bench_db_run(loop->db, loop->sql.data, loop->sql.len);
    buf_reset(&loop->sql);
}

/* Reads the whole answer; how many rows it had. */
static long long read_all(struct loop *loop)
{
    MYSQL_RES *answer;
    long long rows = 0;

    run(loop);
    answer = mysql_use_result(loop->db);
    if (!answer)
        bench_fail("no answer: %s", mysql_error(loop->db));
    while (mysql_fetch_row(answer))
        rows++;
    mysql_free_result(answer);
    return rows;
}

/* The ids of due tasks of one shard become the lists; how many there are. */
static long long find_due(struct loop *loop, unsigned shard)
{
    MYSQL_RES *answer;
    MYSQL_ROW row;
    long long rows = 0;

    buf_print(&loop->sql,
              "SELECT id, epoch, HEX(order_hash), OCTET_LENGTH(params), OCTET_LENGTH(step_result) "
              "FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE state = 0 AND class = "
              "CONCAT('noop', 0x00, 'bench', 0x00, 'work', 0x00, 'client', 0x00, '%X') AND "
              "next_at <= UTC_TIMESTAMP(3) ORDER BY next_at, id LIMIT %lld FOR UPDATE SKIP LOCKED",
              shard, loop->batch);
    run(loop);
    buf_reset(&loop->ids);
    buf_reset(&loop->list);
    answer = mysql_use_result(loop->db);
    if (!answer)
        bench_fail("no answer: %s", mysql_error(loop->db));
    for (; (row = mysql_fetch_row(answer)); rows++) {
        buf_print(&loop->ids, "%s%s", rows ? "," : "(", row[0]);
        buf_print(&loop->list, "%s[%s,%lld]", rows ? "," : "[", row[0], atoll(row[1]) + 1);
    }
    mysql_free_result(answer);
    buf_char(&loop->ids, ')');
    buf_char(&loop->list, ']');
    return rows;
}

static void put_ids(struct loop *loop)
{
    buf_put(&loop->sql, loop->ids.data, loop->ids.len);
}

static long long claim(struct loop *loop, unsigned shard)
{
    long long rows;

    bench_db_run(loop->db, "START TRANSACTION", 0);
    rows = find_due(loop, shard);
    if (rows > 0) {
        buf_text_put(&loop->sql,
                     "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 1, epoch = epoch + 1, "
                     "updated_at = UTC_TIMESTAMP(3), lease_until = UTC_TIMESTAMP(3) + INTERVAL "
                     "15000000 MICROSECOND, lease_ms = 15000, owner = RPAD('the ceiling of the "
                     "bench', 48, ' ') WHERE id IN ");
        put_ids(loop);
        run(loop);
    }
    bench_db_run(loop->db, "COMMIT", 0);
    return rows;
}

static void hand_over(struct loop *loop, long long rows)
{
    buf_text_put(
        &loop->sql,
        "SELECT t.id, t.epoch, t.ordering_key, t.idempotency_key, LOWER(HEX(t.task_hash)), "
        "t.biz_no, t.options, t.params, t.params_type, t.attempts, "
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', t.created_at), "
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)), t.step, t.step_result "
        "FROM JSON_TABLE('");
    buf_put(&loop->sql, loop->list.data, loop->list.len);
    buf_text_put(&loop->sql,
                 "', '$[*]' COLUMNS (id BIGINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS l "
                 "STRAIGHT_JOIN retry_task t FORCE INDEX (PRIMARY) "
                 "ON t.id = l.id AND t.epoch = l.epoch AND t.state = 1");
    if (read_all(loop) != rows)
        bench_fail("tasks that were claimed are gone");
}

static void finish(struct loop *loop, long long rows)
{
    bench_db_run(loop->db, "START TRANSACTION", 0);
    buf_text_put(&loop->sql,
                 "DELETE t FROM retry_task AS t FORCE INDEX (PRIMARY) WHERE t.state = 1 "
                 "AND t.epoch = 1 AND t.order_hash IS NULL AND t.id IN ");
    put_ids(loop);
    run(loop);
    if ((long long)mysql_affected_rows(loop->db) != rows)
        bench_fail("tasks that were claimed are not deleted");
    bench_db_run(loop->db, "COMMIT", 0);
}

int main(int argc, char **argv)
{
    struct loop loop = {.batch = bench_number(argc, argv, "batch", 250)};
    unsigned first = (unsigned)bench_number(argc, argv, "first", 0);
    unsigned shards = (unsigned)bench_number(argc, argv, "shards", 16);
    long long done = 0;
    bool any;

    if (loop.batch < 1 || loop.batch > TASKS_MAX)
        bench_fail("--batch has to be 1 to %d", TASKS_MAX);
    loop.db = bench_db_open(argc, argv);
    bench_start();
    do {
        any = false;
        for (unsigned shard = first; shard < first + shards; shard++) {
            long long rows = claim(&loop, shard);

            if (rows == 0)
                continue;
            hand_over(&loop, rows);
            finish(&loop, rows);
            done += rows;
            any = true;
        }
    } while (any);
    bench_print(done);
    buf_done(&loop.sql);
    buf_done(&loop.ids);
    buf_done(&loop.list);
    mysql_close(loop.db);
    return 0;
}
