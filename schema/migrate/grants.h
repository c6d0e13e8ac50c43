/* SPDX-License-Identifier: MIT */
/* The rights each role's account needs, as SQL: schema/migrate/grants.sql with the names of this
 * installation's databases and lanes. Pure; any thread. */
#ifndef SCHEMA_MIGRATE_GRANTS_H
#define SCHEMA_MIGRATE_GRANTS_H

#include "common/buf.h"
#include "common/config/settings.h"

#include <stddef.h>

/* schema/migrate/grants.sql, compiled in. */
extern const unsigned char grants_sql[];
extern const size_t grants_sql_len;

/* Appends the statements for the databases, api.lane_count and the lanes of the settings, one
 * part for each server where there are two. out->failed: no memory. */
void grants_put(struct buf *out, const struct settings *settings);

#endif
