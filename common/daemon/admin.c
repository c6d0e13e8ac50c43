/* SPDX-License-Identifier: MIT */
#include "common/daemon/admin.h"

#include "common/buf.h"
#include "common/condition.h"
#include "common/http/connections.h"
#include "common/http/http.h"
#include "common/metrics.h"
#include "common/os.h"
#include "tallybox_version.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BODY_BYTES_MAX 1024
#define HEADER_BYTES_MAX 16384
#define CONNECTIONS_MAX 64
#define CONNECTIONS_RESERVED 4 /* for /healthz */
#define IDLE_TIMEOUT_MS 10000
#define PAGE_BYTES_MAX ((size_t)16 << 20)

#define TEXT_PLAIN "text/plain; charset=utf-8"
#define TEXT_HTML "text/html; charset=utf-8"
#define TEXT_METRICS "text/plain; version=0.0.4; charset=utf-8"

struct admin {
    struct http_server *server;
    const char *title;
    struct readiness *readiness;
};

static struct metric build_info = {
    .name = "tallybox_build_info",
    .kind = METRIC_GAUGE,
    .help = "1; the version is in the label.",
    .labels = "version=\"" TALLYBOX_VERSION "\"",
};
static struct metric start_time = {
    .name = "process_start_time_seconds",
    .kind = METRIC_GAUGE,
    .help = "When the process started, in seconds since 1970.",
};
static struct metric resident = {
    .name = "process_resident_memory_bytes",
    .kind = METRIC_GAUGE,
    .help = "Memory of the process that is in RAM.",
};
static struct metric cpu = {
    .name = "process_cpu_seconds_total",
    .kind = METRIC_COUNTER,
    .help = "CPU time of the process, user and system.",
};
static struct metric ready = {
    .name = "tallybox_ready",
    .kind = METRIC_GAUGE,
    .help = "1 while the process is ready; /readyz tells why it is not.",
};

/* The first pairs of the conditions; a destination of tasks has metrics of its own. */
static struct {
    const char *pair;
    struct metric metric;
} dependencies[] = {
#define DEPENDENCY(dep)                                                               \
    {                                                                                 \
        .pair = "dep=" dep,                                                           \
        .metric = {.name = "tallybox_dependency_down_seconds",                        \
                   .kind = METRIC_GAUGE,                                              \
                   .help = "How long a server that the process needs has failed, as " \
                           "dependency_down in its log says; 0: it works.",           \
                   .labels = "dep=\"" dep "\""},                                      \
    }
    DEPENDENCY("mysql"),
    DEPENDENCY("sink"),
    DEPENDENCY("kafka"),
};
#define DEPENDENCIES (sizeof(dependencies) / sizeof(dependencies[0]))

void admin_metrics_register(void)
{
    metrics_register(&build_info);
    metrics_register(&start_time);
    metrics_register(&resident);
    metrics_register(&cpu);
    metrics_register(&ready);
    for (size_t i = 0; i < DEPENDENCIES; i++)
        metrics_register(&dependencies[i].metric);
    http_connections_metrics_register();
}

static void answer_text(struct http_request *request, int status, const char *type,
                        struct buf *page)
{
    static const char sorry[] = "the page is too long\n";

    http_answer_header(request, "Cache-Control", "no-store");
    if (page->failed)
        http_answer(request, 500, TEXT_PLAIN, sorry, sizeof(sorry) - 1);
    else
        http_answer(request, status, type, page->data, page->len);
}

static void answer_ready(struct admin *admin, struct http_request *request, struct buf *page)
{
    struct buf lines = {0};
    struct health health = {.out = &lines, .ready = true};

    readiness_ask(admin->readiness, &health);
    buf_text_put(page, health.ready ? "ready\n" : "not ready\n");
    buf_put(page, lines.data, lines.len);
    buf_done(&lines);
    answer_text(request, health.ready ? 200 : 503, TEXT_PLAIN, page);
}

static bool is_ready(struct admin *admin)
{
    struct buf lines = {0};
    struct health health = {.out = &lines, .ready = true};

    readiness_ask(admin->readiness, &health);
    buf_done(&lines);
    return health.ready;
}

static void answer_metrics(struct admin *admin, struct http_request *request, struct buf *page)
{
    int64_t now_ms = os_now_ms();

    metric_set(&resident, (int64_t)os_rss_bytes());
    metric_set(&cpu, (int64_t)(os_cpu_us() / 1000));
    metric_set(&ready, is_ready(admin));
    for (size_t i = 0; i < DEPENDENCIES; i++)
        metric_set(&dependencies[i].metric, conditions_failing_ms(dependencies[i].pair, now_ms));
    metrics_render(page);
    answer_text(request, 200, TEXT_METRICS, page);
}

static void answer_index(const struct admin *admin, struct http_request *request, struct buf *page)
{
    static const char *const links[] = {"healthz", "readyz", "metrics"};

    buf_print(page, "<!doctype html>\n<title>%s</title>\n<h1>%s</h1>\n<ul>\n", admin->title,
              admin->title);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        buf_print(page, "<li><a href=\"/%s\">%s</a>\n", links[i], links[i]);
    buf_text_put(page, "</ul>\n");
    answer_text(request, 200, TEXT_HTML, page);
}

static void on_request(void *ctx, struct http_request *request)
{
    struct admin *admin = ctx;
    const char *method = http_method(request);
    const char *path = http_path(request);
    struct buf page;

    buf_init(&page, PAGE_BYTES_MAX);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        http_answer_header(request, "Allow", "GET, HEAD");
        buf_text_put(&page, "these pages can only be read\n");
        answer_text(request, 405, TEXT_PLAIN, &page);
    } else if (strcmp(path, "/healthz") == 0) {
        buf_text_put(&page, "ok\n");
        answer_text(request, 200, TEXT_PLAIN, &page);
    } else if (!http_scopes_have(http_scopes(request), HTTP_SCOPE_OPERATE)) {
        buf_text_put(&page, "this token lacks the scope operate\n");
        answer_text(request, 403, TEXT_PLAIN, &page);
    } else if (strcmp(path, "/readyz") == 0) {
        answer_ready(admin, request, &page);
    } else if (strcmp(path, "/metrics") == 0) {
        answer_metrics(admin, request, &page);
    } else if (strcmp(path, "/") == 0) {
        answer_index(admin, request, &page);
    } else {
        buf_text_put(&page, "there are /healthz, /readyz and /metrics\n");
        answer_text(request, 404, TEXT_PLAIN, &page);
    }
    buf_done(&page);
}

static struct http_config make_http_config(const struct settings *settings)
{
    return (struct http_config){
        .listen = settings->admin.listen,
        .body_bytes_max = BODY_BYTES_MAX,
        .header_bytes_max = HEADER_BYTES_MAX,
        .connections_max = CONNECTIONS_MAX,
        .connections_reserved = CONNECTIONS_RESERVED,
        .connections_per_address_max = (unsigned)settings->admin.connections_per_address_max,
        .header_timeout_ms = (unsigned)settings->admin.header_timeout_ms,
        .body_timeout_ms = (unsigned)settings->admin.body_timeout_ms,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .guard = {.section = "admin",
                  .hosts = settings->admin.hosts,
                  .token_file = settings->admin.token_file,
                  .tls_cert = settings->admin.tls_cert,
                  .tls_key = settings->admin.tls_key,
                  .without_token = strcmp(settings->admin.without_token, "yes") == 0,
                  .open_scopes = HTTP_SCOPE_OPERATE,
                  .needed_scope = HTTP_SCOPE_OPERATE},
        /* /healthz needs no token: a supervisor that restarts processes has no secret, and the page
         * says only that the process runs. */
        .open_path = "/healthz",
    };
}

enum rc admin_check(const struct settings *settings, struct err *err)
{
    const struct http_config config = make_http_config(settings);

    return strcmp(settings->admin.listen, "off") == 0 ? RC_OK : http_check(&config, err);
}

enum rc admin_open(struct admin **out, const struct settings *settings, const char *title,
                   struct readiness *readiness, struct err *err)
{
    const struct http_config config = make_http_config(settings);
    struct admin *admin = calloc(1, sizeof(*admin));
    enum rc rc;

    *out = NULL;
    if (!admin)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    admin->title = title;
    admin->readiness = readiness;
    admin_metrics_register();
    metric_set(&build_info, 1);
    metric_set(&start_time, os_wall_ms());
    rc = http_open(&admin->server, &config, on_request, NULL, admin, err);
    if (rc != RC_OK) {
        admin_close(admin);
        return rc;
    }
    *out = admin;
    return RC_OK;
}

void admin_close(struct admin *admin)
{
    if (!admin)
        return;
    if (admin->server)
        http_close(admin->server);
    free(admin);
}

const char *admin_scheme(const struct admin *admin)
{
    return http_scheme(admin->server);
}

int admin_port(const struct admin *admin)
{
    return http_port(admin->server);
}
