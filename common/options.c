/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* environ */
#include "common/options.h"

#include "common/list.h"
#include "common/log.h"
#include "common/nearest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_COLUMNS 80
#define READ_BYTES 65536
#define HELP_COLUMN 26 /* where the second column of an option list starts */

/* Options of every command. sets and help are handled separately, so their target is unused. */
static const struct option_entry common_entries[] = {
    {"config", OPTION_TEXT, NULL, "FILE", "read settings from FILE, not from ./tallybox.ini"},
    {"set", OPTION_TEXT, NULL, "SECTION.KEY=VALUE", "set one setting; may be repeated"},
    {"help", OPTION_FLAG, NULL, NULL, "show this page"},
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

/* Words wrapped at PAGE_COLUMNS; lines after the first start at column `indent`. */
static void put_wrapped(const char *text, size_t column, size_t indent)
{
    while (*text) {
        size_t len = strcspn(text, " \n");

        if (column > indent && column + 1 + len > PAGE_COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)len, text);
        column += len;
        text += len;
        if (*text == '\n') {
            printf("\n%*s", (int)indent, "");
            column = indent;
            text++;
        }
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* Two columns: the name and the help text. */
static void put_line(const char *name, const char *help)
{
    int width = printf("  %s", name);

    if (width > HELP_COLUMN - 2) {
        putchar('\n');
        width = 0;
    }
    printf("%*s", HELP_COLUMN - width, "");
    put_wrapped(help, HELP_COLUMN, HELP_COLUMN);
}

static void put_entry(const struct option_entry *entry)
{
    char name[PAGE_COLUMNS];

    snprintf(name, sizeof(name), "--%s%s%s", entry->name, entry->metavar ? " " : "",
             entry->metavar ? entry->metavar : "");
    put_line(name, entry->help);
}

static void put_settings(const char *sections)
{
    printf("\nSettings, with their defaults:\n");
    if (list_has(sections, SETTINGS_KAFKA))
        put_line(SETTINGS_KAFKA ".*", "Any property of librdkafka. [" SETTINGS_KAFKA_SERVERS
                                      " = " SETTINGS_KAFKA_SERVERS_STANDARD "]");
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];
        char name[PAGE_COLUMNS];
        char help[512];

        if (!list_has(sections, setting->section))
            continue;
        snprintf(name, sizeof(name), "%s.%s", setting->section, setting->key);
        snprintf(help, sizeof(help), "%s [%s]", setting->help, setting->standard);
        put_line(name, help);
    }
}

static int show_help(const struct option_parse *parse)
{
    printf("Usage: %s [OPTION]...%s%s\n\n", parse->command, *parse->arguments ? " " : "",
           parse->arguments);
    put_wrapped(parse->about, 0, 0);
    printf("\nOptions:\n");
    for (size_t i = 0; i < parse->count; i++)
        put_entry(&parse->entries[i]);
    for (size_t i = 0; i < COMMON_COUNT; i++)
        put_entry(&common_entries[i]);
    if (parse->sections)
        put_settings(parse->sections);
    printf("\n");
    put_wrapped(
        "Settings come from the file, then from the environment (TALLYBOX_SECTION_KEY), then "
        "from --set; the later one counts. `tallybox config --defaults` shows them all.",
        0, 0);
    if (parse->examples)
        printf("\n%s%s", parse->examples,
               parse->examples[strlen(parse->examples) - 1] == '\n' ? "" : "\n");
    return EXIT_DONE;
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
        if (name[len])
            return fail(scan->parse, "--%s takes no value", entry->name);
        if (entry == &common_entries[2])
            return show_help(scan->parse);
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

int options_parse(struct options *options, const struct option_parse *parse, int argc, char **argv)
{
    struct scan scan = {options, parse, argc, argv, 1};
    bool only_arguments = false;
    int code = -1;

    memset(options, 0, sizeof(*options));
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
            code = show_help(parse);
        else
            code = fail(parse, "unknown option %s; options start with --", text);
    }
    if (code < 0 && options->argument_count > 0 && !*parse->arguments)
        code = fail(parse, "takes no arguments, but got \"%s\"", options->arguments[0]);
    return code;
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
    return config_load(config, options->config_path, options->sets, options->set_count,
                       (const char *const *)environ, err);
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
