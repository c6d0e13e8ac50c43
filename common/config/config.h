/* SPDX-License-Identifier: MIT */
/* Reads settings: the defaults of the table, then one INI file, then TALLYBOX_SECTION_KEY from the
 * environment, then --set section.key=value; later wins. An unknown key, a bad value or a value
 * out of range names its place, what was expected and the nearest known key. Main thread only. */
#ifndef COMMON_CONFIG_CONFIG_H
#define COMMON_CONFIG_CONFIG_H

#include "common/buf.h"
#include "common/config/settings.h"

#include <stdbool.h>
#include <stddef.h>

/* Where a value came from, per entry of settings_table and per [kafka] property. */
struct config;

/* path NULL: ./tallybox.ini if there is one, else no file. sets: count texts "section.key=value",
 * borrowed for the call. environ_entries: a NULL-ended "NAME=value" array, or NULL.
 * On RC_OK *out is the caller's until config_free(). RC_FATAL: err names the place; no config. */
enum rc config_load(struct config **out, const char *path, const char *const *sets, size_t count,
                    const char *const *environ_entries, struct err *err);
void config_free(struct config *config);

/* The frozen settings; they live as long as the config. */
const struct settings *config_settings(const struct config *config);

/* Every effective setting with where it came from, secrets masked, as an INI file with comments;
 * or as JSON ({"section.key":{"value","source"}}). */
void config_print(const struct config *config, struct buf *out);
void config_print_json(const struct config *config, struct buf *out);

/* A complete commented file with the defaults; and the same table as Markdown, for
 * docs/settings.md. */
void config_print_defaults(struct buf *out);
void config_print_table(struct buf *out);

/* A setting that has another value in a config that was read later. */
struct config_change {
    const char *section;
    const char *key; /* "*" for all of [kafka] */
    bool live;       /* it was taken over */
    const char *was; /* of a live one; "" otherwise, which may be secret */
    const char *now;
};

typedef void (*config_on_change)(void *ctx, const struct config_change *change);

/* Takes over the live settings of fresh while other threads run; the other settings stay. Calls
 * on_change for each setting that differs. One thread at a time. */
void config_take_live(struct config *config, const struct config *fresh, config_on_change on_change,
                      void *ctx);

#endif
