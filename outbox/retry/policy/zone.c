/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/zone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

static bool scan_week_day(struct scan *scan, struct tz_day *day)
{
    day->kind = TZ_DAY_WEEK;
    return scan_number(scan, 12, &day->month) && day->month >= 1 && scan_char(scan, '.') &&
           scan_number(scan, 5, &day->week) && day->week >= 1 && scan_char(scan, '.') &&
           scan_number(scan, 6, &day->day);
}

static bool scan_day(struct scan *scan, struct tz_day *day)
{
    bool found;

    day->time_s = 2 * HOUR_S;
    if (scan_char(scan, 'M')) {
        found = scan_week_day(scan, day);
    } else if (scan_char(scan, 'J')) {
        day->kind = TZ_DAY_JULIAN;
        found = scan_number(scan, 365, &day->day) && day->day >= 1;
    } else {
        day->kind = TZ_DAY_OF_YEAR;
        found = scan_number(scan, 365, &day->day);
    }
    return found && (!scan_char(scan, '/') || scan_time(scan, &day->time_s));
}

static bool scan_summer(struct scan *scan, struct posix_tz *rule)
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

bool posix_tz_parse(struct posix_tz *rule, const char *text, size_t len)
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
static int compute_day_of_year(const struct tz_day *day, int year, int first_weekday)
{
    int first = 0;
    int in_month;

    switch (day->kind) {
    case TZ_DAY_JULIAN:
        return day->day - 1 + (is_leap(year) && day->day >= 60);
    case TZ_DAY_OF_YEAR:
        return day->day;
    case TZ_DAY_WEEK:
        break;
    }
    for (int month = 1; month < day->month; month++)
        first += count_month_days(year, month);
    in_month = (day->day - (first_weekday + first) % 7 + 7) % 7 + (day->week - 1) * 7;
    while (in_month >= count_month_days(year, day->month))
        in_month -= 7;
    return first + in_month;
}

int32_t posix_tz_ahead_s(const struct posix_tz *rule, int64_t utc_s)
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

#define HEADER_BYTES 44
#define TYPE_BYTES 6
/* Clocks changed by no more than this at once, and no sooner again. */
#define CHANGE_S_MAX (2 * 86400)

struct change {
    int64_t utc_s;
    int32_t ahead_s; /* from then on */
};

struct zone {
    int32_t first_s; /* before the first change */
    struct change *changes;
    size_t count;
    bool has_rule; /* it applies after the last change */
    struct posix_tz rule;
};

struct header {
    size_t utc_count;
    size_t standard_count;
    size_t leap_count;
    size_t change_count;
    size_t type_count;
    size_t char_count;
};

static uint64_t read_big(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static int32_t read_i32(const unsigned char *at)
{
    return (int32_t)(uint32_t)read_big(at, 4);
}

static bool read_header(struct header *header, const unsigned char *at, size_t left)
{
    size_t *counts[] = {&header->utc_count,    &header->standard_count, &header->leap_count,
                        &header->change_count, &header->type_count,     &header->char_count};

    if (left < HEADER_BYTES || memcmp(at, "TZif", 4) != 0)
        return false;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        *counts[i] = (size_t)read_big(at + 20 + i * 4, 4);
        if (*counts[i] > ZONE_FILE_BYTES_MAX)
            return false;
    }
    return true;
}

static size_t compute_body_bytes(const struct header *header, size_t time_bytes)
{
    return header->change_count * (time_bytes + 1) + header->type_count * TYPE_BYTES +
           header->char_count + header->leap_count * (time_bytes + 4) + header->standard_count +
           header->utc_count;
}

static bool read_changes(struct zone *zone, const struct header *header, const unsigned char *body)
{
    const unsigned char *indexes = body + header->change_count * 8;
    const unsigned char *types = indexes + header->change_count;

    if (header->type_count == 0)
        return false;
    zone->first_s = read_i32(types);
    for (size_t i = 0; i < header->change_count; i++) {
        if (indexes[i] >= header->type_count)
            return false;
        zone->changes[i].utc_s = (int64_t)read_big(body + i * 8, 8);
        zone->changes[i].ahead_s = read_i32(types + (size_t)indexes[i] * TYPE_BYTES);
        if (i > 0 && zone->changes[i].utc_s <= zone->changes[i - 1].utc_s)
            return false;
        if (abs(zone->changes[i].ahead_s) > CHANGE_S_MAX)
            return false;
    }
    zone->count = header->change_count;
    return abs(zone->first_s) <= CHANGE_S_MAX;
}

/* "\n" TZ text "\n"; an empty text leaves the last change in force. */
static bool read_footer(struct zone *zone, const unsigned char *at, size_t left)
{
    const unsigned char *end = left > 1 ? memchr(at + 1, '\n', left - 1) : NULL;

    if (left < 2 || at[0] != '\n' || !end)
        return false;
    if (end == at + 1)
        return true;
    zone->has_rule = posix_tz_parse(&zone->rule, (const char *)at + 1, (size_t)(end - at) - 1);
    return zone->has_rule;
}

/* Version 2 and later hold everything twice; the second half has times of 64 bits. */
static enum rc read_file(struct zone *zone, const unsigned char *bytes, size_t len, struct err *err)
{
    static const char sentence[] = "it is not a time zone file of version 2 or later";
    struct header header;
    size_t at;
    size_t body;

    if (!read_header(&header, bytes, len) || bytes[4] < '2')
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    at = HEADER_BYTES + compute_body_bytes(&header, 4);
    if (at > len || !read_header(&header, bytes + at, len - at))
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    at += HEADER_BYTES;
    body = compute_body_bytes(&header, 8);
    if (body > len - at)
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    zone->changes = calloc(header.change_count + 1, sizeof(*zone->changes));
    if (!zone->changes)
        return err_fail(err, RC_FATAL, 0, "no memory for a time zone");
    if (!read_changes(zone, &header, bytes + at) ||
        !read_footer(zone, bytes + at + body, len - at - body))
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    return RC_OK;
}

static enum rc make_zone(struct zone **out, struct err *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory for a time zone");
}

enum rc zone_parse(struct zone **out, const void *bytes, size_t len, struct err *err)
{
    struct zone *zone;
    enum rc rc = make_zone(&zone, err);

    *out = NULL;
    if (rc != RC_OK)
        return rc;
    rc = read_file(zone, bytes, len, err);
    if (rc == RC_OK)
        *out = zone;
    else
        zone_close(zone);
    return rc;
}

/* The characters of a zone's name: no name leads out of the folder. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len >= ZONE_NAME_SIZE || name[0] == '/' || strstr(name, ".."))
        return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") ==
           len;
}

static enum rc parse_file(struct zone **zone, FILE *file, struct err *err)
{
    unsigned char *bytes = malloc(ZONE_FILE_BYTES_MAX);
    size_t len;
    enum rc rc;

    if (!bytes)
        return err_fail(err, RC_FATAL, 0, "no memory for a time zone");
    len = fread(bytes, 1, ZONE_FILE_BYTES_MAX, file);
    rc = ferror(file) ? err_fail(err, RC_REJECT, errno, "%s", strerror(errno))
                      : zone_parse(zone, bytes, len, err);
    free(bytes);
    return rc;
}

enum rc zone_open(struct zone **zone, const char *folder, const char *name, struct err *err)
{
    char path[512];
    FILE *file;
    enum rc rc;

    *zone = NULL;
    if (strcmp(name, "UTC") == 0)
        return make_zone(zone, err);
    if (!is_name(name))
        return err_fail(err, RC_REJECT, 0, "\"%.60s\" is not the name of a time zone", name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rbe");
    if (!file)
        return err_fail(err, RC_REJECT, errno,
                        "there is no time zone %s: %s: %s (the zones are in the package tzdata)",
                        name, path, strerror(errno));
    rc = parse_file(zone, file, err);
    fclose(file);
    if (rc != RC_OK)
        err_wrap(err, "time zone %s: %s", name, path);
    return rc;
}

void zone_close(struct zone *zone)
{
    if (!zone)
        return;
    free(zone->changes);
    free(zone);
}

int32_t zone_ahead_s(const struct zone *zone, int64_t utc_s)
{
    size_t low = 0;
    size_t high = zone->count;

    /* How many changes have happened by then. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (zone->changes[middle].utc_s <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->count && zone->has_rule)
        return posix_tz_ahead_s(&zone->rule, utc_s);
    return low == 0 ? zone->first_s : zone->changes[low - 1].ahead_s;
}

int64_t zone_utc_s(const struct zone *zone, int64_t local_s)
{
    /* Far enough on both sides to be before and after a nearby change of the clocks. */
    int32_t before_s = zone_ahead_s(zone, local_s - CHANGE_S_MAX / 2);
    int32_t behind_s = zone_ahead_s(zone, local_s + CHANGE_S_MAX / 2);
    int64_t first = local_s - before_s;

    if (zone_ahead_s(zone, first) == before_s)
        return first;
    if (zone_ahead_s(zone, local_s - behind_s) == behind_s)
        return local_s - behind_s;
    return first;
}
