/* SPDX-License-Identifier: MIT */
/* The adapter of the roll-up for the sink's database. One thread. */
#ifndef CONSUMER_ROLLUP_ROLLUP_MYSQL_H
#define CONSUMER_ROLLUP_ROLLUP_MYSQL_H

#include "common/config/settings.h"
#include "consumer/rollup/rollup.h"

struct rollup_mysql;

/* settings are borrowed until the close. Connects at the first use. RC_FATAL: no memory. */
enum rc rollup_mysql_open(struct rollup_mysql **mysql, const struct mysql_settings *settings,
                          struct err *err);
void rollup_mysql_close(struct rollup_mysql *mysql);

/* Valid until the close. */
const struct rollup_store *rollup_mysql_store(const struct rollup_mysql *mysql);

#endif
