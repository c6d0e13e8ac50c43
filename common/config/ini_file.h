/* SPDX-License-Identifier: MIT */
/* Reads an INI file line by line and calls a handler for each section and value. Any thread. */
#ifndef COMMON_CONFIG_INI_FILE_H
#define COMMON_CONFIG_INI_FILE_H

#include "common/err.h"

#include <stdio.h>

#define INI_LINE_BYTES 1500 /* a line is shorter, blanks and comment included */

/* Called in the order of the file. A result other than RC_OK ends the reading. The texts live for
 * the call. */
struct ini_handler {
    /* line: from 1. err: what is wrong; ini_file_read() adds file and line. */
    enum rc (*on_section)(void *ctx, const char *section, int line, struct err *err);
    /* err is passed on as it is: the handler adds file and line. */
    enum rc (*on_value)(void *ctx, const char *section, const char *key, const char *value,
                        int line, struct err *err);
    void *ctx;
};

/* Reads the whole file. name: of the file, for error texts. RC_FATAL: on_section() failed, or the
 * file cannot be read as an INI file; err names the line. Otherwise the result of on_value(). */
enum rc ini_file_read(FILE *file, const char *name, const struct ini_handler *handler,
                      struct err *err);

#endif
