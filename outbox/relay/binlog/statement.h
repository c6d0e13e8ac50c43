/* SPDX-License-Identifier: MIT */
/* What the text of a statement in the binary log does, as far as a reader of rows has to know.
 * Pure; any thread. */
#ifndef OUTBOX_RELAY_BINLOG_STATEMENT_H
#define OUTBOX_RELAY_BINLOG_STATEMENT_H

#include "outbox/relay/binlog/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum statement_kind {
    STATEMENT_BEGIN, /* also XA START */
    STATEMENT_COMMIT,
    STATEMENT_ROLLBACK, /* of the whole transaction */
    STATEMENT_SAVEPOINT,
    STATEMENT_ROLLBACK_TO,
    STATEMENT_RELEASE,
    STATEMENT_XA_END,    /* its outcome follows */
    STATEMENT_XA_COMMIT, /* of what was prepared, in this group or an earlier one */
    STATEMENT_XA_ROLLBACK,
    STATEMENT_DATA,  /* changes rows, which are then not in the log as rows */
    STATEMENT_OTHER, /* definitions of tables and accounts, SET, and all else */
};

struct statement {
    enum statement_kind kind;
    uint64_t savepoint; /* hash of the name, for the three kinds with one */
};

/* Comments in front are skipped, and those that a server executes count as text. */
void statement_parse(struct statement *statement, const struct binlog_query *query);

/* Whether the text has this name as a word, whatever its case, anywhere, also in a comment or a
 * string. A statement may change a table that it does not name: by a trigger, a stored function or
 * a view. */
bool statement_names(const struct binlog_query *query, const char *name);

/* Whether the statement, which changes rows, may name the table schema.name: by its name alone if
 * that is the default schema of its session or none is known, or with the schema anywhere. */
bool statement_may_change(const struct binlog_query *query, const char *schema, const char *name);

/* Whether the statement, which changes rows, changes those of a table of the schema `mysql`: such
 * tables have no triggers. Servers of Amazon RDS write theirs as statements, whatever the format.
 */
bool statement_changes_system_table(const struct binlog_query *query);

/* Whether the statement removes all rows of this table and lets its AUTO_INCREMENT begin again:
 * TRUNCATE, DROP TABLE, CREATE OR REPLACE TABLE. The case of names is not looked at. */
bool statement_empties(const struct binlog_query *query, const char *schema, const char *name);

#endif
