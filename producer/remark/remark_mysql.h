/* SPDX-License-Identifier: MIT */
/* The ops of the lists of remarks, on the sink's database. One thread at a time. */
#ifndef PRODUCER_REMARK_REMARK_MYSQL_H
#define PRODUCER_REMARK_REMARK_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/remark/remark_ops.h"

struct remark_mysql;

/* settings are those of [sink], borrowed until the close. RC_FATAL: no memory. */
enum rc remark_mysql_open(struct remark_mysql **store, const struct mysql_settings *settings,
                          struct err *err);
void remark_mysql_close(struct remark_mysql *store);

const struct remark_store *remark_mysql_store(const struct remark_mysql *store);

/* Ends the statement that runs, from another thread. */
void remark_mysql_interrupt(struct remark_mysql *store);

#endif
