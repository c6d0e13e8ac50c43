/* SPDX-License-Identifier: MIT */
/* Translates a regular expression of Java and its replacement, as of route.topic.regex and
 * route.topic.replacement, into POSIX extended ones with $0 to $9. Pure; any thread. */
#ifndef OUTBOX_ADOPT_JAVA_REGEX_H
#define OUTBOX_ADOPT_JAVA_REGEX_H

#include "common/buf.h"
#include "common/err.h"

/* Appends both. RC_REJECT: POSIX has nothing for a part of it; err names that. */
enum rc java_regex_translate(const char *regex, const char *replacement, struct buf *posix,
                             struct buf *topic, struct err *err);

#endif
