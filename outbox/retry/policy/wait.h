/* SPDX-License-Identifier: MIT */
/* When a failed task is tried again, by its scene's rule:
 *
 *     list 1m 5m 10m 30m 60m     the n-th wait; the last one repeats
 *     preset NAME                a named list, see wait_presets
 *     fixed 30s
 *     random 10s 60s             uniform between the two
 *     exponential 1s 10m         uniform below min(cap, base * 2^n): full jitter (common/backoff.h)
 *     cron 0 3 * * * [ZONE]      five fields or @hourly ..., in UTC or in a named time zone
 *     at 2026-12-01T06:00:00Z    one point in time, none after it
 *
 * Pure but for the zone's file; several threads may use a rule. */
#ifndef OUTBOX_RETRY_POLICY_WAIT_H
#define OUTBOX_RETRY_POLICY_WAIT_H

#include "common/err.h"
#include "outbox/retry/policy/cron.h"
#include "outbox/retry/policy/zone.h"

#include <stddef.h>
#include <stdint.h>

#define WAIT_LIST_MAX 64
#define WAIT_TEXT_BYTES_MAX 1024

enum wait_kind { WAIT_LIST, WAIT_FIXED, WAIT_RANDOM, WAIT_EXPONENTIAL, WAIT_CRON, WAIT_AT };

struct wait {
    enum wait_kind kind;
    int64_t list_ms[WAIT_LIST_MAX];
    size_t count;
    int64_t low_ms;  /* fixed; random from; exponential base */
    int64_t high_ms; /* random to; exponential cap */
    int64_t at_ms;   /* since 1970, UTC */
    struct cron cron;
    struct zone *zone;
};

struct wait_preset {
    const char *name;
    const char *list; /* the text after "list" */
    const char *about;
};

extern const struct wait_preset wait_presets[];
extern const size_t wait_presets_count;

/* The default of a scene. */
#define WAIT_STANDARD "list 1m 5m 10m 30m 60m"

/* RC_REJECT: text is no rule; err names the wrong word and what was expected. RC_FATAL: no memory.
 * After a failure wait_done() is not needed. */
enum rc wait_parse(struct wait *wait, const char *text, struct err *err);
void wait_done(struct wait *wait);

#define WAIT_NEVER INT64_MAX

/* When to try again, in ms since 1970, after failures (>= 1) attempts that failed, the last one at
 * now_ms. WAIT_NEVER: the rule knows no further time. */
int64_t wait_next_ms(const struct wait *wait, unsigned failures, int64_t now_ms,
                     uint64_t random_bits);

#endif
