/* SPDX-License-Identifier: MIT */
/* Checks that the headers of a request define its end and its host in one way only. Otherwise a
 * proxy in front could see another end than this server (request smuggling): the next client's
 * request would become part of this one. Pure; any thread. */
#ifndef COMMON_HTTP_FRAME_H
#define COMMON_HTTP_FRAME_H

#include <stdbool.h>

/* Zeroed: no header yet. */
struct http_frame {
    unsigned hosts;     /* how often Host is there */
    unsigned lengths;   /* how often Content-Length is there */
    unsigned encodings; /* how often Transfer-Encoding is there */
    bool bad;
};

/* Takes the next header; value may be NULL. */
void http_frame_see(struct http_frame *frame, const char *name, const char *value);

/* After all headers. True: there is at most one Host, at most one of Content-Length and
 * Transfer-Encoding, the latter is chunked, and every name is well-formed. */
bool http_frame_is_clear(const struct http_frame *frame);

#endif
