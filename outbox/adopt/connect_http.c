/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/connect_http.h"

#include "common/http/http_get.h"
#include "common/os.h"
#include "outbox/adopt/connect_state.h"

#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define URL_SIZE 1024
#define ANSWER_BYTES_MAX ((size_t)4 << 20)
#define TIMEOUT_MS 30000
#define TASKS_END_MS 30000
#define LOOK_MS 500 /* between two looks at the tasks */

static enum rc call(const char *url, const char *path, const char *patch, struct buf *answer,
                    int *status, struct err *err)
{
    char whole[URL_SIZE];
    size_t len = strlen(url);
    struct http_get get = {.url = whole,
                           .host = "",
                           .bearer = "",
                           .ca_file = "",
                           .check_cert = true,
                           .check_name = true,
                           .timeout_ms = TIMEOUT_MS,
                           .patch = patch};
    enum rc rc = connect_url_check(url, err);

    if (rc != RC_OK)
        return rc;
    while (len > 0 && url[len - 1] == '/')
        len--;
    if (len + strlen(path) >= sizeof(whole))
        return err_fail(err, RC_REJECT, 0, "the URL has more than %d bytes", URL_SIZE);
    snprintf(whole, sizeof(whole), "%.*s%s", (int)len, url, path);
    answer->size_max = ANSWER_BYTES_MAX;
    return http_get(&get, status, answer, err);
}

/* {"error_code": 404, "message": "..."} */
static enum rc fail_status(const char *url, const char *path, int status, const struct buf *answer,
                           struct err *err)
{
    json_t *root = answer->data ? json_loadb(answer->data, answer->len, 0, NULL) : NULL;
    const char *message = json_string_value(json_object_get(root, "message"));
    enum rc rc = err_fail(err, status >= 500 || status == 409 ? RC_RETRY : RC_REJECT, 0,
                          "%.150s%s: status %d: %.150s", url, path, status,
                          message ? message : "no reason given");

    json_decref(root);
    return rc;
}

enum rc connect_http_get(const char *url, const char *path, struct buf *answer, struct err *err)
{
    int status = 0;
    enum rc rc = call(url, path, NULL, answer, &status, err);

    if (rc == RC_OK && status != 200)
        return fail_status(url, path, status, answer, err);
    return rc;
}

static enum rc look_at_state(const char *url, bool *answered, struct err *err)
{
    struct buf answer = {0};
    enum rc rc = connect_http_get(url, "/status", &answer, err);

    *answered = rc == RC_OK;
    if (rc == RC_OK)
        rc = connect_state_check(url, buf_text(&answer), answer.len, err);
    buf_done(&answer);
    return rc;
}

enum rc connect_http_check_stopped(const char *url, struct err *err)
{
    int64_t until_ms = os_now_ms() + TASKS_END_MS;

    for (;;) {
        bool answered = false;
        enum rc rc = look_at_state(url, &answered, err);

        if (rc != RC_RETRY || !answered || os_now_ms() >= until_ms)
            return rc;
        poll(NULL, 0, LOOK_MS);
    }
}

enum rc connect_http_patch_offsets(const char *url, const char *body, struct err *err)
{
    struct buf answer = {0};
    int status = 0;
    enum rc rc = call(url, "/offsets", body, &answer, &status, err);

    if (rc == RC_OK && status != 200)
        rc = fail_status(url, "/offsets", status, &answer, err);
    buf_done(&answer);
    return rc;
}
