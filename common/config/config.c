/* SPDX-License-Identifier: MIT */
#include "common/config/config.h"

#include "common/config/parts.h"
#include "common/config/setting.h"
#include "common/nearest.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENVIRONMENT_PREFIX "TALLYBOX_"
#define FOREIGN_DISTANCE 3 /* so many letters apart, a variable is somebody else's */

/* "relay", "lease_ms" -> "RELAY_LEASE_MS"; Kafka's dots become underscores too. */
static void environment_name(const char *section, const char *key, char *name, size_t size)
{
    int len = snprintf(name, size, "%s_%s", section, key);

    for (int i = 0; i < len && (size_t)i < size; i++)
        name[i] = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
}

void config_place(const struct config *config, struct config_source source, const char *section,
                  const char *key, char place[CONFIG_PLACE_SIZE])
{
    char name[CONFIG_PLACE_SIZE - 32];

    switch (source.from) {
    case FROM_DEFAULT:
        snprintf(place, CONFIG_PLACE_SIZE, "default");
        return;
    case FROM_FILE:
        snprintf(place, CONFIG_PLACE_SIZE, "%.160s:%d", config->path, source.line);
        return;
    case FROM_ENVIRONMENT:
        environment_name(section, key, name, sizeof(name));
        snprintf(place, CONFIG_PLACE_SIZE, "environment " ENVIRONMENT_PREFIX "%s", name);
        return;
    case FROM_SET:
        snprintf(place, CONFIG_PLACE_SIZE, "--set %s.%.128s", section, key);
        return;
    case FROM_PASSWORD_FILE:
        snprintf(place, CONFIG_PLACE_SIZE, "the file in %s.password_file", section);
        return;
    case FROM_MYSQL:
        snprintf(place, CONFIG_PLACE_SIZE, "as mysql.%.128s", key);
        return;
    }
}

void config_blame(const struct config *config, struct config_source source, const char *section,
                  const char *key, struct err *err)
{
    char place[CONFIG_PLACE_SIZE];

    config_place(config, source, section, key, place);
    /* Places on the command line and in the environment name their setting, others do not. */
    if (source.from == FROM_SET || source.from == FROM_ENVIRONMENT)
        err_wrap(err, "%s", place);
    else
        err_wrap(err, "%s: %s.%.60s", place, section, key);
}

enum rc config_check_section(const char *section, struct err *err)
{
    struct nearest nearest = {.typed = section};

    if (setting_section_find(section))
        return RC_OK;
    for (size_t i = 0; i < settings_sections_count; i++)
        nearest_offer(&nearest, settings_sections[i].name);
    if (nearest.word)
        return err_fail(err, RC_FATAL, 0, "[%.60s] is not a section; did you mean [%s]?", section,
                        nearest.word);
    return err_fail(err, RC_FATAL, 0,
                    "[%.60s] is not a section; `tallybox config --defaults` shows them all",
                    section);
}

static enum rc unknown_key(const char *section, const char *key, struct err *err)
{
    struct nearest nearest = {.typed = key};
    const char *other = NULL;

    for (size_t i = 0; i < settings_table_count; i++) {
        if (strcmp(settings_table[i].section, section) == 0)
            nearest_offer(&nearest, settings_table[i].key);
        else if (!other && strcmp(settings_table[i].key, key) == 0)
            other = settings_table[i].section;
    }
    if (nearest.word)
        return err_fail(err, RC_FATAL, 0, "%.60s is not a setting of [%s]; did you mean %s?", key,
                        section, nearest.word);
    if (other)
        return err_fail(err, RC_FATAL, 0, "%.60s is not a setting of [%s]; did you mean %s.%s?",
                        key, section, other, key);
    return err_fail(err, RC_FATAL, 0,
                    "%.60s is not a setting of [%s]; `tallybox config --defaults` shows them all",
                    key, section);
}

/* A key may stand in a file once: of two lines far apart the first is easily taken for the one
 * that counts. */
static enum rc check_once(struct config_source was, struct config_source now, struct err *err)
{
    if (was.from == FROM_FILE && now.from == FROM_FILE)
        return err_fail(err, RC_FATAL, 0, "is set in line %d already", was.line);
    return RC_OK;
}

static enum rc assign_property(struct config *config, const char *name, const char *value,
                               struct config_source source, struct err *err)
{
    struct kafka_property *property = config->settings.kafka.properties;
    size_t count = config->settings.kafka.count;
    size_t i = 0;
    enum rc rc;

    if (!*name || strlen(name) >= sizeof(property->name) || strpbrk(name, " \t"))
        return err_fail(err, RC_FATAL, 0, "expected the name of a librdkafka property");
    if (strlen(value) >= sizeof(property->value))
        return err_fail(err, RC_FATAL, 0,
                        "is %zu bytes long; expected %zu at most (a certificate "
                        "or key can be named by its file: ssl.ca.location ...)",
                        strlen(value), sizeof(property->value) - 1);
    while (i < count && strcmp(property[i].name, name) != 0)
        i++;
    if (i == KAFKA_PROPERTIES_MAX)
        return err_fail(err, RC_FATAL, 0, "is one property too many; expected %d at most",
                        KAFKA_PROPERTIES_MAX);
    rc = check_once(config->kafka_sources[i], source, err);
    if (rc != RC_OK)
        return rc;
    snprintf(property[i].name, sizeof(property->name), "%s", name);
    snprintf(property[i].value, sizeof(property->value), "%s", value);
    config->kafka_sources[i] = source;
    if (i == count)
        config->settings.kafka.count++;
    return RC_OK;
}

static enum rc assign_setting(struct config *config, const struct setting *setting,
                              const char *value, struct config_source source, struct err *err)
{
    struct config_source *was = &config->sources[setting - settings_table];
    enum rc rc = check_once(*was, source, err);

    if (rc == RC_OK)
        rc = setting_store(setting, &config->settings, value, err);
    if (rc == RC_OK)
        *was = source;
    return rc;
}

enum rc config_assign(struct config *config, const char *section, const char *key,
                      const char *value, struct config_source source, struct err *err)
{
    const struct setting *setting = setting_find(section, key);
    char place[CONFIG_PLACE_SIZE];
    enum rc rc = config_check_section(section, err);

    if (rc == RC_OK && !setting && strcmp(section, SETTINGS_KAFKA) != 0)
        rc = unknown_key(section, key, err);
    if (rc != RC_OK) {
        config_place(config, source, section, key, place);
        err_wrap(err, "%s", place);
        return rc;
    }
    if (setting)
        rc = assign_setting(config, setting, value, source, err);
    else
        rc = assign_property(config, key, value, source, err);
    if (rc != RC_OK)
        config_blame(config, source, section, key, err);
    return rc;
}

static enum rc load_defaults(struct config *config, struct err *err)
{
    struct config_source source = {FROM_DEFAULT, 0};
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < settings_table_count; i++)
        rc = config_assign(config, settings_table[i].section, settings_table[i].key,
                           settings_table[i].standard, source, err);
    if (rc == RC_OK)
        rc = config_assign(config, SETTINGS_KAFKA, SETTINGS_KAFKA_SERVERS,
                           SETTINGS_KAFKA_SERVERS_STANDARD, source, err);
    return rc;
}

static enum rc load_file(struct config *config, const char *path, struct err *err)
{
    FILE *file = fopen(path ? path : CONFIG_FILE_STANDARD, "r");
    enum rc rc;

    if (!file && !path && errno == ENOENT)
        return RC_OK;
    if (!file)
        return err_fail(err, RC_FATAL, errno, "cannot open %.200s: %s",
                        path ? path : CONFIG_FILE_STANDARD, strerror(errno));
    config->path = strdup(path ? path : CONFIG_FILE_STANDARD);
    if (config->path)
        rc = config_read_file(config, file, err);
    else
        rc = err_fail(err, RC_FATAL, 0, "out of memory");
    fclose(file);
    return rc;
}

/* The section that name ("relay_lease_ms") starts with, and what is behind it: *key is "" when the
 * name ends there. NULL: none of ours. */
static const char *environment_section(char *name, char **key)
{
    for (size_t i = 0; i < settings_sections_count; i++) {
        const char *section = settings_sections[i].name;
        size_t len = strlen(section);

        if (strncmp(name, section, len) == 0 && (name[len] == '_' || !name[len])) {
            *key = name + len + (name[len] ? 1 : 0);
            return section;
        }
    }
    return NULL;
}

/* Variables of other programs with our prefix are left alone, unless they look like a mistyped
 * setting of ours. */
static enum rc check_foreign(const char *name, struct err *err)
{
    const struct setting *setting = NULL;
    size_t distance = FOREIGN_DISTANCE;
    char ours[NEAREST_WORD_MAX + 1];

    for (size_t i = 0; i < settings_table_count; i++) {
        size_t one;

        environment_name(settings_table[i].section, settings_table[i].key, ours, sizeof(ours));
        one = nearest_distance(name, ours);
        if (one < distance) {
            distance = one;
            setting = &settings_table[i];
        }
    }
    if (!setting)
        return RC_OK;
    environment_name(setting->section, setting->key, ours, sizeof(ours));
    return err_fail(err, RC_FATAL, 0,
                    "environment " ENVIRONMENT_PREFIX "%.100s: no setting has this name; did you "
                    "mean " ENVIRONMENT_PREFIX "%s?",
                    name, ours);
}

static enum rc load_variable(struct config *config, const char *entry, struct err *err)
{
    struct config_source source = {FROM_ENVIRONMENT, 0};
    const char *start = entry + strlen(ENVIRONMENT_PREFIX);
    const char *equals = strchr(entry, '=');
    char name[KAFKA_NAME_SIZE + 16];
    char lower[sizeof(name)];
    const char *section;
    char *key;

    if (strncmp(entry, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0 || !equals ||
        (size_t)(equals - start) >= sizeof(name))
        return RC_OK;
    snprintf(name, sizeof(name), "%.*s", (int)(equals - start), start);
    for (size_t i = 0; i < sizeof(name); i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    section = environment_section(lower, &key);
    if (!section)
        return check_foreign(name, err);
    if (!*key)
        return err_fail(err, RC_FATAL, 0,
                        "environment " ENVIRONMENT_PREFIX "%s: names the section [%s] but none of "
                        "its keys",
                        name, section);
    for (char *c = key; strcmp(section, SETTINGS_KAFKA) == 0 && *c; c++)
        if (*c == '_')
            *c = '.';
    return config_assign(config, section, key, equals + 1, source, err);
}

/* A command line is shown to every account of the machine. */
static enum rc check_shown(const char *section, const char *key, struct err *err)
{
    const struct setting *setting = setting_find(section, key);
    bool kafka = strcmp(section, SETTINGS_KAFKA) == 0;
    char name[KAFKA_NAME_SIZE + 16];

    if (kafka ? !setting_is_secret_property(key) : !setting || setting->kind != SETTING_SECRET)
        return RC_OK;
    environment_name(section, key, name, sizeof(name));
    return err_fail(err, RC_FATAL, 0,
                    "--set %s.%s: other accounts of this machine can read a command line; expected "
                    "it in the settings file%s or in the environment as " ENVIRONMENT_PREFIX "%s",
                    section, key, kafka ? "" : ", in password_file", name);
}

static enum rc load_set(struct config *config, const char *text, struct err *err)
{
    const char *dot = strchr(text, '.');
    const char *equals = strchr(text, '=');
    char section[32];
    char key[KAFKA_NAME_SIZE];
    enum rc rc;

    if (!dot || !equals || dot > equals || (size_t)(dot - text) >= sizeof(section) ||
        (size_t)(equals - dot) > sizeof(key))
        return err_fail(err, RC_FATAL, 0, "--set %.*s: expected section.key=value",
                        (int)strcspn(text, "="), text);
    snprintf(section, sizeof(section), "%.*s", (int)(dot - text), text);
    snprintf(key, sizeof(key), "%.*s", (int)(equals - dot - 1), dot + 1);
    rc = check_shown(section, key, err);
    if (rc != RC_OK)
        return rc;
    return config_assign(config, section, key, equals + 1, (struct config_source){FROM_SET, 0},
                         err);
}

enum rc config_load(struct config **out, const char *path, const char *const *sets, size_t count,
                    const char *const *environ_entries, struct err *err)
{
    struct config *config = calloc(1, sizeof(*config));
    enum rc rc;

    *out = NULL;
    if (config)
        config->sources = calloc(settings_table_count, sizeof(*config->sources));
    if (!config || !config->sources) {
        free(config);
        return err_fail(err, RC_FATAL, 0, "out of memory");
    }
    rc = load_defaults(config, err);
    if (rc == RC_OK)
        rc = load_file(config, path, err);
    for (size_t i = 0; rc == RC_OK && environ_entries && environ_entries[i]; i++)
        rc = load_variable(config, environ_entries[i], err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = load_set(config, sets[i], err);
    if (rc == RC_OK)
        rc = config_complete(config, err);
    if (rc == RC_OK)
        *out = config;
    else
        config_free(config);
    return rc;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    free(config->path);
    free(config->sources);
    free(config);
}

const struct settings *config_settings(const struct config *config)
{
    return &config->settings;
}
