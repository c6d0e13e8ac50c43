/* SPDX-License-Identifier: MIT */
/* The table in which a subcommand lists its options, and the exit codes. The table feeds the parser
 * (common/options.h) and the page of --help (common/help_page.h). */
#ifndef COMMON_OPTION_TABLE_H
#define COMMON_OPTION_TABLE_H

#include <stddef.h>

/* Exit codes of the process. */
enum exit_code {
    EXIT_DONE = 0,        /* it worked, every check held */
    EXIT_FAILED = 1,      /* it failed: a check failed, some lines were bad, a server refused */
    EXIT_USAGE = 2,       /* the command line or a setting is wrong; nothing was started */
    EXIT_UNAVAILABLE = 3, /* a database or broker could not be reached in time; try again */
};

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER };

struct option_entry {
    const char *name;      /* without the dashes */
    enum option_kind kind; /* *target is bool, const char * or int64_t */
    void *target;
    const char *metavar; /* NULL for flags */
    const char *help;
    const char *values; /* what the completion offers, separated by blanks, or NULL */
};

/* What the first arguments of a command may be. */
struct option_action {
    const char *name;      /* one or two words: "list", "scene set" */
    const char *arguments; /* "[ID]...", or "" */
    const char *help;      /* one line */
};

struct option_parse {
    const char *command;   /* "tallybox relay" */
    const char *role;      /* as in struct options; NULL: the role with the command's name */
    const char *arguments; /* "VOTER CONTENT", or "" */
    const char *about;     /* the first paragraph of --help */
    const struct option_entry *entries;
    size_t count;
    /* Listed by --help and offered by the completion; NULL: none. */
    const struct option_action *actions;
    size_t action_count;
    const char *examples; /* the last paragraph, or NULL */
    /* Sections whose settings --help=settings and the man page list, separated by commas, or
     * NULL. */
    const char *sections;
};

#endif
