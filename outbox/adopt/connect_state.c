/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/connect_state.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#define OFFSETS "/offsets"

bool connect_url_is(const char *text)
{
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

enum rc connect_url_check(const char *url, struct err *err)
{
    const char *host = strstr(url, "//") + 2;

    if (memchr(host, '@', strcspn(host, "/?#")))
        return err_fail(err, RC_REJECT, 0,
                        "the URL has a name and a password: write what `curl` gets from it into a "
                        "file instead");
    return RC_OK;
}

static size_t len_without_slashes(const char *url, size_t len)
{
    while (len > 0 && url[len - 1] == '/')
        len--;
    return len;
}

void connect_url_put(struct buf *out, const char *url)
{
    size_t suffix = strlen(OFFSETS);
    size_t len = len_without_slashes(url, strlen(url));

    if (len > suffix && memcmp(url + len - suffix, OFFSETS, suffix) == 0)
        len = len_without_slashes(url, len - suffix);
    buf_put(out, url, len);
}

/* A distributed worker says STOPPED before the tasks have ended. */
static enum rc check_tasks(const char *url, const json_t *tasks, struct err *err)
{
    if (!json_is_array(tasks))
        return err_fail(err, RC_REJECT, 0, "%.150s/status: the answer has no list of tasks", url);
    if (json_array_size(tasks) > 0)
        return err_fail(err, RC_RETRY, 0,
                        "the connector is STOPPED, but %.150s/status still names %zu tasks, which "
                        "may publish records and commit offsets: try again when it names none",
                        url, json_array_size(tasks));
    return RC_OK;
}

enum rc connect_state_check(const char *url, const char *text, size_t len, struct err *err)
{
    json_t *root = json_loadb(text, len, 0, NULL);
    const char *state =
        json_string_value(json_object_get(json_object_get(root, "connector"), "state"));
    enum rc rc;

    if (!state)
        rc = err_fail(err, RC_REJECT, 0, "%.150s/status: the answer has no connector.state", url);
    else if (strcmp(state, "STOPPED") != 0)
        rc = err_fail(err, RC_REJECT, 0,
                      "the connector is %.40s: stop it with `curl -X PUT %.150s/stop`, and wait "
                      "until its state is STOPPED",
                      state, url);
    else
        rc = check_tasks(url, json_object_get(root, "tasks"), err);
    json_decref(root);
    return rc;
}
