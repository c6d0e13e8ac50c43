/* SPDX-License-Identifier: MIT */
/* A bare connection for the ceilings: nothing of ours between them and the client library. */
#ifndef TESTS_BENCH_BENCH_DB_H
#define TESTS_BENCH_BENCH_DB_H

#include <mysql.h>
#include <stddef.h>

/* From --host, --port, --user and --database. */
MYSQL *bench_db_open(int argc, char **argv);
void bench_db_run(MYSQL *db, const char *sql, size_t len);

#endif
