/* SPDX-License-Identifier: MIT */
/* A model of both databases for the housekeeping engine: partitions with rows, what was folded in
 * of them, old rows elsewhere, a clock, calls that fail before or after they took effect, and a
 * judge that says after any call whether what is held may be. Any number of engines; one thread. */
#ifndef TESTS_FLOW_HOUSEKEEP_MODEL_H
#define TESTS_FLOW_HOUSEKEEP_MODEL_H

#include "consumer/maintenance/housekeep.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_PARTS_MAX 64
#define MODEL_ROWS_MAX 512

struct model_row {
    int64_t id;
    int64_t day;
    int vote; /* 1 or -1 */
    size_t part;
    bool dropped;
};

struct housekeep_model {
    struct housekeep_store store;
    struct housekeep_state state; /* now_ms is the clock */
    struct housekeep_part parts[MODEL_PARTS_MAX];
    bool gone[MODEL_PARTS_MAX]; /* dropped; its place stays, so that rows can name it */
    size_t part_count;
    struct model_row rows[MODEL_ROWS_MAX];
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
enum model_call {
    MODEL_LOOK = 1,
    MODEL_TAKE,
    MODEL_RENEW,
    MODEL_READ,
    MODEL_COUNT,
    MODEL_MAKE,
    MODEL_BEGIN,
    MODEL_FOLD,
    MODEL_DROP,
    MODEL_DELETE,
    MODEL_FINISH,
};

/* 2026-11-21, noon; p_before up to 2026-07-01, the months up to 2026-12, p_after; a few rows in
 * each of them, with ids in no order of theirs; old rows of every kind. model must not move. */
void housekeep_model_init(struct housekeep_model *model);

/* The rows that count and what is folded in are together what they were in the beginning, nothing
 * lies in a dropped partition, and nothing is dropped that is not folded in. Fails the test. */
void housekeep_model_check(const struct housekeep_model *model);

/* Is there (still) a partition of that name? */
bool housekeep_model_has(const struct housekeep_model *model, const char *name);

#endif
