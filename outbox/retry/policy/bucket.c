/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/bucket.h"

#include <assert.h>

#define TOKEN 1000

void bucket_init(struct bucket *bucket, int64_t per_s, int64_t burst, int64_t now_ms)
{
    assert(per_s >= 0 && per_s <= BUCKET_RATE_MAX && burst >= 1 && burst <= BUCKET_RATE_MAX);
    *bucket = (struct bucket){
        .per_s = per_s, .burst = burst, .thousandths = burst * TOKEN, .at_ms = now_ms};
}

/* A thousandth of a token per ms and token a second. */
static void fill_bucket(struct bucket *bucket, int64_t now_ms)
{
    int64_t room = bucket->burst * TOKEN - bucket->thousandths;
    int64_t passed_ms = now_ms - bucket->at_ms;

    if (passed_ms <= 0)
        return;
    bucket->at_ms = now_ms;
    if (passed_ms >= room / bucket->per_s + 1)
        bucket->thousandths += room;
    else
        bucket->thousandths += passed_ms * bucket->per_s;
}

int64_t bucket_take(struct bucket *bucket, int64_t now_ms)
{
    if (bucket->per_s == 0)
        return 0;
    fill_bucket(bucket, now_ms);
    if (bucket->thousandths < TOKEN)
        return (TOKEN - bucket->thousandths + bucket->per_s - 1) / bucket->per_s;
    bucket->thousandths -= TOKEN;
    return 0;
}

int64_t bucket_count(struct bucket *bucket, int64_t now_ms)
{
    if (bucket->per_s == 0)
        return INT64_MAX;
    fill_bucket(bucket, now_ms);
    return bucket->thousandths / TOKEN;
}

void bucket_return(struct bucket *bucket)
{
    if (bucket->per_s > 0 && bucket->thousandths + TOKEN <= bucket->burst * TOKEN)
        bucket->thousandths += TOKEN;
}

void bucket_spend(struct bucket *bucket, int64_t count)
{
    int64_t whole = bucket->thousandths / TOKEN;

    if (bucket->per_s > 0)
        bucket->thousandths -= (count < whole ? count : whole) * TOKEN;
}
