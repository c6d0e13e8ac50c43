/* SPDX-License-Identifier: MIT */
/* Claims due and expired tasks, renews the leases of claimed tasks and returns tasks whose lease
 * has expired, as claim(), claim_expired(), make(), renew() and rescue() of struct retry_store
 * require. One thread at a time per store. */
#ifndef OUTBOX_RETRY_STORE_CLAIM_MYSQL_H
#define OUTBOX_RETRY_STORE_CLAIM_MYSQL_H

#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The memory of a claim. RC_FATAL: no memory. */
enum rc claim_open(struct claim **claim, struct err *err);
void claim_close(struct claim *claim);

enum rc claim_tasks(struct store *store, const struct task_class *class, size_t rows_max,
                    int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                    struct err *err);
enum rc claim_expired_tasks(struct store *store, const struct task_age *age, size_t rows_max,
                            int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                            struct err *err);

/* In a transaction that has made the task `id`: claims it if it is due and first of its key.
 * RC_REJECT with the code DB_DUPLICATE: another transaction has begun a task of its key at the same
 * moment. The caller ends the transaction. */
enum rc claim_made_task(struct store *store, int64_t id, int64_t lease_ms, retry_on_task on_task,
                        void *on_task_ctx, struct err *err);

enum rc claim_renew_leases(struct store *store, const int64_t *ids, const int64_t *epochs,
                           size_t count, int64_t lease_ms, bool *lost, struct err *err);
enum rc claim_rescue_expired(struct store *store, size_t rows_max, size_t *count, size_t *shortened,
                             struct err *err);

#endif
