/* SPDX-License-Identifier: MIT */
/* `tallybox config`: the effective settings, the defaults, the table of docs/settings.md. */
#ifndef COMMON_CONFIG_CONFIG_COMMAND_H
#define COMMON_CONFIG_CONFIG_COMMAND_H

int config_command(int argc, char **argv);

#endif
