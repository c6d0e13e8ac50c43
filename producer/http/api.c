/* SPDX-License-Identifier: MIT */
#include "producer/http/api.h"

#include "common/log.h"
#include "common/os.h"
#include "producer/http/api_parts.h"

#include <stdlib.h>
#include <string.h>

#define STATUS_NO_CONTENT 204
#define FILES_SPARE ((size_t)200) /* for databases, brokers and logs */

enum route { ROUTE_NONE, ROUTE_VOTES, ROUTE_CONTENT, ROUTE_TASKS, ROUTE_TASK };

static void id_keep(const char *start, size_t len, char *id, size_t size)
{
    if (len >= size)
        len = 0; /* longer than any number: refused as one that is out of range */
    memcpy(id, start, len);
    id[len] = '\0';
}

/* "/v1/contents/{id}/votes" and "/v1/tasks/{id}": id is what stands there, whatever it is. */
static enum route route_of(const char *path, char *id, size_t size)
{
    static const char content[] = "/v1/contents/";
    static const char behind[] = "/votes";
    static const char task[] = "/v1/tasks/";
    const char *start;
    size_t len;

    if (strcmp(path, "/v1/votes") == 0)
        return ROUTE_VOTES;
    if (strcmp(path, "/v1/tasks") == 0)
        return ROUTE_TASKS;
    if (strncmp(path, task, sizeof(task) - 1) == 0) {
        start = path + sizeof(task) - 1;
        len = strcspn(start, "/");
        id_keep(start, len, id, size);
        return len > 0 && start[len] == '\0' ? ROUTE_TASK : ROUTE_NONE;
    }
    if (strncmp(path, content, sizeof(content) - 1) != 0)
        return ROUTE_NONE;
    start = path + sizeof(content) - 1;
    len = strcspn(start, "/");
    id_keep(start, len, id, size);
    return len > 0 && strcmp(start + len, behind) == 0 ? ROUTE_CONTENT : ROUTE_NONE;
}

static void answer_options(struct http_request *request, const char *allow)
{
    struct buf none = {0};

    http_answer_header(request, "Allow", allow);
    api_answer(request, STATUS_NO_CONTENT, &none);
}

static void answer_other_method(struct http_request *request, const char *allow)
{
    struct fault fault;

    http_answer_header(request, "Allow", allow);
    fault_set(&fault, FAULT_METHOD, "this path takes %s", allow);
    api_answer_fault(request, &fault, 0);
}

static void read_route(struct api *api, struct http_request *request, enum route route,
                       const char *id)
{
    if (route == ROUTE_CONTENT)
        api_get_content(api, request, id);
    else if (route == ROUTE_TASK)
        api_get_task(api, request, id);
    else if (route == ROUTE_TASKS)
        api_get_tasks(api, request);
    else
        api_get_votes(api, request);
}

static bool tasks_are_on(const struct settings *settings)
{
    return strcmp(settings->api.tasks, "on") == 0;
}

/* May the request's token do this? A fault was answered already when it may not. Which group a task
 * is of is looked at where that is known. */
static bool scope_check(const struct api *api, struct http_request *request, enum route route,
                        bool reads)
{
    const struct http_scopes *scopes = http_scopes(request);
    bool of_tasks = route == ROUTE_TASKS || route == ROUTE_TASK;
    struct fault fault;

    if (of_tasks && !tasks_are_on(api->config.settings))
        fault_set(&fault, FAULT_NO_SCOPE,
                  "tasks over HTTP are off here; api.tasks = on lets them in");
    else if (of_tasks && scopes->group_count == 0)
        fault_set(&fault, FAULT_NO_SCOPE, "this token lacks the scope tasks:GROUP");
    else if (!of_tasks && !http_scopes_have(scopes, reads ? HTTP_SCOPE_READ : HTTP_SCOPE_VOTES))
        fault_set(&fault, FAULT_NO_SCOPE, "this token lacks the scope %s",
                  reads ? "read" : "votes");
    else
        return true;
    api_answer_fault(request, &fault, 0);
    return false;
}

static void on_request(void *ctx, struct http_request *request)
{
    struct api *api = ctx;
    const char *method = http_method(request);
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    char id[32];
    enum route route = route_of(http_path(request), id, sizeof(id));
    bool posts = route == ROUTE_VOTES || route == ROUTE_TASKS;
    const char *allow = posts ? "GET, HEAD, POST, OPTIONS" : "GET, HEAD, OPTIONS";
    struct fault fault;

    if (route == ROUTE_NONE) {
        fault_set(&fault, FAULT_NOT_FOUND,
                  "there is /v1/votes, /v1/contents/{id}/votes, /v1/tasks and /v1/tasks/{id}, "
                  "nothing else");
        api_answer_fault(request, &fault, 0);
    } else if (strcmp(method, "OPTIONS") == 0) {
        answer_options(request, allow);
    } else if (reads) {
        if (scope_check(api, request, route, true))
            read_route(api, request, route, id);
    } else if (posts && strcmp(method, "POST") == 0) {
        if (!scope_check(api, request, route, false))
            return;
        if (route == ROUTE_TASKS)
            api_post_tasks(api, request);
        else
            api_post_votes(api, request);
    } else {
        answer_other_method(request, allow);
    }
}

static void on_refuse(void *ctx, struct http_request *request, int status)
{
    struct api *api = ctx;
    struct fault fault;

    if (status == fault_status(FAULT_NO_TOKEN))
        fault_set(&fault, FAULT_NO_TOKEN,
                  "the API takes no request without one of its bearer tokens: send the header "
                  "Authorization: Bearer ...");
    else if (status == fault_status(FAULT_OTHER_HOST))
        fault_set(&fault, FAULT_OTHER_HOST,
                  "this server does not answer for the host \"%.80s\"; api.hosts may name it",
                  http_header(request, "Host"));
    else if (status == fault_status(FAULT_TOO_LARGE))
        fault_set(&fault, FAULT_TOO_LARGE, "the body is larger than %lld bytes",
                  (long long)api->config.settings->api.body_bytes_max);
    else if (status == fault_status(FAULT_AWAY))
        fault_set(&fault, FAULT_AWAY,
                  "too many bodies are being received; nothing was done: send "
                  "this request again later");
    else
        fault_set(&fault, FAULT_BAD_REQUEST, "the request cannot be read as HTTP");
    api_answer_fault(request, &fault, 0);
}

/* Clients may not use up what databases and brokers are to be reached through. */
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

enum rc api_open(struct api **out, const struct api_config *config, struct err *err)
{
    struct api *api = calloc(1, sizeof(*api));
    struct http_config http = {
        .listen = config->settings->api.listen,
        .body_bytes_max = (size_t)config->settings->api.body_bytes_max,
        .header_bytes_max = (size_t)config->settings->api.header_bytes_max,
        .connections_max = connections_max(config->settings),
        .connections_per_address_max = (unsigned)config->settings->api.connections_per_address_max,
        .header_timeout_ms = (unsigned)config->settings->api.header_timeout_ms,
        .body_timeout_ms = (unsigned)config->settings->api.body_timeout_ms,
        .idle_timeout_ms = (unsigned)config->settings->api.request_timeout_ms,
        .guard = {.section = "api",
                  .hosts = config->settings->api.hosts,
                  .token_file = config->settings->api.token_file,
                  .tls_cert = config->settings->api.tls_cert,
                  .tls_key = config->settings->api.tls_key,
                  .without_token = strcmp(config->settings->api.without_token, "yes") == 0,
                  .open_scopes = HTTP_SCOPE_VOTES | HTTP_SCOPE_READ},
    };
    enum rc rc;

    *out = NULL;
    if (tasks_are_on(config->settings) && config->settings->api.token_file[0] == '\0') {
        free(api);
        return err_fail(
            err, RC_REJECT, 0,
            "api.tasks is on but api.token_file is not set: tasks are taken from tokens "
            "with the scope tasks:GROUP only");
    }
    if (!api)
        return err_fail(err, RC_FATAL, 0, "no memory for the API");
    api->config = *config;
    rc = http_open(&api->server, &http, on_request, on_refuse, api, err);
    if (rc != RC_OK)
        free(api);
    else
        *out = api;
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
