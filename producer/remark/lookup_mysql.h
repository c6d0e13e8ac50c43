/* SPDX-License-Identifier: MIT */
/* The lookup's ops on a MySQL or MariaDB connection. One thread at a time. */
#ifndef PRODUCER_REMARK_LOOKUP_MYSQL_H
#define PRODUCER_REMARK_LOOKUP_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/remark/lookup_ops.h"

struct lookup_mysql;

/* Connects at first use. settings are borrowed until the close. RC_FATAL: no memory. */
enum rc lookup_mysql_open(struct lookup_mysql **store, const struct mysql_settings *settings,
                          struct err *err);
void lookup_mysql_close(struct lookup_mysql *store);

/* The ops; valid until the close. */
const struct lookup_store *lookup_mysql_ops(const struct lookup_mysql *store);

/* Ends the statement that runs now, from another thread. */
void lookup_mysql_interrupt(struct lookup_mysql *store);

#endif
