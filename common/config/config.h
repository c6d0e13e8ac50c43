/* SPDX-License-Identifier: MIT */
/* Reads settings: the defaults of the table, then one INI file, then TALLYBOX_SECTION_KEY from the
 * environment, then --set section.key=value. A later source replaces an earlier one. The error for
 * an unknown key, a bad value or a value out of range names the place, what was expected and the
 * nearest known key. Main thread only. */
#ifndef COMMON_CONFIG_CONFIG_H
#define COMMON_CONFIG_CONFIG_H

#include "common/buf.h"
#include "common/config/settings.h"

#include <stdbool.h>
#include <stddef.h>

/* The settings, and the source of each value. */
struct config;

/* Reads all sources. path: NULL for ./tallybox.ini, which may be missing. sets: count texts
 * "section.key=value", borrowed for the call. environ_entries: a NULL-ended array of "NAME=value",
 * or NULL. On RC_OK the caller owns *out until config_free(). On RC_FATAL err names the place, and
 * *out is NULL. */
enum rc config_load(struct config **out, const char *path, const char *const *sets, size_t count,
                    const char *const *environ_entries, struct err *err);
void config_free(struct config *config);

/* The settings. They live as long as the config. */
const struct settings *config_settings(const struct config *config);

/* Appends every effective setting with its source and with secrets masked: as an INI file with
 * comments, or as JSON ({"section.key":{"value","source"}}). */
void config_print(const struct config *config, struct buf *out);
void config_print_json(const struct config *config, struct buf *out);

/* Appends a complete file with comments and the defaults, or the same table as Markdown for
 * docs/settings.md. */
void config_print_defaults(struct buf *out);
void config_print_table(struct buf *out);

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
