/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_migrate_store.h"

#include "schema/migrate/ddl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Every kind of statement a migration may hold. */
#define FIRST                                                                    \
    "-- side: outbox\nCREATE TABLE a (x INT NOT NULL, KEY old (x))" FAKE_OPTIONS \
    "INSERT INTO a (x) VALUES (1);\n"                                            \
    "CREATE INDEX ix ON a (x);\nALTER TABLE a MODIFY x BIGINT NOT NULL;\n"       \
    "UPDATE a SET x = 2"
#define SECOND "-- side: sink\nCREATE TABLE b (z INT NULL)" FAKE_OPTIONS
#define THIRD                                                                       \
    "-- side: outbox\nALTER TABLE a ADD COLUMN y INT NULL;\nDROP INDEX old ON a;\n" \
    "CREATE TABLE c (x INT NULL)" FAKE_OPTIONS "ALTER TABLE a DROP COLUMN y;\nDROP TABLE c;"

static const struct migration list[] = {
    {1, "0001_first", MIGRATION_OUTBOX, "aaaa", FAKE_BYTES(FIRST)},
    {2, "0002_second", MIGRATION_SINK, "bbbb", FAKE_BYTES(SECOND)},
    {3, "0003_third", MIGRATION_OUTBOX, "cccc", FAKE_BYTES(THIRD)},
};
const struct migration_set fake_set = {
    list, 3, FAKE_BYTES("CREATE TABLE schema_history (version INT NOT NULL)" FAKE_OPTIONS)};

static enum rc die(struct fake *fake, struct err *err)
{
    /* The server gives the lock back when it sees the connection go. */
    fake->dead = true;
    fake->locked = false;
    return err_fail(err, RC_RETRY, 0, "the process is dead");
}

/* Anything but RC_OK: the call does nothing and returns it. */
static enum rc enter(struct fake *fake, struct err *err)
{
    if (fake->dead)
        return err_fail(err, RC_RETRY, 0, "the process is dead");
    fake->calls++;
    if (fake->calls != fake->trouble_at)
        return RC_OK;
    switch (fake->trouble) {
    case TROUBLE_DIES_BEFORE:
        return die(fake, err);
    case TROUBLE_RETRY:
        return err_fail(err, RC_RETRY, 1205, "lock wait timeout");
    case TROUBLE_FATAL:
        return err_fail(err, RC_FATAL, 1142, "no right");
    case TROUBLE_DIES_AFTER:
    case TROUBLE_NONE:
        break;
    }
    return RC_OK;
}

static enum rc leave(struct fake *fake, enum rc rc, struct err *err)
{
    if (fake->calls == fake->trouble_at && fake->trouble == TROUBLE_DIES_AFTER)
        return die(fake, err);
    return rc;
}

static enum rc find_database(void *ctx, bool *found, struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    *found = fake->has_database;
    return rc == RC_OK ? leave(fake, rc, err) : rc;
}

static enum rc create_database(void *ctx, struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    if (rc != RC_OK)
        return rc;
    fake->has_database = true;
    return leave(fake, rc, err);
}

static enum rc lock(void *ctx, int64_t wait_ms, struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    (void)wait_ms;
    if (rc == RC_OK && fake->locked_by_other)
        rc = err_fail(err, RC_RETRY, 0, "somebody else migrates");
    if (rc != RC_OK)
        return rc;
    fake->locked = true;
    return leave(fake, rc, err);
}

static void unlock(void *ctx)
{
    struct fake *fake = ctx;

    fake->locked = false;
}

static enum rc read_history(void *ctx, bool *found, history_on_row on_row, void *row_ctx,
                            struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    if (rc != RC_OK)
        return rc;
    *found = shape_find(&fake->shape, SHAPE_TABLE, "schema_history", NULL) != NULL;
    for (size_t i = 0; rc == RC_OK && i < fake->row_count; i++)
        rc = on_row(row_ctx, &fake->rows[i], err);
    return leave(fake, rc, err);
}

static enum rc exists(void *ctx, enum shape_kind kind, const char *table, const char *name,
                      bool *there, struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    if (rc != RC_OK)
        return rc;
    *there = shape_find(&fake->shape, kind, table, name) != NULL;
    return leave(fake, rc, err);
}

static enum rc run(void *ctx, const char *sql, size_t len, struct err *err)
{
    struct fake *fake = ctx;
    const struct sql_statement statement = {sql, len};
    enum rc rc = enter(fake, err);

    if (rc != RC_OK)
        return rc;
    assert(fake->locked);
    fake->runs++;
    if (fake->left_over[0] && strncmp(sql, fake->left_over_by, strlen(fake->left_over_by)) == 0)
        return err_fail(err, RC_FATAL, 1050, "partition %s already exists", fake->left_over);
    return leave(fake, ddl_apply(&fake->shape, &statement, err), err);
}

/* A file that a crashed server left blocks the table until it is removed. */
static enum rc delete_rows(void *ctx, const char *table, const char *partition, struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    if (rc != RC_OK)
        return rc;
    assert(fake->locked && !shape_find(&fake->shape, SHAPE_TABLE, table, NULL));
    if (strcmp(partition, fake->left_over) == 0)
        fake->left_over = "";
    fake->row_deletes++;
    return leave(fake, rc, err);
}

static void put_row(struct fake *fake, const struct history_row *row)
{
    struct history_row *old = fake_row(fake, row->version);

    assert(fake->locked && shape_find(&fake->shape, SHAPE_TABLE, "schema_history", NULL));
    if (!old) {
        assert(fake->row_count < FAKE_ROWS_MAX);
        old = &fake->rows[fake->row_count++];
    }
    *old = *row;
}

static enum rc save(void *ctx, const struct history_row *row, struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    if (rc != RC_OK)
        return rc;
    put_row(fake, row);
    return leave(fake, rc, err);
}

static enum rc run_and_save(void *ctx, const char *sql, size_t len, const struct history_row *row,
                            struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    (void)sql;
    (void)len;
    if (rc != RC_OK)
        return rc;
    fake->runs++;
    fake->changes++;
    put_row(fake, row);
    return leave(fake, rc, err);
}

static enum rc read_shape(void *ctx, const struct shape *expected, struct shape *actual,
                          struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = enter(fake, err);

    (void)expected;
    for (size_t i = 0; rc == RC_OK && i < fake->shape.count; i++) {
        const struct shape_item *item = &fake->shape.items[i];

        rc = shape_put(actual, item->kind, item->table, item->name, item->text, err);
    }
    return rc == RC_OK ? leave(fake, rc, err) : rc;
}

void fake_init(struct fake *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->left_over = "";
    fake->store = (struct migrate_store){
        .ctx = fake,
        .find_database = find_database,
        .create_database = create_database,
        .lock = lock,
        .unlock = unlock,
        .read_history = read_history,
        .exists = exists,
        .run = run,
        .delete_rows = delete_rows,
        .save = save,
        .run_and_save = run_and_save,
        .read_shape = read_shape,
    };
}

void fake_done(struct fake *fake)
{
    shape_done(&fake->shape);
}

void fake_restart(struct fake *fake, enum fake_trouble trouble, int at)
{
    fake->locked = false;
    fake->dead = false;
    fake->calls = 0;
    fake->runs = 0;
    fake->row_deletes = 0;
    fake->trouble = trouble;
    fake->trouble_at = at;
}

struct history_row *fake_row(struct fake *fake, int version)
{
    for (size_t i = 0; i < fake->row_count; i++) {
        if (fake->rows[i].version == version)
            return &fake->rows[i];
    }
    return NULL;
}

struct migrate fake_migrate(struct fake *fake, unsigned sides)
{
    const struct migrate migrate = {
        .store = &fake->store, .set = &fake_set, .sides = sides, .place = "database d at h:1"};

    return migrate;
}

void fake_make(struct fake *fake, const char *sql)
{
    const struct sql_statement statement = {sql, strlen(sql)};
    enum rc rc = ddl_apply(&fake->shape, &statement, NULL);

    assert(rc == RC_OK);
    (void)rc;
    fake->has_database = true;
}

bool fake_says(const struct err *err, const char *sentence)
{
    if (strstr(err->text, sentence))
        return true;
    fprintf(stderr, "said     %s\nexpected %s\n", err->text, sentence);
    return false;
}
