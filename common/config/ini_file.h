/* SPDX-License-Identifier: MIT */
/* Reads an INI file line by line and hands each section and value to its reader. Any thread. */
#ifndef COMMON_CONFIG_INI_FILE_H
#define COMMON_CONFIG_INI_FILE_H

#include "common/err.h"

#include <stdio.h>

#define INI_LINE_BYTES 1500 /* a line has less, with blanks and comment */

/* What a file holds, in its order. A result other than RC_OK ends the reading. The texts are
 * borrowed for the call. */
struct ini_handler {
    /* line: from 1. err: what is wrong, without the place. */
    enum rc (*on_section)(void *ctx, const char *section, int line, struct err *err);
    /* err: what is wrong, with the place. */
    enum rc (*on_value)(void *ctx, const char *section, const char *key, const char *value,
                        int line, struct err *err);
    void *ctx;
};

/* name: of the file, for people. RC_FATAL: err names the line. */
enum rc ini_file_read(FILE *file, const char *name, const struct ini_handler *handler,
                      struct err *err);

#endif
