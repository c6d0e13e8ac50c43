/* SPDX-License-Identifier: MIT */
/* The tables dead_record and dead_history, for one consumer group. One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_MYSQL_H
#define CONSUMER_DEAD_DEAD_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "consumer/apply/sink_ops.h"
#include "consumer/dead/dead.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dead_mysql;

/* settings, group and by (the name of the operator or process that decides) are borrowed until the
 * close. RC_FATAL: no memory. */
enum rc dead_mysql_open(struct dead_mysql **dead, const struct settings *settings,
                        const char *group, const char *by, struct err *err);
void dead_mysql_close(struct dead_mysql *dead);

/* The name of the one who decides from now on; borrowed until the close or the next call. */
void dead_mysql_set_by(struct dead_mysql *dead, const char *by);

/* The sink's connection. */
struct db *dead_mysql_db(struct dead_mysql *dead);

/* Both are valid until the close and share their transactions. */
const struct dead_store *dead_mysql_store(struct dead_mysql *dead);
const struct sink *dead_mysql_sink(struct dead_mysql *dead);

/* Reads the clock of the database in ms since 1970. */
enum rc dead_mysql_clock(struct dead_mysql *dead, int64_t *now_ms, struct err *err);

/* Counts the records that the filter selects and finds the highest id among them (0: none). */
enum rc dead_mysql_count(struct dead_mysql *dead, const struct dead_filter *filter, uint64_t *count,
                         int64_t *id_max, struct err *err);

/* Calls on_view for the records with an id above `after`, ordered by id, at most rows_max, without
 * payload and headers. decided: reads dead_history instead of dead_record. */
enum rc dead_mysql_list(struct dead_mysql *dead, const struct dead_filter *filter, bool decided,
                        int64_t after, size_t rows_max, dead_on_view on_view, void *ctx,
                        struct err *err);

/* Calls on_view for one record with payload and headers; for a record that was decided, with the
 * decision. Does not call on_view if the id does not exist. */
enum rc dead_mysql_show(struct dead_mysql *dead, int64_t id, dead_on_view on_view, void *ctx,
                        struct err *err);

#endif
