/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/cron.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define MINUTE_S 60
#define HOUR_S 3600
#define DAY_S 86400
/* 29 February can be eight years away: 2096 to 2104. */
#define DAYS_MAX (8 * 366 + 1)

struct field {
    const char *name;
    int low;
    int high;
    const char *words; /* three letters each, for low, low + 1 ...; NULL: numbers only */
};

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const struct field fields[FIELDS] = {
    [MINUTE] = {"minute", 0, 59, NULL},
    [HOUR] = {"hour", 0, 23, NULL},
    [DAY] = {"day of month", 1, 31, NULL},
    [MONTH] = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    [WEEKDAY] = {"day of week", 0, 7, "sunmontuewedthufrisat"},
};

static const struct {
    const char *word;
    const char *fields;
} words[] = {
    {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
};

/* Takes a number or a name at *at. */
static bool parse_value(const struct field *field, const char **at, const char *end, int *value)
{
    size_t count = field->words ? strlen(field->words) / 3 : 0;
    const char *from = *at;

    for (size_t i = 0; i < count && end - *at >= 3; i++) {
        if (strncasecmp(*at, field->words + i * 3, 3) != 0)
            continue;
        *at += 3;
        *value = field->low + (int)i;
        return true;
    }
    *value = 0;
    while (*at < end && **at >= '0' && **at <= '9' && *at - from < 4)
        *value = *value * 10 + (*(*at)++ - '0');
    return *at > from && *value >= field->low && *value <= field->high;
}

/* One member of a list: *, n, a-b, each with /step. */
static bool parse_member(const struct field *field, const char *at, const char *end, uint64_t *bits)
{
    int low = field->low;
    int high = field->high;
    int step = 1;
    bool one = false;

    if (at < end && *at == '*') {
        at++;
        high -= field->words && field->low == 0; /* 7 is Sunday once more */
    } else {
        if (!parse_value(field, &at, end, &low))
            return false;
        one = true;
        if (at < end && *at == '-') {
            at++;
            one = false;
            if (!parse_value(field, &at, end, &high) || high < low)
                return false;
        }
    }
    if (at < end && *at == '/') {
        int digits = 0;

        at++;
        one = false;
        for (step = 0; at < end && *at >= '0' && *at <= '9' && digits < 3; digits++)
            step = step * 10 + (*at++ - '0');
        if (step == 0)
            return false;
    }
    if (at != end)
        return false;
    if (one)
        high = low;
    for (int value = low; value <= high; value += step)
        *bits |= UINT64_C(1) << value;
    return true;
}

static enum rc parse_field(const struct field *field, const char *at, size_t len, uint64_t *bits,
                           struct err *err)
{
    const char *end = at + len;

    *bits = 0;
    for (const char *from = at;;) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        const char *to = comma ? comma : end;

        if (!parse_member(field, from, to, bits))
            return err_fail(err, RC_REJECT, 0,
                            "the %s \"%.*s\" is not *, a value of %d..%d, a-b or a list of them, "
                            "followed by /step",
                            field->name, len > 60 ? 60 : (int)len, at, field->low, field->high);
        if (!comma)
            return RC_OK;
        from = comma + 1;
    }
}

static const char *expand_word(const char *text)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(text, words[i].word) == 0)
            return words[i].fields;
    return text;
}

enum rc cron_parse(struct cron *cron, const char *text, struct err *err)
{
    uint64_t bits[FIELDS];
    bool any[FIELDS];
    const char *at = expand_word(text);
    size_t count = 0;

    if (*at == '@')
        return err_fail(err, RC_REJECT, 0,
                        "\"%.20s\" is not @hourly, @daily, @weekly, @monthly or @yearly", at);
    for (; *(at += strspn(at, " \t")); count++) {
        size_t len = strcspn(at, " \t");
        enum rc rc;

        if (count == FIELDS)
            break;
        rc = parse_field(&fields[count], at, len, &bits[count], err);
        if (rc != RC_OK)
            return rc;
        any[count] = *at == '*';
        at += len;
    }
    if (count != FIELDS || *at)
        return err_fail(err, RC_REJECT, 0,
                        "five fields are expected: minute, hour, day of month, month, day of week");
    *cron = (struct cron){
        .minutes = bits[MINUTE],
        .hours = (uint32_t)bits[HOUR],
        .days = (uint32_t)bits[DAY],
        .months = (uint16_t)bits[MONTH],
        .weekdays = (uint8_t)((bits[WEEKDAY] | bits[WEEKDAY] >> 7) & 0x7f),
        .any_day = any[DAY],
        .any_weekday = any[WEEKDAY],
    };
    return RC_OK;
}

static bool matches_day(const struct cron *cron, const struct tm *tm)
{
    bool day = cron->days >> tm->tm_mday & 1;
    bool weekday = cron->weekdays >> tm->tm_wday & 1;

    if (!(cron->months >> (tm->tm_mon + 1) & 1))
        return false;
    /* A field that begins with * restricts alone; two that do not are added. */
    return cron->any_day || cron->any_weekday ? day && weekday : day || weekday;
}

/* The first time of day from from_s on, in seconds; -1: none is left. */
static int64_t find_time_of_day(const struct cron *cron, int64_t from_s)
{
    for (int hour = (int)(from_s / HOUR_S); hour < 24; hour++) {
        if (!(cron->hours >> hour & 1))
            continue;
        for (int minute = 0; minute < 60; minute++) {
            int64_t at_s = hour * HOUR_S + minute * MINUTE_S;

            if (at_s >= from_s && cron->minutes >> minute & 1)
                return at_s;
        }
    }
    return -1;
}

static int64_t floor_to_multiple(int64_t value, int64_t unit)
{
    int64_t rest = value % unit;

    return value - rest - (rest < 0 ? unit : 0);
}

/* The first local time from local_s on; -1: none within DAYS_MAX. */
static int64_t find_next_local_s(const struct cron *cron, int64_t local_s)
{
    int64_t day_s = floor_to_multiple(local_s, DAY_S);

    for (int i = 0; i < DAYS_MAX; i++, day_s += DAY_S) {
        time_t day = (time_t)day_s;
        struct tm tm;
        int64_t at_s;

        if (!gmtime_r(&day, &tm))
            return -1;
        if (!matches_day(cron, &tm))
            continue;
        at_s = find_time_of_day(cron, local_s > day_s ? local_s - day_s : 0);
        if (at_s >= 0)
            return day_s + at_s;
    }
    return -1;
}

int64_t cron_next_ms(const struct cron *cron, const struct zone *zone, int64_t utc_ms)
{
    int64_t utc_s = floor_to_multiple(utc_ms, 1000) / 1000;
    int64_t local_s = floor_to_multiple(utc_s + zone_ahead_s(zone, utc_s), MINUTE_S);

    /* After clocks were set back, a later local time may lie in the past. */
    for (;;) {
        int64_t next_s;

        local_s = find_next_local_s(cron, local_s + MINUTE_S);
        if (local_s < 0)
            return -1;
        next_s = zone_utc_s(zone, local_s);
        if (next_s > utc_s)
            return next_s * 1000;
    }
}
