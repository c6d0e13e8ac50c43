/* SPDX-License-Identifier: MIT */
/* The API for votes and remarks: methods, paths, query arguments, headers and bodies, with its
 * queues, on an HTTP server and a worker of this file. Every request is answered once, with JSON,
 * and no vote, remark or deletion outside its bounds reaches a queue.
 *
 *     how | METHOD path?name=value&... \n bits of scopes, group \n content type \n traceparent \n
 * body
 *
 * Nothing is done that the scopes do not allow. */
#include "producer/http/api.h"

#include "common/http/http.h"
#include "common/os.h"
#include "producer/remark/page_cache.h"
#include "producer/remark/recommended.h"
#include "producer/remark/remark_json.h"
#include "producer/remark/remark_worker.h"
#include "producer/remark/remover.h"
#include "producer/remark/totals_reader.h"
#include "producer/task/task_intake.h"
#include "producer/vote/committer.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHT_MAX 2000

struct http_server {
    http_handler handler;
    http_on_refuse on_refuse;
    void *ctx;
};

struct http_request {
    struct http_scopes scopes;
    char *method;
    char *path;
    char *query;
    char *content_type;
    char *trace;
    struct fuzz_input body;
    size_t answers;
    int status;
    bool has_allow;
    bool has_retry;
};

static struct http_server server;
static struct settings settings;
static struct queue *votes;
static struct queue *reads;
static struct queue *remarks;
static struct queue *removals;
static struct queue *tasks;
static struct api *api;
static struct http_scopes scopes; /* of the current request */

enum rc http_check(const struct http_config *config, struct err *err)
{
    (void)config;
    (void)err;
    return RC_OK;
}

enum rc http_open(struct http_server **out, const struct http_config *config, http_handler handler,
                  http_on_refuse on_refuse, void *ctx, struct err *err)
{
    (void)config;
    (void)err;
    server = (struct http_server){handler, on_refuse, ctx};
    *out = &server;
    return RC_OK;
}

void http_quiesce(struct http_server *unused)
{
    (void)unused;
}

void http_close(struct http_server *unused)
{
    (void)unused;
}

int http_port(const struct http_server *unused)
{
    (void)unused;
    return 1;
}

const char *http_scheme(const struct http_server *unused)
{
    (void)unused;
    return "http";
}

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

const char *http_header(struct http_request *request, const char *name)
{
    const char *text = NULL;

    if (strcmp(name, "Content-Type") == 0)
        text = request->content_type;
    if (strcmp(name, "traceparent") == 0)
        text = request->trace;
    return text && *text ? text : NULL;
}

const struct http_scopes *http_scopes(const struct http_request *request)
{
    return &request->scopes;
}

const void *http_body(const struct http_request *request, size_t *len)
{
    *len = request->body.size;
    return request->body.size > 0 ? (const void *)request->body.data : "";
}

void http_each_argument(struct http_request *request,
                        void (*on_argument)(void *ctx, const char *name, const char *value),
                        void *ctx)
{
    char *next = NULL;

    for (char *name = *request->query ? request->query : NULL; name; name = next) {
        char *value;

        next = strchr(name, '&');
        if (next)
            *next++ = '\0';
        value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        on_argument(ctx, name, value ? value : "");
    }
}

void http_answer_header(struct http_request *request, const char *name, const char *value)
{
    fuzz_must(*value != '\0' && !strpbrk(value, "\r\n"), "a header's value is one line");
    request->has_allow |= strcmp(name, "Allow") == 0;
    request->has_retry |= strcmp(name, "Retry-After") == 0;
}

static void check_fault(const json_t *root)
{
    const json_t *error = json_object_get(root, "error");

    fuzz_must(json_string_length(json_object_get(error, "code")) > 0, "a fault has its code");
    fuzz_must_be_sentence(json_string_value(json_object_get(error, "message")));
}

void http_answer(struct http_request *request, int status, const char *content_type,
                 const void *body, size_t len)
{
    json_t *root = len > 0 ? json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

    request->answers++;
    request->status = status;
    fuzz_must(status >= 200 && status < 600, "an answer has a status");
    fuzz_must((len == 0) == (status == 204), "an answer has a body");
    fuzz_must(len == 0 || (root && strcmp(content_type, "application/json") == 0),
              "an answer is JSON");
    if (status >= 400)
        check_fault(root);
    fuzz_must(request->has_allow || status != 405, "405 names the methods");
    fuzz_must(request->has_retry || (status != 429 && status != 503), "429 and 503 say when");
    json_decref(root);
}

static struct queue *queue_ready(void)
{
    const struct queue_config config = {.name = "votes",
                                        .dep = "mysql",
                                        .shards = 1,
                                        .weight_max = WEIGHT_MAX,
                                        .timeout_ms = 600000,
                                        .breaker_base_ms = 1,
                                        .breaker_cap_ms = 1};
    struct queue *queue = NULL;

    fuzz_must(queue_open(&queue, &config, NULL) == RC_OK, "a queue can be had");
    fuzz_must(queue_may_try(queue, os_now_ms()), "a new queue may be tried");
    queue_worked(queue, os_now_ms());
    return queue;
}

/* No page is kept from one input to the next, and no list is ever built. */
static void open_lists(struct api_config *config)
{
    const struct page_cache_config pages = {.bytes_max = 0};
    const struct recommended_config lists = {.silent_ms = INT64_MAX / 2, .stale_ms = INT64_MAX / 2};

    fuzz_must(page_cache_open(&config->pages, &pages, NULL) == RC_OK &&
                  recommended_open(&config->recommended, &lists, os_now_ms(), NULL) == RC_OK,
              "there is memory for lists");
    remarks = queue_ready();
    removals = queue_ready();
    config->remarks = remarks;
    config->removals = removals;
}

static void open_once(void)
{
    struct api_config config = {.settings = &settings, .shards = 1};

    if (api)
        return;
    settings.api.body_bytes_max = 65536;
    snprintf(settings.api.tasks, sizeof(settings.api.tasks), "on");
    snprintf(settings.api.lists, sizeof(settings.api.lists), "on");
    snprintf(settings.api.token_file, sizeof(settings.api.token_file), "tokens");
    votes = queue_ready();
    reads = queue_ready();
    config.votes = votes;
    config.reads = reads;
    tasks = queue_ready();
    config.tasks = tasks;
    open_lists(&config);
    fuzz_must(api_open(&api, &config, NULL) == RC_OK, "the API opens");
}

static void work_votes(struct queue_entry *entry, uint8_t how)
{
    const struct committer_request *request = (const struct committer_request *)entry;

    fuzz_must((scopes.bits & HTTP_SCOPE_VOTES) != 0, "a vote needs its scope");
    fuzz_must(request->count > 0 && request->count <= COMMITTER_REQUEST_VOTES_MAX,
              "a request holds as many votes as it may");
    for (size_t i = 0; i < request->count; i++) {
        struct vote_item *item = &request->items[i];

        fuzz_must(item->voter_id >= 1 && item->content_id >= 1 && item->voting <= 1,
                  "a vote keeps its rules");
        if (item->headers) {
            json_t *headers = json_loads(item->headers, 0, NULL);

            fuzz_must(json_is_object(headers), "headers of an event are a JSON object");
            json_decref(headers);
        }
        item->outcome = how & 16 ? VOTE_REFUSED : how & 64 ? VOTE_DELETED : VOTE_DONE;
        item->has_event = how & 32;
        item->votes = INT64_MAX;
    }
}

static void work_reads(struct queue_entry *entry)
{
    const struct totals_request *request = (const struct totals_request *)entry;

    fuzz_must((scopes.bits & HTTP_SCOPE_READ) != 0, "reading needs its scope");
    fuzz_must(request->count > 0 && request->count <= TOTALS_REQUEST_CONTENTS_MAX,
              "a request asks for as many contents as it may");
    fuzz_must(request->voter_id >= 0, "a voter is a number");
    for (size_t i = 0; i < request->count; i++)
        fuzz_must(request->rows[i].content_id >= 1, "a content is a number");
}

static void work_write(struct remark_write *write, uint8_t how)
{
    const struct remark_values *values = &write->values;

    fuzz_must((scopes.bits & HTTP_SCOPE_REMARKS) != 0, "writing a remark needs its scope");
    fuzz_must(write->id >= (write->update ? 1 : 0) && (write->update || write->id <= REMARK_ID_MAX),
              "a remark's id keeps its rules");
    fuzz_must(write->update ? values->given != 0 : (values->given & 1U << REMARK_ITEM_ID) != 0,
              "a write has what it needs");
    for (enum remark_field field = REMARK_NUMBERS; field < REMARK_FIELDS; field++)
        fuzz_must((values->given & 1U << field) != 0 || !values->texts[field],
                  "what was not given is not written");
    write->end = how / 16 % (REMARK_REFUSED + 1);
    err_fail(&write->err, RC_REJECT, 0, "a constraint of the database");
}

static void work_page(struct remark_page *page, uint8_t how)
{
    const struct remark_row row = {
        .id = INT64_MAX, .votes = how, .header = "a \"header\"", .user_name = "", .user_face = ""};

    fuzz_must((scopes.bits & HTTP_SCOPE_READ) != 0, "reading a page needs its scope");
    fuzz_must(page->place.item_id >= 1 && page->rows_max >= 1 &&
                  page->rows_max <= REMARK_PAGE_ROWS_MAX,
              "a page is of an item and bounded");
    fuzz_must(page->place.after || page->place.id == 0, "without a cursor a list begins");
    page->expired = (how & 32) != 0;
    for (size_t i = 0; (how & 16) != 0 && i <= page->rows_max; i++)
        fuzz_must(remark_page_add(page, &row, NULL) == RC_OK, "there is memory for a page");
}

static void work_remarks(struct queue_entry *entry, uint8_t how)
{
    struct remark_request *request = (struct remark_request *)entry;

    if (request->page)
        work_page(request->page, how);
    else
        work_write(request->write, how);
}

static void work_removals(struct queue_entry *entry, uint8_t how)
{
    struct removal_request *request = (struct removal_request *)entry;

    fuzz_must((scopes.bits & HTTP_SCOPE_REMARKS) != 0, "a deletion needs its scope");
    fuzz_must(request->id >= 1, "a deletion is of a remark");
    request->end = how / 16 % (REMOVAL_REFUSED + 1);
    err_fail(&request->err, RC_REJECT, 0, "a foreign key of the application");
}

/* A task is of a group of the token, and so is all that may be found. */
static void work_tasks(const struct queue_entry *entry)
{
    const struct task_intake_request *request = (const struct task_intake_request *)entry;

    fuzz_must(scopes.group_count == 1, "tasks need their scope");
    for (size_t i = 0; i < request->count; i++) {
        const char *group = request->items[i].task.group;

        fuzz_must(request->items[i].bad ||
                      strcmp(group ? group : RETRY_GROUP_DEFAULT, scopes.groups[0]) == 0,
                  "a task is of the token's group");
    }
    if (request->kind != TASK_INTAKE_SUBMIT)
        fuzz_must(request->filter.group_count == 1 &&
                      strcmp(request->filter.groups[0], scopes.groups[0]) == 0,
                  "only the token's group is looked at");
}

/* The work of a worker, and its end. */
static void work(uint8_t how)
{
    static const enum queue_end ends[] = {QUEUE_DONE, QUEUE_DONE,    QUEUE_DONE,   QUEUE_DONE,
                                          QUEUE_LATE, QUEUE_UNKNOWN, QUEUE_CLOSED, QUEUE_DONE};
    struct queue_entry *entry;

    while ((entry = queue_take(votes, 0, WEIGHT_MAX, os_now_ms()))) {
        work_votes(entry, how);
        queue_finish(votes, 0, entry, ends[how % 8]);
    }
    while ((entry = queue_take(removals, 0, WEIGHT_MAX, os_now_ms()))) {
        work_removals(entry, how);
        queue_finish(removals, 0, entry, ends[how % 8]);
    }
    /* A page is put into the next queue, for its totals. */
    while ((entry = queue_take(remarks, 0, WEIGHT_MAX, os_now_ms()))) {
        work_remarks(entry, how);
        queue_finish(remarks, 0, entry, ends[how % 8]);
    }
    while ((entry = queue_take(reads, 0, WEIGHT_MAX, os_now_ms()))) {
        work_reads(entry);
        queue_finish(reads, 0, entry, ends[how % 8]);
    }
    /* Other tests write to a task store and read back. */
    while ((entry = queue_take(tasks, 0, WEIGHT_MAX, os_now_ms()))) {
        work_tasks(entry);
        queue_finish(tasks, 0, entry, QUEUE_UNKNOWN);
    }
}

/* A hexadecimal digit and the name of a group; text is freed. */
static void scopes_read(struct http_scopes *read, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const char *digit = text[0] ? strchr(digits, text[0]) : NULL;

    if (digit) {
        read->bits = (unsigned)(digit - digits);
        snprintf(read->groups[0], sizeof(read->groups[0]), "%s", text + 1);
        read->group_count = text[1] != '\0';
    }
    free(text);
}

static void request_read(struct http_request *request, struct fuzz_input *input)
{
    char *line;
    char *path;

    line = fuzz_text(input, '\n');
    path = line + strcspn(line, " ");
    request->method = strndup(line, (size_t)(path - line));
    path += *path == ' ';
    request->path = strndup(path, strcspn(path, "?"));
    path += strcspn(path, "?");
    request->query = strdup(path + (*path == '?'));
    free(line);
    scopes_read(&request->scopes, fuzz_text(input, '\n'));
    request->content_type = fuzz_text(input, '\n');
    request->trace = fuzz_text(input, '\n');
    request->body = *input;
    fuzz_must(request->method && request->path && request->query, "there is memory");
}

static void request_free(struct http_request *request)
{
    free(request->method);
    free(request->path);
    free(request->query);
    free(request->content_type);
    free(request->trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int refusals[] = {400, 413, 503, 431};
    struct fuzz_input input = {data, size};
    struct http_request request = {0};
    uint8_t how = fuzz_byte(&input);

    open_once();
    request_read(&request, &input);
    scopes = request.scopes;
    if (how >= 252)
        server.on_refuse(server.ctx, &request, refusals[how - 252]);
    else
        server.handler(server.ctx, &request);
    work(how);
    fuzz_must(request.answers == 1, "a request is answered once");
    request_free(&request);
    return 0;
}
