/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/http_options.h"

#include "common/host.h"
#include "outbox/retry/handlers/task_options.h"
#include "outbox/retry/policy/span.h"

#include <assert.h>
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_BYTES_MAX 8000
#define VALUE_BYTES_MAX 8000

static enum rc take_method(void *ctx, const json_t *value, struct err *err)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"};
    struct http_options *options = ctx;
    const char *text = json_string_value(value);

    for (size_t i = 0; text && i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i], text) == 0) {
            options->method = methods[i];
            return RC_OK;
        }
    }
    return err_fail(err, RC_REJECT, 0, "GET, POST, PUT, PATCH, DELETE or HEAD is expected");
}

/* Of the host, which fits into an origin; 0: there is none, or one that DNS would read twice. */
static size_t measure_host(const char *text)
{
    size_t len = host_name_len(text);

    return len > 0 && text[len - 1] != '.' ? len : 0;
}

static bool read_port(const char **at, int *port)
{
    size_t digits;

    if (**at != ':')
        return true;
    digits = strspn(*at + 1, "0123456789");
    if (digits == 0 || digits > 5)
        return false;
    *port = (int)strtol(*at + 1, NULL, 10);
    *at += digits + 1;
    return *port >= 1 && *port <= 65535;
}

/* Narrower than what libcurl takes, so that both see the same host in it: no user, no fragment,
 * nothing that is not visible ASCII. */
static bool read_url(struct http_url *url, const char *text)
{
    bool tls = strncmp(text, "https://", 8) == 0;
    const char *host = text + (tls ? 8 : 7);
    const char *at;
    int len;

    if (!tls && strncmp(text, "http://", 7) != 0)
        return false;
    url->text = text;
    url->scheme_port = tls ? 443 : 80;
    url->port = url->scheme_port;
    url->host_len = measure_host(host);
    at = host + url->host_len;
    if (url->host_len == 0 || !read_port(&at, &url->port))
        return false;
    if (*at && *at != '/' && *at != '?')
        return false;
    for (; *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '#')
            return false;
    len = snprintf(url->origin, sizeof(url->origin), "%s://%.*s:%d", tls ? "https" : "http",
                   (int)url->host_len, host, url->port);
    assert(len > 0 && (size_t)len < sizeof(url->origin));
    for (char *c = url->origin; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    url->host = url->origin + (tls ? 8 : 7);
    return true;
}

static enum rc add_url(struct http_options *options, const json_t *value, struct err *err)
{
    const char *text;
    enum rc rc = task_option_text(value, URL_BYTES_MAX, &text, err);

    if (rc == RC_OK && !read_url(&options->urls[options->url_count++], text))
        /* The error does not quote the text, which may contain a password. */
        return err_fail(err, RC_REJECT, 0,
                        "https://host[:port][/path][?query] or http:// is expected, without user, "
                        "fragment and blanks");
    return rc;
}

static enum rc check_urls_once(const struct http_options *options, struct err *err)
{
    return options->url_count > 0 ? err_fail(err, RC_REJECT, 0, "\"url\" or \"urls\", not both")
                                  : RC_OK;
}

static enum rc take_url(void *ctx, const json_t *value, struct err *err)
{
    enum rc rc = check_urls_once(ctx, err);

    return rc == RC_OK ? add_url(ctx, value, err) : rc;
}

static enum rc take_urls(void *ctx, const json_t *value, struct err *err)
{
    enum rc rc = check_urls_once(ctx, err);
    size_t i;
    json_t *url;

    if (rc == RC_OK && (json_array_size(value) == 0 || json_array_size(value) > HTTP_URLS_MAX))
        return err_fail(err, RC_REJECT, 0, "a list of 1..%d is expected", HTTP_URLS_MAX);
    json_array_foreach(value, i, url) {
        if (rc != RC_OK)
            return rc;
        rc = add_url(ctx, url, err);
    }
    return rc;
}

bool http_is_header_value(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static bool is_header_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "!#$%&'*+-.^_`|~";

    return *name && name[strspn(name, letters)] == '\0';
}

/* Headers that identify the caller or that the protocol needs. */
static bool is_reserved_header(const char *name)
{
    static const char *const names[] = {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive",
        "te",   "trailer",        "upgrade",           "expect",     "idempotency-key"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return strncasecmp(name, "tallybox-", 9) == 0 || strncasecmp(name, "proxy-", 6) == 0;
}

static enum rc add_header(struct http_options *options, const char *name, const json_t *value,
                          struct err *err)
{
    const char *text = json_string_value(value);

    if (options->header_count == HTTP_HEADERS_MAX)
        return err_fail(err, RC_REJECT, 0, "%d at most are expected", HTTP_HEADERS_MAX);
    if (!is_header_name(name))
        return err_fail(err, RC_REJECT, 0, "\"%.40s\" is no header name", name);
    if (is_reserved_header(name))
        return err_fail(err, RC_REJECT, 0, "\"%.40s\" is set by the handler itself", name);
    /* The value is not quoted: it may be a secret. */
    if (!text || strlen(text) != json_string_length(value) || strlen(text) > VALUE_BYTES_MAX ||
        !http_is_header_value(text))
        return err_fail(err, RC_REJECT, 0,
                        "the value of \"%.40s\" is not a text of one line, %d bytes at most", name,
                        VALUE_BYTES_MAX);
    options->headers[options->header_count].name = name;
    options->headers[options->header_count].value = text;
    options->header_count++;
    return RC_OK;
}

static enum rc take_headers(void *ctx, const json_t *value, struct err *err)
{
    const char *name;
    json_t *one;

    if (!json_is_object(value))
        return err_fail(err, RC_REJECT, 0, "an object {NAME: VALUE} is expected");
    /* Iterating takes no const, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)value, name, one) {
        enum rc rc = add_header(ctx, name, one, err);

        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc take_timeout(void *ctx, const json_t *value, struct err *err)
{
    struct http_options *options = ctx;

    return task_option_span(value, SPAN_MS_MAX, &options->timeout_ms, err);
}

/* "200-299,409". */
static bool read_ranges(struct http_options *options, const char *text)
{
    options->ok_count = 0;
    for (;;) {
        struct http_range *range = &options->ok[options->ok_count];
        char *end;

        if (options->ok_count == HTTP_RANGES_MAX || !isdigit((unsigned char)*text))
            return false;
        range->from = (int)strtol(text, &end, 10);
        range->to = range->from;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            range->to = (int)strtol(end + 1, &end, 10);
        if (end - text > 7 || range->from < 100 || range->to < range->from || range->to > 599)
            return false;
        options->ok_count++;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

static enum rc take_ok(void *ctx, const json_t *value, struct err *err)
{
    const char *text = json_string_value(value);

    if (text && read_ranges(ctx, text))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "ranges like \"200-299,409\" are expected, %d at most",
                    HTTP_RANGES_MAX);
}

static const struct task_option fields[] = {
    {"method", take_method},   {"url", take_url},         {"urls", take_urls},
    {"headers", take_headers}, {"timeout", take_timeout}, {"ok", take_ok},
};

enum rc http_options_read(struct http_options *options, const char *text, struct err *err)
{
    enum rc rc;

    memset(options, 0, sizeof(*options));
    options->method = "POST";
    options->timeout_ms = HTTP_TIMEOUT_MS_STANDARD;
    options->ok[0] = (struct http_range){200, 299};
    options->ok_count = 1;
    rc = task_options_read(&options->json, text, fields, sizeof(fields) / sizeof(fields[0]),
                           options, err);
    if (rc == RC_OK && options->url_count == 0)
        rc = err_fail(err, RC_REJECT, 0, "options: \"url\" is missing");
    if (rc != RC_OK)
        http_options_done(options);
    return rc;
}

void http_options_done(struct http_options *options)
{
    task_options_done(options->json);
    memset(options, 0, sizeof(*options));
}

bool http_is_allowed(const char *list, const struct http_url *url)
{
    const struct host host = {url->host, url->host_len, url->port};

    return host_is_listed(&host, list, url->scheme_port);
}

bool http_is_ok(const struct http_options *options, int status)
{
    for (size_t i = 0; i < options->ok_count; i++)
        if (options->ok[i].from <= status && status <= options->ok[i].to)
            return true;
    return false;
}

const char *http_own_header(const struct http_options *options, const char *name)
{
    for (size_t i = 0; i < options->header_count; i++)
        if (strcasecmp(options->headers[i].name, name) == 0)
            return options->headers[i].value;
    return NULL;
}

void http_put_value(struct buf *buf, const char *text)
{
    for (; *text; text++) {
        if (*text > ' ' && *text <= '~' && *text != '%')
            buf_char(buf, *text);
        else
            buf_print(buf, "%%%02X", (unsigned)(unsigned char)*text);
    }
}
