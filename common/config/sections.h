/* SPDX-License-Identifier: MIT */
/* What is known while settings are read: where each value came from, as error texts and `tallybox
 * config` name it, and the sections [lane.NAME] and [role.NAME]. A section of a lane may come
 * before relay.lanes lists the lane, and one of a role before the sections that it changes, so
 * their values are kept by name until the sources have been read. Main thread. */
#ifndef COMMON_CONFIG_SECTIONS_H
#define COMMON_CONFIG_SECTIONS_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define ENVIRONMENT_PREFIX "TALLYBOX_"
#define PLACE_SIZE 192

enum config_from {
    FROM_DEFAULT,
    FROM_FILE,
    FROM_ROLE, /* [role.NAME] of the file */
    FROM_ENVIRONMENT,
    FROM_SET,
    FROM_PASSWORD_FILE, /* a password, read from its password_file */
    FROM_MYSQL,         /* a setting of [sink] left to [mysql] */
    FROM_RELAY,         /* a setting of [lane.NAME] left to [relay] */
};

struct config_source {
    enum config_from from;
    int line; /* of the file, from 1 */
};

/* "relay", "lease_ms" -> "RELAY_LEASE_MS". Dots become underscores. */
void place_environment_name(const char *section, const char *key, char *name, size_t size);

/* "tallybox.ini:12", "environment TALLYBOX_RELAY_LEASE_MS" ... path: of the file that was read. */
void place_put(const char *path, struct config_source source, const char *section, const char *key,
               char place[PLACE_SIZE]);

/* Puts the place and the setting in front of what err says. Returns RC_FATAL. */
enum rc place_blame(const char *path, struct config_source source, const char *section,
                    const char *key, struct err *err);

/* The dot between section and key of "section.key": of "lane.NAME.key" the second one. NULL: there
 * is none. */
const char *place_find_dot(const char *text);

/* RC_FATAL: the file sets this setting a second time. Of two lines far apart the first is easily
 * taken for the one that counts. */
enum rc place_check_once(struct config_source was, struct config_source now, struct err *err);

#define LANE_KEYS_MAX 16
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

/* A value of a section [role.NAME]. */
struct role_value {
    char *texts;         /* owns the texts below */
    const char *heading; /* "role.relay" */
    const char *role;    /* "relay" */
    const char *section; /* "admin" */
    const char *key;     /* "listen" */
    const char *value;
    int line; /* of the file */
};

/* The values of all sections [role.NAME], in the order of the file. Those of one role are assigned
 * after the whole file was read. */
struct role_sections {
    struct role_value *list;
    size_t count;
};

#define ROLE_VALUES_MAX 1024

/* Whether section has the form role.NAME, with any NAME. */
bool role_section_is(const char *section);

/* RC_FATAL: there is no such role; err names the nearest one, without the place. */
enum rc role_section_check(const char *section, struct err *err);

/* Adds the value of name ("admin.listen") in the section heading ("role.relay"). RC_FATAL: name has
 * no section, the section has it already, or there are too many; err says so without the place. */
enum rc role_sections_add(struct role_sections *sections, const char *heading, const char *name,
                          const char *value, int line, struct err *err);
void role_sections_done(struct role_sections *sections);

#endif
