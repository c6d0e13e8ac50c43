/* SPDX-License-Identifier: MIT */
#include "producer/http/api_answer.h"
#include "producer/http/api_page.h"
#include "producer/http/api_routes.h"

#include <string.h>

static bool read_sort(const struct api_call *call, enum remark_sort *sort)
{
    const char *text = call->parameters[API_SORT];

    *sort = text && strcmp(text, "votes") == 0 ? REMARK_VOTES : REMARK_NEWEST;
    if (!text || *sort == REMARK_VOTES || strcmp(text, "newest") == 0)
        return true;
    api_answer_bad(call->http, REQUEST_FAULT_OUT_OF_RANGE, "sort", "sort must be newest or votes");
    return false;
}

void api_get_remarks(const struct api_config *config, const struct api_call *call)
{
    const char *cursor = call->parameters[API_CURSOR];
    struct api_page page = {0};
    int64_t item_id;
    int64_t limit;

    if (!api_page_read_number(call, API_ITEM_ID, 1, INT64_MAX, 0, &item_id) ||
        !api_page_read_number(call, API_PAGE_LIMIT, 1, REMARK_PAGE_ROWS_MAX,
                              REMARK_PAGE_ROWS_DEFAULT, &limit) ||
        !api_page_read_number(call, API_VOTER_ID, 1, INT64_MAX, 0, &page.voter_id) ||
        !read_sort(call, &page.place.sort))
        return;
    page.place.item_id = item_id;
    page.rows_max = (size_t)limit;
    if (cursor && !remark_cursor_read(cursor, item_id, page.place.sort, &page.place))
        api_answer_bad(call->http, REQUEST_FAULT_OUT_OF_RANGE, "cursor",
                       "the cursor is not the `next` of a page of this itemId and sort");
    else
        api_page_answer(config, call->http, &page);
}
