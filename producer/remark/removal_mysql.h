/* SPDX-License-Identifier: MIT */
/* The ops of the remover on the sink's database. One thread at a time. */
#ifndef PRODUCER_REMARK_REMOVAL_MYSQL_H
#define PRODUCER_REMARK_REMOVAL_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/remark/removal_ops.h"

struct removal_mysql;

/* settings are those of [sink], borrowed until the close. RC_FATAL: no memory. */
enum rc removal_mysql_open(struct removal_mysql **store, const struct mysql_settings *settings,
                           struct err *err);
void removal_mysql_close(struct removal_mysql *store);

const struct removal_store *removal_mysql_store(const struct removal_mysql *store);

/* Ends the statement that runs, from another thread. */
void removal_mysql_interrupt(struct removal_mysql *store);

#endif
