/* SPDX-License-Identifier: MIT */
/* The ops of the migrations' runner on MySQL and MariaDB. One thread at a time. */
#ifndef SCHEMA_MIGRATE_MIGRATE_MYSQL_H
#define SCHEMA_MIGRATE_MIGRATE_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "schema/migrate/migrate_ops.h"

#include <stdint.h>

/* For statement_wait_ms: a large table may be rebuilt for hours; the answer comes at the end. */
#define MIGRATE_MYSQL_WAIT_MS INT64_C(86400000)

struct migrate_mysql;

/* settings are copied; statement_wait_ms replaces their query_timeout_ms: changing a large table
 * takes its time. Does not connect. RC_FATAL: no memory. */
enum rc migrate_mysql_open(struct migrate_mysql **mysql, const struct mysql_settings *settings,
                           int64_t statement_wait_ms, struct err *err);
void migrate_mysql_close(struct migrate_mysql *mysql);

/* Lives as long as mysql. */
const struct migrate_store *migrate_mysql_store(const struct migrate_mysql *mysql);

/* Appends "CREATE DATABASE ..." as create_database() runs it. */
void migrate_mysql_put_create(struct buf *sql, const char *database);

#endif
