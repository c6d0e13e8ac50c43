/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/written_tables.h"

#include "outbox/relay/binlog/event.h"
#include "outbox/relay/binlog/statement.h"
#include "outbox/relay/binlog/table_map.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* A server may have lower_case_table_names = 1. */
static bool is_name(const char *name, const char *bytes, size_t len)
{
    return strlen(name) == len && strncasecmp(name, bytes, len) == 0;
}

static uint64_t find_table(const char *schema, const char *const *tables, size_t count,
                           const struct binlog_table *map)
{
    if (!is_name(schema, map->schema, map->schema_len))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (is_name(tables[i], map->name, map->name_len))
            return UINT64_C(1) << i;
    return 0;
}

/* Whether a statement only begins or ends a transaction, or sets a savepoint in it. */
static bool controls_transaction(const struct binlog_query *query)
{
    struct statement statement;

    statement_parse(&statement, query);
    return statement.kind != STATEMENT_DATA && statement.kind != STATEMENT_OTHER &&
           statement.kind != STATEMENT_XA_COMMIT;
}

/* A statement may change rows that are not in the log, call what does, or commit what was prepared.
 * Its text ends with a checksum, or does not. */
static bool may_write(const struct binlog_event *event)
{
    struct binlog_query query;

    if (event->type != BINLOG_QUERY || binlog_query_parse(&query, event, NULL, NULL) != RC_OK)
        return true;
    if (controls_transaction(&query))
        return false;
    if (query.text_len < BINLOG_CHECKSUM_SIZE)
        return true;
    query.text_len -= BINLOG_CHECKSUM_SIZE;
    return !controls_transaction(&query);
}

uint64_t written_tables_find(const char *schema, const char *const *tables, size_t count,
                             const void *event, size_t len)
{
    uint64_t all = count >= WRITTEN_TABLES_MAX ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    struct binlog_event parsed;
    struct binlog_table map;

    assert(count <= WRITTEN_TABLES_MAX);
    /* Without a format the checksum counts as part of the body, behind all that is looked at. */
    if (binlog_event_parse(&parsed, event, len, NULL, NULL) != RC_OK)
        return all;
    switch (parsed.type) {
    case BINLOG_TRANSACTION_PAYLOAD:
    case BINLOG_QUERY:
    case BINLOG_QUERY_COMPRESSED:
    case BINLOG_EXECUTE_LOAD_QUERY:
        return may_write(&parsed) ? all : 0;
    case BINLOG_TABLE_MAP:
        break;
    default:
        return 0;
    }
    return binlog_table_parse_name(&map, &parsed, NULL) == RC_OK
               ? find_table(schema, tables, count, &map)
               : all;
}
