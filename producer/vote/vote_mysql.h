/* SPDX-License-Identifier: MIT */
/* The ops of the vote engine and of the totals reader on one MySQL or MariaDB connection. One
 * thread at a time. */
#ifndef PRODUCER_VOTE_VOTE_MYSQL_H
#define PRODUCER_VOTE_VOTE_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/remark/totals_ops.h"
#include "producer/vote/vote_ops.h"

#include <stdint.h>

struct vote_mysql;

/* Connects at first use. settings are borrowed until the close. A statement waits for a lock for
 * lock_wait_ms at most, rounded up to seconds. While the number of lanes is being changed or is not
 * lane_count, read_states() and ping() return RC_RETRY with an enum lanes_code. The totals need
 * neither: they may be 0 where only totals are read. RC_FATAL: no memory. */
enum rc vote_mysql_open(struct vote_mysql **store, const struct mysql_settings *settings,
                        int64_t lock_wait_ms, int64_t lane_count, struct err *err);
void vote_mysql_close(struct vote_mysql *store);

/* The ops; valid until the close. */
const struct vote_store *vote_mysql_ops(const struct vote_mysql *store);
const struct totals_store *vote_mysql_totals(const struct vote_mysql *store);

/* Ends the statement that is running. Any thread. */
void vote_mysql_interrupt(struct vote_mysql *store);

#endif
