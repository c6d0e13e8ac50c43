/* SPDX-License-Identifier: MIT */
#include "outbox/retry/clients/client_rates.h"

#include <string.h>

#define PROBES 8
#define WAIT_MS_MAX 60000

static void init_rate(struct client_rate *rate, uint64_t name,
                      const struct retry_client_rate *limit, int64_t now_ms)
{
    *rate = (struct client_rate){.name = name, .seen_ms = now_ms};
    bucket_init(&rate->bucket, limit->per_s, limit->burst, 0);
}

static struct client_rate *find_rate(struct client_rates *rates, uint64_t name)
{
    struct client_rate *oldest = NULL;

    for (uint64_t i = 0; i < PROBES; i++) {
        struct client_rate *rate = &rates->list[(name + i) & (CLIENT_RATES_MAX - 1)];

        if (rate->name == name || rate->name == 0)
            return rate;
        if (!oldest || rate->seen_ms < oldest->seen_ms)
            oldest = rate;
    }
    return oldest;
}

struct client_rate *client_rates_get(struct client_rates *rates, uint64_t name,
                                     const struct retry_client_rate *limit, int64_t now_ms)
{
    struct client_rate *rate;
    int64_t share = limit->burst * limit->held / limit->of;
    int64_t passed;

    name = name == 0 ? 1 : name;
    rate = find_rate(rates, name);
    if (rate->name != name || rate->bucket.per_s != limit->per_s)
        init_rate(rate, name, limit, now_ms);
    passed = (now_ms > rate->seen_ms ? now_ms - rate->seen_ms : 0) * limit->held + rate->rest;
    rate->seen_ms = now_ms;
    rate->clock_ms += passed / limit->of;
    rate->rest = passed % limit->of;
    rate->bucket.burst = share > 1 ? share : 1;
    if (bucket_count(&rate->bucket, rate->clock_ms) > rate->bucket.burst)
        bucket_spend(&rate->bucket,
                     bucket_count(&rate->bucket, rate->clock_ms) - rate->bucket.burst);
    return rate;
}

bool client_rate_has_token(const struct client_rate *rate)
{
    struct bucket bucket = rate->bucket;

    return bucket_count(&bucket, rate->clock_ms) > 0;
}

void client_rate_spend(struct client_rate *rate)
{
    bucket_take(&rate->bucket, rate->clock_ms);
}

int64_t client_rate_wait_ms(struct client_rate *rate, const struct retry_client_rate *limit,
                            int64_t now_ms)
{
    struct bucket bucket = rate->bucket;
    int64_t token_ms = 1000 * limit->of / (limit->per_s * (limit->held > 0 ? limit->held : 1)) + 1;
    int64_t at_ms = now_ms + bucket_take(&bucket, rate->clock_ms) * limit->of /
                                 (limit->held > 0 ? limit->held : 1);

    if (at_ms < rate->return_ms + token_ms)
        at_ms = rate->return_ms + token_ms;
    if (at_ms > now_ms + WAIT_MS_MAX)
        at_ms = now_ms + WAIT_MS_MAX;
    rate->return_ms = at_ms;
    return at_ms - now_ms;
}
