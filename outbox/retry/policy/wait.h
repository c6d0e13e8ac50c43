/* SPDX-License-Identifier: MIT */
/* When a failed task is tried again, by its scene's rule:
 *
 *     list 1m 5m 10m 30m 60m     the n-th wait; the last one repeats
 *     preset NAME                a named list, see wait_presets
 *     fixed 30s
 *     random 10s 60s             uniform between the two
 *     exponential 1s 10m         uniform below min(cap, base * 2^n): full jitter
 * (common/backoff.h); n = earlier failures, 0 for the first wait cron 0 3 * * * [ZONE]      five
 * fields or @hourly ..., in UTC or in a named time zone at 2026-12-01T06:00:00Z    one point in
 * time, none after it
 *
 * The times of a rule are spans, and its cron fields are those of cron(5). Pure but for the zone's
 * file; several threads may use a rule. */
#ifndef OUTBOX_RETRY_POLICY_WAIT_H
#define OUTBOX_RETRY_POLICY_WAIT_H

#include "common/err.h"
#include "outbox/retry/policy/zone.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Spans of time as text: a whole number and a unit, "500ms", "30s", "5m", "2h", "7d". Up to ten
 * years, because a longer wait is a mistake. */
#define SPAN_MS_MAX (INT64_C(3650) * 86400000)
#define SPAN_TEXT_SIZE 24

/* Reads a span of 0..SPAN_MS_MAX. False: text is no span, and *ms is left alone. */
bool span_parse(const char *text, size_t len, int64_t *ms);

/* Writes the span in the largest unit that is exact. */
void span_text(int64_t ms, char text[SPAN_TEXT_SIZE]);

/* Points in time by the five fields of cron(5): minute, hour, day of month, month, day of week; or
 * @hourly, @daily, @weekly, @monthly, @yearly. As in cron(5), if both day fields are restricted, a
 * day that matches either one matches. */
struct cron {
    uint64_t minutes; /* bit n: minute n */
    uint32_t hours;
    uint32_t days;    /* of the month, 1..31 */
    uint16_t months;  /* 1..12 */
    uint8_t weekdays; /* 0..6, Sunday is 0 */
    bool any_day;     /* of the month: the field begins with * */
    bool any_weekday;
};

/* Parses a word that begins with @, or five fields of numbers, names (jan..dec, sun..sat; 7 is
 * Sunday), *, a-b, lists with commas, and steps with /. RC_REJECT: err names the field and its
 * fault. */
enum rc cron_parse(struct cron *cron, const char *text, struct err *err);

/* Returns the first matching moment after utc_ms, in ms since 1970: a full minute of local time.
 * -1: there is none within eight years, as for 30 February. A local time that a change of the
 * clocks skips is moved by the length of the change; one that occurs twice matches once. */
int64_t cron_next_ms(const struct cron *cron, const struct zone *zone, int64_t utc_ms);

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
#define WAIT_DEFAULT "list 1m 5m 10m 30m 60m"

/* RC_REJECT: text is no rule; err names the wrong word and what was expected. RC_FATAL: no memory.
 * After a failure wait_done() is not needed. */
enum rc wait_parse(struct wait *wait, const char *text, struct err *err);
void wait_done(struct wait *wait);

#define WAIT_NEVER INT64_MAX

/* When to try again, in ms since 1970, after failures (>= 1) attempts that failed, the last one at
 * now_ms. WAIT_NEVER: the rule knows no further time. */
int64_t wait_next_ms(const struct wait *wait, unsigned failures, int64_t now_ms,
                     uint64_t random_bits);

/* The same for a forecast: instead of a random wait, its mean. */
int64_t wait_mean_ms(const struct wait *wait, unsigned failures, int64_t now_ms);

#endif
