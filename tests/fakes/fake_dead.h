/* SPDX-License-Identifier: MIT */
/* A fake of the store of dead records: the statements of dead_mysql.c on the rows of dead_record of
 * fake_sink.h, in the transaction of one of its connections. */
#ifndef TESTS_FAKES_FAKE_DEAD_H
#define TESTS_FAKES_FAKE_DEAD_H

#include "consumer/dead/dead.h"
#include "tests/fakes/fake_sink.h"

/* One store. The user fills all fields. */
struct fake_dead {
    struct fake_sink *sink; /* a connection */
    const char *topic;      /* of all records */
    void *ctx;
    struct fake_dead_row *(*find)(void *ctx, int64_t id);
    /* Fills key, value, reason_class and reason. They stay valid until the next call. */
    void (*show)(void *ctx, const struct fake_dead_row *dead, struct dead_item *item);

    /* Each of these may be NULL. */

    /* The transaction writes the reason, or the decision: the texts. */
    void (*on_reason)(void *ctx, struct fake_dead_row *dead, const char *reason_class,
                      const char *reason, size_t reason_len);
    void (*on_decide)(void *ctx, struct fake_dead_row *dead, enum dead_decision decision,
                      const void *value, size_t value_len);
};

/* The ops of the store, which must not move; their ctx is the struct fake_dead. Times in a filter
 * are not supported. */
struct dead_store fake_dead_ops(struct fake_dead *fake);

#endif
