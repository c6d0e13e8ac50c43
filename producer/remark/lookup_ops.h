/* SPDX-License-Identifier: MIT */
/* What reading totals needs of a database. One thread at a time. */
#ifndef PRODUCER_REMARK_LOOKUP_OPS_H
#define PRODUCER_REMARK_LOOKUP_OPS_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

struct lookup_row {
    int64_t content_id;
    int64_t votes;  /* 0 for a content nobody ever voted for */
    uint8_t voting; /* does the asked voter vote for it */
};

struct lookup_store {
    void *ctx;

    enum rc (*ping)(void *ctx, struct err *err);

    /* Fills votes and voting of rows[] (any order, may repeat) from one view of the data.
     * voter_id 0: nobody's votes. RC_RETRY, RC_FATAL: rows are undefined. */
    enum rc (*read)(void *ctx, int64_t voter_id, struct lookup_row *rows, size_t count,
                    struct err *err);
};

#endif
