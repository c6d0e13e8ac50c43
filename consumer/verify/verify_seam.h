/* SPDX-License-Identifier: MIT */
/* What the checks of `tallybox verify` need of the two databases. One thread. */
#ifndef CONSUMER_VERIFY_VERIFY_SEAM_H
#define CONSUMER_VERIFY_VERIFY_SEAM_H

#include "common/err.h"
#include "consumer/verify/verify_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Contents are looked at in this many groups (content_id modulo it) before one by one. */
#define VERIFY_GROUPS 1024

/* A group that is no group: all contents' totals. */
#define VERIFY_TOTALS (-1)

enum verify_side { VERIFY_WRITERS, VERIFY_LOG };

/* What the checks need of the two databases; the edge reads each from one snapshot. */
struct verify_source {
    void *ctx;
    /* Runs the check and fills in rows, violations and offenders; false in *more ends the list. */
    enum rc (*check)(void *ctx, size_t index, struct verify_result *result, bool *more,
                     struct err *err);
    /* Fingerprints of who votes for what, per group of contents: equal on both sides exactly when
     * each voter's last vote is (but for collisions of a 32 bit hash). One pass over the data. */
    enum rc (*groups)(void *ctx, enum verify_side side, int64_t fingerprints[VERIFY_GROUPS],
                      struct err *err);
    /* The next contents above `after`, in order, at most max, with their totals (group =
     * VERIFY_TOTALS) or, those of one group, with their fingerprints; *count 0 = the end. Contents
     * without any vote may be left out or have 0. */
    enum rc (*contents)(void *ctx, enum verify_side side, int group, int64_t after,
                        struct verify_total *totals, size_t max, size_t *count, struct err *err);
};

#endif
