/* SPDX-License-Identifier: MIT */
/* Bytes as text that fits JSON: base64 with the standard alphabet. Pure; any thread. */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends bytes as base64, with the '=' at the end. */
void base64_put(struct buf *out, const void *bytes, size_t len);

/* Appends the decoded bytes, with or without the '=' at the end. False if the text is not base64;
 * then out may have a part of it. */
bool base64_take(struct buf *out, const char *text, size_t len);

#endif
