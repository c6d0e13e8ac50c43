/* SPDX-License-Identifier: MIT */
#include "common/config/config_command.h"

#include "common/config/sections.h"
#include "common/kafka/kafka.h"
#include "common/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_COLUMN 43

struct ini_print {
    struct buf *out;
    char section[LANE_SECTION_SIZE]; /* of the line before */
};

/* Certificates in the environment have line ends, which would end the printed line. */
static void put_flat(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_char(out, (unsigned char)*text < 0x20 ? ' ' : *text);
}

static void print_ini(void *ctx, const char *section, const char *key, const char *value,
                      const char *place, bool is_number)
{
    struct ini_print *print = ctx;
    size_t from;

    (void)is_number;
    if (strcmp(print->section, section) != 0)
        buf_print(print->out, "%s[%s]\n", *print->section ? "\n" : "", section);
    snprintf(print->section, sizeof(print->section), "%s", section);
    from = print->out->len;
    /* A ; after a blank begins a comment. */
    buf_print(print->out, "%s =%s", key, *value == ';' ? "" : " ");
    put_flat(print->out, value);
    while (print->out->len < from + PLACE_COLUMN && !print->out->failed)
        buf_char(print->out, ' ');
    buf_print(print->out, " ; %s\n", place);
}

static void print_json(void *ctx, const char *section, const char *key, const char *value,
                       const char *place, bool is_number)
{
    char name[KAFKA_NAME_SIZE + 2 * LANE_SECTION_SIZE];
    json_t *shown = is_number ? json_integer(strtoll(value, NULL, 10)) : json_string(value);

    /* A value that is not UTF-8 has no JSON. */
    if (!shown)
        shown = json_null();
    snprintf(name, sizeof(name), "%s.%s", section, key);
    json_object_set_new(ctx, name, json_pack("{s:o, s:s}", "value", shown, "source", place));
}

/* Text of any length as comment lines of 100 columns at most. */
static void put_comment(struct buf *out, const char *text)
{
    size_t column = 0;

    while (*text) {
        size_t len = strcspn(text, " ");

        if (column > 0 && column + 1 + len > 98) {
            buf_char(out, '\n');
            column = 0;
        }
        buf_text_put(out, column == 0 ? "# " : " ");
        buf_put(out, text, len);
        column += 1 + len;
        text += len + strspn(text + len, " ");
    }
    buf_char(out, '\n');
}

static bool is_template(const char *section)
{
    return lane_section_is(section) || role_section_is(section);
}

static void print_default(const struct setting *setting, struct buf *out)
{
    struct buf comment = {0};

    buf_text_put(&comment, setting->help);
    if (setting->kind != SETTING_TEXT && setting->kind != SETTING_SECRET) {
        buf_text_put(&comment, " (");
        setting_put_range(setting, &comment);
        buf_char(&comment, ')');
    }
    if (setting->live)
        buf_text_put(&comment, " Live: SIGHUP changes it.");
    put_comment(out, buf_text(&comment));
    buf_done(&comment);
    buf_print(out, "%s%s =%s%s\n\n", lane_section_is(setting->section) ? "# " : "", setting->key,
              *setting->standard ? " " : "", setting->standard);
}

static void print_row(struct buf *out, const char *section, const char *key, const char *standard,
                      const char *range, bool live, const char *help)
{
    buf_print(out, "| `%s.%s` | ", section, key);
    if (*standard)
        buf_print(out, "`%s`", standard);
    buf_print(out, " | %s | %s | %s |\n", range, live ? "yes" : "", help);
}

void config_print(const struct config *config, struct buf *out)
{
    struct ini_print print = {out, ""};

    config_each_value(config, print_ini, &print);
}

void config_print_json(const struct config *config, struct buf *out)
{
    json_t *all = json_object();
    char *text;

    config_each_value(config, print_json, all);
    text = json_dumps(all, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    if (text)
        buf_print(out, "%s\n", text);
    else
        out->failed = true;
    free(text);
    json_decref(all);
}

void config_print_defaults(struct buf *out)
{
    put_comment(out, "tallybox: every setting with its default.");
    put_comment(
        out, "What is set in this file gives way to the environment (TALLYBOX_RELAY_LEASE_MS) and "
             "that to the command line (--set relay.lease_ms=...).");
    put_comment(out, "A ; or # at the start of a line, or a ; behind a blank, begins a comment.");
    for (size_t s = 0; s < settings_sections_count; s++) {
        const char *section = settings_sections[s].name;

        if (s == 0)
            buf_char(out, '\n');
        put_comment(out, settings_sections[s].about);
        /* Only the operator knows which lanes and roles there are. */
        buf_print(out, "%s[%s]\n%s", is_template(section) ? "# " : "", section,
                  role_section_is(section) ? "# admin.listen = 127.0.0.1:9470\n\n" : "\n");
        if (strcmp(section, SETTINGS_KAFKA) == 0)
            buf_print(out, "%s = %s\n\n", SETTINGS_KAFKA_SERVERS, SETTINGS_KAFKA_SERVERS_STANDARD);
        for (size_t i = 0; i < settings_table_count; i++)
            if (strcmp(settings_table[i].section, section) == 0)
                print_default(&settings_table[i], out);
    }
    /* Removes the last blank line. */
    buf_cut(out, out->len > 0 ? out->len - 1 : 0);
}

void config_print_table(struct buf *out)
{
    buf_text_put(out,
                 "| setting | default | range | live | what |\n| --- | --- | --- | --- | --- |\n");
    for (size_t s = 0; s < settings_sections_count; s++) {
        const struct settings_section *section = &settings_sections[s];

        if (strcmp(section->name, SETTINGS_KAFKA) == 0) {
            print_row(out, SETTINGS_KAFKA, SETTINGS_KAFKA_SERVERS, SETTINGS_KAFKA_SERVERS_STANDARD,
                      "host:port,...", false, "Brokers to start from.");
            print_row(out, SETTINGS_KAFKA, "*", "", "text", false, section->about);
        }
        if (role_section_is(section->name))
            print_row(out, section->name, "*", "", "section.key", false, section->about);
        for (size_t i = 0; i < settings_table_count; i++) {
            const struct setting *setting = &settings_table[i];
            struct buf range = {0};

            if (strcmp(setting->section, section->name) != 0)
                continue;
            setting_put_range(setting, &range);
            print_row(out, setting->section, setting->key, setting->standard, buf_text(&range),
                      setting->live, setting->help);
            buf_done(&range);
        }
    }
}

/* Each role reads the file in its own way, so a mistake may show for one role alone. */
static int check_roles(const struct options *options, const struct config *config)
{
    for (size_t i = 0; i < settings_roles_count; i++) {
        struct options of_role = *options;
        struct config *of = NULL;
        struct err err = {0};
        enum rc rc;

        of_role.role = settings_roles[i];
        if (!config_has_role(config, of_role.role))
            continue;
        rc = options_read(&of_role, &of, &err);
        if (rc == RC_OK)
            rc = kafka_conf_check(config_settings(of), &err);
        config_free(of);
        if (rc != RC_OK) {
            err_wrap(&err, "role %s", of_role.role);
            options_fail(rc, &err);
            return EXIT_USAGE;
        }
    }
    return EXIT_DONE;
}

static int print_effective(const struct options *options, bool json)
{
    struct config *config;
    struct buf out = {0};
    struct err err = {0};
    int code = options_load(options, &config);

    if (code >= 0)
        return code;
    if (json)
        config_print_json(config, &out);
    else
        config_print(config, &out);
    code = options_print(&out);
    /* Shown first: the mistake is easier to find with the sources beside the values. */
    if (kafka_conf_check(config_settings(config), &err) != RC_OK) {
        options_fail(RC_FATAL, &err);
        code = EXIT_USAGE;
    } else if (code == EXIT_DONE && !options->role) {
        code = check_roles(options, config);
    }
    config_free(config);
    return code;
}

int config_command(int argc, char **argv)
{
    bool defaults = false;
    bool table = false;
    bool json = false;
    const char *role = NULL;
    const struct option_entry entries[] = {
        {"role", OPTION_TEXT, &role, "NAME",
         "show what this role reads: its section [role.NAME] counts",
         "run serve relay retry retry_admin consume rollup housekeep status verify dead lanes rank "
         "migrate"},
        {"defaults", OPTION_FLAG, &defaults, NULL, "print a settings file with every default",
         NULL},
        {"table", OPTION_FLAG, &table, NULL, "print every setting as a Markdown table", NULL},
        {"json", OPTION_FLAG, &json, NULL, "print the effective settings as JSON", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox config",
        .arguments = "",
        .about =
            "Prints every effective setting and where it came from, with secrets masked; at "
            "the end the sections [role.NAME]. A mistake in a setting, also of one role alone, "
            "is named, and the exit code is 2.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox config --defaults > tallybox.ini\n"
                    "  tallybox config --set relay.lease_ms=20000\n"
                    "  tallybox config --role relay\n",
    };
    struct options options;
    struct buf out = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (defaults + table + json > 1) {
        fprintf(stderr, "tallybox config: expected one of --defaults, --table and --json\n");
        return EXIT_USAGE;
    }
    if (role && !options_take_role(&options, &parse, role))
        return EXIT_USAGE;
    if (!defaults && !table)
        return print_effective(&options, json);
    if (defaults)
        config_print_defaults(&out);
    else
        config_print_table(&out);
    return options_print(&out);
}
