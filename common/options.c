/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* environ */
#include "common/options.h"

#include "common/config/sections.h"
#include "common/help_page.h"
#include "common/log.h"
#include "common/nearest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536

/* Options of every command. sets and help are handled separately, so their target is unused. */
static const struct option_entry common_entries[] = {
    {"config", OPTION_TEXT, NULL, "FILE", "read settings from FILE, not from ./tallybox.ini", NULL},
    {"set", OPTION_TEXT, NULL, "SECTION.KEY=VALUE", "set one setting; may be repeated", NULL},
    {"help", OPTION_FLAG, NULL, NULL,
     "show this page; --help=settings: the settings that the command reads", NULL},
};
#define COMMON_COUNT (sizeof(common_entries) / sizeof(common_entries[0]))

/* One parse under way. */
struct scan {
    struct options *options;
    const struct option_parse *parse;
    int argc;
    char **argv;
    int at; /* the argument looked at */
};

__attribute__((format(printf, 2, 3))) static int fail(const struct option_parse *parse,
                                                      const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", parse->command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry `%s --help`.\n", parse->command);
    return EXIT_USAGE;
}

static int show_help(const struct option_parse *parse, enum help_form form)
{
    const struct help_page page = {parse, common_entries, COMMON_COUNT};

    help_page_print(&page, form);
    return EXIT_DONE;
}

/* --help=FORM. man and words are for what generates documents. */
static int take_help(const struct option_parse *parse, const char *form)
{
    if (strcmp(form, "settings") == 0)
        return show_help(parse, HELP_SETTINGS);
    if (strcmp(form, "man") == 0)
        return show_help(parse, HELP_MAN);
    if (strcmp(form, "words") == 0)
        return show_help(parse, HELP_WORDS);
    return fail(parse, "--help=%s: expected settings, man, words or no value", form);
}

static const struct option_entry *find_entry(const struct option_parse *parse, const char *name,
                                             size_t len)
{
    for (size_t i = 0; i < parse->count + COMMON_COUNT; i++) {
        const struct option_entry *entry =
            i < parse->count ? &parse->entries[i] : &common_entries[i - parse->count];

        if (strlen(entry->name) == len && memcmp(entry->name, name, len) == 0)
            return entry;
    }
    return NULL;
}

static int fail_unknown(const struct option_parse *parse, const char *name, size_t len)
{
    char typed[NEAREST_WORD_MAX + 1];
    struct nearest nearest = {.typed = typed};

    snprintf(typed, sizeof(typed), "%.*s", (int)len, name);
    for (size_t i = 0; i < parse->count; i++)
        nearest_offer(&nearest, parse->entries[i].name);
    for (size_t i = 0; i < COMMON_COUNT; i++)
        nearest_offer(&nearest, common_entries[i].name);
    if (nearest.word)
        return fail(parse, "unknown option --%s; did you mean --%s?", typed, nearest.word);
    return fail(parse, "unknown option --%s", typed);
}

static int take_number(const struct option_parse *parse, const struct option_entry *entry,
                       const char *text)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (*end || errno || (*text != '-' && (*text < '0' || *text > '9')))
        return fail(parse, "--%s %s: expected a whole number", entry->name, text);
    *(int64_t *)entry->target = value;
    return -1;
}

static int take_value(struct scan *scan, const struct option_entry *entry, const char *text)
{
    struct options *options = scan->options;

    if (entry == &common_entries[0]) {
        options->config_path = text;
    } else if (entry == &common_entries[1]) {
        if (options->set_count == sizeof(options->sets) / sizeof(options->sets[0]))
            return fail(scan->parse, "more than %zu --set; put them into a file",
                        options->set_count);
        options->sets[options->set_count++] = text;
    } else if (entry->kind == OPTION_NUMBER) {
        return take_number(scan->parse, entry, text);
    } else {
        *(const char **)entry->target = text;
    }
    return -1;
}

/* --name, --name=value or --name value. */
static int take_option(struct scan *scan)
{
    const char *name = scan->argv[scan->at] + 2;
    size_t len = strcspn(name, "=");
    const struct option_entry *entry = find_entry(scan->parse, name, len);

    if (!entry)
        return fail_unknown(scan->parse, name, len);
    if (entry->kind == OPTION_FLAG) {
        if (entry == &common_entries[2])
            return name[len] ? take_help(scan->parse, name + len + 1)
                             : show_help(scan->parse, HELP_TEXT);
        if (name[len])
            return fail(scan->parse, "--%s takes no value", entry->name);
        *(bool *)entry->target = true;
        return -1;
    }
    if (name[len])
        return take_value(scan, entry, name + len + 1);
    if (scan->at + 1 == scan->argc)
        return fail(scan->parse, "--%s needs a value: --%s %s", entry->name, entry->name,
                    entry->metavar);
    scan->at++;
    return take_value(scan, entry, scan->argv[scan->at]);
}

/* "-" means standard input, and "-5" is a number that the command refuses with better words. */
static bool is_argument(const char *text)
{
    return text[0] != '-' || !text[1] || (text[1] >= '0' && text[1] <= '9');
}

/* The role with the name of the command, or NULL. */
static const char *find_role(const char *command)
{
    const char *blank = strchr(command, ' ');
    const char *word = blank ? blank + 1 : command;
    size_t len = strcspn(word, " ");

    for (size_t i = 0; i < settings_roles_count; i++)
        if (strlen(settings_roles[i]) == len && memcmp(settings_roles[i], word, len) == 0)
            return settings_roles[i];
    return NULL;
}

int options_parse(struct options *options, const struct option_parse *parse, int argc, char **argv)
{
    struct scan scan = {options, parse, argc, argv, 1};
    bool only_arguments = false;
    int code = -1;

    memset(options, 0, sizeof(*options));
    options->role = parse->role ? parse->role : find_role(parse->command);
    options->arguments = argc > 0 ? argv + 1 : argv;
    for (; code < 0 && scan.at < argc; scan.at++) {
        char *text = argv[scan.at];

        /* Arguments move to the front of argv; there are never more of them than were read. */
        if (only_arguments || is_argument(text))
            options->arguments[options->argument_count++] = text;
        else if (strcmp(text, "--") == 0)
            only_arguments = true;
        else if (strncmp(text, "--", 2) == 0)
            code = take_option(&scan);
        else if (strcmp(text, "-h") == 0)
            code = show_help(parse, HELP_TEXT);
        else
            code = fail(parse, "unknown option %s; options start with --", text);
    }
    if (code < 0 && options->argument_count > 0 && !*parse->arguments)
        code = fail(parse, "takes no arguments, but got \"%s\"", options->arguments[0]);
    return code;
}

bool options_take_role(struct options *options, const struct option_parse *parse, const char *role)
{
    char section[LANE_SECTION_SIZE];
    struct err err = {0};

    snprintf(section, sizeof(section), SETTINGS_ROLE_PREFIX "%s", role);
    options->role = role;
    if (role_section_check(section, &err) == RC_OK)
        return true;
    fprintf(stderr, "%s: --role %s: %s\n", parse->command, role, err.text);
    return false;
}

enum log_level options_log_level(const struct settings *settings)
{
    const char *word = settings->log.level;

    if (strcmp(word, "debug") == 0)
        return LOG_DEBUG;
    if (strcmp(word, "warn") == 0)
        return LOG_WARN;
    if (strcmp(word, "error") == 0)
        return LOG_ERROR;
    return LOG_INFO;
}

enum rc options_read(const struct options *options, struct config **config, struct err *err)
{
    return config_load(config, options->role, options->config_path, options->sets,
                       options->set_count, (const char *const *)environ, err);
}

int options_load(const struct options *options, struct config **config)
{
    struct err err = {0};

    if (options_read(options, config, &err) != RC_OK) {
        fprintf(stderr, "tallybox: %s\n", err.text);
        return EXIT_USAGE;
    }
    log_init(options_log_level(config_settings(*config)));
    return -1;
}

void options_tell_file(const struct config *config)
{
    const char *path = config_file(config);

    if (path)
        fprintf(stderr, "tallybox: configuration file %s\n", path);
    else
        fprintf(stderr, "tallybox: no configuration file (./tallybox.ini not found): built-in "
                        "defaults\n");
}

enum rc options_read_file(struct buf *out, const char *option, const char *path, size_t bytes_max,
                          struct err *err)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t before = out->len;
    enum rc rc = RC_OK;

    if (!file)
        return err_fail(err, RC_FATAL, errno, "--%s %s: %s", option, path, strerror(errno));
    while (!feof(file) && !ferror(file) && out->len - before <= bytes_max) {
        char *at = buf_reserve(out, READ_BYTES);

        if (!at)
            break;
        out->len += fread(at, 1, READ_BYTES, file);
    }
    if (ferror(file))
        rc = err_fail(err, RC_FATAL, errno, "--%s %s: %s", option, path, strerror(errno));
    else if (out->failed)
        rc = err_fail(err, RC_FATAL, 0, "--%s %s: out of memory", option, path);
    else if (out->len - before > bytes_max)
        rc = err_fail(err, RC_FATAL, 0, "--%s %s: more than %zu bytes", option, path, bytes_max);
    if (file != stdin)
        fclose(file);
    return rc;
}

int options_print(struct buf *out)
{
    bool whole = !out->failed && fwrite(out->data, 1, out->len, stdout) == out->len;

    if (fflush(stdout) != 0)
        whole = false;
    buf_done(out);
    if (whole)
        return EXIT_DONE;
    fprintf(stderr, "tallybox: cannot write to standard output\n");
    return EXIT_FAILED;
}

int options_fail(enum rc rc, const struct err *err)
{
    fprintf(stderr, "tallybox: %s\n", err->text);
    return rc == RC_RETRY ? EXIT_UNAVAILABLE : EXIT_FAILED;
}
