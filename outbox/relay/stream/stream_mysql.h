/* SPDX-License-Identifier: MIT */
/* The rows of an outbox table as a stream from the binary log of its server: link, events, changes
 * and columns behind the ops of stream_ops.h. Needs REPLICATION SLAVE on the server and SELECT on
 * the table. One thread, but for the op interrupt.
 *
 * With a shared stream it has a connection of its own only until it has reached that one, and again
 * when it cannot follow it (shared/shared_stream.h). */
#ifndef OUTBOX_RELAY_STREAM_STREAM_MYSQL_H
#define OUTBOX_RELAY_STREAM_STREAM_MYSQL_H

#include "common/config/lane_texts.h"
#include "common/config/settings.h"
#include "common/db/binlog_link.h"
#include "common/db/db.h"
#include "common/err.h"
#include "common/metrics.h"
#include "outbox/relay/binlog/outbox_columns.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/shared/shared_stream.h"
#include "outbox/relay/stream/ignored_changes.h"
#include "outbox/relay/stream/stream_ops.h"

#include <stdbool.h>
#include <stdint.h>

/* What a lane names the columns of its table. */
struct stream_columns {
    const char *columns[OUTBOX_FIELDS]; /* of the fields; they point to names */
    char names[OUTBOX_FIELDS][SETTING_NAME_SIZE];
    struct lane_header headers[LANE_HEADERS_MAX];
    size_t header_count;
    bool blank_is_null; /* see outbox_columns.h */
};

/* Fills a zeroed one, which must not be moved afterwards. Borrows the texts of the lane. */
void stream_columns_choose(struct stream_columns *columns, const struct lane_settings *lane);

/* Checks that records can be made of the columns of the lane's table, as open does. RC_REJECT:
 * there is no such table, it has an engine without transactions, or err names a column of which
 * they cannot. */
enum rc stream_columns_check(struct db *db, const char *schema, const struct lane_settings *lane,
                             struct err *err);

/* A shared stream, and how the lane that opens it is known to the server. */
struct stream_sharing {
    struct shared_stream *shared;
    uint32_t server_id;
    struct metric *joined; /* 1 while the lane is a member */
    size_t queue_bytes;
};

/* All pointers are borrowed as long as the stream exists. */
struct stream_mysql_options {
    const struct mysql_settings *mysql;
    struct origin_mysql *origin;      /* NULL: any database */
    const struct lane_settings *lane; /* for texts; NULL: none */
    const char *schema;               /* both as the server writes them, see change_stream.h */
    const char *table;
    const char *const *columns;        /* of the fields, by enum outbox_field; NULL: it has none */
    const struct lane_header *headers; /* header_count columns that become headers */
    size_t header_count;
    bool blank_is_null;              /* see outbox_columns.h */
    struct ignored_changes *ignored; /* NULL: they are not reported */
    struct outbox_bounds bounds;
    uint32_t server_id;
    int64_t heartbeat_ms;
    int64_t silence_ms;            /* or longer, see silence.h */
    bool until_end;                /* ends at the end of the log */
    bool annotated;                /* on MariaDB the texts of statements are events, too */
    struct stream_sharing sharing; /* zeroed: it shares no stream */
};

struct stream_mysql;

/* RC_FATAL: no memory. */
enum rc stream_mysql_make(struct stream_mysql **out, const struct stream_mysql_options *options,
                          struct err *err);

/* Accepts NULL. */
void stream_mysql_free(struct stream_mysql *stream);

/* Its ops. open connects twice, for the definition of the table and for the stream; the reasons of
 * a server not to begin come with the first next. next returns STREAM_NOTHING before it waits for
 * bytes of the server; the call that follows waits, until an event or a heartbeat comes. */
struct stream_ops stream_mysql_ops(struct stream_mysql *stream);

/* Where the change is that next has returned. */
struct stream_place stream_mysql_place(const struct stream_mysql *stream);

/* The same as a log, with until_end; valid as long as the stream. */
struct stream_log stream_mysql_log(struct stream_mysql *stream);

/* Whether the log was read to its end, with until_end. */
bool stream_mysql_has_ended(const struct stream_mysql *stream);

/* Why the server has ended the stream, or did not begin it. */
enum binlog_refusal stream_mysql_refusal(const struct stream_mysql *stream);

#endif
