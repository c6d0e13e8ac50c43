/* SPDX-License-Identifier: MIT */
#include "common/config/sections.h"

#include "common/nearest.h"
#include "common/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void place_environment_name(const char *section, const char *key, char *name, size_t size)
{
    int len = snprintf(name, size, "%s_%s", section, key);

    for (int i = 0; i < len && (size_t)i < size; i++)
        name[i] = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
}

void place_put(const char *path, struct config_source source, const char *section, const char *key,
               char place[PLACE_SIZE])
{
    char name[PLACE_SIZE - 32];

    switch (source.from) {
    case FROM_DEFAULT:
        snprintf(place, PLACE_SIZE, "default");
        return;
    case FROM_FILE:
    case FROM_ROLE:
        snprintf(place, PLACE_SIZE, "%.160s:%d", path, source.line);
        return;
    case FROM_ENVIRONMENT:
        place_environment_name(section, key, name, sizeof(name));
        snprintf(place, PLACE_SIZE, "environment " ENVIRONMENT_PREFIX "%s", name);
        return;
    case FROM_SET:
        snprintf(place, PLACE_SIZE, "--set %.70s.%.110s", section, key);
        return;
    case FROM_PASSWORD_FILE:
        snprintf(place, PLACE_SIZE, "the file in %s.password_file", section);
        return;
    case FROM_MYSQL:
        snprintf(place, PLACE_SIZE, "as mysql.%.128s", key);
        return;
    case FROM_RELAY:
        snprintf(place, PLACE_SIZE, "as relay.%.128s", key);
        return;
    }
}

enum rc place_blame(const char *path, struct config_source source, const char *section,
                    const char *key, struct err *err)
{
    char place[PLACE_SIZE];

    place_put(path, source, section, key, place);
    /* Places on the command line and in the environment name their setting, others do not. */
    if (source.from == FROM_SET || source.from == FROM_ENVIRONMENT)
        err_wrap(err, "%s", place);
    else
        err_wrap(err, "%s: %s.%.60s", place, section, key);
    return RC_FATAL;
}

const char *place_find_dot(const char *text)
{
    return strchr(lane_section_is(text) ? text + strlen(SETTINGS_LANE_PREFIX) : text, '.');
}

enum rc place_check_once(struct config_source was, struct config_source now, struct err *err)
{
    if (was.from == FROM_FILE && now.from == FROM_FILE)
        return err_fail(err, RC_FATAL, 0, "is set in line %d already", was.line);
    return RC_OK;
}

static const char *get_name(const char *section)
{
    return section + strlen(SETTINGS_LANE_PREFIX);
}

static struct lane_section *find_section(struct lane_sections *sections, const char *name)
{
    for (size_t i = 0; i < sections->count; i++)
        if (strcmp(sections->list[i].values.name, name) == 0)
            return &sections->list[i];
    return NULL;
}

/* topics stays empty: lane_sections_complete() copies relay.topics there. */
static void set_defaults(struct lane_section *section, const char *name)
{
    memset(section, 0, sizeof(*section));
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];

        if (!lane_section_is(setting->section) || !setting->standard[0])
            continue;
        if (setting_store(setting, &section->values, setting->standard, NULL) != RC_OK)
            assert(false);
    }
    snprintf(section->values.name, sizeof(section->values.name), "%s", name);
    snprintf(section->values.table, sizeof(section->values.table), "%s", name);
}

/* first_key: NULL for a heading. */
static enum rc take_section(struct lane_sections *sections, const char *section,
                            struct config_source source, const struct setting *first_key,
                            struct lane_section **lane, struct err *err)
{
    const char *name = get_name(section);

    *lane = find_section(sections, name);
    if (*lane)
        return RC_OK;
    if (sections->count == SETTINGS_LANES_MAX)
        return err_fail(err, RC_FATAL, 0, "[%.80s] is one lane too many; expected %d at most",
                        section, SETTINGS_LANES_MAX);
    *lane = &sections->list[sections->count++];
    set_defaults(*lane, name);
    (*lane)->first = source;
    (*lane)->first_key = first_key;
    return RC_OK;
}

static enum rc fail_at_section(const struct lane_section *lane, const char *path, struct err *err)
{
    char section[LANE_SECTION_SIZE];
    char place[PLACE_SIZE];

    lane_section_name(lane->values.name, section);
    place_put(path, lane->first, section, lane->first_key ? lane->first_key->key : "", place);
    err_wrap(err, "%s: [%s]", place, section);
    return RC_FATAL;
}

static enum rc check_listed(const struct lane_sections *sections, const struct settings *settings,
                            const char *path, struct err *err)
{
    for (size_t i = 0; i < sections->count; i++) {
        const struct lane_section *lane = &sections->list[i];
        struct nearest nearest = {.typed = lane->values.name};

        if (list_has(settings->relay.lanes, lane->values.name))
            continue;
        for (size_t n = 0; n < settings->lane_count; n++)
            nearest_offer(&nearest, settings->lanes[n].name);
        err_set(err, "relay.lanes = %.160s does not list the lane%s%s%s", settings->relay.lanes,
                nearest.word ? "; did you mean [" SETTINGS_LANE_PREFIX : "",
                nearest.word ? nearest.word : "", nearest.word ? "]?" : "");
        return fail_at_section(lane, path, err);
    }
    return RC_OK;
}

/* A server may keep the names of tables without their case, so outbox and OUTBOX may be one. */
static enum rc check_tables(const struct lane_sections *sections, const char *path, struct err *err)
{
    const struct setting *table = setting_find(SETTINGS_LANE, "table");

    for (size_t i = 1; i < sections->count; i++)
        for (size_t other = 0; other < i; other++) {
            const struct lane_section *lane = &sections->list[i];
            const struct lane_section *twin = &sections->list[other];
            char section[LANE_SECTION_SIZE];

            if (strcasecmp(lane->values.table, twin->values.table) != 0)
                continue;
            /* The error names the setting that is not a default value. */
            if (lane->sources[lane_key_index(table)].from == FROM_DEFAULT) {
                const struct lane_section *swapped = lane;

                lane = twin;
                twin = swapped;
            }
            err_set(err,
                    "\"%s\" is the table of lane %s, too; expected one lane for each "
                    "table",
                    lane->values.table, twin->values.name);
            lane_section_name(lane->values.name, section);
            return place_blame(path, lane->sources[lane_key_index(table)], section, table->key,
                               err);
        }
    return RC_OK;
}

/* The sections in the order of relay.lanes, each complete. */
static void order_sections(struct lane_sections *sections, const struct settings *settings,
                           struct lane_sections *ordered)
{
    const size_t topics = lane_key_index(setting_find(SETTINGS_LANE, "topics"));

    for (size_t i = 0; i < settings->lane_count; i++) {
        struct lane_section *lane = &ordered->list[ordered->count++];
        const struct lane_section *given = find_section(sections, settings->lanes[i].name);

        if (given)
            *lane = *given;
        else
            set_defaults(lane, settings->lanes[i].name);
        if (lane->sources[topics].from == FROM_DEFAULT) {
            memcpy(lane->values.topics, settings->relay.topics, sizeof(lane->values.topics));
            lane->sources[topics].from = FROM_RELAY;
        }
    }
}

bool lane_section_is(const char *section)
{
    return strncmp(section, SETTINGS_LANE_PREFIX, strlen(SETTINGS_LANE_PREFIX)) == 0;
}

void lane_section_name(const char *lane, char section[LANE_SECTION_SIZE])
{
    snprintf(section, LANE_SECTION_SIZE, SETTINGS_LANE_PREFIX "%s", lane);
}

enum rc lane_section_check(const char *section, struct err *err)
{
    const char *name = get_name(section);

    if (setting_is_lane_name(name, strlen(name)))
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "[%.80s]: \"%.60s\" is not " SETTING_LANE_EXPECTED, section,
                    name);
}

size_t lane_key_index(const struct setting *setting)
{
    size_t index = (size_t)(setting - setting_find(SETTINGS_LANE, "table"));

    assert(index < LANE_KEYS_MAX);
    return index;
}

bool lane_section_split_variable(char *name, char **key)
{
    char *lane = name + strlen(SETTINGS_LANE_PREFIX);

    if (strncmp(name, "lane_", strlen("lane_")) != 0)
        return false;
    lane[-1] = '.';
    *key = lane + strlen(lane);
    for (size_t i = 0; i < settings_table_count; i++) {
        const char *one = settings_table[i].key;
        size_t len = strlen(lane);
        size_t key_len = strlen(one);

        if (!lane_section_is(settings_table[i].section) || len < key_len + 1 ||
            lane[len - key_len - 1] != '_' || strcmp(lane + len - key_len, one) != 0)
            continue;
        *key = lane + len - key_len;
        (*key)[-1] = '\0';
        break;
    }
    return true;
}

enum rc lane_sections_name(struct lane_sections *sections, const char *section,
                           struct config_source source, struct err *err)
{
    struct lane_section *lane;

    return take_section(sections, section, source, NULL, &lane, err);
}

enum rc lane_sections_store(struct lane_sections *sections, const char *section,
                            const struct setting *setting, const char *value,
                            struct config_source source, struct err *err)
{
    struct config_source *was;
    struct lane_section *lane;
    enum rc rc = take_section(sections, section, source, setting, &lane, err);

    if (rc != RC_OK)
        return rc;
    was = &lane->sources[lane_key_index(setting)];
    rc = place_check_once(*was, source, err);
    if (rc == RC_OK)
        rc = setting_store(setting, &lane->values, value, err);
    if (rc == RC_OK)
        *was = source;
    return rc;
}

enum rc lane_sections_complete(struct lane_sections *sections, struct settings *settings,
                               const char *path, struct config_source lanes_source, struct err *err)
{
    const char *lanes = settings->relay.lanes;
    struct lane_sections *ordered;
    size_t len;
    enum rc rc;

    settings->lane_count = 0;
    for (const char *lane; (lane = list_next(&lanes, ',', &len));) {
        if (settings->lane_count == SETTINGS_LANES_MAX) {
            err_set(err, "lists more lanes than one process serves; expected %d at most",
                    SETTINGS_LANES_MAX);
            return place_blame(path, lanes_source, "relay", "lanes", err);
        }
        snprintf(settings->lanes[settings->lane_count++].name, SETTING_NAME_SIZE, "%.*s", (int)len,
                 lane);
    }
    rc = check_listed(sections, settings, path, err);
    if (rc != RC_OK)
        return rc;
    ordered = calloc(1, sizeof(*ordered));
    if (!ordered) {
        rc = err_fail(err, RC_FATAL, 0, "out of memory");
    } else {
        order_sections(sections, settings, ordered);
        *sections = *ordered;
        for (size_t i = 0; i < sections->count; i++)
            settings->lanes[i] = sections->list[i].values;
        rc = check_tables(sections, path, err);
    }
    free(ordered);
    return rc;
}

bool role_section_is(const char *section)
{
    return strncmp(section, SETTINGS_ROLE_PREFIX, strlen(SETTINGS_ROLE_PREFIX)) == 0;
}

enum rc role_section_check(const char *section, struct err *err)
{
    const char *name = section + strlen(SETTINGS_ROLE_PREFIX);
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < settings_roles_count; i++) {
        if (strcmp(settings_roles[i], name) == 0)
            return RC_OK;
        nearest_offer(&nearest, settings_roles[i]);
    }
    if (nearest.word)
        return err_fail(err, RC_FATAL, 0,
                        "[%.60s]: there is no such role; did you mean [" SETTINGS_ROLE_PREFIX
                        "%s]?",
                        section, nearest.word);
    return err_fail(err, RC_FATAL, 0,
                    "[%.60s]: there is no such role; `tallybox config --defaults` names them",
                    section);
}

static enum rc check_role_value(const struct role_sections *sections, const char *heading,
                                const char *name, const char *dot, struct err *err)
{
    if (!dot || dot == name || !dot[1])
        return err_fail(err, RC_FATAL, 0, "expected section.key = value, as in admin.listen = off");
    for (size_t i = 0; i < sections->count; i++) {
        const struct role_value *one = &sections->list[i];
        size_t len = strlen(one->section);

        if (strcmp(one->heading, heading) == 0 && (size_t)(dot - name) == len &&
            memcmp(one->section, name, len) == 0 && strcmp(one->key, dot + 1) == 0)
            return err_fail(err, RC_FATAL, 0, "is set in line %d already", one->line);
    }
    if (sections->count == ROLE_VALUES_MAX)
        return err_fail(err, RC_FATAL, 0, "is one value of roles too many; expected %d at most",
                        ROLE_VALUES_MAX);
    return RC_OK;
}

/* Makes room for one more value, which is zeroed. NULL: no memory. */
static struct role_value *grow_role_sections(struct role_sections *sections)
{
    struct role_value *list =
        realloc(sections->list, (sections->count + 1) * sizeof(*sections->list));

    if (!list)
        return NULL;
    sections->list = list;
    memset(&list[sections->count], 0, sizeof(*list));
    return &list[sections->count];
}

enum rc role_sections_add(struct role_sections *sections, const char *heading, const char *name,
                          const char *value, int line, struct err *err)
{
    const char *dot = place_find_dot(name);
    size_t heading_size = strlen(heading) + 1;
    size_t name_size = strlen(name) + 1;
    struct role_value *one;
    enum rc rc = check_role_value(sections, heading, name, dot, err);

    if (rc != RC_OK)
        return rc;
    one = grow_role_sections(sections);
    if (one)
        one->texts = malloc(heading_size + name_size + strlen(value) + 1);
    if (!one || !one->texts)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    memcpy(one->texts, heading, heading_size);
    memcpy(one->texts + heading_size, name, name_size);
    memcpy(one->texts + heading_size + name_size, value, strlen(value) + 1);
    one->texts[heading_size + (size_t)(dot - name)] = '\0';
    one->heading = one->texts;
    one->role = one->texts + strlen(SETTINGS_ROLE_PREFIX);
    one->section = one->texts + heading_size;
    one->key = one->section + (dot - name) + 1;
    one->value = one->texts + heading_size + name_size;
    one->line = line;
    sections->count++;
    return RC_OK;
}

void role_sections_done(struct role_sections *sections)
{
    for (size_t i = 0; i < sections->count; i++)
        free(sections->list[i].texts);
    free(sections->list);
    *sections = (struct role_sections){0};
}
