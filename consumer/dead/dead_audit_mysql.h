/* SPDX-License-Identifier: MIT */
/* The rows of replays and drops of dead records in the audit, from the shell and over HTTP. The
 * audit is in the database of [mysql]; dead records may be in another one ([sink]). A row is
 * therefore no part of the transactions of its action: it is written before them, and the number of
 * records is added after them. One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_AUDIT_MYSQL_H
#define CONSUMER_DEAD_DEAD_AUDIT_MYSQL_H

#include "common/db/db.h"
#include "common/err.h"
#include "consumer/dead/dead_admin.h"

#include <stdbool.h>
#include <stdint.h>

/* What a row says. Texts are borrowed for the call; NULL: an empty text. */
struct dead_audit_entry {
    bool drop;
    const char *group; /* of the consumer */
    const char *by;
    const char *via;
    const char *why;
    const struct dead_filter *filter; /* its id_max is not written, nor is any content */
    bool all;
    uint64_t records_max; /* 0: no limit */
    bool has_value;
    bool ignore_key;
    bool queue;
};

/* Writes the row of an action that is about to begin. On any other result than RC_OK the action
 * must not begin. After RC_RETRY the row may be there: calling again may write it twice. */
enum rc dead_audit_begin(struct db *db, const struct dead_audit_entry *entry, int64_t *id,
                         struct err *err);

/* Adds how many records are no longer dead, or were queued. Without an answer of the database the
 * row stays as it is: unknown. */
void dead_audit_end(struct db *db, int64_t id, uint64_t records);

#endif
