/* SPDX-License-Identifier: MIT */
/* What a round of housekeeping would do, found out without doing any of it. One thread. */
#ifndef CONSUMER_MAINTENANCE_HOUSEKEEP_DRY_H
#define CONSUMER_MAINTENANCE_HOUSEKEEP_DRY_H

#include "common/err.h"
#include "consumer/maintenance/housekeep.h"

#include <stdint.h>

/* Counting stops here: a person needs no more digits. */
#define HOUSEKEEP_DRY_ROWS_MAX 1000000

enum housekeep_deed { HOUSEKEEP_WOULD_MAKE, HOUSEKEEP_WOULD_DROP, HOUSEKEEP_WOULD_DELETE };

struct housekeep_would {
    enum housekeep_deed deed;
    const char *name;  /* of the partition, or the table of what would be deleted */
    int64_t limit_day; /* of the partition */
    int64_t keep_days; /* of what would be deleted */
    uint64_t rows;     /* to be moved, dropped or deleted; HOUSEKEEP_DRY_ROWS_MAX: or more */
};

typedef void (*housekeep_on_would)(void *ctx, const struct housekeep_would *would);

/* Calls on_would for each thing that would be done, in that order. */
enum rc housekeep_dry(const struct housekeep_store *store, const struct housekeep_rules *rules,
                      housekeep_on_would on_would, void *ctx, struct err *err);

#endif
