/* SPDX-License-Identifier: MIT */
/* libtallybox: appends events to an outbox table in the transaction of the caller. `tallybox relay`
 * publishes the events when the transaction commits, and never when it rolls back.
 *
 *     mysql_query(mysql, "START TRANSACTION");
 *     ... lock the row that orders the events, then the application's own changes ...
 *     result = tallybox_outbox_append(mysql, "tallybox.outbox", &event, 1, &error);
 *     mysql_query(mysql, result == TALLYBOX_OK ? "COMMIT" : "ROLLBACK");
 *
 * Events of one aggregate_id keep their order if each transaction first locks a common row. If the
 * answer to COMMIT is lost, the outcome is unknown: repeat the transaction so that a second one is
 * harmless, as by a unique key of the application. */
#ifndef TALLYBOX_OUTBOX_H
#define TALLYBOX_OUTBOX_H

#include <stddef.h>
#include <tallybox/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TALLYBOX_ID_SIZE 37              /* a UUID as text, with the zero byte at its end */
#define TALLYBOX_EVENT_TEXT_BYTES_MAX 64 /* aggregate_type, aggregate_id, type: 1 to 64 bytes */
#define TALLYBOX_EVENT_HEADERS_BYTES_MAX 65535
#define TALLYBOX_LANES_MAX 64

/* Texts are UTF-8 and end with a zero byte. Zero the struct before the fields are set. */
struct tallybox_event {
    const char *id;             /* a UUID of 36 characters; NULL: a new one. Consumers recognise a
                                   repeated event by it */
    const char *aggregate_type; /* chooses the topic */
    const char *aggregate_id;   /* the key: order is kept per key */
    const char *type;           /* what happened */
    const void *payload;        /* published unchanged; NULL is a tombstone */
    size_t payload_len;
    const char *headers; /* a JSON object of strings, or NULL; id, seq, lane, ce_id and
                            ce_specversion are reserved */
};

/* Makes an id: a UUID of version 7, in lower case. Any thread. */
void tallybox_id_make(char id[TALLYBOX_ID_SIZE]);

/* Checks events by the rules of the relay, without a database. TALLYBOX_REJECT: error names the
 * first event with a fault. Any thread. */
enum tallybox_result tallybox_outbox_check(const struct tallybox_event *events, size_t count,
                                           struct tallybox_error *error);

/* Appends the events in their order. mysql: a connected MYSQL * of the library that this one was
 * built with (pkg-config tells which), inside the caller's transaction; its session may have any
 * settings. table: "outbox", or "DATABASE.outbox" if the table is in another database of the
 * server. Begins and ends no transaction, reconnects never, borrows all parameters for the call.
 *
 * TALLYBOX_REJECT: an event has a fault, and nothing was written, or the server refused a
 * statement. TALLYBOX_RETRY: a lost connection, a deadlock, a lock time-out, a full or read-only
 * server. TALLYBOX_FATAL: a missing table, column or privilege. Roll back after each of them. */
enum tallybox_result tallybox_outbox_append(void *mysql, const char *table,
                                            const struct tallybox_event *events, size_t count,
                                            struct tallybox_error *error);

/* The same for an outbox of several lanes (`tallybox lanes`): reads the number of lanes with a
 * shared lock, and distributes the events by their aggregate_id. lane_count: 1 to
 * TALLYBOX_LANES_MAX, for which the application is configured. database: where the tables are;
 * NULL: the connection's default database. The account needs the role `application`, which may
 * read outbox_lanes.
 *
 * TALLYBOX_RETRY also while the number is being changed; TALLYBOX_REJECT if it is another one. */
enum tallybox_result tallybox_outbox_append_lanes(void *mysql, const char *database,
                                                  size_t lane_count,
                                                  const struct tallybox_event *events, size_t count,
                                                  struct tallybox_error *error);

#ifdef __cplusplus
}
#endif

#endif
