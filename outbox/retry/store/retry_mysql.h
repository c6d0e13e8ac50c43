/* SPDX-License-Identifier: MIT */
/* The retry lane's tables in the database, on its clock, through a connection of its own. One thread
 * at a time; a process that polls, finishes and beats in several threads opens several. */
#ifndef OUTBOX_RETRY_STORE_RETRY_MYSQL_H
#define OUTBOX_RETRY_STORE_RETRY_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/retry/retry_seam.h"

#include <stdbool.h>
#include <stdint.h>

struct claim;
struct finishing;
struct walk;

struct retry_mysql {
    struct db *db;
    const char *owner;
    bool compare_and_set; /* claims without SKIP LOCKED, for servers that have none */
    uint64_t session;     /* whose lock time-out was set */
    uint64_t begun;       /* whose end in silence was set */
    struct buf sql;
    struct buf json;
    struct claim *claim;
    struct finishing *finishing;
    struct walk *walks[TASK_STATES]; /* the classes that were found in each state */
};

/* Borrows settings and owner, the name of this instance. RC_FATAL: no memory. */
enum rc retry_mysql_open(struct retry_mysql *store, const struct settings *settings,
                         const char *owner, bool compare_and_set, struct err *err);
/* A zeroed store may be closed, too. */
void retry_mysql_close(struct retry_mysql *store);

struct retry_store retry_mysql_seam(struct retry_mysql *store);

#endif
