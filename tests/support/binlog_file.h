/* SPDX-License-Identifier: MIT */
/* Reads the events of a file of a server's binary log, or of a stream that was written to one, and
 * gives their changes to a test program. */
#ifndef TESTS_SUPPORT_BINLOG_FILE_H
#define TESTS_SUPPORT_BINLOG_FILE_H

#include "common/err.h"
#include "outbox/relay/binlog/change_stream.h"

#define BINLOG_FILE_MAGIC_SIZE 4
#define BINLOG_FILE_EVENT_BYTES_MAX ((size_t)1 << 30)

/* Passes each change of the table of `stream`, which has begun, to on_change until the end of the
 * file, whose last event may be cut off. RC_FATAL: the file or an event cannot be read, or the
 * result of on_change. */
enum rc binlog_file_read(const char *path, struct change_stream *stream,
                         enum rc (*on_change)(const struct change_stream *stream,
                                              const struct change *change, struct err *err),
                         struct err *err);

#endif
