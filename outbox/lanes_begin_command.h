/* SPDX-License-Identifier: MIT */
/* `tallybox lanes begin LANE`: an operator decides where a lane that reads the binary log begins.
 * Main thread. */
#ifndef OUTBOX_LANES_BEGIN_COMMAND_H
#define OUTBOX_LANES_BEGIN_COMMAND_H

#include "common/config/settings.h"

#include <stdbool.h>

/* Makes the present end of the log the position of the lane with this name, and prints what it did.
 * may_replace: also if the lane has a position. Returns the exit code. */
int lanes_begin_at_end(const struct settings *settings, const char *name, bool may_replace,
                       bool json);

#endif
