/* SPDX-License-Identifier: MIT */
/* Logs events on stderr, one line of `key=value` for each. A line is one write(), so lines of
 * different threads do not mix. Never log payloads or secrets: log counts, ids, places and error
 * texts. Any thread. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Drops lines below level from now on. */
void log_init(enum log_level level);

/* Writes `time=... level=info event=<event> <format...>`. format has complete `key=value` pairs and
 * may be ""; the caller quotes a value with blanks, or passes it in err. */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As log_event(), then ` err="<text>"` with quotes and backslashes escaped. In the whole line
 * control characters become blanks. */
void log_error(enum log_level level, const char *event, const struct err *err, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

#endif
