/* SPDX-License-Identifier: MIT */
/* The statements that write what became of tasks; only finish_mysql.c uses them, inside its
 * transaction and for tasks that it has locked. One thread at a time per store. */
#ifndef OUTBOX_RETRY_STORE_ENDS_MYSQL_H
#define OUTBOX_RETRY_STORE_ENDS_MYSQL_H

#include "outbox/retry/order_row.h"
#include "outbox/retry/store/retry_mysql.h"

#include <stdbool.h>
#include <stddef.h>

/* Endings in one statement, at most. */
#define ENDS_AT_ONCE 500

struct ending {
    const struct task_result *result;
    size_t place; /* among the results */
    bool is_ours;
    struct order_key key; /* "": none */
    char group[TASK_NAME_SIZE];
    enum retry_owner origin;
};

/* Rows of retry_attempt. */
enum rc ends_forget_attempts(struct retry_mysql *store, const struct ending *const *endings,
                             size_t count, struct err *err);
enum rc ends_note_attempts(struct retry_mysql *store, const struct ending *const *endings,
                           size_t count, struct err *err);

/* New tasks; one that is there from before stays as it is. */
enum rc ends_call_back(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                       struct err *err);

/* Copies into the history. */
enum rc ends_keep_done(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                       struct err *err);
enum rc ends_keep_exhausted(struct retry_mysql *store, const struct ending *const *endings,
                            size_t count, struct err *err);

/* The tasks themselves. */
enum rc ends_delete(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                    struct err *err);
enum rc ends_again(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                   struct err *err);
enum rc ends_back(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                  struct err *err);
enum rc ends_step(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                  struct err *err);
enum rc ends_block(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                   struct err *err);
enum rc ends_park(struct retry_mysql *store, const struct ending *const *endings, size_t count,
                  struct err *err);

#endif
