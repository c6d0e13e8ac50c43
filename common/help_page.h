/* SPDX-License-Identifier: MIT */
/* Prints the pages of --help, the man pages and the completion script of a shell, from the table of
 * commands and their tables of options. Writes to standard output. Main thread. */
#ifndef COMMON_HELP_PAGE_H
#define COMMON_HELP_PAGE_H

#include "common/option_table.h"

#include <stdbool.h>
#include <stddef.h>

enum help_form {
    HELP_TEXT,     /* for a terminal, at most 80 columns */
    HELP_SETTINGS, /* the same for the settings that the command reads */
    HELP_MAN,      /* roff, with the macros of man(7) */
    /* One line: the first word of each action, all options, "|", the options that take a value,
     * "|", and WORD:NEXT for each word that may follow an action's first word or an option. */
    HELP_WORDS,
};

struct help_page {
    const struct option_parse *parse;
    const struct option_entry *common; /* the options that every command has */
    size_t common_count;
};

void help_page_print(const struct help_page *page, enum help_form form);

/* A subcommand, as main.c lists it. run() itself prints its page (--help=man, --help=words). */
struct command {
    const char *name;
    const char *summary; /* one line for `tallybox --help` */
    /* argv[0] is the subcommand's name. Returns an enum exit_code. NULL: main.c runs it. */
    int (*run)(int argc, char **argv);
    /* The name of an action whose page lists the options of all actions of the command, for the
     * completion after an action. NULL: the command's own page lists them. */
    const char *action;
};

/* Prints the man page tallybox(1), or that of the command `topic`. */
void help_page_print_man(const struct command *commands, size_t count, const char *topic);

/* Prints a script for bash, or for zsh, that completes commands, their actions and options, and the
 * settings after --set. */
void help_page_print_completion(const struct command *commands, size_t count, bool zsh);

#endif
