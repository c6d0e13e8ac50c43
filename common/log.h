/* SPDX-License-Identifier: MIT */
/* One event, one line, `key=value`, on stderr. A line is one write(), so threads never mix.
 * Never payloads or secrets: callers log counts, ids, places and error texts. Any thread. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Lines below level are dropped, from now on. */
void log_init(enum log_level level);

/* `time=... level=info event=<event> <format...>`. format holds ready `key=value` pairs and may be
 * "" ; a value with blanks must be quoted by the caller or go through err. */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As log_event(), then ` err="<text>"` with quotes and control characters escaped. */
void log_error(enum log_level level, const char *event, const struct err *err, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

#endif
