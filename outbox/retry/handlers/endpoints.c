/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/endpoints.h"

#include <stdio.h>
#include <string.h>

/* One failure counts as this many calls in flight. */
#define FAILURE_WEIGHT 4

static struct endpoint *find_endpoint(struct endpoints *endpoints, const char *name)
{
    for (size_t i = 0; i < endpoints->count; i++)
        if (strcmp(endpoints->list[i].name, name) == 0)
            return &endpoints->list[i];
    return NULL;
}

/* Returns the endpoint of the name. A new endpoint takes a free place or that of the endpoint that
 * was unused longest; NULL: all places are in use. */
static struct endpoint *get_endpoint(struct endpoints *endpoints, const char *name)
{
    struct endpoint *endpoint = find_endpoint(endpoints, name);

    if (endpoint)
        return endpoint;
    if (endpoints->count < ENDPOINTS_MAX)
        endpoint = &endpoints->list[endpoints->count++];
    for (size_t i = 0; !endpoint && i < ENDPOINTS_MAX; i++)
        if (endpoints->list[i].in_flight == 0)
            endpoint = &endpoints->list[i];
    if (!endpoint)
        return NULL;
    for (size_t i = 0; i < endpoints->count; i++) {
        struct endpoint *other = &endpoints->list[i];

        if (other->in_flight == 0 && other->used_ms < endpoint->used_ms)
            endpoint = other;
    }
    memset(endpoint, 0, sizeof(*endpoint));
    snprintf(endpoint->name, sizeof(endpoint->name), "%s", name);
    return endpoint;
}

/* When its time is over, one call at a time tries it until one works. */
static bool is_out(const struct endpoint *endpoint, int64_t now_ms)
{
    return endpoint && endpoint->failures >= ENDPOINT_FAILURES_OUT &&
           (now_ms < endpoint->out_until_ms || endpoint->in_flight > 0);
}

static unsigned compute_load(const struct endpoint *endpoint)
{
    return endpoint ? endpoint->in_flight + FAILURE_WEIGHT * endpoint->failures : 0;
}

static int64_t get_return_ms(const struct endpoint *endpoint)
{
    return endpoint ? endpoint->out_until_ms : 0;
}

/* All are left out: chooses the one that returns first. */
static size_t find_first_return(struct endpoints *endpoints, const char *const *names, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        if (get_return_ms(find_endpoint(endpoints, names[i])) <
            get_return_ms(find_endpoint(endpoints, names[best])))
            best = i;
    return best;
}

/* The index of number `wanted` of those that are in. */
static size_t find_nth_available(struct endpoints *endpoints, const char *const *names,
                                 size_t count, int64_t now_ms, size_t wanted)
{
    size_t i = 0;

    for (; i + 1 < count; i++)
        if (!is_out(find_endpoint(endpoints, names[i]), now_ms) && wanted-- == 0)
            break;
    return i;
}

static size_t choose_endpoint(struct endpoints *endpoints, const char *const *names, size_t count,
                              int64_t now_ms, uint64_t random_bits)
{
    size_t in = 0;
    size_t one;
    size_t two;

    for (size_t i = 0; i < count; i++)
        in += !is_out(find_endpoint(endpoints, names[i]), now_ms);
    if (in == 0)
        return find_first_return(endpoints, names, count);
    one = (size_t)(random_bits & UINT32_MAX) % in;
    if (in == 1)
        return find_nth_available(endpoints, names, count, now_ms, one);
    two = (one + 1 + (size_t)(random_bits >> 32) % (in - 1)) % in;
    one = find_nth_available(endpoints, names, count, now_ms, one);
    two = find_nth_available(endpoints, names, count, now_ms, two);
    return compute_load(find_endpoint(endpoints, names[two])) <
                   compute_load(find_endpoint(endpoints, names[one]))
               ? two
               : one;
}

size_t endpoints_pick(struct endpoints *endpoints, const char *const *names, size_t count,
                      int64_t now_ms, uint64_t random_bits)
{
    size_t index = choose_endpoint(endpoints, names, count, now_ms, random_bits);
    struct endpoint *endpoint = get_endpoint(endpoints, names[index]);

    if (endpoint) {
        endpoint->in_flight++;
        endpoint->used_ms = now_ms;
    }
    return index;
}

int64_t endpoints_out_ms(unsigned failures, uint64_t random_bits)
{
    int64_t ms = ENDPOINT_OUT_MS_BASE;

    for (unsigned i = ENDPOINT_FAILURES_OUT; i < failures && ms < ENDPOINT_OUT_MS_CAP; i++)
        ms *= 2;
    if (ms > ENDPOINT_OUT_MS_CAP)
        ms = ENDPOINT_OUT_MS_CAP;
    /* Half of the time is random, so that not all processes return at once. */
    return ms / 2 + (int64_t)(random_bits % (uint64_t)(ms / 2 + 1));
}

bool endpoints_end(struct endpoints *endpoints, const char *name, bool failed, int64_t now_ms,
                   uint64_t random_bits)
{
    struct endpoint *endpoint = find_endpoint(endpoints, name);

    /* There was no place for it, or not any more. */
    if (!endpoint || endpoint->in_flight == 0)
        return false;
    endpoint->in_flight--;
    if (!failed) {
        endpoint->failures = 0;
        return false;
    }
    if (endpoint->failures < UINT32_MAX / (2 * FAILURE_WEIGHT))
        endpoint->failures++;
    if (endpoint->failures < ENDPOINT_FAILURES_OUT)
        return false;
    endpoint->out_until_ms = now_ms + endpoints_out_ms(endpoint->failures, random_bits);
    return true;
}
