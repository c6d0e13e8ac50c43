/* SPDX-License-Identifier: MIT */
#include "outbox/retry/destinations.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/retry/retry_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BREAKER_BASE_MS 1000
#define BREAKER_CAP_MS 60000

void destinations_done(struct destinations *destinations)
{
    for (size_t i = 0; i < DESTINATIONS_CHAINS; i++) {
        while (destinations->chains[i]) {
            struct destination *destination = destinations->chains[i];

            destinations->chains[i] = destination->next;
            free(destination);
        }
    }
    metric_add(&retry_breakers_open, -(int64_t)destinations->open_count);
    memset(destinations, 0, sizeof(*destinations));
}

static struct destination **find_chain(struct destinations *destinations, const char *name)
{
    uint64_t hash = hash_bytes(HASH_START, name, strlen(name));

    return &destinations->chains[hash & (DESTINATIONS_CHAINS - 1)];
}

static void append_idle(struct destinations *destinations, struct destination *destination)
{
    destination->used_before = destinations->idle_last;
    destination->used_then = NULL;
    if (destinations->idle_last)
        destinations->idle_last->used_then = destination;
    else
        destinations->idle_first = destination;
    destinations->idle_last = destination;
    destinations->idle_count++;
}

static void remove_idle(struct destinations *destinations, struct destination *destination)
{
    if (destination->used_before)
        destination->used_before->used_then = destination->used_then;
    else
        destinations->idle_first = destination->used_then;
    if (destination->used_then)
        destination->used_then->used_before = destination->used_before;
    else
        destinations->idle_last = destination->used_before;
    destinations->idle_count--;
}

static void set_open(struct destinations *destinations, struct destination *destination, bool open)
{
    if (atomic_load(&destination->open) == open)
        return;
    atomic_store(&destination->open, open);
    destinations->open_count += open ? 1 : (size_t)-1;
    metric_add(&retry_breakers_open, open ? 1 : -1);
}

static void remove_destination(struct destinations *destinations, struct destination *destination)
{
    struct destination **at = find_chain(destinations, destination->name);

    while (*at != destination)
        at = &(*at)->next;
    *at = destination->next;
    remove_idle(destinations, destination);
    set_open(destinations, destination, false);
    free(destination);
}

static void fill_name(char name[DESTINATION_NAME_SIZE], const char *text, size_t len)
{
    const size_t hash_len = 17;
    size_t kept = len < DESTINATION_NAME_SIZE ? len : DESTINATION_NAME_SIZE - 1 - hash_len;

    /* A name comes from a task and is written into the log. */
    for (size_t i = 0; i < kept; i++)
        name[i] =
            text[i] > ' ' && text[i] <= '~' && text[i] != '"' && text[i] != '\\' ? text[i] : '?';
    name[kept] = '\0';
    if (kept < len)
        snprintf(name + kept, hash_len + 1, "#%016" PRIx64, hash_bytes(HASH_START, text, len));
}

static struct destination *make_destination(struct destinations *destinations, const char *name)
{
    struct destination **chain = find_chain(destinations, name);
    struct destination *destination = calloc(1, sizeof(*destination));

    if (!destination)
        return NULL;
    memcpy(destination->name, name, strlen(name));
    destination->breaker.backoff =
        (struct backoff){.base_ms = BREAKER_BASE_MS, .cap_ms = BREAKER_CAP_MS};
    destination->next = *chain;
    *chain = destination;
    append_idle(destinations, destination);
    return destination;
}

struct destination *destinations_use(struct destinations *destinations, const char *text,
                                     size_t len)
{
    char name[DESTINATION_NAME_SIZE];
    struct destination *destination;

    fill_name(name, text, len);
    destination = *find_chain(destinations, name);
    while (destination && strcmp(destination->name, name) != 0)
        destination = destination->next;
    if (!destination)
        destination = make_destination(destinations, name);
    if (destination && destination->in_flight++ == 0)
        remove_idle(destinations, destination);
    return destination;
}

void destinations_leave(struct destinations *destinations, struct destination *destination)
{
    assert(destination->in_flight > 0);
    if (--destination->in_flight > 0)
        return;
    append_idle(destinations, destination);
    if (destinations->idle_count > DESTINATIONS_IDLE_MAX)
        remove_destination(destinations, destinations->idle_first);
}

bool destination_passes(struct destination *destination, int64_t now_ms, bool *probe)
{
    bool passes = breaker_allows(&destination->breaker, now_ms);

    *probe = passes && destination->breaker.open;
    return passes;
}

int64_t destination_put_off_ms(struct destination *destination, int64_t now_ms)
{
    int64_t at_ms = now_ms + breaker_wait_ms(&destination->breaker, now_ms);

    if (at_ms < destination->return_ms + DESTINATION_RETURN_MS)
        at_ms = destination->return_ms + DESTINATION_RETURN_MS;
    if (at_ms > now_ms + DESTINATION_PUT_OFF_MS_MAX)
        at_ms = now_ms + DESTINATION_PUT_OFF_MS_MAX;
    destination->return_ms = at_ms;
    return at_ms - now_ms;
}

void destinations_failed(struct destinations *destinations, struct destination *destination,
                         const struct err *err, int64_t now_ms, uint64_t random_bits)
{
    destination->failures++;
    snprintf(destination->why, sizeof(destination->why), "%.255s", err->text);
    if (destination->failures < DESTINATION_FAILURES && !destination->breaker.open)
        return;
    if (!breaker_failed(&destination->breaker, now_ms, random_bits))
        return;
    destination->opened_ms = now_ms;
    destination->return_ms = 0;
    set_open(destinations, destination, true);
    log_error(LOG_WARN, "dependency_down", err,
              "dep=destination role=retry reason=breaker_open destination=%s failures=%u",
              destination->name, destination->failures);
}

void destinations_worked(struct destinations *destinations, struct destination *destination,
                         int64_t now_ms)
{
    destination->failures = 0;
    if (!breaker_worked(&destination->breaker))
        return;
    set_open(destinations, destination, false);
    log_event(LOG_INFO, "dependency_up",
              "dep=destination role=retry reason=breaker_open destination=%s after_ms=%" PRId64,
              destination->name, now_ms - destination->opened_ms);
}

void destination_learned_nothing(struct destination *destination)
{
    destination->breaker.probing = false;
}

const struct destination *destinations_find_open(const struct destinations *destinations)
{
    const struct destination *oldest = NULL;

    for (size_t i = 0; destinations->open_count > 0 && i < DESTINATIONS_CHAINS; i++)
        for (const struct destination *at = destinations->chains[i]; at; at = at->next)
            if (atomic_load(&at->open) && (!oldest || at->opened_ms < oldest->opened_ms))
                oldest = at;
    return oldest;
}
