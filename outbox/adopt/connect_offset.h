/* SPDX-License-Identifier: MIT */
/* An offset of Debezium's connectors for MySQL and MariaDB, as Kafka Connect keeps it and its REST
 * interface shows it: {"offsets": [{"partition": {"server": PREFIX}, "offset": {...}}]}. Pure; any
 * thread. */
#ifndef OUTBOX_ADOPT_CONNECT_OFFSET_H
#define OUTBOX_ADOPT_CONNECT_OFFSET_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed one is ready for use. */
struct connect_offset {
    bool by_gtid;
    struct buf gtids; /* of the transactions before it */
    char file[BINLOG_FILE_SIZE];
    uint64_t pos;       /* of the begin of the transaction in the file, modulo 4 GiB */
    uint64_t event;     /* events of the transaction that are done, BEGIN or the GTID included */
    uint64_t row;       /* rows of the event behind them that are done */
    uint64_t server_id; /* of the server that has written the transaction; 0: not known */
    int64_t time_s;     /* of the transaction; 0: not known */
};

void connect_offset_done(struct connect_offset *offset);

/* Reads the offset of the connector with this topic.prefix from the answer to GET
 * /connectors/NAME/offsets. RC_REJECT: there is none, or none that reading can begin at; err says
 * what to do. RC_FATAL: no memory. */
enum rc connect_offset_parse(struct connect_offset *offset, const char *text, size_t len,
                             const char *prefix, struct err *err);

/* The same for the value of one record of the topic of offsets. */
enum rc connect_offset_parse_value(struct connect_offset *offset, const char *text, size_t len,
                                   struct err *err);

/* Whether the key of a record of that topic, as ["NAME",{"server":"PREFIX"}], is this one. */
bool connect_offset_is_key(const void *key, size_t len, const char *connector, const char *prefix);

/* Appends the body of PATCH /connectors/NAME/offsets. */
void connect_offset_put(struct buf *out, struct connect_offset *offset, const char *prefix);

#endif
