/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strptime(), timegm() */
#include "common/when.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool read_duration(const char *text, int64_t now_ms, int64_t *ms)
{
    static const struct {
        char unit;
        int64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    char *end;
    int64_t number;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno != 0 || number > 1000000 || end[0] == '\0' || end[1] != '\0')
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (units[i].unit == *end) {
            *ms = now_ms - number * units[i].ms;
            return true;
        }
    return false;
}

bool when_read(const char *text, int64_t now_ms, int64_t *ms)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
                                        "%Y-%m-%d %H:%M", "%Y-%m-%d"};

    if (read_duration(text, now_ms, ms))
        return true;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tm parts = {0};
        const char *rest = strptime(text, forms[i], &parts);

        if (!rest || (*rest != '\0' && strcmp(rest, "Z") != 0))
            continue;
        *ms = (int64_t)timegm(&parts) * 1000;
        return *ms >= 0;
    }
    return false;
}

void when_text(char text[WHEN_TEXT_SIZE], int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char day[WHEN_TEXT_SIZE];

    gmtime_r(&seconds, &parts);
    strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(text, WHEN_TEXT_SIZE, "%.24s.%03d UTC", day, (int)(ms % 1000));
}

void when_age(char text[WHEN_AGE_SIZE], int64_t age_ms)
{
    long long ms = age_ms < 0 ? 0 : (long long)age_ms;

    if (ms < 1000)
        snprintf(text, WHEN_AGE_SIZE, "%lld ms", ms);
    else if (ms < 10000)
        snprintf(text, WHEN_AGE_SIZE, "%lld.%lld s", ms / 1000, ms % 1000 / 100);
    else if (ms < 60000)
        snprintf(text, WHEN_AGE_SIZE, "%lld s", ms / 1000);
    else if (ms < 3600000)
        snprintf(text, WHEN_AGE_SIZE, "%lld min", ms / 60000);
    else if (ms < 48 * 3600000LL)
        snprintf(text, WHEN_AGE_SIZE, "%lld h", ms / 3600000);
    else
        snprintf(text, WHEN_AGE_SIZE, "%lld days", ms / (24 * 3600000LL));
}
