/* SPDX-License-Identifier: MIT */
/* A fake of both databases for the housekeeping engine: partitions with rows, the part of them that
 * was folded into vote_base, old rows of other tables, and a clock. Calls fail before or after they
 * take effect, and fake_housekeep_check() says after any call whether the data may be so. Any
 * number of engines; one thread. Each op is one step here; the simulation's fake
 * (housekeep_store.c) models the transactions and locks of an op, so the two share no code. */
#ifndef TESTS_FAKES_FAKE_HOUSEKEEP_H
#define TESTS_FAKES_FAKE_HOUSEKEEP_H

#include "consumer/maintenance/housekeep.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_PARTS_MAX 64
#define FAKE_ROWS_MAX 512

struct fake_housekeep_row {
    int64_t id;
    int64_t day;
    int vote; /* 1 or -1 */
    size_t part;
    bool dropped;
};

struct fake_housekeep {
    struct housekeep_store store;
    struct housekeep_state state; /* now_ms is the clock */
    struct housekeep_part parts[FAKE_PARTS_MAX];
    bool gone[FAKE_PARTS_MAX]; /* dropped; its place stays, so that rows can name it */
    size_t part_count;
    struct fake_housekeep_row rows[FAKE_ROWS_MAX];
    size_t row_count;
    int64_t folded_id;
    int64_t base_rows;
    int64_t base_votes;
    uint64_t old[HOUSEKEEP_KINDS];

    int calls;
    int fail_call; /* this call fails; 0 = none */
    int fail_kind; /* or every call of this one does; 0 = none */
    enum rc fail_rc;
    bool fail_after; /* after it took effect: the answer is lost */
    int changes;     /* of partitions that came through */
};

/* Kinds of calls, for fail_kind. */
enum fake_housekeep_call {
    FAKE_LOOK = 1,
    FAKE_TAKE,
    FAKE_RENEW,
    FAKE_READ,
    FAKE_COUNT,
    FAKE_MAKE,
    FAKE_BEGIN,
    FAKE_FOLD,
    FAKE_DROP,
    FAKE_DELETE,
    FAKE_FINISH,
};

/* 2026-11-21, noon; p_before up to 2026-07-01, the months up to 2026-12, p_after; a few rows in
 * each of them, with ids in another order than their days; old rows of every kind. fake must not
 * move. */
void fake_housekeep_init(struct fake_housekeep *fake);

/* Fails the test unless the rows and vote_base together have all votes of the beginning, no row is
 * in a dropped partition, and every dropped row is in vote_base. */
void fake_housekeep_check(const struct fake_housekeep *fake);

/* Is there (still) a partition of that name? */
bool fake_housekeep_has(const struct fake_housekeep *fake, const char *name);

#endif
