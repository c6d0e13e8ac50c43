/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/wait.h"

#include "common/backoff.h"
#include "common/text.h"
#include "common/utc.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Longest first: a text in the largest unit is the shortest. */
static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

#define UNITS (sizeof(units) / sizeof(units[0]))

bool span_parse(const char *text, size_t len, int64_t *ms)
{
    int64_t number = 0;
    size_t at = 0;

    while (at < len && text[at] >= '0' && text[at] <= '9') {
        number = number * 10 + (text[at++] - '0');
        if (number > SPAN_MS_MAX)
            return false;
    }
    if (at == 0)
        return false;
    for (size_t i = 0; i < UNITS; i++) {
        if (strlen(units[i].name) != len - at || memcmp(units[i].name, text + at, len - at) != 0)
            continue;
        if (number > SPAN_MS_MAX / units[i].ms)
            return false;
        *ms = number * units[i].ms;
        return true;
    }
    return false;
}

void span_text(int64_t ms, char text[SPAN_TEXT_SIZE])
{
    size_t i = ms == 0 ? UNITS - 2 : 0;

    while (ms % units[i].ms != 0)
        i++;
    snprintf(text, SPAN_TEXT_SIZE, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

#define MINUTE_S 60
#define HOUR_S 3600
#define DAY_S 86400
/* 29 February can be eight years away: 2096 to 2104. */
#define DAYS_MAX (8 * 366 + 1)

struct cron_field {
    const char *name;
    int low;
    int high;
    const char *words; /* three letters each, for low, low + 1 ...; NULL: numbers only */
};

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const struct cron_field cron_fields[FIELDS] = {
    [MINUTE] = {"minute", 0, 59, NULL},
    [HOUR] = {"hour", 0, 23, NULL},
    [DAY] = {"day of month", 1, 31, NULL},
    [MONTH] = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    [WEEKDAY] = {"day of week", 0, 7, "sunmontuewedthufrisat"},
};

static const struct {
    const char *word;
    const char *fields;
} shorthands[] = {
    {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
};

/* Takes a number or a name at *at. */
static bool parse_cron_value(const struct cron_field *field, const char **at, const char *end,
                             int *value)
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
static bool parse_cron_member(const struct cron_field *field, const char *at, const char *end,
                              uint64_t *bits)
{
    int low = field->low;
    int high = field->high;
    int step = 1;
    bool one = false;

    if (at < end && *at == '*') {
        at++;
        high -= field->words && field->low == 0; /* 7 is Sunday once more */
    } else {
        if (!parse_cron_value(field, &at, end, &low))
            return false;
        one = true;
        if (at < end && *at == '-') {
            at++;
            one = false;
            if (!parse_cron_value(field, &at, end, &high) || high < low)
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

static enum rc parse_cron_field(const struct cron_field *field, const char *at, size_t len,
                                uint64_t *bits, struct err *err)
{
    const char *end = at + len;

    *bits = 0;
    for (const char *from = at;;) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        const char *to = comma ? comma : end;

        if (!parse_cron_member(field, from, to, bits))
            return err_fail(err, RC_REJECT, 0,
                            "the %s \"%.*s\" is not *, a value of %d..%d, a-b or a list of them, "
                            "followed by /step",
                            field->name, len > 60 ? 60 : (int)len, at, field->low, field->high);
        if (!comma)
            return RC_OK;
        from = comma + 1;
    }
}

static const char *expand_shorthand(const char *text)
{
    for (size_t i = 0; i < sizeof(shorthands) / sizeof(shorthands[0]); i++)
        if (strcmp(text, shorthands[i].word) == 0)
            return shorthands[i].fields;
    return text;
}

enum rc cron_parse(struct cron *cron, const char *text, struct err *err)
{
    uint64_t bits[FIELDS];
    bool any[FIELDS];
    const char *at = expand_shorthand(text);
    size_t count = 0;

    if (*at == '@')
        return err_fail(err, RC_REJECT, 0,
                        "\"%.20s\" is not @hourly, @daily, @weekly, @monthly or @yearly", at);
    for (; *(at += strspn(at, " \t")); count++) {
        size_t len = strcspn(at, " \t");
        enum rc rc;

        if (count == FIELDS)
            break;
        rc = parse_cron_field(&cron_fields[count], at, len, &bits[count], err);
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

const struct wait_preset wait_presets[] = {
    {"default", "1m 5m 10m 30m 60m", "the usual five"},
    {"rocketmq", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
     "the 18 delay levels of Apache RocketMQ (messageDelayLevel)"},
    {"easyretry",
     "10s 15s 30s 35s 40s 50s 1m 2m 4m 6m 8m 10m 20m 40m 1h 2h 3h 4h 5h 6h 7h 8h 9h 10h 11h 12h",
     "the 26 delay levels of EasyRetry (DelayLevelEnum)"},
};
const size_t wait_presets_count = sizeof(wait_presets) / sizeof(wait_presets[0]);

/* The words of a rule, one after the other. */
struct word {
    const char *at;
    size_t len;
};

static bool read_word(const char **rest, struct word *word)
{
    word->at = *rest + strspn(*rest, " \t");
    word->len = strcspn(word->at, " \t");
    *rest = word->at + word->len;
    return word->len > 0;
}

static bool word_is(const struct word *word, const char *text)
{
    return strlen(text) == word->len && memcmp(word->at, text, word->len) == 0;
}

static enum rc take_span(const char **rest, const char *what, int64_t *ms, struct err *err)
{
    struct word word;

    if (!read_word(rest, &word))
        return err_fail(err, RC_REJECT, 0, "%s is missing: a time like 500ms, 30s, 5m, 2h or 7d",
                        what);
    if (!span_parse(word.at, word.len, ms))
        return err_fail(err, RC_REJECT, 0,
                        "\"%.*s\" is not %s: a time like 500ms, 30s, 5m, 2h or 7d, up to 3650d",
                        word.len > 40 ? 40 : (int)word.len, word.at, what);
    return RC_OK;
}

static enum rc check_end(const char *rest, struct err *err)
{
    struct word word;

    if (!read_word(&rest, &word))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "unexpected text after the rule: \"%.40s\"", word.at);
}

static enum rc parse_list(struct wait *wait, const char *rest, struct err *err)
{
    enum rc rc = RC_OK;

    wait->kind = WAIT_LIST;
    while (rc == RC_OK && (wait->count == 0 || *(rest + strspn(rest, " \t")))) {
        if (wait->count == WAIT_LIST_MAX)
            return err_fail(err, RC_REJECT, 0, "a list has %d times at most", WAIT_LIST_MAX);
        rc = take_span(&rest, "the next wait", &wait->list_ms[wait->count], err);
        wait->count++;
    }
    return rc;
}

static enum rc parse_preset(struct wait *wait, const char *rest, struct err *err)
{
    char names[128] = "";
    struct word word;

    read_word(&rest, &word);
    for (size_t i = 0; i < wait_presets_count; i++) {
        if (word_is(&word, wait_presets[i].name)) {
            enum rc rc = check_end(rest, err);

            return rc == RC_OK ? parse_list(wait, wait_presets[i].list, err) : rc;
        }
        text_list_add(names, sizeof(names), wait_presets[i].name);
    }
    return err_fail(err, RC_REJECT, 0, "there is no preset \"%.*s\": it is one of %s",
                    word.len > 40 ? 40 : (int)word.len, word.at, names);
}

static enum rc parse_fixed(struct wait *wait, const char *rest, struct err *err)
{
    enum rc rc = take_span(&rest, "the wait", &wait->low_ms, err);

    wait->kind = WAIT_FIXED;
    return rc == RC_OK ? check_end(rest, err) : rc;
}

static enum rc parse_range(struct wait *wait, const char *rest, const char *low, const char *high,
                           struct err *err)
{
    enum rc rc = take_span(&rest, low, &wait->low_ms, err);

    if (rc == RC_OK)
        rc = take_span(&rest, high, &wait->high_ms, err);
    if (rc == RC_OK)
        rc = check_end(rest, err);
    if (rc == RC_OK && wait->high_ms < wait->low_ms)
        return err_fail(err, RC_REJECT, 0, "%s is below %s", high, low);
    return rc;
}

static enum rc parse_random(struct wait *wait, const char *rest, struct err *err)
{
    wait->kind = WAIT_RANDOM;
    return parse_range(wait, rest, "the shortest wait", "the longest wait", err);
}

static enum rc parse_exponential(struct wait *wait, const char *rest, struct err *err)
{
    enum rc rc = parse_range(wait, rest, "the base", "the cap", err);

    wait->kind = WAIT_EXPONENTIAL;
    if (rc == RC_OK && wait->low_ms == 0)
        return err_fail(err, RC_REJECT, 0, "the base must be above 0");
    return rc;
}

/* One word that begins with @, or five fields; the rest is the zone. */
static enum rc parse_cron_rule(struct wait *wait, const char *rest, struct err *err)
{
    const char *from = rest + strspn(rest, " \t");
    size_t words = *from == '@' ? 1 : 5;
    char fields[WAIT_TEXT_BYTES_MAX + 1];
    char name[ZONE_NAME_SIZE + 1] = "UTC";
    struct word word;
    enum rc rc;

    for (size_t i = 0; i < words; i++)
        read_word(&rest, &word);
    snprintf(fields, sizeof(fields), "%.*s", (int)(rest - from), from);
    wait->kind = WAIT_CRON;
    rc = cron_parse(&wait->cron, fields, err);
    if (rc != RC_OK)
        return rc;
    if (read_word(&rest, &word))
        snprintf(name, sizeof(name), "%.*s", (int)word.len, word.at);
    rc = check_end(rest, err);
    return rc == RC_OK ? zone_open(&wait->zone, ZONE_FOLDER, name, err) : rc;
}

/* RFC 3339 in UTC, to the second or finer: "2026-12-01T06:00:00Z". */
static enum rc parse_at(struct wait *wait, const char *rest, struct err *err)
{
    char text[UTC_TEXT_SIZE];
    struct word word;

    wait->kind = WAIT_AT;
    wait->at_ms = UTC_UNKNOWN_MS;
    read_word(&rest, &word);
    if (word.len > 11 && word.len < sizeof(text) && word.at[10] == 'T' &&
        word.at[word.len - 1] == 'Z') {
        memcpy(text, word.at, word.len);
        text[10] = ' ';
        wait->at_ms = utc_parse_ms(text, word.len - 1);
    }
    if (wait->at_ms == UTC_UNKNOWN_MS)
        return err_fail(err, RC_REJECT, 0,
                        "\"%.*s\" is not a time in UTC like 2026-12-01T06:00:00Z",
                        word.len > 40 ? 40 : (int)word.len, word.at);
    return check_end(rest, err);
}

static const struct {
    const char *name;
    enum rc (*parse)(struct wait *wait, const char *rest, struct err *err);
} kinds[] = {
    {"list", parse_list},     {"preset", parse_preset},           {"fixed", parse_fixed},
    {"random", parse_random}, {"exponential", parse_exponential}, {"cron", parse_cron_rule},
    {"at", parse_at},
};

enum rc wait_parse(struct wait *wait, const char *text, struct err *err)
{
    const char *rest = text;
    struct word word;

    memset(wait, 0, sizeof(*wait));
    if (strlen(text) > WAIT_TEXT_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "a rule has %d characters at most", WAIT_TEXT_BYTES_MAX);
    read_word(&rest, &word);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        enum rc rc;

        if (!word_is(&word, kinds[i].name))
            continue;
        rc = kinds[i].parse(wait, rest, err);
        if (rc != RC_OK)
            err_wrap(err, "wait \"%s\"", kinds[i].name);
        return rc;
    }
    return err_fail(err, RC_REJECT, 0,
                    "\"%.*s\" is not a way to wait: list, preset, fixed, random, exponential, cron "
                    "or at",
                    word.len > 40 ? 40 : (int)word.len, word.at);
}

void wait_done(struct wait *wait)
{
    zone_close(wait->zone);
    wait->zone = NULL;
}

static int64_t draw_random_ms(const struct wait *wait, uint64_t random_bits)
{
    uint64_t width = (uint64_t)(wait->high_ms - wait->low_ms) + 1;

    return wait->low_ms + (int64_t)(random_bits % width);
}

static int64_t draw_exponential_ms(const struct wait *wait, unsigned failures, uint64_t random_bits)
{
    struct backoff backoff = {
        .base_ms = wait->low_ms, .cap_ms = wait->high_ms, .tries = failures - 1};

    return backoff_next_ms(&backoff, random_bits);
}

int64_t wait_next_ms(const struct wait *wait, unsigned failures, int64_t now_ms,
                     uint64_t random_bits)
{
    int64_t next_ms;

    switch (wait->kind) {
    case WAIT_LIST:
        return now_ms + wait->list_ms[failures < wait->count ? failures - 1 : wait->count - 1];
    case WAIT_FIXED:
        return now_ms + wait->low_ms;
    case WAIT_RANDOM:
        return now_ms + draw_random_ms(wait, random_bits);
    case WAIT_EXPONENTIAL:
        return now_ms + draw_exponential_ms(wait, failures, random_bits);
    case WAIT_CRON:
        next_ms = cron_next_ms(&wait->cron, wait->zone, now_ms);
        return next_ms < 0 ? WAIT_NEVER : next_ms;
    case WAIT_AT:
        return wait->at_ms > now_ms ? wait->at_ms : WAIT_NEVER;
    }
    return WAIT_NEVER;
}

int64_t wait_mean_ms(const struct wait *wait, unsigned failures, int64_t now_ms)
{
    int64_t bound_ms = wait->low_ms;

    switch (wait->kind) {
    case WAIT_RANDOM:
        return now_ms + wait->low_ms + (wait->high_ms - wait->low_ms) / 2;
    case WAIT_EXPONENTIAL:
        for (unsigned i = 1; i < failures && bound_ms < wait->high_ms; i++)
            bound_ms *= 2;
        return now_ms + (bound_ms < wait->high_ms ? bound_ms : wait->high_ms) / 2;
    case WAIT_LIST:
    case WAIT_FIXED:
    case WAIT_CRON:
    case WAIT_AT:
        break;
    }
    return wait_next_ms(wait, failures, now_ms, 0);
}
