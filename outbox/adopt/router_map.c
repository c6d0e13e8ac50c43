/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/router_map.h"

#include "common/buf.h"
#include "common/config/lane_texts.h"
#include "common/text.h"
#include "outbox/adopt/java_regex.h"
#include "outbox/adopt/router_rules.h"
#include "outbox/adopt/setting_line.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROUTER_CLASS "io.debezium.transforms.outbox.EventRouter"
#define ROUTED_BY "${routedByValue}"
#define REGEX_STANDARD "(?<routedByValue>.*)"
#define TOPIC_STANDARD "outbox.event." ROUTED_BY
#define OPTION_SIZE 256
#define TABLE_OF_TALLYBOX "outbox"
#define RENAME_FIRST                                                                         \
    "`tallybox migrate up` makes a table of this name and refuses to work beside one of an " \
    "application: rename that first, see \"A table with the name outbox\" in docs/debezium.md"
#define SEVERAL_TABLES "see \"A connector for several tables\" in docs/debezium.md"

/* Where the router keeps the names of columns, and the field of LANE_FIELDS. */
static const struct {
    const char *option; /* behind transforms.NAME. */
    const char *standard;
    const char *field;
} fields[] = {
    {"table.field.event.id", "id", "id"},
    {"route.by.field", "aggregatetype", "aggregatetype"},
    {"table.field.event.key", "aggregateid", "aggregateid"},
    {"table.field.event.type", "type", "type"},
    {"table.field.event.payload", "payload", "payload"},
    {"table.field.event.timestamp", "created_at", "created_at"},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

struct mapping {
    struct router_map *map;
    const struct connector *connector;
    char router[OPTION_SIZE]; /* "transforms.outbox." */
};

void router_map_done(struct router_map *map)
{
    json_decref(map->settings);
    json_decref(map->differences);
    json_decref(map->notes);
    map->settings = map->differences = map->notes = NULL;
}

/* value: NULL where it may be a secret, or there is none. Control characters of it are not kept. */
static void add_finding(json_t *list, const char *option, const char *value, const char *text)
{
    char *clean = value ? strdup(value) : NULL;

    if (clean)
        utf8_clean(clean);
    json_array_append_new(
        list, json_pack("{s:s, s:s?, s:s}", "option", option, "value", clean, "text", text));
    free(clean);
}

/* option: of the connector, for the difference that a value makes which the setting refuses.
 * Returns whether the setting is there now. */
static bool add_setting(struct router_map *map, const char *option, const char *section,
                        const char *key, const char *value)
{
    json_t *keys = json_object_get(map->settings, section);
    struct err err = {0};

    if (setting_line_check(section, key, value, &err) != RC_OK) {
        err_wrap(&err, "%s.%s cannot have this value", section, key);
        add_finding(map->differences, option, value, err.text);
        return false;
    }
    if (!keys) {
        json_object_set_new(map->settings, section, json_object());
        keys = json_object_get(map->settings, section);
    }
    json_object_set_new(keys, key, json_string(value));
    return true;
}

static void put_section(const struct router_map *map,
                        char section[SETTING_NAME_SIZE + sizeof(SETTINGS_LANE_PREFIX)])
{
    snprintf(section, SETTING_NAME_SIZE + sizeof(SETTINGS_LANE_PREFIX), "%s%s",
             SETTINGS_LANE_PREFIX, map->lane);
}

static bool add_lane_setting(struct router_map *map, const char *option, const char *key,
                             const char *value)
{
    char section[SETTING_NAME_SIZE + sizeof(SETTINGS_LANE_PREFIX)];

    put_section(map, section);
    return add_setting(map, option, section, key, value);
}

static const char *router_option(const struct mapping *mapping, const char *name,
                                 const char *standard)
{
    char option[2 * OPTION_SIZE];

    snprintf(option, sizeof(option), "%s%s", mapping->router, name);
    return connector_option_or(mapping->connector, option, standard);
}

static void add_router_difference(struct mapping *mapping, const char *name, const char *value,
                                  const char *text)
{
    char option[2 * OPTION_SIZE];

    snprintf(option, sizeof(option), "%s%s", mapping->router, name);
    add_finding(mapping->map->differences, option, value, text);
}

/* A setting of the lane that an option of the router makes. */
static bool add_router_setting(struct mapping *mapping, const char *name, const char *key,
                               const char *value)
{
    char option[2 * OPTION_SIZE];

    snprintf(option, sizeof(option), "%s%s", mapping->router, name);
    return add_lane_setting(mapping->map, option, key, value);
}

/* A name, in which dots may be escaped because the option is a list of regular expressions. Returns
 * false for another expression. */
static bool take_plain_name(const char **at, const char *end, char *name, size_t size)
{
    size_t len = 0;

    while (*at < end && **at != '.' && **at != '\\') {
        if (strchr("*+?()[]{}|^$", **at) || len + 1 >= size)
            return false;
        name[len++] = *(*at)++;
    }
    name[len] = '\0';
    if (*at < end && **at == '\\')
        (*at)++;
    if (*at < end && **at != '.')
        return false;
    *at += *at < end;
    return len > 0;
}

/* The next word of a list, without blanks around it. */
static const char *next_word(const char **rest, char separator, size_t *len)
{
    const char *word = list_next(rest, separator, len);

    while (word && *len > 0 && isspace((unsigned char)*word)) {
        word++;
        (*len)--;
    }
    while (word && *len > 0 && isspace((unsigned char)word[*len - 1]))
        (*len)--;
    return word;
}

static enum rc choose_table(struct mapping *mapping, struct err *err)
{
    struct router_map *map = mapping->map;
    const char *list = connector_option(mapping->connector, "table.include.list");
    const char *rest = list;
    size_t len = 0;
    const char *word = next_word(&rest, ',', &len);
    const char *end = word ? word + len : NULL;

    if (!word)
        return err_fail(err, RC_REJECT, 0,
                        "the connector has no table.include.list, so it captures other tables, "
                        "too: give the outbox table a connector of its own first, " SEVERAL_TABLES);
    if (list_count(list) != 1)
        return err_fail(
            err, RC_REJECT, 0,
            "table.include.list names %zu tables, of which tallybox publishes the "
            "outbox table only: give that a connector of its own first, " SEVERAL_TABLES,
            list_count(list));
    if (!setting_line_is_one(list) ||
        !take_plain_name(&word, end, map->database, sizeof(map->database)) ||
        !take_plain_name(&word, end, map->table, sizeof(map->table)) || word != end)
        return err_fail(err, RC_REJECT, 0,
                        "table.include.list is \"%.150s\": expected the name of one table, as "
                        "shop.outboxevent, not an expression for several",
                        list);
    if (strcasecmp(map->table, TABLE_OF_TALLYBOX) == 0)
        add_finding(map->differences, "table.include.list", list, RENAME_FIRST);
    return RC_OK;
}

static enum rc choose_lane(struct router_map *map, const char *lane, struct err *err)
{
    if (!lane) {
        snprintf(map->lane, sizeof(map->lane), "%s", map->table);
        for (char *at = map->lane; *at; at++)
            *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
        return RC_OK;
    }
    if (!setting_is_lane_name(lane, strlen(lane)))
        return err_fail(err, RC_REJECT, 0, "\"%.80s\" is not " SETTING_LANE_EXPECTED, lane);
    snprintf(map->lane, sizeof(map->lane), "%s", lane);
    return RC_OK;
}

/* Other transforms are differences. */
static enum rc find_router(struct mapping *mapping, struct err *err)
{
    const char *list = connector_option_or(mapping->connector, "transforms", "");
    const char *rest = list;
    const char *word;
    size_t len;

    while ((word = next_word(&rest, ',', &len)) != NULL) {
        char option[OPTION_SIZE];
        const char *type;

        snprintf(option, sizeof(option), "transforms.%.*s.type", (int)(len < 128 ? len : 128),
                 word);
        type = connector_option_or(mapping->connector, option, "");
        if (strcmp(type, ROUTER_CLASS) != 0)
            add_finding(mapping->map->differences, option, type,
                        "this transform changes, drops or moves records; tallybox runs none");
        else if (mapping->router[0])
            return err_fail(err, RC_REJECT, 0, "transforms has the event router twice");
        else
            snprintf(mapping->router, sizeof(mapping->router), "transforms.%.*s.",
                     (int)(len < 128 ? len : 128), word);
    }
    if (mapping->router[0])
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "transforms has no %s: only connectors with the outbox event router can be "
                    "taken over",
                    ROUTER_CLASS);
}

/* A comma or '=' in a name would make another pair of it. */
static bool can_name_column(struct mapping *mapping, const char *name, const char *column)
{
    const struct setting *table = setting_find(SETTINGS_LANE, "table");
    struct lane_settings scratch;

    if (setting_store(table, &scratch, column, NULL) == RC_OK)
        return true;
    add_router_difference(mapping, name, column,
                          "lane.NAME.columns cannot name this column: expected letters, digits "
                          "and _, 64 at most");
    return false;
}

static enum rc map_columns(struct mapping *mapping, struct err *err)
{
    struct router_map *map = mapping->map;
    struct buf columns = {0};
    enum rc rc = RC_OK;

    for (size_t i = 0; i < FIELDS; i++) {
        const char *column = router_option(mapping, fields[i].option, fields[i].standard);

        if (strcmp(column, fields[i].field) == 0 ||
            !can_name_column(mapping, fields[i].option, column))
            continue;
        buf_print(&columns, "%s%s=%s", columns.len > 0 ? ", " : "", fields[i].field, column);
    }
    if (columns.len >= sizeof(map->columns))
        rc = err_fail(err, RC_REJECT, 0, "the names of the columns are too long");
    else
        snprintf(map->columns, sizeof(map->columns), "%s", buf_text(&columns));
    if (map->columns[0])
        add_router_setting(mapping, "table.field.event.*", "columns", map->columns);
    buf_done(&columns);
    return rc;
}

/* One part of table.fields.additional.placement: column:header|envelope|partition[:alias]. */
static void map_placement(struct mapping *mapping, const char *word, size_t len,
                          struct buf *headers)
{
    static const char option[] = "table.fields.additional.placement";
    const char *pieces[3] = {"", "", ""};
    size_t lens[3] = {0};
    char part[OPTION_SIZE];
    const char *rest = part;
    size_t count = 0;

    snprintf(part, sizeof(part), "%.*s", (int)(len < sizeof(part) ? len : sizeof(part) - 1), word);
    while (count < 3 && (pieces[count] = next_word(&rest, ':', &lens[count])) != NULL)
        count++;
    if (len >= sizeof(part) || count < 2 || lens[0] == 0) {
        add_router_difference(mapping, option, part,
                              "expected COLUMN:header or COLUMN:header:NAME");
        return;
    }
    if (lens[1] != 6 || strncasecmp(pieces[1], "header", 6) != 0) {
        add_router_difference(mapping, option, part,
                              "tallybox puts columns into headers only, not around the payload and "
                              "not into the partition");
        return;
    }
    buf_print(headers, "%s%.*s", headers->len > 0 ? ", " : "", (int)lens[0], pieces[0]);
    if (count == 3 && lens[2] > 0)
        buf_print(headers, ":%.*s", (int)lens[2], pieces[2]);
}

static void map_headers(struct mapping *mapping)
{
    static const char option[] = "table.fields.additional.placement";
    const char *rest = router_option(mapping, option, NULL);
    struct buf headers = {0};
    const char *word;
    size_t len;

    while ((word = next_word(&rest, ',', &len)) != NULL)
        map_placement(mapping, word, len, &headers);
    if (headers.len > 0)
        add_router_setting(mapping, option, "header_columns", buf_text(&headers));
    buf_done(&headers);
}

/* The standard expression has one group, which is the whole value. */
static void put_standard_topic(struct buf *topic, const char *replacement)
{
    for (const char *at = replacement; *at; at++) {
        bool is_value = *at == '$' && (at[1] == '0' || at[1] == '1');

        if (is_value)
            buf_text_put(topic, ROUTED_BY);
        else
            buf_char(topic, *at);
        at += is_value;
    }
}

/* The whole routed value is what `topic` calls ${routedByValue}, too. */
static void map_topic(struct mapping *mapping)
{
    const char *regex = router_option(mapping, "route.topic.regex", REGEX_STANDARD);
    const char *replacement = router_option(mapping, "route.topic.replacement", TOPIC_STANDARD);
    bool is_standard = strcmp(regex, REGEX_STANDARD) == 0;
    struct buf posix = {0};
    struct buf topic = {0};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (is_standard)
        put_standard_topic(&topic, replacement);
    else
        rc = java_regex_translate(regex, replacement, &posix, &topic, &err);
    if (rc != RC_OK)
        add_router_difference(mapping, "route.topic.regex", regex, err.text);
    else if ((!is_standard || strcmp(buf_text(&topic), TOPIC_STANDARD) != 0) &&
             add_router_setting(mapping, "route.topic.replacement", "topic", buf_text(&topic)) &&
             !is_standard)
        add_router_setting(mapping, "route.topic.regex", "topic_regex", buf_text(&posix));
    buf_done(&posix);
    buf_done(&topic);
}

static void map_settings(struct mapping *mapping)
{
    struct router_map *map = mapping->map;
    const char *host = connector_option(mapping->connector, "database.hostname");
    const char *port = connector_option(mapping->connector, "database.port");
    const char *support = connector_option_or(mapping->connector, "exactly.once.support", "");

    if (host)
        add_setting(map, "database.hostname", "mysql", "host", host);
    if (port)
        add_setting(map, "database.port", "mysql", "port", port);
    add_setting(map, "table.include.list", "mysql", "database", map->database);
    add_setting(map, "table.include.list", "relay", "lanes", map->lane);
    /* The router writes no headers of CloudEvents, and knows no other topics of types. */
    add_setting(map, "transforms", "relay", "ce_source", "");
    add_setting(map, "transforms", "relay", "topics", "");
    add_lane_setting(map, "table.include.list", "table", map->table);
    add_lane_setting(map, "connector.class", "source", LANE_SOURCE_BINLOG);
    if (strcasecmp(support, "required") == 0)
        add_lane_setting(map, "exactly.once.support", "exactly_once", "yes");
}

/* Each word of the value is. */
static bool is_fine(const struct router_rule *rule, const char *value)
{
    const char *rest = value;
    const char *word;
    size_t len;

    if (!rule->fine)
        return false;
    while ((word = next_word(&rest, ',', &len)) != NULL) {
        char text[OPTION_SIZE];

        snprintf(text, sizeof(text), "%.*s", (int)(len < sizeof(text) ? len : sizeof(text) - 1),
                 word);
        if (len > 0 && !list_has(rule->fine, text))
            return false;
    }
    return true;
}

static void apply_rule(struct mapping *mapping, const struct router_rule *rule, const char *option,
                       const char *value)
{
    if (rule->effect == ROUTER_RULE_EQUAL || is_fine(rule, value))
        return;
    add_finding(rule->effect == ROUTER_RULE_NOTE ? mapping->map->notes : mapping->map->differences,
                router_rule_shown_name(rule, option), router_rule_shows_value(rule) ? value : NULL,
                rule->text);
}

static void apply_rules(struct mapping *mapping)
{
    size_t prefix = strlen(mapping->router);
    const char *option;
    json_t *value;

    json_object_foreach(mapping->connector->options, option, value) {
        bool of_router = strncmp(option, mapping->router, prefix) == 0;
        const struct router_rule *rule =
            router_rule_find(of_router ? option + prefix : option, of_router);

        if (rule)
            apply_rule(mapping, rule, option, json_string_value(value));
        else if (of_router || strncmp(option, "transforms.", strlen("transforms.")) != 0)
            add_finding(mapping->map->differences, option, NULL,
                        "this option is not known to tallybox; find out what it changes");
    }
}

/* These have effects where they are not set. */
static void add_unset(struct mapping *mapping)
{
    static const char *const converters[] = {"key.converter", "value.converter"};
    const struct connector *connector = mapping->connector;

    for (size_t i = 0; i < 2; i++)
        if (!connector_option(connector, converters[i]))
            add_finding(mapping->map->differences, converters[i], NULL,
                        "the connector has the converter of its worker, which is not in this "
                        "configuration: if that is org.apache.kafka.connect.storage."
                        "StringConverter, records are the same; add the option to the "
                        "configuration to say so");
    if (!connector_option(connector, "include.schema.changes"))
        add_finding(mapping->map->notes, "include.schema.changes", NULL,
                    "by default the connector writes changes of tables into the topic that is "
                    "named as topic.prefix; tallybox does not");
    if (!router_option(mapping, "table.field.event.timestamp", NULL))
        add_finding(mapping->map->notes, "table.field.event.timestamp", NULL,
                    "a column created_at, if the table has one, becomes the time of the record; "
                    "the connector takes the time at which it reads the row");
    add_finding(mapping->map->notes, "transforms", NULL,
                "records also have the header lane, and seq if the table has such a column; they "
                "lack the headers __debezium.context.* (connectorLogicalName, connectorName, "
                "taskId, runId) of newer connectors");
    if (!connector_option(connector, "topic.prefix"))
        add_finding(mapping->map->notes, "topic.prefix", NULL,
                    "without it the offsets of the connector cannot be found");
}

enum rc router_map_make(struct router_map *map, const struct connector *connector, const char *lane,
                        struct err *err)
{
    struct mapping mapping = {.map = map, .connector = connector};
    enum rc rc;

    memset(map, 0, sizeof(*map));
    map->settings = json_object();
    map->differences = json_array();
    map->notes = json_array();
    if (!map->settings || !map->differences || !map->notes)
        rc = err_fail(err, RC_FATAL, 0, "no memory for a report");
    else
        rc = find_router(&mapping, err);
    if (rc == RC_OK)
        rc = choose_table(&mapping, err);
    if (rc == RC_OK)
        rc = choose_lane(map, lane, err);
    if (rc == RC_OK) {
        map_settings(&mapping);
        rc = map_columns(&mapping, err);
    }
    if (rc != RC_OK) {
        router_map_done(map);
        return rc;
    }
    map_headers(&mapping);
    map_topic(&mapping);
    if (strcasecmp(router_option(&mapping, "route.tombstone.on.empty.payload", "false"), "true") ==
        0)
        add_router_setting(&mapping, "route.tombstone.on.empty.payload", "empty_payload",
                           "tombstone");
    apply_rules(&mapping);
    add_unset(&mapping);
    return RC_OK;
}

static const char *lane_setting(const struct router_map *map, const char *key, const char *standard)
{
    char section[SETTING_NAME_SIZE + sizeof(SETTINGS_LANE_PREFIX)];
    const char *value;

    put_section(map, section);
    value = json_string_value(json_object_get(json_object_get(map->settings, section), key));
    return value ? value : standard;
}

const char *router_map_column(const struct router_map *map, const char *field,
                              char column[SETTING_NAME_SIZE])
{
    const char *rest = map->columns;
    const char *word;
    size_t len;

    snprintf(column, SETTING_NAME_SIZE, "%s", field);
    while ((word = next_word(&rest, ',', &len)) != NULL) {
        size_t name = strlen(field);

        if (len > name && strncmp(word, field, name) == 0 && word[name] == '=')
            snprintf(column, SETTING_NAME_SIZE, "%.*s", (int)(len - name - 1), word + name + 1);
    }
    return column;
}

void router_map_refuse_table(struct router_map *map, const char *table, const char *why)
{
    char option[SETTING_NAME_SIZE + 16];
    char text[sizeof(((struct err *)NULL)->text) + 32];

    snprintf(option, sizeof(option), "table %s", table);
    snprintf(text, sizeof(text), "the lane would not start: %s", why);
    add_finding(map->differences, option, NULL, text);
}

void router_map_add_difference(struct router_map *map, const char *column, const char *type,
                               const char *text)
{
    char option[SETTING_NAME_SIZE + 16];

    snprintf(option, sizeof(option), "column %s", column);
    add_finding(map->differences, option, type, text);
}

void router_map_add_note(struct router_map *map, const char *option, const char *text)
{
    add_finding(map->notes, option, NULL, text);
}

void router_map_drop_rename(struct router_map *map)
{
    for (size_t i = 0; i < json_array_size(map->differences); i++) {
        const json_t *one = json_array_get(map->differences, i);

        if (strcmp(json_string_value(json_object_get(one, "text")), RENAME_FIRST) == 0)
            json_array_remove(map->differences, i);
    }
}

const char *router_map_headers(const struct router_map *map)
{
    return lane_setting(map, "header_columns", "");
}

/* Blanks in lists mean nothing. */
static bool is_same_list(const char *left, const char *right)
{
    for (;;) {
        left += strspn(left, " ");
        right += strspn(right, " ");
        if (*left != *right)
            return false;
        if (!*left)
            return true;
        left++;
        right++;
    }
}

static enum rc check_text(const struct router_map *map, const struct lane_settings *lane,
                          const char *key, const char *ours, const char *standard, struct err *err)
{
    const char *theirs = lane_setting(map, key, standard);

    if (is_same_list(ours, theirs))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "lane.%s.%s is \"%.100s\", but the connector has \"%.150s\"",
                    lane->name, key, ours, theirs);
}

/* The router has no equal of these. */
static enum rc check_relay(const struct lane_settings *lane, const struct settings *settings,
                           struct err *err)
{
    const char *topics = lane->topics[0] ? lane->topics : settings->relay.topics;

    if (topics[0])
        return err_fail(err, RC_REJECT, 0,
                        "%s%s.topics gives types other topics (\"%.100s\") than the connector: set "
                        "`relay.topics =`, and lane.NAME.topics for the lanes that need it",
                        lane->topics[0] ? SETTINGS_LANE_PREFIX : "relay",
                        lane->topics[0] ? lane->name : "", topics);
    if (settings->relay.ce_source[0])
        return err_fail(err, RC_REJECT, 0,
                        "relay.ce_source is \"%.100s\", so that records have the headers ce_..., "
                        "which the connector does not write: set `relay.ce_source =`",
                        settings->relay.ce_source);
    return RC_OK;
}

/* Without a topic of its own a lane has relay.topic_prefix and the type. */
static enum rc check_texts(const struct router_map *map, const struct lane_settings *lane,
                           const struct settings *settings, struct err *err)
{
    char topic[SETTING_TEXT_SIZE + sizeof(ROUTED_BY)];
    enum rc rc;

    snprintf(topic, sizeof(topic), "%s%s",
             lane->topic[0] ? lane->topic : settings->relay.topic_prefix,
             lane->topic[0] ? "" : ROUTED_BY);
    rc = check_text(map, lane, "topic", topic, TOPIC_STANDARD, err);
    if (rc == RC_OK)
        rc = check_text(map, lane, "topic_regex", lane->topic_regex, "", err);
    if (rc == RC_OK)
        rc = check_text(map, lane, "header_columns", lane->header_columns, "", err);
    if (rc == RC_OK)
        rc = check_text(map, lane, "empty_payload", lane->empty_payload, LANE_EMPTY_VALUE, err);
    return rc == RC_OK ? check_relay(lane, settings, err) : rc;
}

enum rc router_map_check_table(const struct router_map *map, const struct lane_settings *lane,
                               const struct settings *settings, struct err *err)
{
    const char *database = settings->mysql.database;

    if (strcasecmp(lane->table, map->table) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "lane.%s.table is %s, but the connector reads %s.%s: set it, or name "
                        "another lane",
                        lane->name, lane->table, map->database, map->table);
    if (strcasecmp(database, map->database) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "mysql.database is %.64s, but the connector reads %s.%s: set it", database,
                        map->database, map->table);
    return RC_OK;
}

enum rc router_map_check_lane(const struct router_map *map, const struct lane_settings *lane,
                              const struct settings *settings, struct err *err)
{
    enum rc rc = router_map_check_table(map, lane, settings, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < FIELDS; i++) {
        char ours[SETTING_NAME_SIZE];
        char theirs[SETTING_NAME_SIZE];

        settings_lane_column(lane, fields[i].field, ours);
        router_map_column(map, fields[i].field, theirs);
        if (strcasecmp(ours, theirs) != 0)
            return err_fail(err, RC_REJECT, 0,
                            "lane %s reads %s from column %s, but the connector from %s: set "
                            "lane.%s.columns = %.150s",
                            lane->name, fields[i].field, ours, theirs, lane->name, map->columns);
    }
    return check_texts(map, lane, settings, err);
}
