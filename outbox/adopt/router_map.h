/* SPDX-License-Identifier: MIT */
/* Maps the configuration of a Debezium connector with the outbox event router to settings of a lane
 * with source = binlog, and tells what would differ. Pure; any thread. */
#ifndef OUTBOX_ADOPT_ROUTER_MAP_H
#define OUTBOX_ADOPT_ROUTER_MAP_H

#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/adopt/connector.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t;

/* A zeroed one is ready for use. */
struct router_map {
    char lane[SETTING_NAME_SIZE];
    char table[SETTING_NAME_SIZE]; /* as the connector names it */
    char database[SETTING_NAME_SIZE];
    char columns[SETTING_LIST_SIZE]; /* lane.NAME.columns */
    /* {"SECTION": {"KEY": "VALUE"}}, in the order of a file. No secrets. Each value is one that the
     * setting accepts; another one is a difference. */
    struct json_t *settings;
    /* [{"option": ..., "value": ..., "text": ...}]: options that change the records of the table,
     * or other records that the connector writes, and have no equal; and what to know. */
    struct json_t *differences;
    struct json_t *notes;
};

/* lane: its name; NULL: made from that of the table. RC_REJECT: the connector cannot be mapped, as
 * without the event router or with more than one table. RC_FATAL: no memory. */
enum rc router_map_make(struct router_map *map, const struct connector *connector, const char *lane,
                        struct err *err);

/* Accepts a zeroed one. */
void router_map_done(struct router_map *map);

/* The column of a field of LANE_FIELDS. */
const char *router_map_column(const struct router_map *map, const char *field,
                              char column[SETTING_NAME_SIZE]);

/* Adds the difference that the lane cannot read the table at all. All texts are copied. */
void router_map_refuse_table(struct router_map *map, const char *table, const char *why);

/* Adds a difference that the definition of the table makes. All texts are copied. */
void router_map_add_difference(struct router_map *map, const char *column, const char *type,
                               const char *text);

/* Adds what a user should know. All texts are copied. */
void router_map_add_note(struct router_map *map, const char *option, const char *text);

/* Takes back the difference that a table with the name outbox makes: it is one of tallybox. */
void router_map_drop_rename(struct router_map *map);

/* lane.NAME.header_columns as it is printed, or "". It lives as long as the map. */
const char *router_map_headers(const struct router_map *map);

/* Whether the lane has the table and the database of the map. RC_REJECT: err names the setting and
 * the value that it should have. */
enum rc router_map_check_table(const struct router_map *map, const struct lane_settings *lane,
                               const struct settings *settings, struct err *err);

/* The same, and whether it has the columns, headers and topics of the map. */
enum rc router_map_check_lane(const struct router_map *map, const struct lane_settings *lane,
                              const struct settings *settings, struct err *err);

#endif
