/* SPDX-License-Identifier: MIT */
/* The database adapter of the applying engine. One thread at a time. */
#ifndef CONSUMER_APPLY_SINK_MYSQL_H
#define CONSUMER_APPLY_SINK_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "consumer/apply/sink_ops.h"

#include <stdint.h>

struct sink_mysql;

/* settings and group are borrowed until the close. The server rolls back a transaction without
 * statements after idle_ms, or 15 s if that is less, but not before 1 s. RC_FATAL: no memory. */
enum rc sink_mysql_open(struct sink_mysql **sink, const struct mysql_settings *settings,
                        const char *group, int64_t idle_ms, struct err *err);
void sink_mysql_close(struct sink_mysql *sink);

/* Valid until the close. */
const struct sink *sink_mysql_ops(struct sink_mysql *sink);

/* The sink's connection, for adapters that share its transactions. */
struct db *sink_mysql_db(struct sink_mysql *sink);

#endif
