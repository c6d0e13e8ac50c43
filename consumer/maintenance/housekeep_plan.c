/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep_plan.h"

#include "consumer/apply/date_row.h"

#include <stdio.h>

const char *housekeep_kind_name(enum housekeep_kind kind)
{
    static const char *const names[] = {
        [HOUSEKEEP_INSTANCES] = "instance",       [HOUSEKEEP_PROGRESS] = "consumer_progress",
        [HOUSEKEEP_DEAD] = "dead_record",         [HOUSEKEEP_HISTORY] = "dead_history",
        [HOUSEKEEP_TASKS] = "retry_task_history", [HOUSEKEEP_ATTEMPTS] = "retry_attempt",
    };

    return names[kind];
}

int64_t housekeep_ahead_day(int64_t now_day, int64_t months_ahead)
{
    return date_month(now_day, months_ahead + 1);
}

int64_t housekeep_keep_day(int64_t now_day, int64_t newest_day, int64_t keep_months)
{
    if (keep_months == 0 || newest_day == INT64_MIN)
        return HOUSEKEEP_KEEP_ALL;
    return date_month(newest_day < now_day ? newest_day : now_day, -keep_months);
}

struct housekeep_next housekeep_next_make(const struct housekeep_part *parts, size_t count,
                                          int64_t ahead_day)
{
    struct housekeep_next next = {.act = HOUSEKEEP_NOTHING};
    struct date date;

    if (count > 0 && parts[count - 1].limit_day == HOUSEKEEP_NO_LIMIT)
        count--;
    if (count == 0 || parts[count - 1].limit_day >= ahead_day)
        return next;
    date = date_of(parts[count - 1].limit_day);
    next.act = HOUSEKEEP_MAKE;
    next.part.limit_day = date_month(parts[count - 1].limit_day, 1);
    snprintf(next.part.name, sizeof(next.part.name), "p%04d%02d", date.year, date.month);
    return next;
}

/* A table keeps one partition that ends at a day, whatever its age: it tells where the next one
 * begins, also when none can be made just now. */
struct housekeep_next housekeep_next_drop(const struct housekeep_part *parts, size_t count,
                                          int64_t begin_day, int64_t keep_day)
{
    struct housekeep_next next = {.act = HOUSEKEEP_NOTHING};

    if (count < 2 || parts[0].limit_day == HOUSEKEEP_NO_LIMIT ||
        parts[1].limit_day == HOUSEKEEP_NO_LIMIT)
        return next;
    next.part = parts[0];
    if (parts[0].limit_day <= begin_day)
        next.act = HOUSEKEEP_DROP;
    else if (parts[0].limit_day <= keep_day)
        next.act = HOUSEKEEP_BEGIN;
    return next;
}
