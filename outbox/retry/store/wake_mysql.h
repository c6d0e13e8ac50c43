/* SPDX-License-Identifier: MIT */
/* Wakes the next tasks of ordering keys. One thread at a time per db.
 *
 * Each transaction that ends, unblocks, deletes or returns a task with an ordering key (finish,
 * rescue, cancel, unpark, run-now ...) follows these steps under READ COMMITTED:
 *
 *     1. lock the task by primary key (SELECT ... WHERE id IN (...) FOR UPDATE) and check its
 * state,
 *     2. change or delete it,
 *     3. wake_keys() with HEX(order_hash) of all changed tasks,
 *     4. commit.
 *
 * Invariant Q2: a transaction that makes a task queued holds the locks of a task ahead of it and of
 * the key's running, blocked or parked task, if there is one. Step 3 reads after step 1, so it
 * sees every task that was queued behind; no task is woken too early or forgotten. */
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

/* Reads the tasks ahead in each key without waiting for locks and without taking any. ahead has
 * room for count. */
enum rc wake_look(struct db *db, const struct order_key *keys, size_t count,
                  struct order_ahead *ahead, struct err *err);

#endif
