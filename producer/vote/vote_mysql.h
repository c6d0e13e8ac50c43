/* SPDX-License-Identifier: MIT */
/* The vote engine's ops on a MySQL or MariaDB connection. One thread at a time. */
#ifndef PRODUCER_VOTE_VOTE_MYSQL_H
#define PRODUCER_VOTE_VOTE_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/vote/vote_ops.h"

#include <stdint.h>

struct vote_mysql;

/* Connects at first use. settings are borrowed until the close. No lock is waited for longer than
 * lock_wait_ms (rounded up to seconds). read_states() and ping() say RC_RETRY, with an enum
 * lanes_code, while the number of lanes is being changed or is not lane_count. RC_FATAL: no
 * memory. */
enum rc vote_mysql_open(struct vote_mysql **store, const struct mysql_settings *settings,
                        int64_t lock_wait_ms, int64_t lane_count, struct err *err);
void vote_mysql_close(struct vote_mysql *store);

/* The ops; valid until the close. */
const struct vote_store *vote_mysql_ops(const struct vote_mysql *store);

/* Ends the statement that runs now, from another thread. */
void vote_mysql_interrupt(struct vote_mysql *store);

#endif
