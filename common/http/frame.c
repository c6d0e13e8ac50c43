/* SPDX-License-Identifier: MIT */
#include "common/http/frame.h"

#include <string.h>
#include <strings.h>

/* The characters of a header's name in RFC 9110; a blank before the colon is none of them. */
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
