/* SPDX-License-Identifier: MIT */
/* Proves the promises on the data itself: a list of checks, each with what it looked at and the
 * first few rows that break it. Most checks stay on one server and are one statement of the edge;
 * the comparison of the writers' totals with the log's crosses servers and is merged here, page by
 * page, in bounded memory. One thread. */
#ifndef CONSUMER_VERIFY_H
#define CONSUMER_VERIFY_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERIFY_OFFENDERS_MAX 5
#define VERIFY_PLACE_SIZE 160
#define VERIFY_PAGE_ROWS 5000

struct verify_result {
    const char *name;  /* static, a word for scripts: "sequence_whole" */
    const char *holds; /* static, the sentence that is true when nothing is found */
    uint64_t rows;     /* looked at */
    uint64_t violations;
    size_t offender_count;
    char offenders[VERIFY_OFFENDERS_MAX][VERIFY_PLACE_SIZE];
};

/* Counts one violation and keeps its place while there is room. */
void verify_found(struct verify_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A content's total as one side has it. */
struct verify_total {
    int64_t content_id;
    int64_t votes;
};

enum verify_side { VERIFY_WRITERS, VERIFY_LOG };

/* What the checks need of the two databases; the edge reads each from one snapshot. */
struct verify_source {
    void *ctx;
    /* Runs the check and fills in rows, violations and offenders; false in *more ends the list. */
    enum rc (*check)(void *ctx, size_t index, struct verify_result *result, bool *more,
                     struct err *err);
    /* The next totals above `after`, in the order of content_id, at most max; *count 0 = the end.
     * Contents without any vote may be left out or have 0. */
    enum rc (*totals)(void *ctx, enum verify_side side, int64_t after, struct verify_total *totals,
                      size_t max, size_t *count, struct err *err);
};

/* Called after every check; result is borrowed for the call. */
typedef void (*verify_on_result)(void *ctx, const struct verify_result *result);

/* Runs every check. RC_OK: all were made, *violations says what they found. Otherwise err says
 * which check could not be made, and why. */
enum rc verify_run(const struct verify_source *source, verify_on_result on_result, void *ctx,
                   uint64_t *violations, struct err *err);

#endif
