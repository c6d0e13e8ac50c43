/* SPDX-License-Identifier: MIT */
/* Tells which of a few tables an event of the binary log may announce rows of. It is for a reader
 * that reads the tables themselves and only has to know when: it verifies nothing, and takes what
 * it cannot read for a possible row. Pure; any thread. */
#ifndef OUTBOX_RELAY_BINLOG_WRITTEN_TABLES_H
#define OUTBOX_RELAY_BINLOG_WRITTEN_TABLES_H

#include <stddef.h>
#include <stdint.h>

#define WRITTEN_TABLES_MAX 64

/* Returns a bit for each table, the first one in the lowest bit. All bits are set for what may
 * write any table: a transaction that MySQL has put into one event, and a statement that may change
 * rows or commit what was prepared. count: at most WRITTEN_TABLES_MAX (asserted). */
uint64_t written_tables_find(const char *schema, const char *const *tables, size_t count,
                             const void *event, size_t len);

#endif
