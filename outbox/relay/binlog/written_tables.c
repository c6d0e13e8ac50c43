/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/written_tables.h"

#include "outbox/relay/binlog/event.h"
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
    if (parsed.type == BINLOG_TRANSACTION_PAYLOAD)
        return all;
    if (parsed.type != BINLOG_TABLE_MAP)
        return 0;
    return binlog_table_parse_name(&map, &parsed, NULL) == RC_OK
               ? find_table(schema, tables, count, &map)
               : all;
}
