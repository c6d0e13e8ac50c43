/* SPDX-License-Identifier: MIT */
#include "producer/http/api.h"

#include "common/log.h"
#include "common/os.h"
#include "producer/http/api_answer.h"
#include "producer/http/api_routes.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STATUS_NO_CONTENT 204
#define FILES_SPARE ((size_t)200) /* for databases, brokers and logs */

struct api {
    struct api_config config;
    struct http_server *server;
};

static void answer_no_path(struct http_request *http)
{
    struct request_fault fault;
    char paths[128];

    api_routes_list(paths, sizeof(paths));
    request_fault_set(&fault, REQUEST_FAULT_NOT_FOUND,
                      "there is no such path; docs/openapi.yaml has them all: %s", paths);
    api_answer_fault(http, &fault, 0);
}

static void answer_options(struct http_request *http, const char *allow)
{
    struct buf none = {0};

    http_answer_header(http, "Allow", allow);
    api_answer(http, STATUS_NO_CONTENT, &none);
}

static void answer_other_method(struct http_request *http, const char *allow)
{
    struct request_fault fault;

    http_answer_header(http, "Allow", allow);
    request_fault_set(&fault, REQUEST_FAULT_METHOD, "this path takes %s", allow);
    api_answer_fault(http, &fault, 0);
}

static bool tasks_are_on(const struct settings *settings)
{
    return strcmp(settings->api.tasks, "on") == 0;
}

static bool operating_is_on(const struct settings *settings)
{
    return strcmp(settings->api.operate, "on") == 0;
}

/* NULL: the feature is on. */
static const char *feature_off(const struct settings *settings, enum api_feature feature)
{
    bool has_votes = settings_serve_votes(settings);

    if (!has_votes && (feature == API_FEATURE_VOTES || feature == API_FEATURE_LISTS ||
                       feature == API_FEATURE_DEAD))
        return "votes are off; api.votes = on allows them";
    switch (feature) {
    case API_FEATURE_VOTES:
        break;
    case API_FEATURE_TASKS:
        return tasks_are_on(settings) ? NULL
                                      : "tasks over HTTP are off; api.tasks = on allows them";
    case API_FEATURE_LISTS:
        return strcmp(settings->api.lists, "on") == 0
                   ? NULL
                   : "lists of remarks are off; api.lists = on allows them";
    case API_FEATURE_OPERATE:
    case API_FEATURE_DEAD:
        return operating_is_on(settings)
                   ? NULL
                   : "actions of operators over HTTP are off; api.operate = on allows them";
    }
    return NULL;
}

static bool token_has_scope(const struct settings *settings, const struct http_scopes *scopes,
                            enum api_route_scope scope)
{
    switch (scope) {
    case API_ROUTE_SCOPE_VOTES:
        return http_scopes_have(scopes, HTTP_SCOPE_VOTES);
    case API_ROUTE_SCOPE_READ:
        return http_scopes_have(scopes, HTTP_SCOPE_READ);
    case API_ROUTE_SCOPE_TASKS:
        return scopes->group_count > 0;
    case API_ROUTE_SCOPE_REMARKS:
        return http_scopes_have(scopes, HTTP_SCOPE_REMARKS);
    case API_ROUTE_SCOPE_OPERATE:
        return http_scopes_have(scopes, HTTP_SCOPE_OPERATE);
    case API_ROUTE_SCOPE_FIND:
        return scopes->group_count > 0 ||
               (operating_is_on(settings) && http_scopes_have(scopes, HTTP_SCOPE_OPERATE));
    case API_ROUTE_SCOPES:
        break;
    }
    return false;
}

/* Invariant P3: called for each request before its handler. False: the token lacks the route's
 * scope, or the route is off, which has been answered. */
static bool check_scope(const struct api *api, struct http_request *http,
                        const struct api_route *route)
{
    const char *off = feature_off(api->config.settings, route->feature);
    struct request_fault fault;

    if (off)
        request_fault_set(&fault, REQUEST_FAULT_NO_SCOPE, "%s", off);
    else if (!token_has_scope(api->config.settings, http_scopes(http), route->scope))
        request_fault_set(&fault, REQUEST_FAULT_NO_SCOPE, "this token lacks the scope %s",
                          api_route_scope_name(route->scope));
    else
        return true;
    api_answer_fault(http, &fault, 0);
    return false;
}

struct query {
    const struct api_route *route;
    struct api_call *call;
    bool bad;
    struct request_fault fault;
};

static void on_parameter(void *ctx, const char *name, const char *value)
{
    struct query *query = ctx;
    const char **place = NULL;

    if (query->bad)
        return;
    for (unsigned i = 0; i < API_PARAMETERS; i++)
        if ((query->route->parameters & 1U << i) != 0 && strcmp(name, api_parameter_name(i)) == 0)
            place = &query->call->parameters[i];
    if (place && !*place) {
        *place = value;
        return;
    }
    query->bad = true;
    if (place)
        request_fault_set(&query->fault, REQUEST_FAULT_DUPLICATE,
                          "this query parameter is given twice");
    else
        request_fault_set(&query->fault, REQUEST_FAULT_UNKNOWN,
                          "this path has no such query parameter");
    request_fault_at(&query->fault, name);
}

/* False: the query is bad, which has been answered. */
static bool read_query(const struct api_route *route, struct api_call *call)
{
    struct query query = {.route = route, .call = call};

    http_each_argument(call->http, on_parameter, &query);
    for (unsigned i = 0; !query.bad && i < API_PARAMETERS; i++) {
        const char *value = call->parameters[i];

        if ((route->required & 1U << i) == 0 || (value && *value))
            continue;
        query.bad = true;
        request_fault_set(&query.fault, REQUEST_FAULT_MISSING, "%s is missing",
                          api_parameter_name(i));
        request_fault_at(&query.fault, api_parameter_name(i));
    }
    if (query.bad)
        api_answer_fault(call->http, &query.fault, 0);
    return !query.bad;
}

/* "application/json", with or without parameters. A request without a type is refused: a web page
 * of another site could make a browser send one with the reader's rights. */
static bool is_json_type(const char *type)
{
    static const char json[] = "application/json";
    size_t len = sizeof(json) - 1;

    if (!type || strncasecmp(type, json, len) != 0)
        return false;
    type += len;
    type += strspn(type, " \t");
    return *type == '\0' || *type == ';';
}

static size_t body_bytes_max(const struct settings *settings, const struct api_route *route)
{
    int64_t bytes;

    if (route->body_max_at == 0)
        return 0;
    memcpy(&bytes, (const char *)settings + route->body_max_at, sizeof(bytes));
    return (size_t)bytes;
}

/* The HTTP server refuses a body that is larger than any route takes. */
static size_t largest_body(const struct settings *settings)
{
    size_t most = 0;

    for (size_t i = 0; i < api_route_count; i++) {
        size_t bytes = body_bytes_max(settings, &api_routes[i]);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* False: the body is bad, which has been answered. The body of a route that takes none is
 * ignored. */
static bool check_body(const struct api *api, const struct api_route *route,
                       struct http_request *http)
{
    size_t bytes_max = body_bytes_max(api->config.settings, route);
    struct request_fault fault;
    size_t len;

    http_body(http, &len);
    if (route->body_max_at == 0)
        return true;
    if (!is_json_type(http_header(http, "Content-Type"))) {
        api_answer_bad(http, REQUEST_FAULT_MEDIA_TYPE, NULL,
                       "the body must be sent as Content-Type: application/json");
        return false;
    }
    if (len <= bytes_max)
        return true;
    request_fault_set(&fault, REQUEST_FAULT_TOO_LARGE, "the body is larger than %zu bytes",
                      bytes_max);
    api_answer_fault(http, &fault, 0);
    return false;
}

static void on_request(void *ctx, struct http_request *http)
{
    struct api *api = ctx;
    struct api_match match;
    struct api_call call = {.http = http, .id = match.segments[0], .second = match.segments[1]};

    api_routes_match(&match, http_method(http), http_path(http));
    if (!match.allow[0])
        answer_no_path(http);
    else if (strcmp(http_method(http), "OPTIONS") == 0)
        answer_options(http, match.allow);
    else if (!match.route)
        answer_other_method(http, match.allow);
    else if (check_scope(api, http, match.route) && read_query(match.route, &call) &&
             check_body(api, match.route, http))
        match.route->handle(&api->config, &call);
}

static void on_refuse(void *ctx, struct http_request *http, int status)
{
    struct api *api = ctx;
    struct request_fault fault;

    if (status == request_fault_status(REQUEST_FAULT_NO_TOKEN))
        request_fault_set(&fault, REQUEST_FAULT_NO_TOKEN,
                          "the API needs one of its bearer tokens: send the header "
                          "Authorization: Bearer ...");
    else if (status == request_fault_status(REQUEST_FAULT_OTHER_HOST))
        request_fault_set(
            &fault, REQUEST_FAULT_OTHER_HOST,
            "this server does not answer for the host \"%.80s\"; api.hosts may name it",
            http_header(http, "Host"));
    else if (status == request_fault_status(REQUEST_FAULT_TOO_LARGE))
        request_fault_set(&fault, REQUEST_FAULT_TOO_LARGE, "the body is larger than %zu bytes",
                          largest_body(api->config.settings));
    else if (status == request_fault_status(REQUEST_FAULT_UNAVAILABLE))
        request_fault_set(&fault, REQUEST_FAULT_UNAVAILABLE,
                          "too many bodies are being received; nothing was done: send "
                          "this request again later");
    else
        request_fault_set(&fault, REQUEST_FAULT_BAD_REQUEST, "the request cannot be read as HTTP");
    api_answer_fault(http, &fault, 0);
}

/* Keeps enough file descriptors for the connections to databases and brokers. */
static unsigned connections_max(const struct settings *settings)
{
    size_t wanted = (size_t)settings->api.connections_max;
    size_t files = os_files_max();
    size_t room = files > 2 * FILES_SPARE ? files - FILES_SPARE : files / 2;

    if (wanted <= room)
        return (unsigned)wanted;
    log_event(LOG_WARN, "connections_limited",
              "connections_max=%zu taken=%zu files_max=%zu "
              "what=\"raise the limit of open files (LimitNOFILE, ulimit -n)\"",
              wanted, room, files);
    return (unsigned)room;
}

static struct http_config make_http_config(const struct settings *settings)
{
    return (struct http_config){
        .listen = settings->api.listen,
        .body_bytes_max = largest_body(settings),
        .header_bytes_max = (size_t)settings->api.header_bytes_max,
        .connections_per_address_max = (unsigned)settings->api.connections_per_address_max,
        .header_timeout_ms = (unsigned)settings->api.header_timeout_ms,
        .body_timeout_ms = (unsigned)settings->api.body_timeout_ms,
        .idle_timeout_ms = (unsigned)settings->api.request_timeout_ms,
        .guard = {.section = "api",
                  .hosts = settings->api.hosts,
                  .token_file = settings->api.token_file,
                  .tls_cert = settings->api.tls_cert,
                  .tls_key = settings->api.tls_key,
                  .without_token = strcmp(settings->api.without_token, "yes") == 0,
                  .open_scopes = HTTP_SCOPE_VOTES | HTTP_SCOPE_READ},
    };
}

static enum rc check_tasks(const struct settings *settings, struct err *err)
{
    if (operating_is_on(settings) && !settings->api.token_file[0])
        return err_fail(err, RC_REJECT, 0,
                        "api.operate is on but api.token_file is not set: actions on tasks need "
                        "tokens that have the scope operate");
    if (!tasks_are_on(settings) || settings->api.token_file[0])
        return RC_OK;
    return err_fail(
        err, RC_REJECT, 0,
        "api.tasks is on but api.token_file is not set: tasks are accepted only with tokens "
        "that have the scope tasks:GROUP");
}

enum rc api_check(const struct settings *settings, struct err *err)
{
    const struct http_config http = make_http_config(settings);
    enum rc rc = check_tasks(settings, err);

    return rc == RC_OK ? http_check(&http, err) : rc;
}

enum rc api_open(struct api **out, const struct api_config *config, struct err *err)
{
    struct api *api = calloc(1, sizeof(*api));
    struct http_config http = make_http_config(config->settings);
    enum rc rc = check_tasks(config->settings, err);

    *out = NULL;
    if (!api)
        return err_fail(err, RC_FATAL, 0, "no memory for the API");
    api->config = *config;
    http.connections_max = connections_max(config->settings);
    if (rc == RC_OK)
        rc = http_open(&api->server, &http, on_request, on_refuse, api, err);
    if (rc == RC_OK)
        *out = api;
    else
        free(api);
    return rc;
}

void api_quiesce(struct api *api)
{
    http_quiesce(api->server);
}

void api_close(struct api *api)
{
    if (!api)
        return;
    http_close(api->server);
    free(api);
}

int api_port(const struct api *api)
{
    return http_port(api->server);
}

const char *api_scheme(const struct api *api)
{
    return http_scheme(api->server);
}
