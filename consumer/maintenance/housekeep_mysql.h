/* SPDX-License-Identifier: MIT */
/* The connections of housekeeping to both databases. No statement waits longer than a second for a
 * lock. One thread at a time. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_MYSQL_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/maintenance/housekeep.h"

struct housekeep_mysql;

/* Connects at the first call. settings are borrowed until housekeep_mysql_close(). RC_FATAL: no
 * memory. */
enum rc housekeep_mysql_open(struct housekeep_mysql **mysql, const struct settings *settings,
                             struct err *err);
void housekeep_mysql_close(struct housekeep_mysql *mysql);

/* Deletes the rows of an instance whose heartbeat is as old, or as far in the future, as that of a
 * dead one. *count: how many. */
enum rc housekeep_mysql_forget(struct housekeep_mysql *mysql, const char *name, uint64_t *count,
                               struct err *err);

/* Valid until the close. */
const struct housekeep_store *housekeep_mysql_store(const struct housekeep_mysql *mysql);

#endif
