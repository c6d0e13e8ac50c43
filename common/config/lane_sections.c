/* SPDX-License-Identifier: MIT */
#include "common/config/lane_sections.h"

#include "common/list.h"
#include "common/nearest.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    snprintf(section->values.name, sizeof(section->values.name), "%s", name);
    snprintf(section->values.table, sizeof(section->values.table), "%s", name);
    snprintf(section->values.source, sizeof(section->values.source), "%s", LANE_SOURCE_TABLE);
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
