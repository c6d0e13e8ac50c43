/* SPDX-License-Identifier: MIT */
/* A rate limit as a token bucket: `burst` at once, then `per_s` a second. Counts in thousandths of
 * a token, so that slow rates lose nothing. Pure; one thread at a time. */
#ifndef OUTBOX_RETRY_POLICY_BUCKET_H
#define OUTBOX_RETRY_POLICY_BUCKET_H

#include <stdint.h>

#define BUCKET_RATE_MAX 1000000

struct bucket {
    int64_t per_s; /* 0: no limit */
    int64_t burst; /* >= 1 */
    int64_t thousandths;
    int64_t at_ms; /* when they were counted */
};

/* Full. */
void bucket_init(struct bucket *bucket, int64_t per_s, int64_t burst, int64_t now_ms);

/* Takes a token and returns 0, or returns the ms until there is one. */
int64_t bucket_take(struct bucket *bucket, int64_t now_ms);

/* Whole tokens that there are; INT64_MAX without a limit. */
int64_t bucket_count(struct bucket *bucket, int64_t now_ms);

/* Takes up to count of them; never below zero. */
void bucket_spend(struct bucket *bucket, int64_t count);

/* One that was taken is not needed after all; never above the burst. */
void bucket_return(struct bucket *bucket);

#endif
