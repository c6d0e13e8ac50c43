/* SPDX-License-Identifier: MIT */
/* The roll-up on a fake of its store (tests/fakes/fake_rollup.h): the totals, a clock, and a call
 * that fails. */
#ifndef TESTS_UNIT_ROLLUP_FIXTURE_H
#define TESTS_UNIT_ROLLUP_FIXTURE_H

#include "consumer/rollup/rollup.h"
#include "tests/fakes/fake_rollup.h"

#include <stdbool.h>
#include <stdint.h>

#define CONTENTS 25
#define OVERLAP_MS INT64_C(600000)
#define LEASE_MS INT64_C(10000)
#define BATCH_ROWS 10
#define HOUR_MS INT64_C(3600000)
#define NOON_MS (INT64_C(500000) * HOUR_MS)

struct content {
    bool exists; /* in vote_tally */
    int64_t changed_ms;
    int64_t votes;
    int64_t seq;
};

struct rollup_fixture {
    struct rollup_store store;
    struct rollup_state state; /* now_ms is the clock */
    struct content contents[CONTENTS + 1];
    struct fake_remark remarks[CONTENTS + 1];
    struct fake_rollup fake;
    uint64_t connects;
    int64_t calls;
    int64_t fail_call;  /* this call fails; 0 = none */
    enum rc fail_rc;    /* with this */
    bool fail_after;    /* after it took effect: the answer is lost */
    int64_t refused_id; /* writes with this content are refused; 0 = none */
    int64_t writes;     /* that took effect */
    int64_t rows_read;
    int64_t rows_offered; /* to writes, changed or not */
};

/* Noon, a remark for every content, and nothing rolled up yet. sink must not move. */
void rollup_fixture_init(struct rollup_fixture *fixture);

/* An engine on it, with the numbers above and windows of an hour. */
void engine_start(struct rollup *rollup, const struct rollup_fixture *fixture, const char *owner,
                  bool once);

/* Steps without letting time pass until a window is finished; LOOP_END ends it too. */
void run_window(struct rollup *rollup);

/* Every remark has its content's total. */
void assert_rolled_up(const struct rollup_fixture *fixture);

/* Adds one vote, with this changed_ms. */
void rollup_fixture_change(struct rollup_fixture *fixture, int64_t id, int64_t changed_ms);

#endif
