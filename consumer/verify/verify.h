/* SPDX-License-Identifier: MIT */
/* Proves the promises on the data itself: a list of checks, each with what it looked at and the
 * first few rows that break it. Most checks stay on one server and are one statement of the
 * adapter; the comparison of the writers' totals with the log's crosses servers and is merged here,
 * page by page, in bounded memory. One thread. */
#ifndef CONSUMER_VERIFY_VERIFY_H
#define CONSUMER_VERIFY_VERIFY_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERIFY_OFFENDERS_MAX 5
#define VERIFY_PLACE_SIZE 160

/* What a check found. */
struct verify_result {
    const char *name;  /* static, a word for scripts: "sequence_whole" */
    const char *holds; /* static, the sentence that is true when nothing is found */
    uint64_t rows;     /* looked at */
    uint64_t violations;
    size_t offender_count;
    char offenders[VERIFY_OFFENDERS_MAX][VERIFY_PLACE_SIZE];
};

/* What one side says of a content: its total, or the fingerprint of who votes for it. */
struct verify_total {
    int64_t content_id;
    int64_t value;
};

/* Contents are looked at in this many groups (content_id modulo it) before one by one. */
#define VERIFY_GROUPS 1024

/* A group that is no group: all contents' totals. */
#define VERIFY_TOTALS (-1)

enum verify_side { VERIFY_WRITERS, VERIFY_LOG };

/* What the checks need of the two databases; the adapter reads each from one snapshot. */
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

#define VERIFY_PAGE_ROWS 5000

/* Called after every check; result is borrowed for the call. */
typedef void (*verify_on_result)(void *ctx, const struct verify_result *result);

/* Counts one violation and keeps its place while there is room. */
void verify_found(struct verify_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs every check. RC_OK: all were made, *violations says what they found. Otherwise err says
 * which check could not be made, and why. */
enum rc verify_run(const struct verify_source *source, verify_on_result on_result, void *ctx,
                   uint64_t *violations, struct err *err);

#endif
