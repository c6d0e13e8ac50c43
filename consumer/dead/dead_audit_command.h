/* SPDX-License-Identifier: MIT */
/* The rows of `tallybox dead replay` and `dead drop` in the audit. The audit is in the database of
 * [mysql]; dead records may be in another one ([sink]). A row is therefore no part of the
 * transactions of its action: it is written before them, and the number of records is added after
 * them. Main thread. */
#ifndef CONSUMER_DEAD_DEAD_AUDIT_COMMAND_H
#define CONSUMER_DEAD_DEAD_AUDIT_COMMAND_H

#include "common/config/settings.h"
#include "common/err.h"
#include "consumer/dead/dead_cli.h"

#include <stdint.h>

struct dead_audit {
    struct db *db;
    int64_t id;
};

/* Connects and writes the row. On any other result than RC_OK the action must not begin. The caller
 * calls dead_audit_close() after any result. */
enum rc dead_audit_begin(struct dead_audit *audit, const struct settings *settings,
                         const struct dead_request *request, struct err *err);

/* Adds how many records are no longer dead, or were queued. Without an answer of the database the
 * row stays as it is: unknown. */
void dead_audit_end(struct dead_audit *audit, uint64_t records);

void dead_audit_close(struct dead_audit *audit);

#endif
