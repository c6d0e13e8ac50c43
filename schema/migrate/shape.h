/* SPDX-License-Identifier: MIT */
/* A schema as texts that are equal exactly if the schemas are: one item per table, column and
 * index. The same functions write the items for the schema that the migrations make (ddl.h) and for
 * the one that a server reports, so that the notations of MariaDB and MySQL differ only here. Pure;
 * one thread at a time per shape. */
#ifndef SCHEMA_MIGRATE_SHAPE_H
#define SCHEMA_MIGRATE_SHAPE_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SHAPE_NAME_SIZE 65 /* 64 characters of ASCII, which is what we give names */
#define SHAPE_TYPE_SIZE 128
#define SHAPE_TEXT_SIZE 512

enum shape_kind { SHAPE_TABLE, SHAPE_COLUMN, SHAPE_INDEX };

struct shape_item {
    enum shape_kind kind;
    char table[SHAPE_NAME_SIZE];
    char name[SHAPE_NAME_SIZE]; /* of the column or index; empty for the table itself */
    char text[SHAPE_TEXT_SIZE]; /* "bigint not null", "unique key (event_id, create_date)" */
};

/* A zeroed shape is empty and ready. */
struct shape {
    struct shape_item *items;
    size_t count;
    size_t size;
};

void shape_done(struct shape *shape);

/* name NULL: the table itself. NULL when there is none; valid until the next change. */
const struct shape_item *shape_find(const struct shape *shape, enum shape_kind kind,
                                    const char *table, const char *name);

/* Adds an item or replaces its text. A text that is too long is cut. RC_FATAL: no memory. */
enum rc shape_put(struct shape *shape, enum shape_kind kind, const char *table, const char *name,
                  const char *text, struct err *err);

/* Removes one item; for a table all that belongs to it. */
void shape_remove(struct shape *shape, enum shape_kind kind, const char *table, const char *name);

enum shape_default {
    SHAPE_DEFAULT_NONE, /* none, or NULL on a column that takes it */
    SHAPE_DEFAULT_LITERAL,
    SHAPE_DEFAULT_EXPRESSION,
};

struct shape_column {
    char type[SHAPE_TYPE_SIZE]; /* as in the migration or as the server reports it */
    bool nullable;
    enum shape_default standard_kind;
    char standard[SHAPE_TYPE_SIZE];
    char collation[SHAPE_NAME_SIZE]; /* empty where there is none */
    bool auto_increment;
    bool on_update;     /* to the time of the change */
    char generated[16]; /* "stored", "virtual" or empty */
};

/* The text of a column's item. Different notations of the two servers become equal: case, display
 * widths of integers, blanks and brackets of expressions. */
void shape_column_text(const struct shape_column *column, char text[SHAPE_TEXT_SIZE]);

/* The text of an index's item, part by part: start with an empty text, end without any call. */
void shape_index_part(char text[SHAPE_TEXT_SIZE], bool primary, bool unique, const char *column,
                      const char *length, bool descending);

/* The text of a table's item. partition: "range columns(create_date)" or empty. */
void shape_table_text(const char *engine, const char *partition, char text[SHAPE_TEXT_SIZE]);

struct shape_drift {
    enum shape_kind kind;
    const char *table;
    const char *name;     /* of the column or index, or empty */
    const char *expected; /* NULL: should not be there */
    const char *actual;   /* NULL: is missing */
};

typedef void (*shape_on_drift)(void *ctx, const struct shape_drift *drift);

/* Calls on_drift for each difference in the tables of expected and returns their number. A missing
 * table is one difference; additional tables of actual are ignored, and so is a unique key on
 * outbox (id). */
size_t shape_compare(const struct shape *expected, const struct shape *actual,
                     shape_on_drift on_drift, void *ctx);

#endif
