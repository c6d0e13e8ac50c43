/* SPDX-License-Identifier: MIT */
/* The ceiling of serve: one connection commits votes in a bare loop, so many in a transaction, with
 * the statements that no vote can do without: its state, its content's total, its event.
 *
 *     ceiling_commit --database D [--votes 20000] [--batch 1] [--contents 20000] */
#include "common/buf.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_db.h"

#include <inttypes.h>

struct statements {
    struct buf counts;
    struct buf states;
    struct buf events;
};

static void vote_put(struct statements *sql, long long i, long long voter, long long content,
                     uint64_t *state)
{
    uint64_t id[2] = {bench_rng_next(state), bench_rng_next(state)};
    const char *comma = i > 0 ? "," : "";

    buf_print(&sql->counts, "%s(%lld,1)", comma, content);
    buf_print(&sql->states, "%s(%lld,%lld,1,1,0x", comma, voter, content);
    buf_hex(&sql->states, id, sizeof(id));
    buf_char(&sql->states, ')');
    buf_print(&sql->events,
              "%s('%08" PRIx64 "-0000-7000-8000-%012" PRIx64 "','vote','%lld','VoteChanged',"
              "'{\"eventId\":\"%08" PRIx64 "-0000-7000-8000-%012" PRIx64 "\",\"voterId\":%lld,"
              "\"contentId\":%lld,\"voting\":1,\"votes\":1,\"occurredAt\":1793491200000}',NULL)",
              comma, id[0] >> 32, id[1] >> 16, content, id[0] >> 32, id[1] >> 16, voter, content);
}

static void begin(struct statements *sql)
{
    buf_reset(&sql->counts);
    buf_reset(&sql->states);
    buf_reset(&sql->events);
    buf_text_put(&sql->counts, "INSERT INTO vote_count (content_id, votes) VALUES ");
    buf_text_put(&sql->states, "INSERT INTO vote_state (voter_id, content_id, voting, version, "
                               "event_id) VALUES ");
    buf_text_put(&sql->events, "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, "
                               "headers) VALUES ");
}

static void commit(MYSQL *db, struct statements *sql)
{
    buf_text_put(&sql->counts, " ON DUPLICATE KEY UPDATE votes = votes + 1");
    buf_text_put(&sql->states, " ON DUPLICATE KEY UPDATE voting = 1, version = version + 1");
    if (sql->counts.failed || sql->states.failed || sql->events.failed)
        bench_fail("no memory for a statement");
    bench_db_run(db, "START TRANSACTION", 0);
    bench_db_run(db, sql->counts.data, sql->counts.len);
    bench_db_run(db, sql->states.data, sql->states.len);
    bench_db_run(db, sql->events.data, sql->events.len);
    bench_db_run(db, "COMMIT", 0);
}

int main(int argc, char **argv)
{
    long long votes = bench_number(argc, argv, "votes", 20000);
    long long batch = bench_number(argc, argv, "batch", 1);
    uint64_t contents = (uint64_t)bench_number(argc, argv, "contents", 20000);
    uint64_t state = (uint64_t)bench_now_us();
    long long voter = (long long)(state % 1000000000) * 1000;
    MYSQL *db = bench_db_open(argc, argv);
    struct statements sql = {0};
    long long done = 0;

    bench_start();
    while (done < votes) {
        begin(&sql);
        for (long long i = 0; i < batch && done < votes; i++, done++)
            vote_put(&sql, i, ++voter, 1 + (long long)(bench_rng_next(&state) % contents), &state);
        commit(db, &sql);
    }
    bench_print(votes);
    buf_done(&sql.counts);
    buf_done(&sql.states);
    buf_done(&sql.events);
    mysql_close(db);
    return 0;
}
