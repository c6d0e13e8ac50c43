/* SPDX-License-Identifier: MIT */
#include "common/config/config.h"

#include "common/config/parts.h"
#include "common/config/setting.h"

#include <jansson.h>

#include <stdlib.h>
#include <string.h>

#define MASK "***"
#define PLACE_COLUMN 43

static void put_value(const struct setting *setting, const struct settings *settings,
                      struct buf *out)
{
    if (setting->kind == SETTING_SECRET && !setting_is_unset(setting, settings))
        buf_text_put(out, MASK);
    else
        setting_put(setting, settings, out);
}

static const char *property_shown(const struct kafka_property *property)
{
    return setting_is_secret_property(property->name) && *property->value ? MASK : property->value;
}

/* Called for every setting and property, section by section. */
typedef void (*config_on_value)(void *ctx, const char *section, const char *key, const char *value,
                                const char *place, bool is_number);

static void each_property(const struct config *config, config_on_value on_value, void *ctx)
{
    char place[CONFIG_PLACE_SIZE];

    for (size_t i = 0; i < config->settings.kafka.count; i++) {
        const struct kafka_property *property = &config->settings.kafka.properties[i];

        config_place(config, config->kafka_sources[i], SETTINGS_KAFKA, property->name, place);
        on_value(ctx, SETTINGS_KAFKA, property->name, property_shown(property), place, false);
    }
}

static void each_value(const struct config *config, config_on_value on_value, void *ctx)
{
    char place[CONFIG_PLACE_SIZE];
    struct buf value = {0};

    for (size_t s = 0; s < settings_sections_count; s++) {
        const char *section = settings_sections[s].name;

        if (strcmp(section, SETTINGS_KAFKA) == 0)
            each_property(config, on_value, ctx);
        for (size_t i = 0; i < settings_table_count; i++) {
            const struct setting *setting = &settings_table[i];

            if (strcmp(setting->section, section) != 0)
                continue;
            buf_reset(&value);
            put_value(setting, &config->settings, &value);
            config_place(config, config->sources[i], section, setting->key, place);
            on_value(ctx, section, setting->key, buf_text(&value), place,
                     setting->kind == SETTING_NUMBER);
        }
    }
    buf_done(&value);
}

struct ini_print {
    struct buf *out;
    const char *section;
};

/* Certificates in the environment have line ends; what is printed keeps to its line. */
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
    if (!print->section || strcmp(print->section, section) != 0)
        buf_print(print->out, "%s[%s]\n", print->section ? "\n" : "", section);
    print->section = section;
    from = print->out->len;
    /* A ; behind a blank begins a comment. */
    buf_print(print->out, "%s =%s", key, *value == ';' ? "" : " ");
    put_flat(print->out, value);
    while (print->out->len < from + PLACE_COLUMN && !print->out->failed)
        buf_char(print->out, ' ');
    buf_print(print->out, " ; %s\n", place);
}

void config_print(const struct config *config, struct buf *out)
{
    struct ini_print print = {out, NULL};

    each_value(config, print_ini, &print);
}

static void print_json(void *ctx, const char *section, const char *key, const char *value,
                       const char *place, bool is_number)
{
    char name[KAFKA_NAME_SIZE + 32];
    json_t *shown = is_number ? json_integer(strtoll(value, NULL, 10)) : json_string(value);

    /* A value that is not UTF-8 has no JSON. */
    if (!shown)
        shown = json_null();
    snprintf(name, sizeof(name), "%s.%s", section, key);
    json_object_set_new(ctx, name, json_pack("{s:o, s:s}", "value", shown, "source", place));
}

void config_print_json(const struct config *config, struct buf *out)
{
    json_t *all = json_object();
    char *text;

    each_value(config, print_json, all);
    text = json_dumps(all, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    if (text)
        buf_print(out, "%s\n", text);
    else
        out->failed = true;
    free(text);
    json_decref(all);
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
    buf_print(out, "%s =%s%s\n\n", setting->key, *setting->standard ? " " : "", setting->standard);
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
        buf_print(out, "[%s]\n\n", section);
        if (strcmp(section, SETTINGS_KAFKA) == 0)
            buf_print(out, "%s = %s\n\n", SETTINGS_KAFKA_SERVERS, SETTINGS_KAFKA_SERVERS_STANDARD);
        for (size_t i = 0; i < settings_table_count; i++)
            if (strcmp(settings_table[i].section, section) == 0)
                print_default(&settings_table[i], out);
    }
    /* The last blank line is one too many. */
    buf_cut(out, out->len > 0 ? out->len - 1 : 0);
}

static void print_row(struct buf *out, const char *section, const char *key, const char *standard,
                      const char *range, bool live, const char *help)
{
    buf_print(out, "| `%s.%s` | ", section, key);
    if (*standard)
        buf_print(out, "`%s`", standard);
    buf_print(out, " | %s | %s | %s |\n", range, live ? "yes" : "", help);
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
