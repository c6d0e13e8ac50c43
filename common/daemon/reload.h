/* SPDX-License-Identifier: MIT */
/* What a SIGHUP does: reads the settings again, from where they were read at start, takes over
 * those that are live and names in the log those that need a restart; and the files of bearer
 * tokens. One thread at a time. */
#ifndef COMMON_DAEMON_RELOAD_H
#define COMMON_DAEMON_RELOAD_H

#include "common/config/config.h"
#include "common/options.h"

/* Settings that are wrong change nothing; the log says what is wrong with them. */
void reload_settings(struct config *config, const struct options *options, const char *role);

#endif
