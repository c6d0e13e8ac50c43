/* SPDX-License-Identifier: MIT */
#include "common/id.h"
#include "common/os.h"
#include "producer/http/api_answer.h"
#include "producer/http/api_page.h"
#include "producer/http/api_routes.h"
#include "producer/remark/recommended.h"
#include "producer/remark/remark_page.h"

#include <string.h>

static bool read_item(const struct api_call *call, int64_t *item_id)
{
    if (id_parse_number(call->id, strlen(call->id), item_id) && *item_id > 0)
        return true;
    api_answer_bad(call->http, REQUEST_FAULT_OUT_OF_RANGE, NULL,
                   "the item's id must be a number, 1 to 9223372036854775807");
    return false;
}

/* Positions from start to before stop; without stop, a page of the usual size. */
static bool read_part(const struct api_call *call, struct api_page *page)
{
    int64_t start;
    int64_t stop;

    if (!api_page_read_number(call, API_START, 0, RECOMMENDED_MAX - 1, 0, &start) ||
        !api_page_read_number(call, API_STOP, start + 1, start + REMARK_PAGE_ROWS_MAX,
                              start + REMARK_PAGE_ROWS_DEFAULT, &stop))
        return false;
    page->place.id = start;
    page->rows_max = (size_t)(stop - start);
    return true;
}

/* Invariant P7: the whole answer is of one list, which is held until the page is read. */
void api_get_recommended(const struct api_config *config, const struct api_call *call)
{
    struct api_page page = {.place.sort = REMARK_RECOMMENDED};
    int64_t item_id;

    if (!read_item(call, &item_id) || !read_part(call, &page) ||
        !api_page_read_number(call, API_VOTER_ID, 1, INT64_MAX, 0, &page.voter_id))
        return;
    page.place.item_id = item_id;
    if (recommended_find(config->recommended, item_id, os_now_ms(), &page.list, &page.stale) ==
        RECOMMENDED_AWAY) {
        api_answer_unavailable(call->http);
        return;
    }
    if (page.list) {
        page.place.votes = (int64_t)page.list->version;
        page.place.window = page.list->window;
    }
    api_page_answer(config, call->http, &page);
    recommended_list_release(page.list);
}
