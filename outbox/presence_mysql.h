/* SPDX-License-Identifier: MIT */
/* Records in the table `instance` which roles this process runs, since when, and the address of its
 * admin server, for `tallybox status`. One thread at a time. */
#ifndef OUTBOX_PRESENCE_MYSQL_H
#define OUTBOX_PRESENCE_MYSQL_H

#include "common/buf.h"
#include "common/daemon/role.h"
#include "common/db/db.h"
#include "common/err.h"

struct presence_mysql {
    struct db *db;
    struct buf sql;
};

/* Writes a heartbeat of each role of the process, and only the address for roles that beat
 * themselves: their own threads tell whether they work. env is that of the process. */
enum rc presence_mysql_beat(struct presence_mysql *mysql, const struct role_env *env,
                            struct err *err);

/* Leaves a row of each role of the process that counts as dead from now on: its lease has no
 * length. It takes the place of the row that such a process of this host left before, so that a
 * role that fails at each start does not fill the table. */
enum rc presence_mysql_fail(struct presence_mysql *mysql, const struct role_env *env,
                            struct err *err);

/* Deletes the rows that presence_mysql_beat() inserted. */
enum rc presence_mysql_remove(struct presence_mysql *mysql, const struct role_env *env,
                              struct err *err);

#endif
