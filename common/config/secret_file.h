/* SPDX-License-Identifier: MIT */
/* Reads files with secrets and keeps the copies in memory few. Any thread. */
#ifndef COMMON_CONFIG_SECRET_FILE_H
#define COMMON_CONFIG_SECRET_FILE_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SECRET_FILE_BYTES_MAX 65536

/* Appends the bytes of a file to a zeroed text. RC_REJECT: err names the file and the fault: it is
 * missing, too long, has a zero byte, or accounts other than its owner and group may read it. */
enum rc secret_file_read(struct buf *text, const char *path, struct err *err);

/* As secret_file_read(), for a file that all accounts may read, as a certificate. */
enum rc secret_file_read_public(struct buf *text, const char *path, struct err *err);

#define SECRET_FILE_LINE_SIZE 256

/* Reads the one line of a file, without its end, into line, which has size bytes, at most
 * SECRET_FILE_LINE_SIZE. RC_FATAL: err names the file and the fault; line is unchanged. */
enum rc secret_file_read_line(const char *path, char *line, size_t size, struct err *err);

/* Whether accounts other than its owner and group may read or write the file; mode: its mode bits
 * then. False also for a file that is not there. */
bool secret_file_is_open(const char *path, unsigned *mode);

/* Overwrites the bytes and frees the memory. */
void secret_file_forget(struct buf *text);

#endif
