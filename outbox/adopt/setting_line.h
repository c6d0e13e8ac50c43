/* SPDX-License-Identifier: MIT */
/* Whether a line of a settings file means what it is printed for. Pure; any thread. */
#ifndef OUTBOX_ADOPT_SETTING_LINE_H
#define OUTBOX_ADOPT_SETTING_LINE_H

#include "common/err.h"

#include <stdbool.h>

/* Whether the text has neither line ends, tabs nor other control characters. */
bool setting_line_is_one(const char *text);

/* Reads "[section]" and "key = value" as a settings file is read. RC_REJECT: the value is refused,
 * or would not be read as it is; err says why. RC_FATAL: no memory. */
enum rc setting_line_check(const char *section, const char *key, const char *value,
                           struct err *err);

#endif
