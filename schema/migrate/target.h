/* SPDX-License-Identifier: MIT */
/* Which databases the settings name, and which sides each one is for. Pure; any thread. */
#ifndef SCHEMA_MIGRATE_TARGET_H
#define SCHEMA_MIGRATE_TARGET_H

#include "common/config/settings.h"

#include <stddef.h>

#define MIGRATE_TARGETS_MAX 2
#define MIGRATE_PLACE_SIZE (2 * SETTING_TEXT_SIZE + 64)

struct migrate_target {
    const struct mysql_settings *settings; /* borrowed */
    unsigned sides;                        /* enum migration_side, or-ed */
    char place[MIGRATE_PLACE_SIZE];        /* "database tallybox at 127.0.0.1:3306" */
};

/* One target when [mysql] and [sink] name the same database, else two, [mysql] first. */
size_t migrate_targets(const struct settings *settings,
                       struct migrate_target targets[MIGRATE_TARGETS_MAX]);

#endif
