/* SPDX-License-Identifier: MIT */
/* The rule of a time zone after its last listed change: the TZ text of POSIX, as in
 * "CET-1CEST,M3.5.0,M10.5.0/3". Pure; any thread. */
#ifndef OUTBOX_RETRY_POLICY_ZONE_RULE_H
#define OUTBOX_RETRY_POLICY_ZONE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zone_day_kind {
    ZONE_DAY_WEEK,    /* weekday of a week of a month: Mm.w.d */
    ZONE_DAY_JULIAN,  /* 1..365, never 29 February: Jn */
    ZONE_DAY_OF_YEAR, /* 0..365: n */
};

struct zone_day {
    enum zone_day_kind kind;
    int month;
    int week; /* 5: the last */
    int day;
    int32_t time_s; /* of that day, local; may be below 0 or above a day */
};

struct zone_rule {
    int32_t standard_s; /* ahead of UTC */
    int32_t summer_s;
    bool has_summer;
    struct zone_day begins; /* summer time, by standard time */
    struct zone_day ends;   /* by summer time */
};

/* Returns false if text is not a rule of POSIX TZ. */
bool zone_rule_parse(struct zone_rule *rule, const char *text, size_t len);

/* Seconds that local time is ahead of UTC at utc_s. */
int32_t zone_rule_ahead_s(const struct zone_rule *rule, int64_t utc_s);

#endif
