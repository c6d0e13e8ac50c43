/* SPDX-License-Identifier: MIT */
/* Migration files: splits them into statements and follows their changes. the first byte chooses
 * the side, the rest is the file */
#include "schema/migrate/migration.h"

#include "schema/migrate/ddl.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static enum rc on_name(void *ctx, const char *name, struct err *err)
{
    (void)ctx;
    (void)err;
    fuzz_must(strlen(name) < SHAPE_NAME_SIZE, "a partition's name fits");
    return RC_OK;
}

/* Each part is one statement, also when it is split again. */
static void check_split(const struct sql_statement *statement)
{
    const char *at = statement->sql;
    const char *end = at + statement->len;
    struct sql_statement again;

    /* Two dashes begin a comment at the end of a file, but not before a semicolon. */
    if (end[-1] == '-')
        return;
    fuzz_must(sql_statement_next(&at, end, &again, NULL) == RC_OK && again.sql == statement->sql &&
                  again.len == statement->len && at == end,
              "a statement is one by itself");
}

static void check_statements(const struct migration *migration)
{
    const char *at = (const char *)migration->sql;
    const char *end = at + migration->len;

    for (;;) {
        const char *before = at;
        struct sql_statement statement;
        struct err err = {0};

        if (sql_statement_next(&at, end, &statement, &err) != RC_OK) {
            fuzz_must_be_sentence(err.text);
            return;
        }
        if (statement.len == 0)
            return;
        fuzz_must(statement.sql >= before && statement.sql + statement.len <= at && at <= end,
                  "a statement lies in its file");
        check_split(&statement);
        if (ddl_partitions(&statement, on_name, NULL, &err) != RC_OK)
            fuzz_must_be_sentence(err.text);
    }
}

static void check_shape(const struct migration *migration)
{
    struct shape shape = {0};
    struct err err = {0};

    fuzz_must(migration_add_to_shape(migration, SIZE_MAX, &shape, &err) == RC_OK,
              "what was checked can be followed");
    for (size_t i = 0; i < shape.count; i++) {
        const struct shape_item *item = &shape.items[i];

        fuzz_must(memchr(item->table, '\0', sizeof(item->table)) != NULL &&
                      memchr(item->name, '\0', sizeof(item->name)) != NULL &&
                      memchr(item->text, '\0', sizeof(item->text)) != NULL,
                  "the texts of a shape end in their room");
        fuzz_must(shape_find(&shape, SHAPE_TABLE, item->table, NULL) != NULL,
                  "what there is belongs to a table");
    }
    shape_done(&shape);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct migration migration = {
        .version = 1,
        .name = "0001_fuzz",
        .side = fuzz_byte(&input) % 2 ? MIGRATION_OUTBOX : MIGRATION_SINK,
        .sha256 = "",
    };
    struct migration_set set = {.list = &migration, .count = 1};
    struct err err = {0};

    migration.sql = input.data;
    migration.len = input.size;
    check_statements(&migration);
    if (migration_check(&set, &err) == RC_OK)
        check_shape(&migration);
    else
        fuzz_must_be_sentence(err.text);
    return 0;
}
