/* SPDX-License-Identifier: MIT */
/* Dates as days since 1970-01-01 in the Gregorian calendar, as the servers use it. Pure; any
 * thread. */
#ifndef CONSUMER_APPLY_DATE_H
#define CONSUMER_APPLY_DATE_H

#include <stdbool.h>
#include <stdint.h>

#define DATE_MS INT64_C(86400000)
#define DATE_SIZE 11 /* "2026-01-31" and a zero byte */

/* 0000-03-01 and 9999-12-31, the range of the functions below. */
#define DATE_DAY_MIN INT64_C(-719468)
#define DATE_DAY_MAX INT64_C(2932896)

struct date {
    int year;
    int month; /* 1..12 */
    int day;   /* 1..31 */
};

struct date date_of(int64_t day);

/* Writes "YYYY-MM-DD". */
void date_text(int64_t day, char text[DATE_SIZE]);

/* Parses "YYYY-MM-DD". On false *day is not changed. */
bool date_parse(const char *text, int64_t *day);

/* Returns the first day of the month that is `months` (may be negative) after the month of day. */
int64_t date_month(int64_t day, int64_t months);

#endif
