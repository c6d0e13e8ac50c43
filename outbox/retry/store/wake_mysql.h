/* SPDX-License-Identifier: MIT */
/* Lets keys of the retry queue go on. One thread at a time per db.
 *
 * Whoever ends, unblocks, deletes or gives back a task that has an ordering key (finish, rescue,
 * cancel, unpark, run-now ...) does it so, in one transaction under READ COMMITTED:
 *
 *     1. lock the task by primary key (SELECT ... WHERE id IN (...) FOR UPDATE) and look whether it
 *        is still what one thinks it is,
 *     2. change or delete it,
 *     3. wake_keys() with HEX(order_hash) of all that were changed,
 *     4. commit.
 *
 * A task is queued only by somebody who holds the lock of one ahead of it, and of the one that
 * runs, is blocked or parked, if there is one, so step 3, which reads after step 1, sees every task
 * that was queued behind; nothing is woken too early, and nothing is forgotten. */
#ifndef OUTBOX_RETRY_STORE_WAKE_MYSQL_H
#define OUTBOX_RETRY_STORE_WAKE_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "outbox/retry/policy/order.h"

#include <stddef.h>

/* In each key where nothing runs, is blocked or parked, the task with the smallest id is waiting
 * and due afterwards, if it was queued. The same key may be named twice; count may be 0. Inside the
 * caller's transaction; anything but RC_OK: as db_exec(). */
enum rc wake_keys(struct db *db, const struct order_key *keys, size_t count, struct err *err);

/* Reads what is ahead in each key, without waiting for anybody; nothing is held. ahead has room for
 * count. */
enum rc wake_look(struct db *db, const struct order_key *keys, size_t count,
                  struct order_ahead *ahead, struct err *err);

#endif
