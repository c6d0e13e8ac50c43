/* SPDX-License-Identifier: MIT */
/* SQL literals. Escaping is done here, not by the client library, because it must work before the
 * first connection and be safe in any session. Pure; one thread per buf. */
#ifndef COMMON_DB_LITERAL_H
#define COMMON_DB_LITERAL_H

#include "common/buf.h"

#include <stddef.h>

/* introducer'...' with backslashes. Only for our own sessions: utf8mb4 has no byte below 0x80
 * inside a character, and NO_BACKSLASH_ESCAPES is off. */
void db_literal_quoted(struct buf *sql, const char *introducer, const void *bytes, size_t len);

/* introducer X'...': twice as long, and right whatever the session's character set and sql_mode. */
void db_literal_hex(struct buf *sql, const char *introducer, const void *bytes, size_t len);

#endif
