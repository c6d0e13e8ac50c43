/* SPDX-License-Identifier: MIT */
/* Which partition of vote_document is to be made or dropped next. Pure; any thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_PLAN_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_PLAN_H

#include "consumer/maintenance/housekeep_seam.h"

#include <stddef.h>
#include <stdint.h>

/* No day is so early. */
#define HOUSEKEEP_KEEP_ALL INT64_MIN

enum housekeep_act {
    HOUSEKEEP_NOTHING, /* everything is as it should be */
    HOUSEKEEP_MAKE,    /* part is to be made */
    HOUSEKEEP_BEGIN,   /* the log is to begin at part's limit, so that part can go */
    HOUSEKEEP_DROP,    /* part lies before the log's beginning: fold it in, and drop it */
};

struct housekeep_next {
    enum housekeep_act act;
    struct housekeep_part part;
};

/* The table it is in; static. */
const char *housekeep_kind_name(enum housekeep_kind kind);

/* The partitions must reach up to this day: the months_ahead full months behind that of now_day. */
int64_t housekeep_ahead_day(int64_t now_day, int64_t months_ahead);

/* What lies before this day may go: keep_months (0: all) full months before that of the newest vote
 * stay. A clock that is ahead of the votes drops nothing. */
int64_t housekeep_keep_day(int64_t now_day, int64_t newest_day, int64_t keep_months);

/* One month at a time. parts are in their order. */
struct housekeep_next housekeep_next_make(const struct housekeep_part *parts, size_t count,
                                          int64_t ahead_day);
struct housekeep_next housekeep_next_drop(const struct housekeep_part *parts, size_t count,
                                          int64_t begin_day, int64_t keep_day);

#endif
