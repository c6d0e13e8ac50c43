/* SPDX-License-Identifier: MIT */
/* Reads the database part of a status. One thread. */
#ifndef CONSUMER_STATUS_STATUS_MYSQL_H
#define CONSUMER_STATUS_STATUS_MYSQL_H

#include "common/config/settings.h"
#include "consumer/status/status.h"

typedef void (*status_on_drift)(void *ctx, const char *table, bool is_whole, bool is_missing,
                                const char *text);

/* schema_compare(): finds what differs from the migrations in the database of a section, as far as
 * the account may see it. */
typedef enum rc (*status_compare)(const struct settings *settings, const char *section,
                                  status_on_drift on_drift, void *ctx, struct err *err);

/* As status_fail(), for a fault of a database. has_schema: all its migrations were finished. RC_OK
 * is ignored. */
void status_mysql_set_fault(struct status_fault *fault, bool has_schema, enum rc rc,
                            const struct err *err);

/* Fills schemas, lanes, instances, retry queue, progress, dead records, roll-up and housekeeping,
 * each with its fault. Waits at most a few seconds for a server. RC_FATAL: no memory. */
enum rc status_mysql_fill(struct status *status, const struct settings *settings,
                          status_compare compare, struct err *err);

#endif
