/* SPDX-License-Identifier: MIT */
/* Bytes of a record or a task as text for a terminal. Pure; any thread. */
#ifndef COMMON_BYTES_TEXT_H
#define COMMON_BYTES_TEXT_H

#include "common/buf.h"

#include <stddef.h>

/* Appends the name in `width` columns, the length, and the bytes: unchanged if they are printable
 * UTF-8, else as a hex dump of the first 4096. NULL is "(none)". */
void bytes_show(struct buf *out, int width, const char *name, const void *bytes, size_t len);

#endif
