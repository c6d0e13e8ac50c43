/* SPDX-License-Identifier: MIT */
#include "schema/migrate/shape.h"

#include "schema/migrate/ddl.h"

#include <string.h>

static enum rc add_item(struct shape *shape, enum shape_kind kind, const struct ddl_change *change,
                        struct err *err)
{
    if (shape_find(shape, kind, change->table, change->name))
        return err_fail(err, RC_FATAL, 0, "%s%s%s is there already", change->table,
                        change->name[0] ? "." : "", change->name);
    if (kind != SHAPE_TABLE && !shape_find(shape, SHAPE_TABLE, change->table, NULL))
        return err_fail(err, RC_FATAL, 0, "there is no table %s", change->table);
    return shape_put(shape, kind, change->table, change->name, change->text, err);
}

static enum rc require_item(const struct shape *shape, enum shape_kind kind,
                            const struct ddl_change *change, struct err *err)
{
    if (shape_find(shape, kind, change->table, change->name))
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "there is no %s%s%s", change->table,
                    change->name[0] ? "." : "", change->name);
}

static enum rc drop_item(struct shape *shape, enum shape_kind kind, const struct ddl_change *change,
                         struct err *err)
{
    enum rc rc = require_item(shape, kind, change, err);

    if (rc == RC_OK)
        shape_remove(shape, kind, change->table, change->name);
    return rc;
}

/* Does the text of an index, "key (a, b(10) desc)", name the column? */
static bool has_index_column(const char *text, const char *column)
{
    size_t len = strlen(column);

    for (const char *at = strchr(text, '('); at && *at; at++) {
        if ((at[-1] == '(' || at[-1] == ' ') && strncmp(at, column, len) == 0 &&
            strchr(",() ", at[len]))
            return true;
    }
    return false;
}

/* The servers take a dropped column out of its indexes, each in its own way. */
static enum rc drop_column(struct shape *shape, const struct ddl_change *change, struct err *err)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct shape_item *item = &shape->items[i];

        if (item->kind == SHAPE_INDEX && strcmp(item->table, change->table) == 0 &&
            has_index_column(item->text, change->name))
            return err_fail(err, RC_FATAL, 0, "column %s.%s is in index %s: drop that first",
                            change->table, change->name, item->name);
    }
    return drop_item(shape, SHAPE_COLUMN, change, err);
}

static enum rc modify_item(struct shape *shape, const struct ddl_change *change, struct err *err)
{
    enum rc rc = require_item(shape, SHAPE_COLUMN, change, err);

    return rc == RC_OK
               ? shape_put(shape, SHAPE_COLUMN, change->table, change->name, change->text, err)
               : rc;
}

static enum rc on_change(void *ctx, const struct ddl_change *change, struct err *err)
{
    struct shape *shape = ctx;

    switch (change->kind) {
    case DDL_TABLE_ADD:
        return add_item(shape, SHAPE_TABLE, change, err);
    case DDL_TABLE_DROP:
        return drop_item(shape, SHAPE_TABLE, change, err);
    case DDL_COLUMN_ADD:
        return add_item(shape, SHAPE_COLUMN, change, err);
    case DDL_COLUMN_MODIFY:
        return modify_item(shape, change, err);
    case DDL_COLUMN_DROP:
        return drop_column(shape, change, err);
    case DDL_INDEX_ADD:
        return add_item(shape, SHAPE_INDEX, change, err);
    case DDL_INDEX_DROP:
        return drop_item(shape, SHAPE_INDEX, change, err);
    case DDL_DATA:
        return RC_OK;
    }
    return RC_OK;
}

enum rc shape_apply(struct shape *shape, const struct statement *statement, struct err *err)
{
    return ddl_read(statement, on_change, shape, err);
}

static void set_effect(struct effect *effect, enum effect_kind kind, enum shape_kind what,
                       const struct ddl_change *change)
{
    effect->kind = kind;
    effect->what = what;
    memcpy(effect->table, change->table, sizeof(effect->table));
    memcpy(effect->name, change->name, sizeof(effect->name));
}

/* The servers execute one statement completely or not at all, so its first visible change
 * represents all. */
static enum rc find_change_effect(void *ctx, const struct ddl_change *change, struct err *err)
{
    struct effect *effect = ctx;

    (void)err;
    if (effect->kind != EFFECT_REPEATABLE)
        return RC_OK;
    switch (change->kind) {
    case DDL_TABLE_ADD:
        set_effect(effect, EFFECT_APPEARS, SHAPE_TABLE, change);
        break;
    case DDL_TABLE_DROP:
        set_effect(effect, EFFECT_DISAPPEARS, SHAPE_TABLE, change);
        break;
    case DDL_COLUMN_ADD:
        set_effect(effect, EFFECT_APPEARS, SHAPE_COLUMN, change);
        break;
    case DDL_COLUMN_DROP:
        set_effect(effect, EFFECT_DISAPPEARS, SHAPE_COLUMN, change);
        break;
    case DDL_INDEX_ADD:
        set_effect(effect, EFFECT_APPEARS, SHAPE_INDEX, change);
        break;
    case DDL_INDEX_DROP:
        set_effect(effect, EFFECT_DISAPPEARS, SHAPE_INDEX, change);
        break;
    case DDL_DATA:
        effect->kind = EFFECT_DATA;
        break;
    case DDL_COLUMN_MODIFY:
        break;
    }
    return RC_OK;
}

enum rc shape_effect(const struct statement *statement, struct effect *effect, struct err *err)
{
    memset(effect, 0, sizeof(*effect));
    effect->kind = EFFECT_REPEATABLE;
    return ddl_read(statement, find_change_effect, effect, err);
}

static void tell_difference(const struct shape_item *item, const char *expected, const char *actual,
                            shape_on_drift on_drift, void *ctx)
{
    const struct shape_drift drift = {item->kind, item->table, item->name, expected, actual};

    on_drift(ctx, &drift);
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
            shape_find(expected, item->kind, item->table, item->name))
            continue;
        tell_difference(item, NULL, item->text, on_drift, ctx);
        drifts++;
    }
    return drifts;
}
