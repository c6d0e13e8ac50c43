/* SPDX-License-Identifier: MIT */
/* Finds one setting of the table, checks and stores its value, and prints it. Pure; the main thread
 * uses it before other threads start. */
#ifndef COMMON_CONFIG_SETTING_H
#define COMMON_CONFIG_SETTING_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>

#define SETTING_LANE_EXPECTED "the name of a lane; expected a-z, 0-9 and _, 64 at most"

/* NULL: there is none. Every section lane.NAME has the settings of SETTINGS_LANE. */
const struct setting *setting_find(const char *section, const char *key);
const struct settings_section *setting_section_find(const char *section);

bool setting_is_lane_name(const char *text, size_t len);

/* In this and all functions below, base points to struct settings, or to struct lane_settings for
 * a setting of a lane.
 *
 * Stores text in base. RC_FATAL: nothing was stored; err has the text and what was expected,
 * without the setting and its place. A secret is never in err. */
enum rc setting_store(const struct setting *setting, void *base, const char *text, struct err *err);

/* Appends the value in the form that setting_store() reads; a secret is not masked. */
void setting_put(const struct setting *setting, const void *base, struct buf *out);

/* Appends the possible values: "1..65535", "off or on", "address:port" ... */
void setting_put_range(const struct setting *setting, struct buf *out);

/* True if the value is empty or -1, which means "as in [mysql]" in [sink]. */
bool setting_is_unset(const struct setting *setting, const void *base);

/* The text of a setting of any text kind; the number of a SETTING_NUMBER. */
const char *setting_text(const struct setting *setting, const void *base);
int64_t setting_number(const struct setting *setting, const void *base);

/* Whether a property of librdkafka may hold a secret, judged by its name because librdkafka has no
 * list of such properties. */
bool setting_is_secret_property(const char *name);

#endif
