/* SPDX-License-Identifier: MIT */
#include "consumer/apply/date.h"

#include <assert.h>
#include <string.h>

/* The cycle of 400 years is counted from a 1 March, so that leap days are at the end of a year. */
#define EPOCH_DAYS INT64_C(719468) /* from 0000-03-01 to 1970-01-01 */
#define ERA_DAYS INT64_C(146097)

struct date date_of(int64_t epoch_day)
{
    int64_t days = epoch_day + EPOCH_DAYS;
    int64_t era = days / ERA_DAYS;
    int64_t of_era = days - era * ERA_DAYS;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * of_year + 2) / 153;

    assert(epoch_day >= DATE_DAY_MIN && epoch_day <= DATE_DAY_MAX);
    return (struct date){
        .year = (int)(year_of_era + era * 400 + (month >= 10)),
        .month = (int)(month < 10 ? month + 3 : month - 9),
        .day = (int)(of_year - (153 * month + 2) / 5 + 1),
    };
}

static int64_t count_days(const struct date *date)
{
    int64_t year = date->year - (date->month <= 2);
    int64_t month = date->month > 2 ? date->month - 3 : date->month + 9;
    int64_t year_of_era = year % 400;
    int64_t of_year = (153 * month + 2) / 5 + date->day - 1;
    int64_t of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;

    return year / 400 * ERA_DAYS + of_era - EPOCH_DAYS;
}

static void write_digits(char *text, int value, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        text[i] = (char)('0' + value % 10);
        value /= 10;
    }
}

void date_write(int64_t epoch_day, char text[DATE_SIZE])
{
    struct date date = date_of(epoch_day);

    write_digits(text, date.year, 4);
    text[4] = '-';
    write_digits(text + 5, date.month, 2);
    text[7] = '-';
    write_digits(text + 8, date.day, 2);
    text[10] = '\0';
}

static bool read_digits(const char *text, int count, int *value)
{
    *value = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *value = *value * 10 + (text[i] - '0');
    }
    return true;
}

bool date_parse(const char *text, int64_t *epoch_day)
{
    struct date date;
    char again[DATE_SIZE];
    int64_t found;

    if (strlen(text) != DATE_SIZE - 1 || text[4] != '-' || text[7] != '-' ||
        !read_digits(text, 4, &date.year) || !read_digits(text + 5, 2, &date.month) ||
        !read_digits(text + 8, 2, &date.day))
        return false;
    if (date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 || date.day > 31)
        return false;
    found = count_days(&date);
    if (found > DATE_DAY_MAX)
        return false;
    /* Rejects dates such as 30 February, which do not convert back to themselves. */
    date_write(found, again);
    if (strcmp(again, text) != 0)
        return false;
    *epoch_day = found;
    return true;
}

int64_t date_month_begin(int64_t epoch_day, int64_t months)
{
    struct date date = date_of(epoch_day);
    int64_t month = (int64_t)date.year * 12 + date.month - 1 + months;

    assert(month >= 12);
    date = (struct date){.year = (int)(month / 12), .month = (int)(month % 12) + 1, .day = 1};
    return count_days(&date);
}
