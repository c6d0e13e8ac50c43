/* SPDX-License-Identifier: MIT */
/* Settings from a file, --set and the environment: accepted values lie within the table's bounds,
 * and printed settings are read back unchanged. the file, then, each behind a byte 0x1e, texts for
 * --set or, as TALLYBOX_X=Y, variables */
#include "common/config/config_command.h"

#include "common/config/settings.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXTRAS_MAX 8

struct extras {
    char *texts[2 * EXTRAS_MAX]; /* to be freed */
    size_t count;
    const char *sets[EXTRAS_MAX];
    size_t set_count;
    const char *variables[EXTRAS_MAX + 1]; /* ends with NULL */
    size_t variable_count;
};

static void extras_take(struct extras *extras, struct fuzz_input *input)
{
    while (input->size > 0 && extras->count < EXTRAS_MAX) {
        char *text = fuzz_text(input, '\x1e');

        extras->texts[extras->count++] = text;
        if (strncmp(text, "TALLYBOX_", 9) == 0)
            extras->variables[extras->variable_count++] = text;
        else
            extras->sets[extras->set_count++] = text;
    }
}

static bool is_one_of(const char *choices, const char *text)
{
    size_t len = strlen(text);

    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strcspn(at, "|") == len && memcmp(at, text, len) == 0)
            return true;
    }
    return false;
}

static bool is_of_lane(const struct setting *setting)
{
    return strcmp(setting->section, SETTINGS_LANE) == 0;
}

static void check_value(const struct setting *setting, const void *base)
{
    const char *text = setting_text(setting, base);

    if (setting->kind == SETTING_NUMBER) {
        int64_t number = setting_number(setting, base);

        fuzz_must(number >= setting->low && number <= setting->high, "a number is in its range");
        return;
    }
    fuzz_must(memchr(text, '\0', setting->size) != NULL, "a text ends in its room");
    fuzz_must(strlen(text) >= (size_t)setting->low, "a text is as long as it must be");
    if (setting->kind == SETTING_CHOICE)
        fuzz_must(is_one_of(setting->choices, text), "a choice is one of its words");
}

static void check_values(const struct settings *settings)
{
    fuzz_must(settings->kafka.count <= KAFKA_PROPERTIES_MAX, "properties fit");
    fuzz_must(settings->lane_count > 0 && settings->lane_count <= SETTINGS_LANES_MAX, "lanes fit");
    for (size_t i = 0; i < settings_table_count; i++) {
        if (!is_of_lane(&settings_table[i]))
            check_value(&settings_table[i], settings);
        for (size_t n = 0; is_of_lane(&settings_table[i]) && n < settings->lane_count; n++)
            check_value(&settings_table[i], &settings->lanes[n]);
    }
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            return true;
    return false;
}

static bool same_value(const struct setting *setting, const void *a, const void *b)
{
    if (setting->kind == SETTING_NUMBER)
        return setting_number(setting, a) == setting_number(setting, b);
    return strcmp(setting_text(setting, a), setting_text(setting, b)) == 0;
}

static void check_same(const struct settings *a, const struct settings *b)
{
    fuzz_must(a->lane_count == b->lane_count, "all lanes are read as they were printed");
    for (size_t i = 0; i < settings_table_count; i++) {
        if (!is_of_lane(&settings_table[i]))
            fuzz_must(same_value(&settings_table[i], a, b), "a setting is read as it was printed");
        for (size_t n = 0; is_of_lane(&settings_table[i]) && n < a->lane_count; n++)
            fuzz_must(same_value(&settings_table[i], &a->lanes[n], &b->lanes[n]),
                      "a setting of a lane is read as it was printed");
    }
    fuzz_must(a->kafka.count == b->kafka.count, "all properties are read as they were printed");
    for (size_t i = 0; i < a->kafka.count; i++) {
        const struct kafka_property *one = &a->kafka.properties[i];
        const struct kafka_property *other = &b->kafka.properties[i];

        fuzz_must(strcmp(one->name, other->name) == 0 &&
                      (strcmp(one->value, other->value) == 0 || strcmp(other->value, "***") == 0),
                  "a property is read as it was printed");
    }
}

/* Secrets are masked, and control bytes printed as blanks. */
static bool is_printed_as_it_is(const struct settings *settings)
{
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];
        const char *text = setting_text(setting, settings);

        /* A lane accepts no control bytes. */
        if (is_of_lane(setting))
            continue;
        if (setting->kind != SETTING_NUMBER && has_control(text))
            return false;
        if (setting->kind == SETTING_SECRET && *text)
            return false;
    }
    for (size_t i = 0; i < settings->kafka.count; i++)
        if (has_control(settings->kafka.properties[i].value))
            return false;
    return true;
}

static enum rc load(struct config **config, const void *bytes, size_t len,
                    const struct extras *extras)
{
    char path[FUZZ_PATH_SIZE];
    int fd = fuzz_file(bytes, len, path);
    struct err err = {0};
    enum rc rc = config_load(config, "relay", path, extras->sets, extras->set_count,
                             extras->variables, &err);

    close(fd);
    if (rc != RC_OK)
        fuzz_must_be_sentence(err.text);
    return rc;
}

static void check_printed(const struct config *config, bool from_file_alone)
{
    static const struct extras none;
    struct config *again = NULL;
    struct buf out = {0};

    config_print_json(config, &out);
    fuzz_must(!out.failed, "settings can be printed as JSON");
    buf_reset(&out);
    config_print(config, &out);
    fuzz_must(!out.failed, "settings can be printed");
    if (from_file_alone && is_printed_as_it_is(config_settings(config))) {
        fuzz_must(load(&again, out.data, out.len, &none) == RC_OK, "what is printed can be read");
        check_same(config_settings(config), config_settings(again));
        config_free(again);
    }
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0x1e, size) : NULL;
    size_t len = end ? (size_t)(end - data) : size;
    struct fuzz_input input = {data + len + (end ? 1 : 0), size - len - (end ? 1 : 0)};
    struct extras extras = {0};
    struct config *config = NULL;

    extras_take(&extras, &input);
    if (load(&config, data, len, &extras) == RC_OK) {
        check_values(config_settings(config));
        check_printed(config, extras.count == 0);
        config_free(config);
    }
    for (size_t i = 0; i < extras.count; i++)
        free(extras.texts[i]);
    return 0;
}
