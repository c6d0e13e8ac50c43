/* SPDX-License-Identifier: MIT */
/* The sections [lane.NAME] while settings are read: a section may come before relay.lanes lists its
 * lane, so the values are kept by name until all sources have been read. Main thread. */
#ifndef COMMON_CONFIG_LANE_SECTIONS_H
#define COMMON_CONFIG_LANE_SECTIONS_H

#include "common/config/place.h"
#include "common/config/setting.h"
#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define LANE_KEYS_MAX 8
#define LANE_SECTION_SIZE (sizeof(SETTINGS_LANE_PREFIX) + SETTING_NAME_SIZE)

struct lane_section {
    struct lane_settings values;
    struct config_source sources[LANE_KEYS_MAX]; /* by lane_key_index() */
    struct config_source first;                  /* where the section was named first */
    const struct setting *first_key;             /* NULL: by its heading */
};

struct lane_sections {
    struct lane_section list[SETTINGS_LANES_MAX];
    size_t count;
};

/* Whether section has the form lane.NAME, with any NAME. */
bool lane_section_is(const char *section);

/* "lane.outbox" from "outbox". */
void lane_section_name(const char *lane, char section[LANE_SECTION_SIZE]);

/* RC_FATAL: the name of the lane is not valid; err says what was expected, without the place. */
enum rc lane_section_check(const char *section, struct err *err);

/* The index of a setting of lanes among them, below LANE_KEYS_MAX. */
size_t lane_key_index(const struct setting *setting);

/* Splits "lane_outbox_1_table" into "lane.outbox_1", which stays in name, and *key "table". *key is
 * "" when the name ends with no key of lanes. False: the name does not begin with "lane_". */
bool lane_section_split_variable(char *name, char **key);

/* A heading names the section of a lane, which has the defaults until values follow. section:
 * checked. RC_FATAL: there are SETTINGS_LANES_MAX already. */
enum rc lane_sections_name(struct lane_sections *sections, const char *section,
                           struct config_source source, struct err *err);

/* Checks and stores one value of a lane. RC_FATAL: err says what was expected, without its
 * place. */
enum rc lane_sections_store(struct lane_sections *sections, const char *section,
                            const struct setting *setting, const char *value,
                            struct config_source source, struct err *err);

/* Fills settings->lanes with the lanes of relay.lanes, in its order. A lane without a section gets
 * the defaults; afterwards sections holds those lanes in the same order. lanes_source: of
 * relay.lanes. RC_FATAL: a section of a lane that relay.lanes does not list, too many lanes, or
 * a table that two lanes read; err names the place. */
enum rc lane_sections_complete(struct lane_sections *sections, struct settings *settings,
                               const char *path, struct config_source lanes_source,
                               struct err *err);

#endif
