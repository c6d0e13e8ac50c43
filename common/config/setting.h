/* SPDX-License-Identifier: MIT */
/* One setting of the table: finding it, checking and storing a text, printing it back. Pure; the
 * main thread uses it before others start. */
#ifndef COMMON_CONFIG_SETTING_H
#define COMMON_CONFIG_SETTING_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>

#define SETTING_LANE_EXPECTED "the name of a lane; expected a-z, 0-9 and _, 64 at most"

/* NULL when there is none. Every section lane.NAME has the settings of SETTINGS_LANE. */
const struct setting *setting_find(const char *section, const char *key);
const struct settings_section *setting_section_find(const char *section);

bool setting_is_lane_name(const char *text, size_t len);

/* base, here and below: the struct settings, or the struct lane_settings for a setting of a lane.
 *
 * Stores text in base. RC_FATAL: nothing was stored; err says what text is and what was
 * expected, without naming the setting or its place. A secret is never in err. */
enum rc setting_store(const struct setting *setting, void *base, const char *text, struct err *err);

/* The value as setting_store() takes it; a secret is put as it is too. */
void setting_put(const struct setting *setting, const void *base, struct buf *out);

/* What it may be: "1..65535", "off | on | verify", "address:port" ... */
void setting_put_range(const struct setting *setting, struct buf *out);

/* Empty, or -1 where that is the default: in [sink] this means "as in [mysql]". */
bool setting_is_unset(const struct setting *setting, const void *base);

/* The text of a setting of any text kind; the number of a SETTING_NUMBER. */
const char *setting_text(const struct setting *setting, const void *base);
int64_t setting_number(const struct setting *setting, const void *base);

/* Whether a property of librdkafka may hold a secret, by its name: librdkafka has no list of
 * them. */
bool setting_is_secret_property(const char *name);

#endif
