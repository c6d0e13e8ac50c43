/* SPDX-License-Identifier: MIT */
/* Time zones by name: how far local time is ahead of UTC at any moment, from the system's time zone
 * files (RFC 9636). libc knows one zone per process, and a policy may name any. A file lists the
 * changes of the clocks up to some year and ends with a rule for the time after it: the TZ text of
 * POSIX. A zone may be read by several threads. */
#ifndef OUTBOX_RETRY_POLICY_ZONE_H
#define OUTBOX_RETRY_POLICY_ZONE_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_NAME_SIZE 64
#define ZONE_FILE_BYTES_MAX 262144

struct zone;

/* name: "UTC" (needs no file) or a path in folder: "Europe/Berlin". folder is ZONE_FOLDER except
 * in tests. RC_REJECT: there is no such zone, or its file cannot be read; err names it. RC_FATAL:
 * no memory. */
enum rc zone_open(struct zone **zone, const char *folder, const char *name, struct err *err);
void zone_close(struct zone *zone);

#define ZONE_FOLDER "/usr/share/zoneinfo"

/* Takes the bytes of a time zone file, as zone_open() does. RC_REJECT: it is none. */
enum rc zone_parse(struct zone **zone, const void *bytes, size_t len, struct err *err);

/* Seconds that local time is ahead of UTC at utc_s (seconds since 1970). */
int32_t zone_ahead_s(const struct zone *zone, int64_t utc_s);

/* Returns the first moment at which local clocks show local_s (seconds since 1970 as if UTC). A
 * local time that a change of the clocks skips is moved by the length of the change. */
int64_t zone_utc_s(const struct zone *zone, int64_t local_s);

/* The TZ text of POSIX, as in "CET-1CEST,M3.5.0,M10.5.0/3". Pure. */

enum tz_day_kind {
    TZ_DAY_WEEK,    /* weekday of a week of a month: Mm.w.d */
    TZ_DAY_JULIAN,  /* 1..365, never 29 February: Jn */
    TZ_DAY_OF_YEAR, /* 0..365: n */
};

struct tz_day {
    enum tz_day_kind kind;
    int month;
    int week; /* 5: the last */
    int day;
    int32_t time_s; /* of that day, local; may be below 0 or above a day */
};

struct posix_tz {
    int32_t standard_s; /* ahead of UTC */
    int32_t summer_s;
    bool has_summer;
    struct tz_day begins; /* summer time, by standard time */
    struct tz_day ends;   /* by summer time */
};

/* Returns false if text is not a rule of POSIX TZ. */
bool posix_tz_parse(struct posix_tz *rule, const char *text, size_t len);

/* Seconds that local time is ahead of UTC at utc_s. */
int32_t posix_tz_ahead_s(const struct posix_tz *rule, int64_t utc_s);

#endif
