/* SPDX-License-Identifier: MIT */
/* The tasks that a claim takes, from the search that finds them to the caller. The search reads
 * small tasks whole, under their locks; their columns are kept until the claim is committed, so
 * that most claims read no task twice. Part of claim_mysql. One thread at a time. */
#ifndef OUTBOX_RETRY_STORE_CLAIMED_MYSQL_H
#define OUTBOX_RETRY_STORE_CLAIMED_MYSQL_H

#include "common/buf.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claimed {
    int64_t ids[RETRY_CLAIM_ROWS_MAX];
    int64_t epochs[RETRY_CLAIM_ROWS_MAX];
    size_t at[RETRY_CLAIM_ROWS_MAX]; /* where its columns are in kept */
    size_t count;
    struct buf kept;
    bool kept_all; /* every row that was found is in kept, whole */
};

#define CLAIMED_US(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time "), "
#define CLAIMED_KEYS "t.ordering_key, t.idempotency_key, LOWER(HEX(t.task_hash)), t.biz_no, "
#define CLAIMED_TYPE ", t.params_type, t.attempts, "
#define CLAIMED_TIMES CLAIMED_US("t.age_from") CLAIMED_US("UTC_TIMESTAMP(3)")
#define CLAIMED_REST CLAIMED_US("t.next_at") "t.handler, t.shard, t.traceparent, t.waited"
/* What a handler gets of a task t. wide(COLUMN) is how a column without a bound is read. */
#define CLAIMED_COLUMNS(wide)                                                       \
    CLAIMED_KEYS wide("t.options") ", " wide("t.params") CLAIMED_TYPE CLAIMED_TIMES \
        "t.step, " wide("t.step_result") ", " CLAIMED_REST
/* Columns with more bytes are not read by the search, but when the task is claimed. */
#define CLAIMED_FOUND_BYTES 4096
#define CLAIMED_FOUND(column) "IF(OCTET_LENGTH(" column ") <= 4096, " column ", NULL)"
_Static_assert(CLAIMED_FOUND_BYTES == 4096, "CLAIMED_FOUND says so");
/* For the SELECT list of the search: the bytes of params, of step_result and of options, and then
 * what else claimed_keep() takes of a task t. */
#define CLAIMED_FOUND_COLUMNS                               \
    "OCTET_LENGTH(t.params), OCTET_LENGTH(t.step_result), " \
    "OCTET_LENGTH(t.options), " CLAIMED_COLUMNS(CLAIMED_FOUND)

/* Forgets the tasks of an earlier claim. locked: the rows that the search finds stay locked until
 * the claim is committed; other rows may change, and are read again. */
void claimed_begin(struct claimed *claimed, bool locked);

/* Keeps CLAIMED_FOUND_COLUMNS, which the row has from column `from` on, and returns their place for
 * claimed_add(). */
size_t claimed_keep(struct claimed *claimed, const struct db_row *row, size_t from);

/* A task was taken under this epoch; at most RETRY_CLAIM_ROWS_MAX. */
void claimed_add(struct claimed *claimed, int64_t id, int64_t epoch, size_t at);

/* Calls on_task for each task in the order in which they were taken, after the COMMIT of the claim.
 * All have one scene. A task that was taken away since then may be passed or left out. Errors: as
 * db_query(); on_task was called for no task then. */
enum rc claimed_pass(struct claimed *claimed, struct store *store, retry_on_task on_task, void *ctx,
                     struct err *err);

/* A zeroed struct may be passed. */
void claimed_done(struct claimed *claimed);

#endif
