/* SPDX-License-Identifier: MIT */
#include "producer/http/api_parts.h"

#include "common/list.h"
#include "common/os.h"
#include "producer/remark/lookup.h"
#include "producer/vote/vote_id.h"

#include <stdlib.h>
#include <string.h>

/* A request for totals between the server's thread and its answer. */
struct asking {
    struct lookup_request request; /* first */
    struct http_request *http;
    bool list; /* answered by an array */
    struct lookup_row rows[];
};

static void row_put(struct buf *out, int64_t voter_id, const struct lookup_row *row)
{
    buf_text_put(out, "{\"contentId\":");
    buf_i64(out, row->content_id);
    buf_text_put(out, ",\"votes\":");
    buf_i64(out, row->votes);
    if (voter_id > 0) {
        buf_text_put(out, ",\"voterId\":");
        buf_i64(out, voter_id);
        buf_text_put(out, row->voting == 1 ? ",\"voting\":1" : ",\"voting\":0");
    }
    buf_char(out, '}');
}

static void asking_answer(struct queue_entry *entry, enum queue_end end)
{
    struct asking *asking = (struct asking *)entry;
    struct buf body = {0};

    if (end != QUEUE_DONE) {
        api_answer_end(asking->http, end, NULL);
        return;
    }
    if (asking->list)
        buf_char(&body, '[');
    for (size_t i = 0; i < asking->request.count; i++) {
        if (i > 0)
            buf_char(&body, ',');
        row_put(&body, asking->request.voter_id, &asking->rows[i]);
    }
    if (asking->list)
        buf_char(&body, ']');
    api_answer(asking->http, 200, &body);
    buf_done(&body);
}

static void asking_release(struct queue_entry *entry)
{
    free(entry);
}

/* NULL: there was no memory, which was answered. */
static struct asking *asking_make(struct http_request *http, size_t count)
{
    struct asking *asking = calloc(1, sizeof(*asking) + count * sizeof(struct lookup_row));

    if (!asking) {
        api_answer_no_memory(http);
        return NULL;
    }
    asking->http = http;
    asking->request.entry.weight = count;
    asking->request.entry.answer = asking_answer;
    asking->request.entry.release = asking_release;
    asking->request.count = count;
    asking->request.rows = asking->rows;
    return asking;
}

/* From here on the asking belongs to the queue, or is gone. */
static void asking_queue(struct api *api, struct asking *asking)
{
    struct queue *reads = api->config.reads;
    struct http_request *http = asking->http;
    int64_t wait_ms;
    enum queue_verdict verdict =
        queue_put(reads, queue_shard_least(reads), &asking->request.entry, os_now_ms(), &wait_ms);

    if (verdict == QUEUE_TAKEN)
        return;
    free(asking);
    api_answer_verdict(http, verdict, wait_ms);
}

static void answer_bad(struct http_request *request, enum fault_code code, const char *at,
                       const char *message)
{
    struct fault fault;

    fault_set(&fault, code, "%s", message);
    if (at)
        fault_at(&fault, at);
    api_answer_fault(request, &fault, 0);
}

/* False: it was bad, and that was answered. */
static bool voter_read(struct http_request *request, const char *text, int64_t *voter_id)
{
    if (vote_id_parse(text, strlen(text), voter_id))
        return true;
    answer_bad(request, FAULT_OUT_OF_RANGE, "voterId", "voterId must be a number, " VOTE_ID_RANGE);
    return false;
}

void api_get_content(struct api *api, struct http_request *request, const char *content_id)
{
    struct api_arguments arguments;
    struct asking *asking;
    int64_t voter_id = 0;
    int64_t id;

    if (!api_arguments_read(request, API_VOTER_ID, &arguments))
        return;
    if (!vote_id_parse(content_id, strlen(content_id), &id)) {
        answer_bad(request, FAULT_OUT_OF_RANGE, NULL,
                   "the content id in the path must be a number, " VOTE_ID_RANGE);
        return;
    }
    if (arguments.voter_id && !voter_read(request, arguments.voter_id, &voter_id))
        return;
    asking = asking_make(request, 1);
    if (!asking)
        return;
    asking->request.voter_id = voter_id;
    asking->rows[0].content_id = id;
    asking_queue(api, asking);
}

static bool list_read(struct asking *asking, const char *list)
{
    size_t len;

    for (size_t i = 0; i < asking->request.count; i++) {
        const char *id = list_next(&list, ',', &len);

        if (!id || !vote_id_parse(id, len, &asking->rows[i].content_id))
            return false;
    }
    return true;
}

void api_get_votes(struct api *api, struct http_request *request)
{
    struct api_arguments arguments;
    struct asking *asking;
    int64_t voter_id = 0;
    size_t count;

    if (!api_arguments_read(request, API_VOTER_ID | API_CONTENT_IDS, &arguments))
        return;
    if (!arguments.content_ids || !*arguments.content_ids) {
        answer_bad(request, FAULT_MISSING, "contentIds", "contentIds is missing: 1,2,...");
        return;
    }
    if (arguments.voter_id && !voter_read(request, arguments.voter_id, &voter_id))
        return;
    count = list_count(arguments.content_ids);
    if (count > LOOKUP_REQUEST_CONTENTS_MAX) {
        answer_bad(request, FAULT_OUT_OF_RANGE, "contentIds",
                   "contentIds may hold 200 contents at most");
        return;
    }
    asking = asking_make(request, count);
    if (!asking)
        return;
    asking->list = true;
    asking->request.voter_id = voter_id;
    if (list_read(asking, arguments.content_ids)) {
        asking_queue(api, asking);
        return;
    }
    free(asking);
    answer_bad(request, FAULT_OUT_OF_RANGE, "contentIds",
               "contentIds must be numbers, " VOTE_ID_RANGE ", separated by commas");
}
