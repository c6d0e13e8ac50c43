/* SPDX-License-Identifier: MIT */
/* Points in time by the five fields of cron(5): minute, hour, day of month, month, day of week; or
 * @hourly, @daily, @weekly, @monthly, @yearly. As in cron(5), if both day fields are restricted, a
 * day that matches either one matches. Pure; any thread. */
#ifndef OUTBOX_RETRY_POLICY_CRON_H
#define OUTBOX_RETRY_POLICY_CRON_H

#include "common/err.h"
#include "outbox/retry/policy/zone.h"

#include <stdbool.h>
#include <stdint.h>

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

#endif
