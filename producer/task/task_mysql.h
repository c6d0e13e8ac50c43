/* SPDX-License-Identifier: MIT */
/* The ops of the task intake on a MySQL or MariaDB connection. One thread at a time. */
#ifndef PRODUCER_TASK_TASK_MYSQL_H
#define PRODUCER_TASK_TASK_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/task/task_ops.h"

struct task_mysql;

/* Connects at first use. settings are borrowed until the close. RC_FATAL: no memory. */
enum rc task_mysql_open(struct task_mysql **store, const struct mysql_settings *settings,
                        struct err *err);
void task_mysql_close(struct task_mysql *store);

/* The ops; valid until the close. */
const struct task_store *task_mysql_ops(const struct task_mysql *store);

/* Ends the statement that is running. Any thread. */
void task_mysql_interrupt(struct task_mysql *store);

#endif
