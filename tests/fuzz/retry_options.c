/* SPDX-License-Identifier: MIT */
/* The options of tasks, which any client that may insert a task writes. k, h, e or s for the
 * handler | the options */
#include "outbox/relay/topics.h"
#include "outbox/retry/handlers/exec_handler.h"
#include "outbox/retry/handlers/http_handler.h"
#include "outbox/retry/handlers/kafka_handler.h"
#include "outbox/retry/handlers/steps_handler.h"
#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <curl/curl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define HOSTS "a.example,*.b.example:8080,[::1]"
#define PROGRAMS "/bin/true,/opt/x"

/* Read to its last byte, so that a sanitizer sees one that is not there. */
static void must_be_there(struct bytes bytes)
{
    volatile unsigned char sum = 0;

    for (size_t i = 0; i < bytes.len; i++)
        sum ^= (unsigned char)bytes.data[i];
    (void)sum;
}

static enum rc kafka(const char *text, struct err *err)
{
    struct kafka_options options;
    enum rc rc = kafka_options_read(&options, text, err);

    if (rc != RC_OK)
        return rc;
    fuzz_must(topic_name_is(options.topic), "a topic has a topic's name");
    fuzz_must(options.partition >= -1 && options.timestamp_ms >= 0, "numbers are in their bounds");
    fuzz_must(options.header_count <= KAFKA_HEADERS_MAX, "headers are bounded");
    must_be_there(options.key);
    for (size_t i = 0; i < options.header_count; i++) {
        fuzz_must(options.headers[i].name[0] != '\0', "a header has a name");
        must_be_there(options.headers[i].value);
    }
    kafka_options_done(&options);
    return RC_OK;
}

/* libcurl makes one spelling out of the many of an address. */
static bool is_same_address(const char *ours, const char *theirs)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr one;
    struct in6_addr other;

    snprintf(text, sizeof(text), "%.*s", (int)strcspn(ours + 1, "]"), ours + 1);
    if (inet_pton(AF_INET6, text, &one) != 1)
        return false;
    snprintf(text, sizeof(text), "%.*s", (int)strcspn(theirs + 1, "]"), theirs + 1);
    return inet_pton(AF_INET6, text, &other) == 1 && memcmp(&one, &other, sizeof(one)) == 0;
}

/* Also "127.1", which libcurl makes 127.0.0.1 of: a list has to have the spelling that we see. */
static bool is_number(const struct http_url *url)
{
    return isdigit((unsigned char)*url->host);
}

static bool is_same_host(const struct http_url *url, const char *theirs)
{
    if (*url->host == '[' || *theirs == '[')
        return *url->host == *theirs && is_same_address(url->host, theirs);
    return is_number(url) ||
           (strlen(theirs) == url->host_len && strncasecmp(theirs, url->host, url->host_len) == 0);
}

static bool is_listed(const char *host)
{
    size_t len = strlen(host);

    return strcasecmp(host, "a.example") == 0 || strcmp(host, "[::1]") == 0 ||
           (len > 10 && strcasecmp(host + len - 10, ".b.example") == 0);
}

/* The check of the allowed hosts and the call must see the same host. */
static void check_url(const struct http_url *url)
{
    CURLU *parsed = curl_url();
    char *host = NULL;
    char *port = NULL;
    char *user = NULL;

    if (parsed && curl_url_set(parsed, CURLUPART_URL, url->text, CURLU_PATH_AS_IS) == CURLUE_OK) {
        fuzz_must(curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK, "it has a host");
        fuzz_must(curl_url_get(parsed, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK,
                  "it has a port");
        fuzz_must(curl_url_get(parsed, CURLUPART_USER, &user, 0) == CURLUE_NO_USER,
                  "it has no user");
        fuzz_must(strtol(port, NULL, 10) == url->port, "libcurl goes to the same port");
        fuzz_must(is_same_host(url, host), "libcurl goes to the same host");
    }
    fuzz_must(url->host_len < sizeof(url->origin) && strlen(url->host) > url->host_len,
              "the host is whole");
    if (http_url_is_allowed(url, HOSTS) && host)
        fuzz_must(is_listed(host), "only what is listed is allowed");
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_url_cleanup(parsed);
}

static enum rc http(const char *text, struct err *err)
{
    struct http_options options;
    struct buf answer = {0};
    enum rc rc = http_options_read(&options, text, err);

    if (rc != RC_OK)
        return rc;
    fuzz_must(options.url_count >= 1 && options.url_count <= HTTP_URLS_MAX, "URLs are bounded");
    fuzz_must(options.timeout_ms > 0, "a time is above zero");
    for (size_t i = 0; i < options.url_count; i++)
        check_url(&options.urls[i]);
    for (size_t i = 0; i < options.header_count; i++)
        fuzz_must(http_is_header_value(options.headers[i].name) &&
                      http_is_header_value(options.headers[i].value),
                  "a header is one line");
    fuzz_must(!http_is_ok(&options, 99) && !http_is_ok(&options, 600), "statuses are statuses");
    fuzz_must(options.value_count <= HTTP_VALUES_MAX, "values are bounded");
    /* The options stand for an answer. */
    buf_text_put(&answer, text);
    (void)http_check_answer(&options, &answer, err);
    buf_done(&answer);
    http_options_done(&options);
    return RC_OK;
}

static enum rc exec(const char *text, struct err *err)
{
    struct exec_options options;
    enum rc rc = exec_options_read(&options, text, err);
    size_t count = 0;

    if (rc != RC_OK)
        return rc;
    fuzz_must(options.args[0] != NULL, "there is a program");
    while (options.args[count])
        count++;
    fuzz_must(options.args[0][0] == '/' && count <= EXEC_ARGS_MAX + 1, "arguments are bounded");
    if (exec_is_allowed(PROGRAMS, options.args[0]))
        fuzz_must(strcmp(options.args[0], "/bin/true") == 0 ||
                      strcmp(options.args[0], "/opt/x") == 0,
                  "only what is listed is allowed");
    exec_options_done(&options);
    return RC_OK;
}

static enum rc steps(const char *text, struct err *err)
{
    static struct steps_options options;
    enum rc rc = steps_options_read(&options, text, err);

    if (rc != RC_OK)
        return rc;
    fuzz_must(options.count >= 1 && options.count <= STEPS_MAX, "steps are bounded");
    fuzz_must(!options.steps[0].of_result, "nothing gives the first step a result");
    for (size_t i = 0; i < options.count; i++) {
        json_t *object = json_loads(options.steps[i].options, JSON_ALLOW_NUL, NULL);

        fuzz_must(json_is_object(object), "a step's options can be read again");
        fuzz_must(options.steps[i].handler[0] != '\0', "a step has a handler");
        json_decref(object);
    }
    steps_options_done(&options);
    return RC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t handler = fuzz_byte(&input);
    char *text = fuzz_text(&input, '\0');
    struct err err = {0};
    enum rc rc = RC_OK;

    if (handler == 'k')
        rc = kafka(text, &err);
    else if (handler == 'h')
        rc = http(text, &err);
    else if (handler == 'e')
        rc = exec(text, &err);
    else if (handler == 's')
        rc = steps(text, &err);
    fuzz_must(rc == RC_OK || rc == RC_REJECT, "options are good or bad");
    if (rc != RC_OK)
        fuzz_must_be_sentence(err.text);
    free(text);
    return 0;
}
