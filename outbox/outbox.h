/* SPDX-License-Identifier: MIT */
/* The public API to append events to an outbox table inside the caller's own transaction. The relay
 * publishes the events when the transaction commits, and never when it rolls back. Events of one
 * aggregate_id keep their order when the transactions that append them first lock a common row.
 *
 * An application with a connection of its own:
 *
 *     db_borrow(&db, mysql, &err);            // common/db/db.h; mysql: a connected MYSQL *
 *     ... START TRANSACTION, the application's own changes ...
 *     rc = outbox_append(db, "outbox", &event, 1, &err);
 *     ... COMMIT when RC_OK, else ROLLBACK ...
 *
 * One thread at a time per db, as with every db_ function. */
#ifndef OUTBOX_OUTBOX_H
#define OUTBOX_OUTBOX_H

#include "common/err.h"
#include "common/id.h"

#include <stddef.h>

#define OUTBOX_TEXT_BYTES_MAX 64       /* aggregate_type, aggregate_id and type: 1..64 bytes */
#define OUTBOX_HEADERS_BYTES_MAX 65535 /* size of the column */

struct db;

struct outbox_event {
    struct id id;               /* globally unique: consumers deduplicate by it */
    const char *aggregate_type; /* chooses the topic */
    const char *aggregate_id;   /* the Kafka key */
    const char *type;           /* the kind of event */
    const void *payload;        /* published unchanged; NULL is a tombstone */
    size_t payload_len;
    const char *headers; /* a JSON object of strings without reserved names, or NULL */
};

/* Appends the events in their order to the table `lane`, or DATABASE.TABLE for one in another
 * database of the server, in as few INSERTs as the server's packet size allows. Borrows every
 * parameter for the call. RC_REJECT: err names the event and its fault. Nothing was written when an
 * event is invalid; a part may have been written when the server refused a statement: roll back.
 * RC_RETRY, RC_FATAL: as db_exec(); the transaction is over. */
enum rc outbox_append(struct db *db, const char *lane, const struct outbox_event *events,
                      size_t count, struct err *err);

/* Checks events as outbox_append() does. RC_REJECT: err names the first one with a fault. Any
 * thread. */
enum rc outbox_check(const struct outbox_event *events, size_t count, struct err *err);

/* Returns rc. If a statement on the outbox table failed because the table lacks a column, err says
 * that another program's table is in its place, as Debezium's is, and what to do. Any thread. */
enum rc outbox_explain_table(const char *table, enum rc rc, struct err *err);

/* Returns RC_OK when the headers column of a row may contain a header of this name. RC_REJECT: the
 * name is empty, or reserved for headers that the relay writes. Any thread.
 * Invariant: outbox_append() and the relay use this same function. Otherwise a row that
 * outbox_append() accepted could be refused by the relay and divert its key. */
enum rc outbox_check_header(const char *name, struct err *err);

#endif
