/* SPDX-License-Identifier: MIT */
/* Whether a request says in one way only where it ends and for which host it is. Where it does not,
 * a proxy in front may see another end or host than we do, and somebody's next request becomes a
 * part of it. Pure; any thread. */
#ifndef COMMON_HTTP_FRAME_H
#define COMMON_HTTP_FRAME_H

#include <stdbool.h>

/* A zeroed one has seen no header. */
struct http_frame {
    unsigned hosts;     /* how often Host is there */
    unsigned lengths;   /* how often Content-Length is there */
    unsigned encodings; /* how often Transfer-Encoding is there */
    bool bad;
};

void http_frame_see(struct http_frame *frame, const char *name, const char *value);

/* After all headers: one Host at most, one Content-Length at most, or one Transfer-Encoding, which
 * is chunked, and no name that only some readers take for another one. */
bool http_frame_is_clear(const struct http_frame *frame);

#endif
