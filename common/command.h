/* SPDX-License-Identifier: MIT */
/* A subcommand, as the table in main.c lists it. */
#ifndef COMMON_COMMAND_H
#define COMMON_COMMAND_H

struct command {
    const char *name;
    const char *summary; /* one line for `tallybox --help` */
    /* argv[0] is the subcommand's name. Returns an enum exit_code. */
    int (*run)(int argc, char **argv);
};

#endif
