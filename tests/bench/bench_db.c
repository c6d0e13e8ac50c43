/* SPDX-License-Identifier: MIT */
#include "tests/bench/bench_db.h"

#include "tests/bench/bench.h"

#include <string.h>

MYSQL *bench_db_open(int argc, char **argv)
{
    MYSQL *db = mysql_init(NULL);

    if (!db || !mysql_real_connect(db, bench_text(argc, argv, "host", "127.0.0.1"),
                                   bench_text(argc, argv, "user", "root"), "",
                                   bench_text(argc, argv, "database", NULL),
                                   (unsigned)bench_number(argc, argv, "port", 3306), NULL, 0))
        bench_fail("no connection: %s", db ? mysql_error(db) : "no memory");
    bench_db_run(db, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", 0);
    return db;
}

void bench_db_run(MYSQL *db, const char *sql, size_t len)
{
    if (mysql_real_query(db, sql, len ? len : strlen(sql)) != 0)
        bench_fail("%.80s ...: %s", sql, mysql_error(db));
}
