/* SPDX-License-Identifier: MIT */
/* dead_record and dead_history of one consumer group. One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_MYSQL_H
#define CONSUMER_DEAD_DEAD_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/apply/sink_ops.h"
#include "consumer/dead/dead.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dead_mysql;

/* settings, group and by, the name of who decides, are borrowed for its life. RC_FATAL: no
 * memory. */
enum rc dead_mysql_open(struct dead_mysql **dead, const struct settings *settings,
                        const char *group, const char *by, struct err *err);
void dead_mysql_close(struct dead_mysql *dead);

/* Both live as long as it, and share their transactions. */
const struct dead_store *dead_mysql_store(struct dead_mysql *dead);
const struct sink *dead_mysql_sink(struct dead_mysql *dead);

/* The database's clock in ms since 1970. */
enum rc dead_mysql_clock(struct dead_mysql *dead, int64_t *now_ms, struct err *err);

/* How many records the filter selects, and the highest id among them (0: none). */
enum rc dead_mysql_count(struct dead_mysql *dead, const struct dead_filter *filter, uint64_t *count,
                         int64_t *id_max, struct err *err);

typedef enum rc (*dead_on_view)(void *ctx, const struct dead_view *view, struct err *err);

/* Calls on_view for those with a higher id than `after`, by id, rows_max at most, without payload
 * and headers. decided: of dead_history, not of dead_record. */
enum rc dead_mysql_list(struct dead_mysql *dead, const struct dead_filter *filter, bool decided,
                        int64_t after, size_t rows_max, dead_on_view on_view, void *ctx,
                        struct err *err);

/* Calls on_view for one record, whole; for one that is decided with what became of it. Not at all:
 * there is none of that id. */
enum rc dead_mysql_show(struct dead_mysql *dead, int64_t id, dead_on_view on_view, void *ctx,
                        struct err *err);

#endif
