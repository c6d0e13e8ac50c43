/* SPDX-License-Identifier: MIT */
/* The public way to append events to an outbox table inside the caller's own transaction: when it
 * commits, the relay publishes them; when it does not, they never were. Events of one aggregate_id
 * keep their order when the transactions that append them lock a common row before they do.
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
#define OUTBOX_HEADERS_BYTES_MAX 65535 /* what the column holds */
#define OUTBOX_LANE_NAME_SIZE 32

struct db;

struct outbox_event {
    struct id id;               /* unique for ever: readers drop what they have seen */
    const char *aggregate_type; /* chooses the topic */
    const char *aggregate_id;   /* the Kafka key */
    const char *type;           /* what happened */
    const void *payload;        /* published as it stands; NULL is a tombstone */
    size_t payload_len;
    const char *headers; /* a JSON object of texts, none with a name of the relay's, or NULL */
};

/* Appends the events in their order to the table `lane`, in as few INSERTs as the server's packet
 * allows. Borrows everything for the call.
 * RC_REJECT: err names the event and its fault; after a fault in the events nothing was written,
 * after a refusal by the server a part may have been: roll back. RC_RETRY, RC_FATAL: as db_exec();
 * the transaction is over. */
enum rc outbox_append(struct db *db, const char *lane, const struct outbox_event *events,
                      size_t count, struct err *err);

/* Which of lane_count (>= 1) lanes an aggregate's events belong to, always the same: the 64 bit
 * FNV-1a hash of the bytes of aggregate_id, modulo lane_count. Every writer of these lanes, in any
 * language, must use it, and lane_count may change only while the lanes are empty: order is kept
 * per key and lane. The number in force is stored in the database; lanes.h reads it in the
 * transaction that appends, and changes it. */
size_t outbox_lane_of(const char *aggregate_id, size_t lane_count);

/* The table of a lane: "outbox" for 0, then "outbox_1", "outbox_2" ... */
void outbox_lane_name(char name[OUTBOX_LANE_NAME_SIZE], size_t lane);

/* May the headers column of a row name this header? outbox_append() and the relay ask the same
 * function: otherwise a key would stop at a row that outbox_append() has taken. RC_REJECT: the name
 * is empty, or the relay alone makes a header of this name, which says where a row came from. Any
 * thread. */
enum rc outbox_check_header(const char *name, struct err *err);

#endif
