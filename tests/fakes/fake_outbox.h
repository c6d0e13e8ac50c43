/* SPDX-License-Identifier: MIT */
/* A fake of an outbox table as the relay's reader sees it: the statements of source_mysql.c that
 * look for rows. The user keeps the rows, and with them what a transaction has done to each. */
#ifndef TESTS_FAKES_FAKE_OUTBOX_H
#define TESTS_FAKES_FAKE_OUTBOX_H

#include "outbox/relay/relay_ops.h"
#include "tests/fakes/fake_hooks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_KEY_SIZE 24

/* The state of a seq. */
enum outbox_state {
    OUTBOX_NONE,     /* nothing has it, or its transaction was rolled back */
    OUTBOX_RESERVED, /* given to a transaction that has not written the row */
    OUTBOX_WRITTEN,  /* the transaction is open */
    OUTBOX_COMMITTED,
    OUTBOX_MOVED, /* into the retry queue */
    OUTBOX_DELETED,
};

struct fake_outbox {
    int64_t seq_next;
    int64_t settled; /* no row up to here will ever be seen again */
};

/* One connection of a reader. The user fills all fields. */
struct fake_source {
    struct fake_hooks hooks;
    struct fake_outbox *table;
    enum outbox_state (*state)(void *ctx, int64_t seq);
    /* By the server's clock. */
    int64_t (*created_ms)(void *ctx, int64_t seq);
    void (*show)(void *ctx, int64_t seq, char key[FAKE_KEY_SIZE], struct relay_row *row);
    /* Instead of hooks.call() for read(): any *broken but RC_OK says that the connection breaks
     * after two rows, and read() returns it. */
    enum rc (*call_read)(void *ctx, enum rc *broken, struct err *err);
};

/* Scans look at the seqs from .. to only: what is settled is passed over. */
bool fake_outbox_in_ranges(int64_t seq, const struct seq_range *ranges, size_t count);
int64_t fake_outbox_scan_to(const struct fake_outbox *table, int64_t to);

/* The ops of struct source; ctx is the struct fake_source. */
enum rc fake_source_read(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                         source_on_row on_row, void *on_row_ctx, struct err *err);
enum rc fake_source_probe(void *ctx, const struct seq_range *ranges, size_t count, bool *busy,
                          bool *found, struct err *err);
enum rc fake_source_look(void *ctx, int64_t from, int64_t above, struct source_look *look,
                         struct err *err);
enum rc fake_source_restart(void *ctx, int64_t below, struct source_restart *restart,
                            struct err *err);

#endif
