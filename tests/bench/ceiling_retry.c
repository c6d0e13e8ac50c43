/* SPDX-License-Identifier: MIT */
/* The ceiling of the retry queue: one connection claims due tasks and deletes them in a bare loop,
 * by the statements of outbox/retry and so many at a time, and does nothing with them.
 *
 *     ceiling_retry --database D [--batch 250] [--first 0] [--shards 16]
 *
 * Tasks of the handler noop, group bench and scene work, in --shards shards from --first on, until
 * none of them is due. */
#include "common/buf.h"
#include "outbox/retry/store/claimed_mysql.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_db.h"

#include <stdbool.h>
#include <stdlib.h>

#define TASKS_MAX 500

struct loop {
    MYSQL *db;
    struct buf sql;
    struct buf ids; /* an IN list */
    long long batch;
};

static void run(struct loop *loop)
{
    if (loop->sql.failed || loop->ids.failed)
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

/* The due tasks of one shard are read, and their ids become the list; how many there are. */
static long long find_due(struct loop *loop, unsigned shard)
{
    MYSQL_RES *answer;
    MYSQL_ROW row;
    long long rows = 0;

    buf_print(&loop->sql,
              "SELECT t.id, t.epoch, HEX(t.order_hash), " CLAIMED_FOUND_COLUMNS
              " FROM retry_task t FORCE INDEX (ix_retry_task_due) WHERE state = 0 AND class = "
              "CONCAT('noop', 0x00, 'bench', 0x00, 'work', 0x00, 'client', 0x00, '%X') AND "
              "next_at <= UTC_TIMESTAMP(3) ORDER BY next_at, id LIMIT %lld FOR UPDATE SKIP LOCKED",
              shard, loop->batch);
    run(loop);
    buf_reset(&loop->ids);
    answer = mysql_use_result(loop->db);
    if (!answer)
        bench_fail("no answer: %s", mysql_error(loop->db));
    for (; (row = mysql_fetch_row(answer)); rows++)
        buf_print(&loop->ids, "%s%s", rows ? "," : "(", row[0]);
    mysql_free_result(answer);
    buf_char(&loop->ids, ')');
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

/* What a claim has to know of the scene and of the tasks that ended before. */
static void read_state(struct loop *loop)
{
    buf_text_put(&loop->sql, "SELECT version, EXISTS (SELECT 1 FROM retry_task_history h FORCE "
                             "INDEX (ix_retry_task_history_dedup) WHERE h.dedup_hash IS NOT NULL) "
                             "FROM retry_scene WHERE task_group = 'bench' AND scene = 'work'");
    if (read_all(loop) != 1)
        bench_fail("the scene is gone");
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
            read_state(&loop);
            finish(&loop, rows);
            done += rows;
            any = true;
        }
    } while (any);
    bench_print(done);
    buf_done(&loop.sql);
    buf_done(&loop.ids);
    mysql_close(loop.db);
    return 0;
}
