/* SPDX-License-Identifier: MIT */
/* Dates as days since 1970-01-01 in the Gregorian calendar, as the servers use it. Pure; any
 * thread. */
#ifndef CONSUMER_APPLY_DATE_H
#define CONSUMER_APPLY_DATE_H

#include <stdbool.h>
#include <stdint.h>

#define MS_PER_DAY INT64_C(86400000)
#define DATE_SIZE 11 /* "2026-01-31" and a zero byte */

/* 0000-03-01 and 9999-12-31: the range of date_of() and date_write(). date_parse() and
 * date_month_begin() begin with 0001-01-01; the result of date_month_begin() must not be after
 * 9999-12-31. */
#define DATE_DAY_MIN INT64_C(-719468)
#define DATE_DAY_MAX INT64_C(2932896)

struct date {
    int year;
    int month; /* 1..12 */
    int day;   /* 1..31 */
};

struct date date_of(int64_t epoch_day);

/* Writes "YYYY-MM-DD". */
void date_write(int64_t epoch_day, char text[DATE_SIZE]);

/* Parses "YYYY-MM-DD". On false *epoch_day is not changed. */
bool date_parse(const char *text, int64_t *epoch_day);

/* Returns the first day of the month that is `months` (may be negative) after the month of
 * epoch_day. */
int64_t date_month_begin(int64_t epoch_day, int64_t months);

#endif
