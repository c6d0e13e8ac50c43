/* SPDX-License-Identifier: MIT */
/* A fake of the roll-up's store: the statements of rollup_mysql.c on rollup_state, the totals and
 * the remarks. Each op is one transaction. */
#ifndef TESTS_FAKES_FAKE_ROLLUP_H
#define TESTS_FAKES_FAKE_ROLLUP_H

#include "consumer/rollup/rollup.h"
#include "tests/fakes/fake_hooks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The committed total of a content. */
struct fake_total {
    bool found;
    int64_t votes;
    int64_t seq;
    int64_t changed_ms;
};

struct fake_remark {
    bool found;
    bool due; /* no roll-up has seen it */
    int64_t votes;
    int64_t votes_seq;
    int64_t votes_before; /* as the window before votes_window left them */
    int64_t votes_window;
    int64_t listed_votes; /* votes when the last window was finished */
};

/* One connection. The user fills all fields; the tables may be shared. */
struct fake_rollup {
    struct fake_hooks hooks;
    struct rollup_state *state;
    struct fake_remark *remarks; /* by content id, 1..content_id_max */
    int64_t content_id_max;
    void (*read_total)(void *ctx, int64_t content_id, struct fake_total *total);
    bool unfenced;           /* the fault: the epoch of a write is not compared */
    uint64_t lease_connects; /* not the user's: connects() when the lease was taken */

    /* Each of these may be NULL. */

    /* Instead of hooks.call() for look(), and for read(). */
    enum rc (*call_look)(void *ctx, struct err *err);
    enum rc (*call_read)(void *ctx, struct err *err);
    /* Instead of hooks.call() for a transaction: it begins and locks the row of rollup_state; its
     * COMMIT reaches the server; the row is free. */
    enum rc (*begin)(void *ctx, struct err *err);
    enum rc (*commit)(void *ctx, struct err *err);
    void (*unlock)(void *ctx);
    /* Changes with every new connection. */
    uint64_t (*connects)(void *ctx);
    void (*on_take)(void *ctx, const struct singleton_lease *lease);
    /* The lease is held, and the rows are about to be written. All but RC_OK refuses them. */
    enum rc (*on_write)(void *ctx, const struct rollup_row *rows, size_t count, struct err *err);
    /* The total is about to be written into the remark. */
    void (*on_remark)(void *ctx, const struct fake_remark *remark, const struct rollup_row *row);
};

/* A singleton lease may be taken: it is free, has expired, is implausible, or is the taker's. */
bool fake_singleton_lease_is_free(const char *owner, int64_t lease_until_ms, int64_t now_ms,
                                  const struct singleton_lease *lease);

/* The votes that a reader of lists sees: those as of the last finished window. */
int64_t fake_remark_listed_votes(const struct fake_remark *remark,
                                 const struct rollup_state *state);

/* The ops of the connection, which must not move; their ctx is the struct fake_rollup. */
struct rollup_store fake_rollup_ops(struct fake_rollup *fake);

#endif
