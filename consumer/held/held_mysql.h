/* SPDX-License-Identifier: MIT */
/* What is held of a consumer group, and the tasks that replay it. One thread at a time. */
#ifndef CONSUMER_HELD_HELD_MYSQL_H
#define CONSUMER_HELD_HELD_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/held/submitter.h"

struct held_mysql;

/* settings are borrowed for its life. Neither side is asked before it is needed. RC_FATAL: no
 * memory. */
enum rc held_mysql_open(struct held_mysql **held, const struct settings *settings, struct err *err);
void held_mysql_close(struct held_mysql *held);

/* Lives as long as it. */
const struct held_store *held_mysql_store(struct held_mysql *held);

#endif
