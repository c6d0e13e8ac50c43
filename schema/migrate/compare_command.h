/* SPDX-License-Identifier: MIT */
/* The comparison of `tallybox migrate verify`, for other commands that check an installation. */
#ifndef SCHEMA_MIGRATE_COMPARE_COMMAND_H
#define SCHEMA_MIGRATE_COMPARE_COMMAND_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>

/* Called for each difference. is_whole: of the table itself, not of a column or index. is_missing:
 * there is none. text: what differs, in one line. table and text are borrowed for the call. */
typedef void (*schema_on_drift)(void *ctx, const char *table, bool is_whole, bool is_missing,
                                const char *text);

/* Compares the database of a section, "mysql" or "sink", with what its applied migrations make. The
 * server shows an account only those tables and columns to which it has a privilege: all others
 * count as missing. If both sections name one database, it is compared as "mysql", and "sink" has
 * no difference. RC_RETRY, RC_FATAL: it could not be read. */
enum rc schema_compare(const struct settings *settings, const char *section,
                       schema_on_drift on_drift, void *ctx, struct err *err);

#endif
