/* SPDX-License-Identifier: MIT */
/* The statements of a singleton lease, for any table with the columns name, owner, epoch,
 * lease_until and finished_at. One thread at a time. */
#ifndef CONSUMER_SINGLETON_MYSQL_H
#define CONSUMER_SINGLETON_MYSQL_H

#include "common/buf.h"
#include "common/db/db.h"
#include "common/err.h"
#include "consumer/singleton_lease.h"

#include <stdbool.h>
#include <stdint.h>

struct singleton_mysql {
    struct db *db;
    struct buf *sql;   /* the statement that is being built; keeps its memory */
    const char *table; /* a constant of the program, like name */
    const char *name;  /* of the row */
    uint64_t session;  /* the session of db whose wait_timeout is set; 0 before the first */
};

/* The assignments that end the lease when the job is finished, for the SET of an UPDATE. */
#define SINGLETON_MYSQL_FINISHED \
    "owner = '', lease_until = UTC_TIMESTAMP(3), finished_at = UTC_TIMESTAMP(3)"

/* Runs the statement in sql. *affected (may be NULL) is set as by db_exec(). */
enum rc singleton_mysql_run(const struct singleton_mysql *row, uint64_t *affected, struct err *err);

/* Takes the lease if the epoch in the row is still lease->epoch - 1 and the row's lease is free,
 * expired or already owned by lease->owner. After RC_RETRY the lease may be taken or not. */
enum rc singleton_mysql_take(const struct singleton_mysql *row, const struct singleton_lease *lease,
                             bool *taken, struct err *err);

/* Begins a transaction. If the holder freezes in it, the server releases its locks after 15 s. */
enum rc singleton_mysql_begin(struct singleton_mysql *row, struct err *err);

/* Inside a transaction: locks the row, so that owner and epoch do not change before its end. *held
 * tells whether they are those of the lease. */
enum rc singleton_mysql_check(const struct singleton_mysql *row,
                              const struct singleton_lease *lease, bool *held, struct err *err);

/* The same for the transaction that ends the lease. *held is also true if the row has the epoch of
 * the lease and no owner, as after a COMMIT whose answer was lost. The caller must limit its writes
 * by singleton_mysql_put_where(). */
enum rc singleton_mysql_check_end(const struct singleton_mysql *row,
                                  const struct singleton_lease *lease, bool *held, struct err *err);

/* Appends a WHERE clause that finds the row only while the lease's owner has it. */
void singleton_mysql_put_where(const struct singleton_mysql *row,
                               const struct singleton_lease *lease);

/* Appends "lease_until = ..." to sql. */
void singleton_mysql_put_lease(const struct singleton_mysql *row,
                               const struct singleton_lease *lease);

/* Releases the lease before the job is finished. A failure is ignored: the lease then expires. */
void singleton_mysql_release(const struct singleton_mysql *row,
                             const struct singleton_lease *lease);

#endif
