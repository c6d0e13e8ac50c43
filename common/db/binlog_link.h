/* SPDX-License-Identifier: MIT */
/* A connection on which a server streams the events of its binary log, as to a replica. The bytes
 * of the events are handed on as they come: outbox/relay/binlog parses them.
 *
 * Needs REPLICATION SLAVE. The link identifies itself with a server id of its own: if a second
 * reader comes with the same id, the server ends the stream of the first. It never acknowledges
 * commits (semi-synchronous replication), so that no commit waits for it. A link belongs to one
 * thread at a time, but for binlog_link_shutdown(). */
#ifndef COMMON_DB_BINLOG_LINK_H
#define COMMON_DB_BINLOG_LINK_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a stream begins, and how it is watched. All pointers are borrowed for the call. */
struct binlog_start {
    uint32_t server_id; /* 1 or more, and of no server or reader of this replication */
    /* By file and offset. NULL: by GTID. offset: 4 for the begin of a file, below 2^32. */
    const char *file;
    uint64_t offset;
    /* By GTID: everything behind this set. MariaDB takes the text, where "" means from its first
     * event on; MySQL takes the bytes (gtid_set_put_bytes()). */
    const char *gtid_text;
    const void *gtid_bytes;
    size_t gtid_bytes_len;
    /* The server sends a heartbeat when it has had nothing to send for so long. */
    int64_t heartbeat_ms;
    /* A server that sends nothing for so long counts as lost. Three heartbeats or more, in whole
     * seconds. MariaDB before 11.4 is silent while it searches the first GTID: a caller that gets
     * no event at all repeats with more. */
    int64_t silence_ms;
    /* Memory for one event; a larger one ends the stream with RC_RETRY. 0: 1 GiB, as servers allow.
     */
    uint64_t event_bytes_max;
    bool until_end; /* ends at the end of the log instead of waiting for more */
    bool annotated; /* MariaDB sends the texts of statements, too */
};

/* Why a server ends a stream or does not begin it. */
enum binlog_refusal {
    BINLOG_REFUSAL_NONE,   /* it did not: the connection was lost, or nothing has failed */
    BINLOG_REFUSAL_PURGED, /* it does not have the events any more */
    BINLOG_REFUSAL_AHEAD,  /* the position is behind its last event: it has lost transactions, or it
                              is another server */
    BINLOG_REFUSAL_REPLACED, /* another reader came with this server id */
    BINLOG_REFUSAL_OTHER,    /* see the text */
};

struct binlog_link;

/* Connects and begins a stream. on_origin (may be NULL) decides about the server before that.
 * RC_RETRY: no connection. RC_REJECT: the start is none for this server or this protocol. RC_FATAL:
 * as in db.h. The reasons of a server not to begin come with the first binlog_link_next(). */
enum rc binlog_link_open(struct binlog_link **out, const struct mysql_settings *settings,
                         const struct binlog_start *start, db_on_origin on_origin,
                         void *on_origin_ctx, struct err *err);

/* Accepts NULL. */
void binlog_link_close(struct binlog_link *link);

/* Waits for the next event. *event is borrowed until the next call; NULL at the end of the log if
 * it is read until there. After any failure the link can only be closed. RC_RETRY: the connection
 * was lost, the server was silent for too long, or it ended the stream; begin again at the last
 * position. RC_FATAL: the server refuses the stream, see binlog_link_refusal(). */
enum rc binlog_link_next(struct binlog_link *link, const void **event, size_t *len,
                         struct err *err);

/* Whether bytes of the server can be read now, from the socket or from what was read ahead of it.
 * libmysqlclient does not tell the latter: false may be wrong there, and then the next event comes
 * without waiting. */
bool binlog_link_ready(struct binlog_link *link);

/* Why the last binlog_link_next() has failed. */
enum binlog_refusal binlog_link_refusal(const struct binlog_link *link);

/* Whether the last binlog_link_next() has failed because the server sent nothing for silence_ms. */
bool binlog_link_was_silent(const struct binlog_link *link);

/* Makes a binlog_link_next() that waits return RC_RETRY. Any thread, while the link is open. */
void binlog_link_shutdown(struct binlog_link *link);

#endif
