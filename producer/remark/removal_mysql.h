/* SPDX-License-Identifier: MIT */
/* The ops of the remover on the two databases. One thread at a time. */
#ifndef PRODUCER_REMARK_REMOVAL_MYSQL_H
#define PRODUCER_REMARK_REMOVAL_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "producer/remark/removal_ops.h"

struct removal_mysql;

/* settings are those of [sink]; votes_db is the connection to [mysql] that the same thread uses
 * for votes. Both are borrowed until the close. RC_FATAL: no memory. */
enum rc removal_mysql_open(struct removal_mysql **store, const struct mysql_settings *settings,
                           struct db *votes_db, struct err *err);
void removal_mysql_close(struct removal_mysql *store);

const struct removal_store *removal_mysql_store(const struct removal_mysql *store);

const struct removal_marks *removal_mysql_marks(const struct removal_mysql *store,
                                                enum removal_kind kind);

/* Ends the statement that runs on the connection to [sink], from another thread. */
void removal_mysql_interrupt(struct removal_mysql *store);

#endif
