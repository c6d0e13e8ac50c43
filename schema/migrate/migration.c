/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migration.h"

#include "schema/migrate/ddl.h"

#include <stdint.h>

const char *migration_side_name(enum migration_side side)
{
    switch (side) {
    case MIGRATION_OUTBOX:
        return "outbox";
    case MIGRATION_VOTES:
        return "votes";
    case MIGRATION_SINK:
        return "sink";
    }
    return "unknown";
}

enum rc migration_statement(const struct migration *migration, size_t number,
                            struct sql_statement *statement, struct err *err)
{
    const char *at = (const char *)migration->sql;
    const char *end = at + migration->len;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < number; i++) {
        rc = sql_statement_next(&at, end, statement, err);
        if (rc == RC_OK && statement->len == 0)
            break;
    }
    if (rc != RC_OK)
        err_wrap(err, "migration %s", migration->name);
    return rc;
}

enum rc migration_count_statements(const struct migration *migration, size_t *count,
                                   struct err *err)
{
    const char *at = (const char *)migration->sql;
    const char *end = at + migration->len;

    for (*count = 0;; (*count)++) {
        struct sql_statement statement;
        enum rc rc = sql_statement_next(&at, end, &statement, err);

        if (rc != RC_OK) {
            err_wrap(err, "migration %s", migration->name);
            return rc;
        }
        if (statement.len == 0)
            return RC_OK;
    }
}

enum rc migration_history_statement(const struct migration_set *set,
                                    struct sql_statement *statement, struct err *err)
{
    const char *at = (const char *)set->history;

    return sql_statement_next(&at, at + set->history_len, statement, err);
}

enum rc migration_add_to_shape(const struct migration *migration, size_t count, struct shape *shape,
                               struct err *err)
{
    for (size_t number = 1; number <= count; number++) {
        struct sql_statement statement;
        enum rc rc = migration_statement(migration, number, &statement, err);

        if (rc != RC_OK || statement.len == 0)
            return rc;
        rc = ddl_apply(shape, &statement, err);
        if (rc != RC_OK) {
            err_wrap(err, "migration %s, statement %zu", migration->name, number);
            return rc;
        }
    }
    return RC_OK;
}

/* A statement that drops and recreates an object leaves the schema unchanged, so a restart could
 * not detect whether it was executed. */
static enum rc check_effect(const struct shape *shape, const struct sql_statement *statement,
                            struct err *err)
{
    struct ddl_effect effect;
    enum rc rc = ddl_effect(statement, &effect, err);
    bool there;

    if (rc != RC_OK || effect.kind == DDL_REPEATABLE || effect.kind == DDL_ROWS)
        return rc;
    there = shape_find(shape, effect.what, effect.table, effect.name) != NULL;
    if (there == (effect.kind == DDL_APPEARS))
        return RC_OK;
    return err_fail(
        err, RC_FATAL, 0,
        "a restart could not see whether it was done, because it drops and creates %s%s%s in "
        "one statement: split it in two",
        effect.table, effect.name[0] ? "." : "", effect.name);
}

static enum rc check_one(const struct migration *migration, struct shape *shape, struct err *err)
{
    size_t count = 0;
    enum rc rc = migration_count_statements(migration, &count, err);

    if (rc == RC_OK && count == 0)
        return err_fail(err, RC_FATAL, 0, "migration %s has no statement", migration->name);
    for (size_t number = 1; rc == RC_OK && number <= count; number++) {
        struct sql_statement statement;

        rc = migration_statement(migration, number, &statement, err);
        if (rc != RC_OK)
            return rc;
        rc = ddl_apply(shape, &statement, err);
        if (rc == RC_OK)
            rc = check_effect(shape, &statement, err);
        if (rc != RC_OK)
            err_wrap(err, "migration %s, statement %zu", migration->name, number);
    }
    return rc;
}

enum rc migration_check(const struct migration_set *set, struct err *err)
{
    struct shape shapes[2] = {{0}, {0}};
    int last = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < set->count; i++) {
        const struct migration *migration = &set->list[i];

        if (migration->version <= last)
            rc = err_fail(err, RC_FATAL, 0, "migration %s stands behind version %d",
                          migration->name, last);
        last = migration->version;
        /* The sink by itself: it may be on another server. */
        if (rc == RC_OK)
            rc = check_one(migration, &shapes[migration->side == MIGRATION_SINK], err);
    }
    shape_done(&shapes[0]);
    shape_done(&shapes[1]);
    return rc;
}
