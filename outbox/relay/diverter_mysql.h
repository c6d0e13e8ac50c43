/* SPDX-License-Identifier: MIT */
/* The adapter that moves rows of one lane's outbox table into retry_task and reads which keys have
 * tasks there. The tasks of a stream lane are made of the bytes that come with the moves, and the
 * table is not used. The task of a row of a lane that publishes exactly once has the option
 * "transaction", by which outbox/retry/handlers/exact_publisher_kafka.h publishes it once. It uses
 * the deleter's connection, because both run in the deleter's thread.
 * Requires SELECT and DELETE on the table, SELECT and INSERT on retry_task. */
#ifndef OUTBOX_RELAY_DIVERTER_MYSQL_H
#define OUTBOX_RELAY_DIVERTER_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/relay/deleter_mysql.h"
#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/relay_ops.h"

#include <stdbool.h>
#include <stdint.h>

struct diverter_mysql {
    struct deleter_mysql *deleter;
    struct db *db;     /* the deleter's */
    const char *lane;  /* its name in log events */
    const char *table; /* its name, also the key in relay_lease and retry_task */
    const char *owner;
    const char *source; /* relay.ce_source */
    int64_t lease_ms;
    bool payload_renamed; /* lane.NAME.columns: the table's own `payload` is another one */
    char lane_key[POSITION_KEY_SIZE]; /* of a lane that publishes exactly once; else empty */
    int64_t epoch;                    /* of the moves that are being made */
    struct buf sql;
    struct buf options; /* the options of the task that is being inserted */
    /* the session that was set up for moves; the fields below were read in it */
    uint64_t session;
    bool has_headers;
    bool has_created_at;
    bool id_as_bytes;       /* the id is read as bytes; see read_id_column() of source_mysql.c */
    bool id_padded;         /* id is of type CHAR */
    bool payload_converted; /* payload is text that is neither utf8, ascii nor binary */
};

/* Borrows lane, settings and the open deleter until diverter_mysql_close(). Cannot fail. */
void diverter_mysql_open(struct diverter_mysql *diverter, const struct lane_settings *lane,
                         struct deleter_mysql *deleter, const struct settings *settings);

/* Accepts a zeroed diverter. */
void diverter_mysql_close(struct diverter_mysql *diverter);

/* The ops (relay_ops.h) are valid while diverter is open. */
struct diverter_ops diverter_mysql_ops(struct diverter_mysql *diverter);

#endif
