/* SPDX-License-Identifier: MIT */
/* Proves the promises on the data itself: a list of checks, each with what it looked at and the
 * first few rows that break it. Most checks stay on one server and are one statement of the edge;
 * the comparison of the writers' totals with the log's crosses servers and is merged here, page by
 * page, in bounded memory. One thread. */
#ifndef CONSUMER_VERIFY_VERIFY_H
#define CONSUMER_VERIFY_VERIFY_H

#include "common/err.h"
#include "consumer/verify/verify_seam.h"

#include <stdint.h>

#define VERIFY_PAGE_ROWS 5000

/* Called after every check; result is borrowed for the call. */
typedef void (*verify_on_result)(void *ctx, const struct verify_result *result);

/* Runs every check. RC_OK: all were made, *violations says what they found. Otherwise err says
 * which check could not be made, and why. */
enum rc verify_run(const struct verify_source *source, verify_on_result on_result, void *ctx,
                   uint64_t *violations, struct err *err);

#endif
