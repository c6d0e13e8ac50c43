/* SPDX-License-Identifier: MIT */
/* One thread's connection to the retry tables and the statement that it is putting together; what
 * claim_mysql, finish_mysql and look_mysql share. Decides how long a transaction may wait and be
 * idle. retry_mysql opens a store with the memory of these modules. One thread at a time. */
#ifndef OUTBOX_RETRY_STORE_STORE_MYSQL_H
#define OUTBOX_RETRY_STORE_STORE_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of the scene of task t; of a scene without a row, which has the policy of its group,
 * the group's version below zero, and 0 if that has no row either. In the tables a name with a
 * blank at its end equals the name without it; in the program it is another name, and never that of
 * a row. */
#define STORE_NO_BLANK_ENDS " NOT LIKE '% '" /* after the column of a name */
#define STORE_SCENE_VERSION                                                                     \
    "COALESCE((SELECT s.version FROM retry_scene s WHERE s.task_group = t.task_group AND "      \
    "s.scene = t.scene AND t.task_group" STORE_NO_BLANK_ENDS " AND t.scene" STORE_NO_BLANK_ENDS \
    "), (SELECT -g.version FROM retry_group g WHERE g.name = t.task_group AND "                 \
    "t.task_group" STORE_NO_BLANK_ENDS "), 0)"

/* The owner of a task is filled with blanks to so many bytes, and lease_until is never NULL: a
 * claim leaves the length of the row as it is, so the server changes it in place. Where rows grew,
 * pages were split: a claim took 23 us of CPU time and 4,000 bytes of redo per row in place of 14
 * us and 400 (MariaDB 10.11). A longer name only loses this. RTRIM(owner) is the name; in
 * comparisons blanks at the end do not count. */
#define STORE_OWNER_BYTES 48
#define STORE_OWNER_BYTES_MAX 128
/* What a task has that does not run. */
#define STORE_NO_OWNER "SPACE(48)"
_Static_assert(STORE_OWNER_BYTES == 48, "STORE_NO_OWNER says so");
#define STORE_NO_LEASE "UTC_TIMESTAMP(3)"

/* MariaDB makes a join of a longer list (in_predicate_conversion_threshold), which locks in another
 * order. */
#define STORE_IDS_MAX 500

/* Memory of the modules that make the calls; only they know what is in it. */
struct claim;     /* claim_mysql */
struct finishing; /* finish_mysql */
struct walk;      /* look_mysql */

struct store {
    struct db *db;
    const char *owner;
    bool compare_and_set; /* claims without SKIP LOCKED, for servers that have none */
    uint64_t session;     /* the connection whose lock time-out was set */
    uint64_t begun;       /* the connection whose idle time-out was set */
    struct buf sql;
    struct buf json;
    struct claim *claim;
    struct finishing *finishing;
    struct walk *walks[TASK_STATES]; /* the classes that were found in each state */
};

/* Connects, and empties store->sql. */
enum rc store_ready(struct store *store, struct err *err);
/* The same, and begins a transaction. */
enum rc store_begin(struct store *store, struct err *err);
/* Commits after RC_OK, rolls back after anything else; the first failure is returned. */
enum rc store_end(struct store *store, enum rc rc, struct err *err);

/* Append to store->sql: SQL as it is, a text or a class as a quoted value. */
void store_put(struct store *store, const char *sql);
void store_put_text(struct store *store, const char *text);
void store_put_class(struct store *store, const struct task_class *class);
/* Appends the owner of the store as a task has it. */
void store_put_owner(struct store *store);
/* Appends "UTC_TIMESTAMP(3) + INTERVAL n MICROSECOND". */
void store_put_later(struct store *store, int64_t delay_ms);
/* Run what store->sql holds, and empty it. Errors: as db_exec(). */
enum rc store_exec(struct store *store, uint64_t *affected, struct err *err);
enum rc store_query(struct store *store, db_on_row on_row, void *ctx, struct err *err);

/* Appends "IN (1,2,3)", at most STORE_IDS_MAX, after a column that is read with FORCE INDEX
 * (PRIMARY): the server locks single rows in the order of their ids, so that two transactions
 * which lock the same rows meet at the first one. */
void store_put_ids(struct buf *sql, const int64_t *ids, size_t count);

/* Prepares a connection, without the memory of the calls. Borrows settings and owner. RC_FATAL: no
 * memory. */
enum rc store_open(struct store *store, const struct settings *settings, const char *owner,
                   bool compare_and_set, struct err *err);
/* Closes the connection; the memory of the calls was freed before. A zeroed store may be closed,
 * too. */
void store_close(struct store *store);

#endif
