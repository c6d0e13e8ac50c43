/* SPDX-License-Identifier: MIT */
/* The adapter of struct held_store: reads the held records of a consumer group and submits the
 * tasks that replay them. One thread at a time. */
#ifndef CONSUMER_HELD_HELD_MYSQL_H
#define CONSUMER_HELD_HELD_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/held/submitter.h"

struct held_mysql;

/* settings are borrowed until the close. Connects to each database at the first use. RC_FATAL: no
 * memory. */
enum rc held_mysql_open(struct held_mysql **held, const struct settings *settings, struct err *err);
void held_mysql_close(struct held_mysql *held);

/* Valid until the close. */
const struct held_store *held_mysql_store(struct held_mysql *held);

#endif
