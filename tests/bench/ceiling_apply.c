/* SPDX-License-Identifier: MIT */
/* The ceilings of the consumer: the rows of vote_document are prepared in memory, and a bare loop
 * on one connection writes them. ceiling_apply --database D --what insert|transaction [--rows
 * 1000000] [--batch 5000] [--contents 20000] [--kind uniform|zipf] insert: the bulk INSERT alone.
 * transaction: with the upsert of the tallies and of the progress, in one transaction a batch.
 * Totals are counted before the clock starts. */
#include "common/buf.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_db.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    long long content;
    int64_t votes;
};

struct batch {
    struct buf rows;
    struct buf tallies;
};

static int compare(const void *left, const void *right)
{
    long long a = *(const long long *)left;
    long long b = *(const long long *)right;

    return (a > b) - (a < b);
}

/* Sorted and each once, as the consumer locks them. */
static void tallies_build(struct batch *batch, const struct row *rows, long long count,
                          const int64_t *votes)
{
    long long *contents = malloc((size_t)count * sizeof(*contents));
    long long kept = 0;

    if (!contents)
        bench_fail("no memory");
    for (long long i = 0; i < count; i++)
        contents[i] = rows[i].content;
    qsort(contents, (size_t)count, sizeof(*contents), compare);
    buf_text_put(&batch->tallies,
                 "INSERT INTO vote_tally (content_id, votes, seq, changed_at) VALUES ");
    for (long long i = 0; i < count; i++) {
        if (i > 0 && contents[i] == contents[i - 1])
            continue;
        buf_print(&batch->tallies, "%s(%lld,%" PRId64 ",%" PRId64 ",UTC_TIMESTAMP(3))",
                  kept++ > 0 ? "," : "", contents[i], votes[contents[i]], votes[contents[i]]);
    }
    buf_text_put(&batch->tallies, " ON DUPLICATE KEY UPDATE votes = VALUES(votes), "
                                  "seq = VALUES(seq), changed_at = VALUES(changed_at)");
    free(contents);
}

static void rows_build(struct batch *batch, const struct row *rows, long long count,
                       long long first, uint64_t *state)
{
    buf_text_put(&batch->rows, "INSERT INTO vote_document (gmt_create, voter_id, content_id, "
                               "voting, votes, create_date, event_id, content_seq) VALUES ");
    for (long long i = 0; i < count; i++) {
        uint64_t id[2] = {bench_rng_next(state), bench_rng_next(state)};
        int seconds = (int)((first + i) % 86400);

        buf_print(&batch->rows,
                  "%s('2026-11-01 %02d:%02d:%02d.%03d',%lld,%lld,1,%" PRId64 ",'2026-11-01',0x",
                  i > 0 ? "," : "", seconds / 3600, seconds / 60 % 60, seconds % 60,
                  (int)(first % 1000), first + i + 1, rows[i].content, rows[i].votes);
        buf_hex(&batch->rows, id, sizeof(id));
        buf_print(&batch->rows, ",%" PRId64 ")", rows[i].votes);
    }
}

static void batch_run(MYSQL *db, const struct batch *batch, long long next, bool whole)
{
    char progress[256];

    if (!whole) {
        bench_db_run(db, batch->rows.data, batch->rows.len);
        return;
    }
    snprintf(progress, sizeof(progress),
             "UPDATE consumer_progress SET next_offset = %lld WHERE topic = 'ceiling'", next);
    bench_db_run(db, "START TRANSACTION", 0);
    bench_db_run(db, batch->rows.data, batch->rows.len);
    bench_db_run(db, batch->tallies.data, batch->tallies.len);
    bench_db_run(db, progress, 0);
    bench_db_run(db, "COMMIT", 0);
}

static struct batch *batches_build(int argc, char **argv, long long rows, long long size,
                                   long long count)
{
    long long contents_max = bench_number(argc, argv, "contents", 20000);
    struct bench_contents *contents =
        bench_contents_open(bench_text(argc, argv, "kind", "uniform"), contents_max);
    struct batch *batches = calloc((size_t)count, sizeof(*batches));
    struct row *batch_rows = calloc((size_t)size, sizeof(*batch_rows));
    int64_t *votes = calloc((size_t)contents_max + 1, sizeof(*votes));
    uint64_t state = 7;

    if (!batches || !votes || !batch_rows)
        bench_fail("no memory for %lld batches", count);
    for (long long i = 0; i < count; i++) {
        long long first = i * size;
        long long mine = rows - first < size ? rows - first : size;

        for (long long j = 0; j < mine; j++) {
            batch_rows[j].content = bench_content(contents, bench_rng_next(&state));
            batch_rows[j].votes = ++votes[batch_rows[j].content];
        }
        rows_build(&batches[i], batch_rows, mine, first, &state);
        tallies_build(&batches[i], batch_rows, mine, votes);
        if (batches[i].rows.failed || batches[i].tallies.failed)
            bench_fail("no memory for a batch");
    }
    free(votes);
    free(batch_rows);
    bench_contents_close(contents);
    return batches;
}

int main(int argc, char **argv)
{
    long long rows = bench_number(argc, argv, "rows", 1000000);
    long long size = bench_number(argc, argv, "batch", 5000);
    bool whole = strcmp(bench_text(argc, argv, "what", NULL), "transaction") == 0;
    MYSQL *db = bench_db_open(argc, argv);
    long long count = (rows + size - 1) / size;
    struct batch *batches = batches_build(argc, argv, rows, size, count);

    bench_db_run(db,
                 "INSERT INTO consumer_progress (consumer_group, topic, partition_id, next_offset, "
                 "leader_epoch, topic_id, epoch, owner, updated_at) VALUES ('ceiling', 'ceiling', "
                 "0, 0, 0, '', 1, '', UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE next_offset = 0",
                 0);
    bench_start();
    for (long long i = 0; i < count; i++)
        batch_run(db, &batches[i], (i + 1) * size, whole);
    bench_print(rows);
    for (long long i = 0; i < count; i++) {
        buf_done(&batches[i].rows);
        buf_done(&batches[i].tallies);
    }
    free(batches);
    mysql_close(db);
    return 0;
}
