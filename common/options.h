/* SPDX-License-Identifier: MIT */
/* Parses command lines by a subcommand's table of options (common/option_table.h). --config FILE,
 * --set SECTION.KEY=VALUE and --help are always available. Main thread. */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "common/config/config.h"
#include "common/log.h"
#include "common/option_table.h"

#include <stdbool.h>
#include <stddef.h>

/* The remaining arguments; they point into argv. */
struct options {
    const char *role; /* whose section [role.NAME] of the file counts; NULL: none */
    const char *config_path;
    const char *sets[64];
    size_t set_count;
    char **arguments;
    int argument_count;
};

/* Parses the command line. Returns -1 to continue, else the exit code: help was printed, or stderr
 * names the error. */
int options_parse(struct options *options, const struct option_parse *parse, int argc, char **argv);

/* Lets the section [role.NAME] of this role count, for an option --role NAME. False: there is no
 * such role; stderr says so. role is borrowed. */
bool options_take_role(struct options *options, const struct option_parse *parse, const char *role);

/* Loads the settings from --config, --set and the environment. -1: *config is set, and the
 * caller frees it with config_free(). Otherwise the exit code; stderr names the error. Sets the
 * log level. */
int options_load(const struct options *options, struct config **config);

/* Prints on stderr which settings file was read, or that there was none. */
void options_tell_file(const struct config *config);

/* Reads the same settings again without printing or changing anything. RC_FATAL: no config. */
enum rc options_read(const struct options *options, struct config **config, struct err *err);
enum log_level options_log_level(const struct settings *settings);

/* Writes out to standard output and frees it. Returns EXIT_DONE, or EXIT_FAILED if not all of it
 * was written. */
int options_print(struct buf *out);

/* Appends the file at path, or standard input for "-", to out. RC_FATAL: it cannot be read, or has
 * more than bytes_max bytes; err names --option and path. */
enum rc options_read_file(struct buf *out, const char *option, const char *path, size_t bytes_max,
                          struct err *err);

/* Prints "tallybox: <text>" on stderr and returns the code fit for rc. */
int options_fail(enum rc rc, const struct err *err);

#endif
