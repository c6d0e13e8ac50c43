/* SPDX-License-Identifier: MIT */
/* The schema that the migrations create, derived from their SQL, and the differences from a real
 * schema. There is no second description of the tables. Pure; one thread per shape. */
#ifndef SCHEMA_MIGRATE_SHAPE_H
#define SCHEMA_MIGRATE_SHAPE_H

#include "common/err.h"
#include "schema/migrate/shape_row.h"
#include "schema/migrate/statement.h"

#include <stdbool.h>
#include <stddef.h>

/* Does to the shape what the statement does to a schema. RC_FATAL: the statement cannot be read, or
 * not be done (a table that is there already, ...); the shape is then of no use. */
enum rc shape_apply(struct shape *shape, const struct statement *statement, struct err *err);

/* By what one sees whether a statement was done. */
enum effect_kind {
    EFFECT_APPEARS,    /* something is there that was not */
    EFFECT_DISAPPEARS, /* the other way round */
    EFFECT_REPEATABLE, /* by nothing, but doing it twice is as good as once */
    EFFECT_DATA,       /* by nothing: it needs a transaction */
};

struct effect {
    enum effect_kind kind;
    enum shape_kind what; /* for the first two kinds */
    char table[SHAPE_NAME_SIZE];
    char name[SHAPE_NAME_SIZE]; /* of the column or index, or empty */
};

/* RC_FATAL: the statement cannot be read. */
enum rc shape_effect(const struct statement *statement, struct effect *effect, struct err *err);

struct shape_drift {
    enum shape_kind kind;
    const char *table;
    const char *name;     /* of the column or index, or empty */
    const char *expected; /* NULL: should not be there */
    const char *actual;   /* NULL: is missing */
};

typedef void (*shape_on_drift)(void *ctx, const struct shape_drift *drift);

/* Calls on_drift for each difference in the tables of expected and returns their number. A missing
 * table is one difference; additional tables of actual are ignored. */
size_t shape_compare(const struct shape *expected, const struct shape *actual,
                     shape_on_drift on_drift, void *ctx);

#endif
