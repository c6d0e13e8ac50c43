/* SPDX-License-Identifier: MIT */
/* Answers with a page of remarks: from memory, or as the remark worker reads it, with the totals of
 * now. For the HTTP server's thread. */
#ifndef PRODUCER_HTTP_API_PAGE_H
#define PRODUCER_HTTP_API_PAGE_H

#include "producer/http/api_routes.h"
#include "producer/remark/remark_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recommended_list;

/* The page that a request asks for. */
struct api_page {
    struct remark_place place;
    size_t rows_max;  /* 1..REMARK_PAGE_ROWS_MAX */
    int64_t voter_id; /* 0: none */
    /* REMARK_RECOMMENDED: its remarks from place.id on; NULL: it is being built. Borrowed for the
     * call. */
    struct recommended_list *list;
    bool stale; /* the list may be old, because the database cannot be read */
};

/* Answers the request, now or later. An empty part of a list is answered without the database. */
void api_page_answer(const struct api_config *config, struct http_request *http,
                     const struct api_page *page);

/* *number: the parameter, or `missing` if the request lacks it. False: it is no number from min to
 * max, which has been answered. */
bool api_page_read_number(const struct api_call *call, enum api_parameter parameter, int64_t min,
                          int64_t max, int64_t missing, int64_t *number);

#endif
