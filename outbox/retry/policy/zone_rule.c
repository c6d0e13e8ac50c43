/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/zone_rule.h"

#include <string.h>
#include <time.h>

#define DAY_S 86400
#define HOUR_S 3600

struct scan {
    const char *at;
    const char *end;
};

static bool scan_char(struct scan *scan, char c)
{
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static bool scan_number(struct scan *scan, int max, int *value)
{
    const char *from = scan->at;

    *value = 0;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        *value = *value * 10 + (*scan->at++ - '0');
        if (*value > max)
            return false;
    }
    return scan->at > from;
}

/* Letters, or anything in <>. */
static bool scan_name(struct scan *scan)
{
    const char *from = scan->at;

    if (scan_char(scan, '<')) {
        while (scan->at < scan->end && *scan->at != '>')
            scan->at++;
        return scan_char(scan, '>');
    }
    while (scan->at < scan->end &&
           ((*scan->at >= 'A' && *scan->at <= 'Z') || (*scan->at >= 'a' && *scan->at <= 'z')))
        scan->at++;
    return scan->at - from >= 3;
}

/* [+-]hh[:mm[:ss]], up to a week. */
static bool scan_time(struct scan *scan, int32_t *seconds)
{
    bool minus = scan_char(scan, '-');
    int parts[3] = {0};

    if (!minus)
        scan_char(scan, '+');
    if (!scan_number(scan, 167, &parts[0]))
        return false;
    for (int i = 1; i < 3 && scan_char(scan, ':'); i++)
        if (!scan_number(scan, 59, &parts[i]))
            return false;
    *seconds = parts[0] * HOUR_S + parts[1] * 60 + parts[2];
    if (minus)
        *seconds = -*seconds;
    return true;
}

static bool scan_week_day(struct scan *scan, struct zone_day *day)
{
    day->kind = ZONE_DAY_WEEK;
    return scan_number(scan, 12, &day->month) && day->month >= 1 && scan_char(scan, '.') &&
           scan_number(scan, 5, &day->week) && day->week >= 1 && scan_char(scan, '.') &&
           scan_number(scan, 6, &day->day);
}

static bool scan_day(struct scan *scan, struct zone_day *day)
{
    bool found;

    day->time_s = 2 * HOUR_S;
    if (scan_char(scan, 'M')) {
        found = scan_week_day(scan, day);
    } else if (scan_char(scan, 'J')) {
        day->kind = ZONE_DAY_JULIAN;
        found = scan_number(scan, 365, &day->day) && day->day >= 1;
    } else {
        day->kind = ZONE_DAY_OF_YEAR;
        found = scan_number(scan, 365, &day->day);
    }
    return found && (!scan_char(scan, '/') || scan_time(scan, &day->time_s));
}

static bool scan_summer(struct scan *scan, struct zone_rule *rule)
{
    rule->has_summer = true;
    rule->summer_s = rule->standard_s + HOUR_S;
    if (!scan_name(scan))
        return false;
    if (scan->at < scan->end && *scan->at != ',') {
        if (!scan_time(scan, &rule->summer_s))
            return false;
        rule->summer_s = -rule->summer_s;
    }
    return scan_char(scan, ',') && scan_day(scan, &rule->begins) && scan_char(scan, ',') &&
           scan_day(scan, &rule->ends);
}

bool zone_rule_parse(struct zone_rule *rule, const char *text, size_t len)
{
    struct scan scan = {text, text + len};

    memset(rule, 0, sizeof(*rule));
    if (!scan_name(&scan) || !scan_time(&scan, &rule->standard_s))
        return false;
    /* POSIX counts to the west. */
    rule->standard_s = -rule->standard_s;
    if (scan.at < scan.end && !scan_summer(&scan, rule))
        return false;
    return scan.at == scan.end;
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int count_month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Of the year, from 0. */
static int compute_day_of_year(const struct zone_day *day, int year, int first_weekday)
{
    int first = 0;
    int in_month;

    switch (day->kind) {
    case ZONE_DAY_JULIAN:
        return day->day - 1 + (is_leap(year) && day->day >= 60);
    case ZONE_DAY_OF_YEAR:
        return day->day;
    case ZONE_DAY_WEEK:
        break;
    }
    for (int month = 1; month < day->month; month++)
        first += count_month_days(year, month);
    in_month = (day->day - (first_weekday + first) % 7 + 7) % 7 + (day->week - 1) * 7;
    while (in_month >= count_month_days(year, day->month))
        in_month -= 7;
    return first + in_month;
}

int32_t zone_rule_ahead_s(const struct zone_rule *rule, int64_t utc_s)
{
    time_t local = (time_t)(utc_s + rule->standard_s);
    struct tm tm;
    int64_t year_began_s;
    int64_t begins_s;
    int64_t ends_s;
    int first_weekday;

    if (!rule->has_summer || !gmtime_r(&local, &tm))
        return rule->standard_s;
    /* Counted in standard time, since the year began. */
    year_began_s = (int64_t)local - tm.tm_yday * (int64_t)DAY_S - tm.tm_hour * (int64_t)HOUR_S -
                   tm.tm_min * INT64_C(60) - tm.tm_sec;
    first_weekday = (tm.tm_wday - tm.tm_yday % 7 + 7) % 7;
    begins_s =
        (int64_t)compute_day_of_year(&rule->begins, tm.tm_year + 1900, first_weekday) * DAY_S +
        rule->begins.time_s;
    ends_s = (int64_t)compute_day_of_year(&rule->ends, tm.tm_year + 1900, first_weekday) * DAY_S +
             rule->ends.time_s - (rule->summer_s - rule->standard_s);
    local -= (time_t)year_began_s;
    if (begins_s < ends_s)
        return local >= begins_s && local < ends_s ? rule->summer_s : rule->standard_s;
    return local >= begins_s || local < ends_s ? rule->summer_s : rule->standard_s;
}
