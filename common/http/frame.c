/* SPDX-License-Identifier: MIT */
#include "common/http/frame.h"

#include <string.h>
#include <strings.h>

/* What RFC 9110 lets a name be made of: no blank before the colon. */
static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";

void http_frame_see(struct http_frame *frame, const char *name, const char *value)
{
    if (!*name || name[strspn(name, letters)] != '\0') {
        frame->bad = true;
    } else if (strcasecmp(name, "Host") == 0) {
        frame->hosts++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        frame->lengths++;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        frame->encodings++;
        frame->bad |= !value || strcasecmp(value, "chunked") != 0;
    }
}

bool http_frame_is_clear(const struct http_frame *frame)
{
    return !frame->bad && frame->hosts <= 1 && frame->lengths + frame->encodings <= 1;
}
