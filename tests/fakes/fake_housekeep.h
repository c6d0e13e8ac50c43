/* SPDX-License-Identifier: MIT */
/* A fake of the housekeeping's store: the statements of housekeep_mysql.c on housekeep_state,
 * log_begin, vote_base, the partitions of vote_document, and rows of other tables that grow old.
 * The user keeps the rows of vote_document. */
#ifndef TESTS_FAKES_FAKE_HOUSEKEEP_H
#define TESTS_FAKES_FAKE_HOUSEKEEP_H

#include "consumer/maintenance/housekeep.h"
#include "tests/fakes/fake_session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_PARTS_MAX 320
#define FAKE_FOLD_ROWS_MAX 20
#define FAKE_BASES_MAX 16
#define FAKE_OLD_ROWS_MAX 64

/* A committed row of vote_document. */
struct fake_log_row {
    int64_t id;
    int64_t day;
    int64_t content_id; /* less than FAKE_BASES_MAX */
    int64_t seq;
    int64_t votes;
    bool voting;
};

/* A row of vote_base. */
struct fake_base {
    int64_t seq;
    int64_t votes;
    int64_t row_count;
    int64_t vote_sum;
};

/* The rows of housekeep_state and of log_begin, and all of vote_base: only the holder of the lease
 * writes them. now_ms and newest_day of the state are not used. */
struct fake_housekeep_rows {
    struct housekeep_state state;
    int64_t folded_id;
    struct fake_base bases[FAKE_BASES_MAX]; /* by content id */
};

struct fake_parts {
    size_t count;
    struct housekeep_part parts[FAKE_PARTS_MAX];
};

/* From a day to before another one. */
struct fake_days {
    int64_t from;
    int64_t until;
};

struct fake_housekeep_tables {
    struct fake_row row; /* of housekeep_state */
    struct fake_housekeep_rows now;
    struct fake_housekeep_rows old;
    struct fake_row parts_row;
    struct fake_parts parts_now;
    struct fake_parts parts_old;
    struct fake_days drops; /* the days of the partition that is being dropped */
    /* When the rows that may be deleted were made, the oldest first. */
    int64_t made_ms[HOUSEKEEP_KINDS][FAKE_OLD_ROWS_MAX];
    size_t made_count[HOUSEKEEP_KINDS];

    void *ctx;
    /* Reads row n of vote_document, from 0 to before the count; false: it is not in the log. */
    size_t (*row_count)(void *ctx);
    bool (*read_row)(void *ctx, size_t n, struct fake_log_row *row);

    /* Each of these may be NULL. */

    /* The transaction adds row n to vote_base. */
    void (*on_fold)(void *ctx, size_t n);
    /* A transaction with the row of housekeep_state ends: `old` is still what it was before. */
    void (*on_settle)(void *ctx, bool commit);
    /* Partitions were changed; one with these days was dropped (the user drops its rows), or NULL.
     */
    void (*on_parts)(void *ctx, const struct fake_days *dropped);
};

/* The op that runs, for the hooks of a session. */
enum fake_housekeep_op {
    FAKE_READ_STATE = 1,
    FAKE_TAKE,
    FAKE_RENEW,
    FAKE_READ_PARTS,
    FAKE_COUNT_ROWS,
    FAKE_MAKE_PART,
    FAKE_MOVE_BEGIN,
    FAKE_FOLD,
    FAKE_DROP_PART,
    FAKE_DELETE_OLD,
    FAKE_COUNT_OLD,
    FAKE_FINISH,
    FAKE_RELEASE,
};

/* Faults of the adapter. */
struct fake_housekeep_faults {
    bool unfenced;       /* the lease is not compared */
    bool owner_ignored;  /* only its epoch is */
    bool fold_apart;     /* folded_id is written in a transaction of its own, behind vote_base */
    bool fold_continues; /* a month is folded from where the last one ended */
};

/* One connection. The user fills all fields but op. */
struct fake_housekeep {
    struct fake_session session; /* its clock is the calendar */
    struct fake_housekeep_tables *tables;
    enum fake_housekeep_op op;
    struct fake_housekeep_faults faults;
    void *ctx;

    /* Each of these may be NULL. */

    /* Waits for all transactions that use vote_document; that have locked log_begin. */
    enum rc (*lock_log)(void *ctx, struct err *err);
    enum rc (*lock_begin)(void *ctx, struct err *err);
    /* The lease is taken in the transaction. */
    void (*on_take)(void *ctx);
    /* The transaction has checked the lease, and is about to commit. */
    void (*on_write)(void *ctx);
    /* The round is about to end. */
    void (*on_finish)(void *ctx);
};

/* Finds a partition and its days. False: there is none of that name. */
bool fake_parts_find(const struct fake_parts *parts, const char *name, size_t *at,
                     struct fake_days *days);

/* The day of the committed row with the highest id; INT64_MIN: there is none. */
int64_t fake_housekeep_newest_day(const struct fake_housekeep_tables *tables);

/* Adds a row to a row of vote_base. */
void fake_base_add(struct fake_base *base, const struct fake_log_row *row);

/* The number of rows of a kind that were made before. */
size_t fake_housekeep_made(const struct fake_housekeep_tables *tables, enum housekeep_kind kind,
                           int64_t before_ms);

/* The ops of the connection, which must not move; their ctx is the struct fake_housekeep. */
struct housekeep_store fake_housekeep_ops(struct fake_housekeep *fake);

#endif
