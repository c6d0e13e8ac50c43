/* SPDX-License-Identifier: MIT */
/* The ops of the vote engine, of the totals reader and of the task intake on one MySQL or MariaDB
 * connection. One thread at a time. */
#ifndef PRODUCER_PRODUCER_MYSQL_H
#define PRODUCER_PRODUCER_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "producer/producer_ops.h"

#include <stdint.h>

struct producer_mysql;

/* Connects at first use. settings are borrowed until the close. A statement of a vote waits for a
 * lock for lock_wait_ms at most, rounded up to seconds. While the number of lanes is being changed
 * or is not lane_count, read_states() and ping() of the votes return RC_RETRY with an enum
 * lanes_code. Totals and tasks need neither: both may be 0 where no votes are written. RC_FATAL: no
 * memory. */
enum rc producer_mysql_open(struct producer_mysql **store, const struct mysql_settings *settings,
                            int64_t lock_wait_ms, int64_t lane_count, struct err *err);
void producer_mysql_close(struct producer_mysql *store);

/* The ops; valid until the close. */
const struct vote_store *producer_mysql_votes(const struct producer_mysql *store);
const struct totals_store *producer_mysql_totals(const struct producer_mysql *store);
const struct task_store *producer_mysql_tasks(const struct producer_mysql *store);

/* The connection, for another adapter of the same thread while no transaction is open; valid until
 * the close. */
struct db *producer_mysql_db(const struct producer_mysql *store);

/* Ends the statement that is running. Any thread. */
void producer_mysql_interrupt(struct producer_mysql *store);

#endif
