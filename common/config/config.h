/* SPDX-License-Identifier: MIT */
/* Reads settings: the defaults of the table, then one INI file, then its section [role.NAME] of the
 * role that reads, then TALLYBOX_SECTION_KEY from the environment, then --set section.key=value. A
 * later source replaces an earlier one. The error for an unknown key, a bad value or a value out of
 * range names the place, what was expected and the nearest known key. Main thread only. */
#ifndef COMMON_CONFIG_CONFIG_H
#define COMMON_CONFIG_CONFIG_H

#include "common/config/settings.h"

#include <stdbool.h>
#include <stddef.h>

/* The settings, and the source of each value. */
struct config;

/* Reads all sources. role: whose section [role.NAME] counts, or NULL; the sections of other roles
 * are checked, one value at a time. path: NULL for ./tallybox.ini, which may be missing. sets:
 * count texts "section.key=value", borrowed for the call. environ_entries: a NULL-ended array of
 * "NAME=value", or NULL. On RC_OK the caller owns *out until config_free(). On RC_FATAL err names
 * the place, and *out is NULL. */
enum rc config_load(struct config **out, const char *role, const char *path,
                    const char *const *sets, size_t count, const char *const *environ_entries,
                    struct err *err);
void config_free(struct config *config);

/* Whether the file has a value for this role. */
bool config_has_role(const struct config *config, const char *role);

/* The path of the file that was read, or NULL: there was none. It lives as long as the config. */
const char *config_file(const struct config *config);

/* The settings. They live as long as the config. */
const struct settings *config_settings(const struct config *config);

/* Gets every effective setting and property of librdkafka, section by section, with secrets masked
 * and the place that it came from; and, if the config is of no role, the values of all sections
 * [role.NAME], with keys like "admin.listen". The texts live for the call. */
typedef void (*config_on_value)(void *ctx, const char *section, const char *key, const char *value,
                                const char *place, bool is_number);

void config_each_value(const struct config *config, config_on_value on_each, void *ctx);

/* A setting whose value differs in a config that was read later. */
struct config_change {
    const char *section;
    const char *key; /* "*" for all of [kafka] */
    bool live;       /* the new value is in force */
    const char *was; /* of a live setting; "" otherwise, because it may be secret */
    const char *now;
};

typedef void (*config_on_change)(void *ctx, const struct config_change *change);

/* Copies the live settings of fresh into config while other threads run; the other settings keep
 * their values. Calls on_change for each setting that differs. One thread at a time. */
void config_take_live(struct config *config, const struct config *fresh, config_on_change on_change,
                      void *ctx);

#endif
