/* SPDX-License-Identifier: MIT */
#include "consumer/restart_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parses the digits up to end. */
static bool read_number(const char *text, const char *end, int64_t max, int64_t *value)
{
    char *stopped;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoll(text, &stopped, 10);
    return errno == 0 && stopped == end && *value <= max;
}

enum rc restart_request_read(struct restart_request *request, const char *text, struct err *err)
{
    const char *at = strrchr(text, '@');
    const char *slash = strrchr(text, '/');
    const char *where = at ? at + 1 : "";
    int64_t partition = 0;

    request->earliest = strcmp(where, "earliest") == 0;
    request->latest = strcmp(where, "latest") == 0;
    if (!at || !slash || slash > at || slash == text ||
        (size_t)(slash - text) >= sizeof(request->topic) ||
        !read_number(slash + 1, at, INT32_MAX, &partition) ||
        (!request->earliest && !request->latest &&
         !read_number(where, where + strlen(where), INT64_MAX - 1, &request->offset)))
        return err_fail(err, RC_FATAL, 0,
                        "--" RESTART_OPTION " %.100s: expected TOPIC/PARTITION@earliest, @latest "
                        "or @OFFSET, such as vote-events/3@1200",
                        text);
    memcpy(request->topic, text, (size_t)(slash - text));
    request->topic[slash - text] = '\0';
    request->place = (struct place){request->topic, (int32_t)partition};
    return RC_OK;
}
