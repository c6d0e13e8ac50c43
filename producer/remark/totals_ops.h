/* SPDX-License-Identifier: MIT */
/* What the totals reader needs of a database. One thread at a time. */
#ifndef PRODUCER_REMARK_TOTALS_OPS_H
#define PRODUCER_REMARK_TOTALS_OPS_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

struct totals_row {
    int64_t content_id;
    int64_t votes;  /* 0 for a content without votes */
    uint8_t voting; /* 1: the voter of the request votes for it */
};

struct totals_store {
    void *ctx;

    /* RC_OK: the database can be read. RC_RETRY, RC_FATAL as read(). */
    enum rc (*ping)(void *ctx, struct err *err);

    /* Fills votes and voting of rows[], which may name a content twice, from one view of the data.
     * voter_id 0: voting is 0. RC_RETRY: try again later, RC_FATAL: an operator must act; the rows
     * are undefined then. */
    enum rc (*read)(void *ctx, int64_t voter_id, struct totals_row *rows, size_t count,
                    struct err *err);
};

#endif
