/* SPDX-License-Identifier: MIT */
/* Applications that write into the outbox: each connection commits one row of about 200 bytes after
 * the other, as fast as it goes, until standard input ends, or until all of them together have
 * committed --rows rows.
 *
 *     writers --database D [--connections 8] [--rows N] */
#include "common/buf.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_db.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64

static struct {
    int argc;
    char **argv;
    long long rows_max;
    atomic_bool stop;
    atomic_llong begun; /* rows, and one more for each writer that has ended at rows_max */
} run;

static void *writer_main(void *arg)
{
    MYSQL *db = bench_db_open(run.argc, run.argv);
    uint64_t state = (uint64_t)bench_now_us() * (uint64_t)((intptr_t)arg + 1);
    struct buf sql = {0};

    while (!atomic_load(&run.stop) && atomic_fetch_add(&run.begun, 1) < run.rows_max) {
        buf_reset(&sql);
        buf_print(&sql,
                  "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
                  "(UUID(), 'order', '%u', 'OrderPlaced', '{\"text\":\"",
                  (unsigned)(bench_rng_next(&state) % 1000));
        for (int i = 0; i < 10; i++) {
            uint64_t random_bits = bench_rng_next(&state);

            buf_hex(&sql, &random_bits, sizeof(random_bits));
        }
        buf_text_put(&sql, "\"}')");
        if (sql.failed)
            bench_fail("no memory for a statement");
        bench_db_run(db, sql.data, sql.len);
    }
    buf_done(&sql);
    mysql_close(db);
    mysql_thread_end();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t writers[CONNECTIONS_MAX];
    long long count = bench_number(argc, argv, "connections", 8);
    long long rows;
    char byte;

    run.argc = argc;
    run.argv = argv;
    run.rows_max = bench_number(argc, argv, "rows", LLONG_MAX);
    if (count < 1 || count > CONNECTIONS_MAX)
        bench_fail("--connections has to be 1 to %d", CONNECTIONS_MAX);
    if (mysql_library_init(0, NULL, NULL) != 0)
        bench_fail("the client library does not start");
    bench_start();
    for (intptr_t i = 0; i < count; i++)
        if (pthread_create(&writers[i], NULL, writer_main, (void *)i) != 0)
            bench_fail("no thread");
    if (run.rows_max == LLONG_MAX) {
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
        atomic_store(&run.stop, true);
    }
    for (long long i = 0; i < count; i++)
        pthread_join(writers[i], NULL);
    rows = atomic_load(&run.begun);
    bench_print(rows < run.rows_max ? rows : run.rows_max);
    return 0;
}
