/* SPDX-License-Identifier: MIT */
/* Handles SIGHUP: reads the settings again from the same sources, applies the live ones, logs
 * the names of those that need a restart, and reads the files of bearer tokens. One thread at a
 * time. */
#ifndef COMMON_DAEMON_RELOAD_H
#define COMMON_DAEMON_RELOAD_H

#include "common/config/config.h"
#include "common/options.h"

/* Invalid settings change nothing; the log has the error. */
void reload_settings(struct config *config, const struct options *options, const char *role);

#endif
