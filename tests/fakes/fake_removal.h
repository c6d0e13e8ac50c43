/* SPDX-License-Identifier: MIT */
/* A fake of the remover's store: the statements of removal_mysql.c on remark, vote_tally and
 * vote_last. Each statement that writes is a transaction of its own. */
#ifndef TESTS_FAKES_FAKE_REMOVAL_H
#define TESTS_FAKES_FAKE_REMOVAL_H

#include "producer/remark/removal_ops.h"
#include "tests/fakes/fake_session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a removal reads and writes of a row of remark. */
struct fake_removal_version {
    bool found;
    bool deleted; /* deleted_at is set */
    int64_t deleted_ms;
    int64_t remove_ms; /* remove_after */
};

struct fake_removal_row {
    struct fake_row row; /* first */
    struct fake_removal_version now;
    struct fake_removal_version old;
};

/* One connection. The user fills all fields; the rows may be shared. */
struct fake_removal {
    struct fake_session session;
    struct fake_removal_row *rows; /* by id, 1..id_max */
    int64_t id_max;
    void *ctx;
    int64_t (*item_of)(void *ctx, int64_t id);
    /* The committed end of the tally. */
    bool (*is_ended)(void *ctx, int64_t content_id);
    /* In the open transaction: deletes at most rows_max rows of vote_last, and tells how many. */
    enum rc (*delete_lasts)(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                            struct err *err);

    /* Each of these may be NULL. */

    /* True: the database refuses to delete the remark. */
    bool (*refuses_remark)(void *ctx, int64_t id);
    /* A transaction that has written the row has ended: `old` is still what it was before. The
     * context is that of the connection. */
    void (*on_row)(void *ctx, const struct fake_removal_row *row);
};

/* In an open transaction: writes the row, which it has locked. */
void fake_removal_write(struct fake_removal *fake, struct fake_removal_row *row);

/* The ops of the connection, which must not move; their ctx is the struct fake_removal. */
struct removal_store fake_removal_ops(struct fake_removal *fake);
struct removal_marks fake_removal_marks(struct fake_removal *fake);

#endif
