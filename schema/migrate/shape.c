/* SPDX-License-Identifier: MIT */
#include "schema/migrate/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shape_done(struct shape *shape)
{
    free(shape->items);
    memset(shape, 0, sizeof(*shape));
}

static bool is_item(const struct shape_item *item, enum shape_kind kind, const char *table,
                    const char *name)
{
    return item->kind == kind && strcmp(item->table, table) == 0 &&
           strcmp(item->name, name ? name : "") == 0;
}

static struct shape_item *find_item(const struct shape *shape, enum shape_kind kind,
                                    const char *table, const char *name)
{
    for (size_t i = 0; i < shape->count; i++) {
        if (is_item(&shape->items[i], kind, table, name))
            return &shape->items[i];
    }
    return NULL;
}

const struct shape_item *shape_find(const struct shape *shape, enum shape_kind kind,
                                    const char *table, const char *name)
{
    return find_item(shape, kind, table, name);
}

static enum rc grow_shape(struct shape *shape, struct err *err)
{
    size_t size = shape->size ? 2 * shape->size : 64;
    struct shape_item *items;

    if (shape->count < shape->size)
        return RC_OK;
    items = realloc(shape->items, size * sizeof(*items));
    if (!items)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    shape->items = items;
    shape->size = size;
    return RC_OK;
}

enum rc shape_put(struct shape *shape, enum shape_kind kind, const char *table, const char *name,
                  const char *text, struct err *err)
{
    struct shape_item *item = find_item(shape, kind, table, name);
    enum rc rc;

    if (!item) {
        rc = grow_shape(shape, err);
        if (rc != RC_OK)
            return rc;
        item = &shape->items[shape->count++];
        item->kind = kind;
        snprintf(item->table, sizeof(item->table), "%s", table);
        snprintf(item->name, sizeof(item->name), "%s", name ? name : "");
    }
    snprintf(item->text, sizeof(item->text), "%s", text);
    return RC_OK;
}

void shape_remove(struct shape *shape, enum shape_kind kind, const char *table, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < shape->count; i++) {
        struct shape_item *item = &shape->items[i];

        if (is_item(item, kind, table, name) ||
            (kind == SHAPE_TABLE && strcmp(item->table, table) == 0))
            continue;
        if (kept != i)
            shape->items[kept] = *item;
        kept++;
    }
    shape->count = kept;
}

static char lower_case(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Lower case, with single blanks, and none around brackets and commas. */
static void normalize_text(const char *in, char *out, size_t size)
{
    size_t len = 0;

    for (; *in && len + 1 < size; in++) {
        bool tight = len == 0 || strchr("(,", out[len - 1]) || strchr("(), ", in[1]) || !in[1];

        if (*in == '`' || (*in == ' ' && tight))
            continue;
        out[len++] = lower_case(*in);
    }
    out[len] = '\0';
}

/* MySQL has no display width of integers any more, MariaDB still writes it; it has no effect. */
static void remove_width(char *type)
{
    static const char *const integers[] = {"tinyint", "smallint", "mediumint", "int", "bigint"};

    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        size_t len = strlen(integers[i]);
        const char *end = strchr(type, ')');

        if (strncmp(type, integers[i], len) == 0 && type[len] == '(' && end)
            memmove(type + len, end + 1, strlen(end + 1) + 1);
    }
}

/* "(f(x))" is "f(x)": brackets around the whole are taken off. */
static void remove_brackets(char *text)
{
    size_t len = strlen(text);
    int depth = 0;

    if (len < 2 || text[0] != '(')
        return;
    for (size_t i = 0; i < len; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth == 0 && i + 1 < len)
            return;
    }
    memmove(text, text + 1, len - 2);
    text[len - 2] = '\0';
    remove_brackets(text);
}

static void normalize_default(const struct shape_column *column, char *text, size_t size)
{
    char even[SHAPE_TYPE_SIZE];

    text[0] = '\0';
    if (column->standard_kind == SHAPE_DEFAULT_LITERAL) {
        snprintf(text, size, " default '%s'", column->standard);
    } else if (column->standard_kind == SHAPE_DEFAULT_EXPRESSION) {
        normalize_text(column->standard, even, sizeof(even));
        remove_brackets(even);
        snprintf(text, size, " default (%s)", even);
    }
}

void shape_column_text(const struct shape_column *column, char text[SHAPE_TEXT_SIZE])
{
    char type[SHAPE_TYPE_SIZE];
    char standard[SHAPE_TYPE_SIZE + 16];

    normalize_text(column->type, type, sizeof(type));
    remove_width(type);
    normalize_default(column, standard, sizeof(standard));
    snprintf(text, SHAPE_TEXT_SIZE, "%s%s%s%s%s%s%s%s%s", type, column->collation[0] ? " " : "",
             column->collation, column->nullable ? " null" : " not null", standard,
             column->auto_increment ? " auto_increment" : "",
             column->on_update ? " on update now" : "", column->generated[0] ? " generated " : "",
             column->generated);
}

void shape_index_part(char text[SHAPE_TEXT_SIZE], bool primary, bool unique, const char *column,
                      const char *length, bool descending)
{
    const char *kind = primary ? "primary key" : unique ? "unique key" : "key";
    size_t len = strlen(text);

    if (len == 0)
        len = (size_t)snprintf(text, SHAPE_TEXT_SIZE, "%s (", kind);
    else
        len += (size_t)snprintf(text + len - 1, SHAPE_TEXT_SIZE - len + 1, ", ") - 1;
    if (len >= SHAPE_TEXT_SIZE)
        return;
    snprintf(text + len, SHAPE_TEXT_SIZE - len, "%s%s%s%s%s)", column, length ? "(" : "",
             length ? length : "", length ? ")" : "", descending ? " desc" : "");
}

void shape_table_text(const char *engine, const char *partition, char text[SHAPE_TEXT_SIZE])
{
    char even_engine[SHAPE_NAME_SIZE];
    char even_partition[SHAPE_TYPE_SIZE];

    normalize_text(engine, even_engine, sizeof(even_engine));
    normalize_text(partition, even_partition, sizeof(even_partition));
    snprintf(text, SHAPE_TEXT_SIZE, "engine %s%s%s", even_engine,
             even_partition[0] ? ", partitioned by " : "", even_partition);
}

static void tell_difference(const struct shape_item *item, const char *expected, const char *actual,
                            shape_on_drift on_drift, void *ctx)
{
    const struct shape_drift drift = {item->kind, item->table, item->name, expected, actual};

    on_drift(ctx, &drift);
}

/* A unique key on the event id is the writers' choice. */
static bool is_optional(const struct shape_item *item)
{
    return item->kind == SHAPE_INDEX && strcmp(item->table, "outbox") == 0 &&
           strcmp(item->text, "unique key (id)") == 0;
}

size_t shape_compare(const struct shape *expected, const struct shape *actual,
                     shape_on_drift on_drift, void *ctx)
{
    size_t drifts = 0;

    for (size_t i = 0; i < expected->count; i++) {
        const struct shape_item *item = &expected->items[i];
        const struct shape_item *real = shape_find(actual, item->kind, item->table, item->name);

        if (item->kind != SHAPE_TABLE && !shape_find(actual, SHAPE_TABLE, item->table, NULL))
            continue;
        if (real && strcmp(real->text, item->text) == 0)
            continue;
        tell_difference(item, item->text, real ? real->text : NULL, on_drift, ctx);
        drifts++;
    }
    for (size_t i = 0; i < actual->count; i++) {
        const struct shape_item *item = &actual->items[i];

        if (!shape_find(expected, SHAPE_TABLE, item->table, NULL) ||
            shape_find(expected, item->kind, item->table, item->name) || is_optional(item))
            continue;
        tell_difference(item, NULL, item->text, on_drift, ctx);
        drifts++;
    }
    return drifts;
}
