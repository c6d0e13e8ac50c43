/* SPDX-License-Identifier: MIT */
/* Compares the privileges that an account has, as SHOW GRANTS prints them, with those that a role
 * needs, as `tallybox migrate grants` prints them. Pure; any thread. */
#ifndef CONSUMER_DOCTOR_PRIVILEGES_H
#define CONSUMER_DOCTOR_PRIVILEGES_H

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends to missing the part of each GRANT statement for the role in required that no line of
 * granted covers, one statement without its TO per line: "GRANT INSERT ON shop.outbox". required:
 * statements for any roles, one per line; only those TO 'tallybox_<role>' count. granted: lines of
 * SHOW GRANTS; grants of roles must be expanded in them. Wildcards in the database of a grant count
 * as the server counts them. Returns the number of lines appended. missing->failed: no memory. */
size_t privileges_find_missing(struct buf *missing, const char *required, const char *role,
                               const char *granted);

/* Whether a line of grants gives a privilege on the table, so that the server shows the table to
 * the account; is_whole: so that it shows all columns. role: only lines TO 'tallybox_<role>' count;
 * NULL: all lines. */
bool privileges_show_table(const char *grants, const char *role, const char *database,
                           const char *table, bool is_whole);

#endif
