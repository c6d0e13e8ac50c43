/* SPDX-License-Identifier: MIT */
/* Housekeeping on a fake of its store (tests/fakes/fake_housekeep.h): rows of vote_document, a
 * clock, and calls that fail before or after they take effect. housekeep_fixture_check() says after
 * any call whether the data may be so. */
#ifndef TESTS_FLOW_HOUSEKEEP_FIXTURE_H
#define TESTS_FLOW_HOUSEKEEP_FIXTURE_H

#include "consumer/maintenance/housekeep.h"
#include "tests/fakes/fake_housekeep.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIXTURE_ROWS_MAX 512
#define FIXTURE_CONTENT 1 /* of all votes */

struct fixture_row {
    int64_t id;
    int64_t day;
    int vote; /* 1 or -1 */
    bool dropped;
};

struct housekeep_fixture {
    struct housekeep_store store;
    struct fake_housekeep_tables tables;
    struct fake_housekeep fake;
    struct fake_alone connection;
    int64_t now_ms;
    struct fixture_row rows[FIXTURE_ROWS_MAX];
    size_t row_count;

    int calls;
    int fail_call;                    /* this call fails; 0 = none */
    enum fake_housekeep_op fail_kind; /* or every call of this op does; 0 = none */
    enum rc fail_rc;
    bool fail_after; /* after it took effect: the answer is lost */
    int changes;     /* of partitions that came through */
};

/* 2026-11-21, noon; p_before up to 2026-07-01, the months up to 2026-12, p_after; a few rows in
 * each of them, with ids in another order than their days; old rows of three kinds. fixture must
 * not move. */
void housekeep_fixture_init(struct housekeep_fixture *fixture);

/* So many rows more, of this day. */
void housekeep_fixture_add(struct housekeep_fixture *fixture, int64_t day, size_t count);

/* Fails the test unless the rows and vote_base together have all votes of the beginning, and each
 * row that is left is in a partition. */
void housekeep_fixture_check(const struct housekeep_fixture *fixture);

/* Is there (still) a partition of that name? */
bool housekeep_fixture_has(const struct housekeep_fixture *fixture, const char *name);

/* The data, apart from the clock, become those of the copy. */
void housekeep_fixture_restore(struct housekeep_fixture *fixture,
                               const struct housekeep_fixture *copy);

#endif
