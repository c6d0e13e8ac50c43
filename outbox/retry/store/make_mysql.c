/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/make_mysql.h"

#include "outbox/retry/store/claim_mysql.h"

/* Another transaction began another task of the key at the same moment; the last time the task is
 * made without a claim. */
#define TRIES_MAX 3

static enum rc make_in_transaction(struct store *store, const struct retry_new_task *task,
                                   int64_t lease_ms, retry_on_task on_task, void *on_task_ctx,
                                   struct retry_ticket *ticket, struct err *err)
{
    enum rc rc = retry_append_once(store->db, task, 1, ticket, err);

    if (rc == RC_OK && lease_ms > 0 && !ticket->existed)
        rc = claim_made_task(store, ticket->id, lease_ms, on_task, on_task_ctx, err);
    return rc;
}

/* on_task is called by the last statement before the COMMIT: a try that failed has not called it.
 */
enum rc make_task(struct store *store, const struct retry_new_task *task, int64_t lease_ms,
                  retry_on_task on_task, void *on_task_ctx, struct retry_ticket *ticket,
                  struct err *err)
{
    enum rc rc = RC_REJECT;

    for (int tries = 1; rc == RC_REJECT; tries++) {
        rc = store_begin(store, err);
        if (rc != RC_OK)
            return rc;
        rc = make_in_transaction(store, task, tries < TRIES_MAX ? lease_ms : 0, on_task,
                                 on_task_ctx, ticket, err);
        rc = store_end(store, rc, err);
        if (tries == TRIES_MAX || err->code != DB_DUPLICATE)
            break;
    }
    return rc;
}
