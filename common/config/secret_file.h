/* SPDX-License-Identifier: MIT */
/* Reads files that hold secrets, and leaves as few copies of them as can be. Any thread. */
#ifndef COMMON_CONFIG_SECRET_FILE_H
#define COMMON_CONFIG_SECRET_FILE_H

#include "common/buf.h"
#include "common/err.h"

#define SECRET_FILE_BYTES_MAX 65536

/* Appends a file's bytes to a zeroed text. RC_REJECT: err names the file and says what is wrong:
 * not there, too long, a zero byte in it, or readable by accounts beside its owner and group. */
enum rc secret_file_read(struct buf *text, const char *path, struct err *err);

/* As secret_file_read() for what everyone may read: a certificate. */
enum rc secret_file_read_public(struct buf *text, const char *path, struct err *err);

/* Overwrites what was read and gives the memory back. */
void secret_file_forget(struct buf *text);

#endif
