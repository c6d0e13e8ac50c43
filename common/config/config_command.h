/* SPDX-License-Identifier: MIT */
/* `tallybox config`: prints the effective settings, the defaults, and the table of
 * docs/settings.md. Main thread. */
#ifndef COMMON_CONFIG_CONFIG_COMMAND_H
#define COMMON_CONFIG_CONFIG_COMMAND_H

#include "common/buf.h"
#include "common/config/config.h"

/* Appends every effective setting with its source and with secrets masked: as an INI file with
 * comments, or as JSON ({"section.key":{"value","source"}}). */
void config_print(const struct config *config, struct buf *out);
void config_print_json(const struct config *config, struct buf *out);

/* Appends a complete file with comments and the defaults, or the same table as Markdown for
 * docs/settings.md. */
void config_print_defaults(struct buf *out);
void config_print_table(struct buf *out);

int config_command(int argc, char **argv);

#endif
