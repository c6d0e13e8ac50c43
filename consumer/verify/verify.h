/* SPDX-License-Identifier: MIT */
/* Checks the guarantees on the stored data. Each check counts the rows it reads and lists the first
 * violations. Most checks are one statement of the adapter on one server. The comparison of the
 * writers' totals with the log spans both servers and merges their contents here, page by page, in
 * bounded memory. A content whose tally has ended is not compared: the writers may have taken votes
 * after its tombstone, and may remove what they keep of it. One thread. */
#ifndef CONSUMER_VERIFY_VERIFY_H
#define CONSUMER_VERIFY_VERIFY_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERIFY_OFFENDERS_MAX 5
#define VERIFY_PLACE_SIZE 160

/* The result of a check. */
struct verify_result {
    const char *name;  /* static, an identifier for scripts: "sequence_whole" */
    const char *holds; /* static, the sentence that a violation contradicts */
    uint64_t rows;     /* rows read */
    uint64_t violations;
    size_t offender_count;
    char offenders[VERIFY_OFFENDERS_MAX][VERIFY_PLACE_SIZE];
};

/* A content on one side: its total, or the fingerprint of its voters. */
struct verify_total {
    int64_t content_id;
    int64_t value;
    bool ended; /* of the log: the tally has ended */
};

/* Contents are first compared in this many groups (content_id modulo it). */
#define VERIFY_GROUPS 1024

/* Instead of a group: the totals of all contents. */
#define VERIFY_TOTALS (-1)

/* Instead of a group: the contents of deleted_content, `ended` if they are closed, and those whose
 * tallies have ended. Their value is 1. */
#define VERIFY_DELETED (-2)

enum verify_side { VERIFY_WRITERS, VERIFY_LOG };

/* What the checks need of the two databases. The adapter reads each database from one snapshot. */
struct verify_source {
    void *ctx;
    /* This installation has no vote tables: nothing is compared between the sides. */
    bool outbox_only;
    /* Other producers may end tallies: such a content need not be in deleted_content. */
    bool others_end;
    /* Runs the check and fills rows, violations and offenders. *more is false if there is no check
     * with this index. */
    enum rc (*check)(void *ctx, size_t index, struct verify_result *result, bool *more,
                     struct err *err);
    /* Computes a fingerprint of the voters of each group of contents, without the contents whose
     * tallies have ended. Equal on both sides if and
     * only if each voter's last vote is the same (except for collisions of a 32-bit hash). One scan
     * of the data, of *rows rows. */
    enum rc (*groups)(void *ctx, enum verify_side side, int64_t fingerprints[VERIFY_GROUPS],
                      uint64_t *rows, struct err *err);
    /* Reads the next contents above `after`, in order, at most max, with their totals (group =
     * VERIFY_TOTALS), with the fingerprints of one group, or those of VERIFY_DELETED. *count 0: the
     * end. A content without votes may be left out or have 0, but the log has every content whose
     * tally has ended. */
    enum rc (*contents)(void *ctx, enum verify_side side, int group, int64_t after,
                        struct verify_total *totals, size_t max, size_t *count, struct err *err);
};

#define VERIFY_PAGE_ROWS 5000

/* What no check covers, so that "ok" is not taken for more than it says. */
struct verify_limit {
    const char *name; /* static, an identifier for scripts: "kafka_records" */
    const char *what; /* static, a sentence with the place to look at */
};

/* Returns one thing that verify_run() does not check, or NULL after the last one. */
const struct verify_limit *verify_limit_at(size_t index, bool outbox_only);

/* Called after each check. result is borrowed for the call. */
typedef void (*verify_on_result)(void *ctx, const struct verify_result *result);

/* Counts one violation and stores its description while there is room. */
void verify_found(struct verify_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs all checks. RC_OK: all ran, and *violations is the sum of what they found. Otherwise err
 * tells which check could not run, and why. */
enum rc verify_run(const struct verify_source *source, verify_on_result on_result, void *ctx,
                   uint64_t *violations, struct err *err);

#endif
