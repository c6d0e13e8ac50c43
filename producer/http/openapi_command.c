/* SPDX-License-Identifier: MIT */
#include "producer/http/openapi_command.h"

#include "common/options.h"
#include "common/text.h"
#include "common/trace.h"
#include "outbox/retry/handler.h"
#include "producer/http/api_routes.h"
#include "producer/http/openapi_schemas.h"
#include "producer/http/request_json.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    const char *schema;
    const char *example;
    const char *description;
} parameters[API_PARAMETERS] = {
    [API_VOTER_ID] = {"{" ID_TEXT "}", "1",
                      "Also answer whether this voter votes for the content."},
    [API_CONTENT_IDS] = {"{type: array, minItems: 1, maxItems: 200, items: {" ID_TEXT "}}",
                         "[1, 2]", "Content ids, separated by commas."},
    [API_BIZ_NO] = {"{type: string, minLength: 1, maxLength: 64}", "\"815\"",
                    "Tasks with this bizNo."},
    [API_SCENE] = {NAME_TEXT("64"), "mail", "Tasks of this scene."},
    [API_GROUP] = {NAME_TEXT("64"), "default",
                   "Tasks of this group, which the token must have; default: all of its groups."},
    [API_STATE] = {"{type: string, default: active, enum: [active, ended, waiting, running, "
                   "queued, blocked, parked, done, exhausted, cancelled]}",
                   "waiting", "Tasks in this state."},
    [API_LIMIT] = {"{type: integer, minimum: 1, maximum: 200, default: 50}", "10",
                   "Rows of one page."},
    [API_AFTER] = {"{type: integer, format: int64, minimum: 0, maximum: 9223372036854775807}", "0",
                   "The `after` of the page before."},
    [API_ITEM_ID] = {"{" ID_TEXT "}", "1", "Remarks of this item."},
    [API_CURSOR] = {"{type: string, maxLength: 95}", "n1.1.21",
                    "The `next` of the page before, for the same itemId and sort."},
    [API_SORT] = {"{type: string, default: newest, enum: [newest, votes]}", "newest",
                  "newest: the highest id first. votes: the most votes of the last roll-up first."},
    [API_PAGE_LIMIT] = {"{type: integer, minimum: 1, maximum: 100, default: 20}", "20",
                        "Remarks of one page."},
    [API_BIZ_NO_PREFIX] = {"{type: string, minLength: 1, maxLength: 64}", "\"8\"",
                           "Tasks whose bizNo begins with this."},
    [API_HANDLER] = {NAME_TEXT("32"), "http", "Tasks of this handler."},
    [API_REASON_CLASS] = {"{type: string, enum: [transient, refused, ours]}", "transient",
                          "Tasks whose last failure is of this class."},
    [API_SINCE] = {"{type: integer, format: int64, minimum: 0, maximum: 253402300799999}", "0",
                   "At or after this time, in ms since 1970: tasks were made, or ended if ended "
                   "ones are asked for; actions began; records died."},
    [API_UNTIL] = {"{type: integer, format: int64, minimum: 0, maximum: 253402300799999}",
                   "253402300799999", "Before this time, as since."},
    [API_BY] = {"{type: string, minLength: 1, maxLength: 128}", "ann@host",
                "Actions of this operator."},
    [API_START] = {"{type: integer, minimum: 0, maximum: 999, default: 0}", "0",
                   "The first position of the list that is wanted, from 0."},
    [API_CONFIG_GROUP] = {NAME_TEXT("64"), "default", "The group, which the token must have."},
    [API_STOP] = {"{type: integer, minimum: 1, maximum: 1099}", "20",
                  "The position behind the last one that is wanted, at most 100 after start; "
                  "default: 20 after start."},
    [API_AFTER_SCENE] = {"{type: string, pattern: "
                         "\"^[A-Za-z0-9_.:-]{1,64}/[A-Za-z0-9_.:-]{1,64}$\"}",
                         "default/mail", "The `after` of the page before."},
    [API_TRY] = {"{type: integer, enum: [1]}", "1",
                 "Run the task at once in this server, if it may begin now."},
    [API_AFTER_GROUP] = {NAME_TEXT("64"), "default", "The `after` of the page before."},
    [API_AFTER_ADDRESS] = {"{type: string, pattern: \"^[!-~]{1,255}$\"}",
                           "http://127.0.0.1:8081/jobs", "The `after` of the page before."},
    [API_TOPIC] = {"{type: string, pattern: \"^[A-Za-z0-9._-]{1,249}$\"}", "outbox.event.vote",
                   "Records of this topic."},
    [API_PARTITION] = {"{type: integer, minimum: 0, maximum: 2147483647}", "0",
                       "Records of this partition."},
    [API_DEAD_CLASS] = {"{type: string, pattern: \"^[a-z_]{1,32}$\"}", "decode",
                        "Records that died for a reason of this class: decode, rule, key, "
                        "tombstone, too_old, refused or behind."},
    [API_KEY] = {"{type: string, minLength: 1, maxLength: 255}", "\"42\"",
                 "Records with exactly this key, a vote's contentId."},
    [API_DECIDED] = {"{type: boolean, default: false}", "false",
                     "Records that were replayed or dropped, instead of dead ones."},
};

static void put_line(struct buf *out, const char *head, const char *text)
{
    buf_text_put(out, head);
    json_text_put(out, text);
    buf_char(out, '\n');
}

static void put_parameter(struct buf *out, const char *name, const char *place, bool required,
                          const char *schema, const char *example, const char *description)
{
    buf_print(out, "        - name: %s\n          in: %s\n          required: %s\n", name, place,
              required ? "true" : "false");
    if (strncmp(schema, "{type: array", strlen("{type: array")) == 0)
        buf_text_put(out, "          style: form\n          explode: false\n");
    put_line(out, "          description: ", description);
    buf_print(out, "          schema: %s\n          example: %s\n", schema, example);
}

/* Without examples: a request with the first two of them is refused. */
static void put_retry_headers(struct buf *out)
{
    static const struct {
        const char *name;
        const char *schema;
        const char *description;
    } headers[] = {
        {HEADER_NO_RETRY, "{type: string, enum: [\"1\"]}",
         "Of the call that causes this request. No task is taken."},
        {HEADER_SCENE, "{type: string, pattern: \"^[A-Za-z0-9_.:-]{1,64}/[A-Za-z0-9_.:-]{1,64}$\"}",
         "Of the call that causes this request, as default/mail. No task of this group and scene "
         "is taken."},
        {TRACE_HEADER, "{type: string, pattern: \"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$\"}",
         "W3C Trace Context: the calls of the tasks carry it."},
    };

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        buf_print(out, "        - name: %s\n          in: header\n          required: false\n",
                  headers[i].name);
        put_line(out, "          description: ", headers[i].description);
        buf_print(out, "          schema: %s\n", headers[i].schema);
    }
}

static void put_parameters(struct buf *out, const struct api_route *route)
{
    bool has_group = strstr(route->path, "{group}") != NULL;

    if (!route->id && !has_group && route->parameters == 0 && !route->retry_headers)
        return;
    buf_text_put(out, "      parameters:\n");
    if (route->id)
        put_parameter(out, "id", "path", true, "{" ID_TEXT "}", "1", "The id.");
    if (has_group)
        put_parameter(out, "group", "path", true, NAME_TEXT("64"), "default", "The group.");
    if (strstr(route->path, "{scene}"))
        put_parameter(out, "scene", "path", true, NAME_TEXT("64"), "mail", "The scene.");
    for (unsigned i = 0; i < API_PARAMETERS; i++)
        if ((route->parameters & 1U << i) != 0)
            put_parameter(out, api_parameter_name(i), "query", (route->required & 1U << i) != 0,
                          parameters[i].schema, parameters[i].example, parameters[i].description);
    if (route->retry_headers)
        put_retry_headers(out);
}

/* The other value of api.deleted_status. */
#define DELETED_STATUS_GONE 410

static bool has_status(enum request_fault_code code, int status)
{
    return request_fault_status(code) == status ||
           (code == REQUEST_FAULT_DELETED && status == DELETED_STATUS_GONE);
}

/* Statuses that no condition excludes are those of all routes. */
static bool route_can_fail(const struct api_route *route, enum request_fault_code code)
{
    int status = request_fault_status(code);

    if (code == REQUEST_FAULT_METHOD)
        return false; /* answered before a route is chosen */
    if (code == REQUEST_FAULT_NOT_FOUND)
        return route->may_find_nothing;
    if (code == REQUEST_FAULT_DELETED)
        return route->may_be_deleted;
    if (code == REQUEST_FAULT_RETRY_TRAFFIC)
        return route->retry_headers;
    if (code == REQUEST_FAULT_CONFLICT)
        return route->may_conflict;
    if (code == REQUEST_FAULT_EXPIRED)
        return (route->parameters & 1U << API_CURSOR) != 0;
    if (status == request_fault_status(REQUEST_FAULT_MEDIA_TYPE) ||
        status == request_fault_status(REQUEST_FAULT_REFUSED))
        return route->body != NULL;
    return true;
}

static bool route_can_answer(const struct api_route *route, int status)
{
    for (unsigned code = 0; code < REQUEST_FAULT_CODES; code++)
        if (has_status(code, status) && route_can_fail(route, code))
            return true;
    return false;
}

static void put_responses(struct buf *out, const struct api_route *route)
{
    buf_text_put(out, "      responses:\n");
    for (size_t i = 0; i < API_RESULTS_MAX && route->results[i].status != 0; i++) {
        const struct api_result *result = &route->results[i];

        buf_print(out, "        \"%d\":\n", result->status);
        put_line(out, "          description: ", result->description);
        if (result->schema)
            buf_print(out,
                      "          content:\n            application/json:\n"
                      "              schema: {$ref: \"#/components/schemas/%s\"}\n",
                      result->schema);
    }
    for (int status = 400; status < 600; status++)
        if (route_can_answer(route, status))
            buf_print(out, "        \"%d\": {$ref: \"#/components/responses/Error%d\"}\n", status,
                      status);
}

static void put_operation(struct buf *out, const struct api_route *route)
{
    buf_text_put(out, "    ");
    for (const char *c = route->method; *c; c++)
        buf_char(out, (char)(*c - 'A' + 'a'));
    buf_print(out, ":\n      operationId: %s\n", route->operation);
    put_line(out, "      summary: ", route->summary);
    put_line(out, "      description: ", route->description);
    buf_print(out, "      security: [{bearer: [\"%s\"]}]\n", api_route_scope_name(route->scope));
    put_parameters(out, route);
    if (route->body)
        buf_print(out,
                  "      requestBody:\n        required: true\n        content:\n"
                  "          application/json:\n"
                  "            schema: {$ref: \"#/components/schemas/%s\"}\n"
                  "            example: %s\n",
                  route->body, route->example);
    put_responses(out, route);
}

static void put_paths(struct buf *out)
{
    buf_text_put(out, "paths:\n");
    for (size_t i = 0; i < api_route_count; i++) {
        if (i == 0 || strcmp(api_routes[i].path, api_routes[i - 1].path) != 0)
            buf_print(out, "  %s:\n", api_routes[i].path);
        put_operation(out, &api_routes[i]);
    }
}

static void put_error_headers(struct buf *out, int status)
{
    if (status == request_fault_status(REQUEST_FAULT_NO_TOKEN))
        buf_text_put(out, "      headers:\n"
                          "        WWW-Authenticate: {schema: {type: string}, required: true}\n");
    if (status == request_fault_status(REQUEST_FAULT_FULL) ||
        status == request_fault_status(REQUEST_FAULT_UNAVAILABLE))
        buf_text_put(out, "      headers:\n"
                          "        Retry-After:\n"
                          "          description: In seconds.\n"
                          "          required: true\n"
                          "          schema: {type: integer, minimum: 1}\n");
}

static void put_error_responses(struct buf *out)
{
    buf_text_put(out, "  responses:\n");
    for (int status = 400; status < 600; status++) {
        struct buf text = {0};

        for (unsigned code = 0; code < REQUEST_FAULT_CODES; code++)
            if (has_status(code, status) && code != REQUEST_FAULT_METHOD)
                buf_print(&text, "%s`%s`: %s.", text.len > 0 ? " " : "", request_fault_name(code),
                          request_fault_about(code));
        if (text.len > 0) {
            buf_print(out, "    Error%d:\n", status);
            put_line(out, "      description: ", buf_text(&text));
            put_error_headers(out, status);
            buf_text_put(out, "      content:\n        application/json:\n"
                              "          schema: {$ref: \"#/components/schemas/Error\"}\n");
        }
        buf_done(&text);
    }
}

static void put_error_codes(struct buf *out)
{
    buf_text_put(out, "    ErrorCode:\n      type: string\n"
                      "      description: For programs; a code never changes its meaning.\n"
                      "      enum:\n");
    for (unsigned code = 0; code < REQUEST_FAULT_CODES; code++)
        buf_print(out, "        - %s\n", request_fault_name(code));
}

void openapi_put(struct buf *out)
{
    buf_text_put(out,
                 "# Generated by scripts/reference from `tallybox openapi`; test_reference checks "
                 "it.\n"
                 "openapi: 3.1.0\n"
                 "info:\n"
                 "  title: tallybox\n"
                 "  version: \"1\"\n"
                 "  license: {name: MIT, identifier: MIT}\n"
                 "  description: >-\n"
                 "    Votes, totals, remarks, tasks of the retry queue and dead records over HTTP. "
                 "A body has at most "
                 "api.body_bytes_max bytes.\n"
                 "    Without api.token_file votes and totals need no token. HEAD works as GET; "
                 "other methods are answered with 405\n"
                 "    and Allow. A later version may add fields to answers.\n"
                 "servers:\n"
                 "  - url: http://127.0.0.1:8080\n");
    put_paths(out);
    buf_text_put(
        out, "components:\n"
             "  securitySchemes:\n"
             "    bearer:\n"
             "      type: http\n"
             "      scheme: bearer\n"
             "      description: A token of api.token_file; its line there lists its scopes.\n");
    put_error_responses(out);
    buf_text_put(out, "  schemas:\n");
    openapi_schemas_put_base(out);
    put_error_codes(out);
    openapi_schemas_put(out);
}

int openapi_command(int argc, char **argv)
{
    const struct option_parse parse = {
        .command = "tallybox openapi",
        .arguments = "",
        .about = "Prints the OpenAPI document of the HTTP API, as docs/openapi.yaml.",
    };
    struct options options;
    struct buf out = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    openapi_put(&out);
    return options_print(&out);
}
