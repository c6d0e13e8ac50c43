/* SPDX-License-Identifier: MIT */
/* Finds in the events of a binary log the rows that transactions insert into one table, and knows
 * at each moment where reading can begin again. It does no I/O and is given one event after the
 * other.
 *
 * Rows are passed on before the end of their transaction is seen, so that a large one needs no
 * memory: the caller keeps them back until CHANGE_COMMIT. CHANGE_UNDO takes rows back, because a
 * transaction that changed a table without transactions, too, is in the log although it was rolled
 * back.
 *
 * What could hide or falsify rows is RC_FATAL with the reason, never skipped: an unknown event, an
 * incident, a damaged event, a statement that changes the table without its rows in the log, a
 * transaction of two phases, a GTID that comes again. A transaction that a crash of the server has
 * cut off is undone, as the server does when it starts. One thread at a time. */
#ifndef OUTBOX_RELAY_BINLOG_CHANGE_STREAM_H
#define OUTBOX_RELAY_BINLOG_CHANGE_STREAM_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/event.h"
#include "outbox/relay/binlog/gtid_set.h"
#include "outbox/relay/binlog/payload.h"
#include "outbox/relay/binlog/rows.h"
#include "outbox/relay/binlog/table_map.h"
#include "outbox/relay/binlog/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANGE_SAVEPOINTS_MAX 32

enum change_kind {
    CHANGE_WANTS_EVENT, /* give the next event */
    CHANGE_IDLE,        /* a heartbeat: the server has nothing more at present */
    CHANGE_ROW,         /* a row was inserted into the table */
    CHANGE_COMMIT,      /* the rows since the last one are committed */
    CHANGE_UNDO,        /* of the rows of the transaction only the first `row` ones stay */
    CHANGE_CUT,         /* a crash of the server has cut it off: none stays, and the next begins */
    CHANGE_DEFINITION,  /* a statement that may have changed the table */
};

struct change {
    enum change_kind kind;
    uint64_t row;                      /* its number in the transaction, from 1 */
    const struct binlog_value *values; /* one for each column of `table` of the stream; borrowed
                                          until the next call */
    bool emptied;    /* CHANGE_COMMIT: the transaction is a statement that has removed all rows of
                        the table and lets its AUTO_INCREMENT begin again */
    uint32_t time_s; /* when the statement ran, since 1970 */
};

/* What is counted and not passed on. */
struct change_counts {
    uint64_t transactions; /* all of the server */
    uint64_t updates;      /* events that update rows of the table */
    uint64_t statements;   /* statements that change rows of other tables */
};

/* A savepoint of the present transaction. */
struct change_savepoint {
    uint64_t name; /* hash */
    uint64_t rows; /* before it */
};

enum change_state {
    CHANGE_OUTSIDE, /* the next event begins a transaction */
    CHANGE_BEGUN,   /* its GTID was seen; a statement other than BEGIN ends it */
    CHANGE_INSIDE,
};

struct change_stream {
    const char *schema;
    const char *name;
    struct change_counts counts;

    /* Where the present transaction begins; outside of one, where the next one does. */
    struct gtid_set before; /* all transactions before it */
    char file[BINLOG_FILE_SIZE];
    uint64_t offset;
    struct binlog_gtid gtid;          /* of the present transaction */
    uint64_t row;                     /* rows of the table in it so far */
    uint64_t skip;                    /* rows of the first transaction that were done before */
    char skip_gtid[BINLOG_GTID_SIZE]; /* its GTID */
    uint32_t time_s;                  /* of the last event of a transaction */
    uint32_t group_time_s;            /* of the GTID: when COMMIT, or the only statement, began */
    uint32_t file_time_s;             /* when the file was begun; 0: before its first event */

    /* Of the present transaction, or of the last one outside of it. Events: that of BEGIN, or of
     * its GTID on MariaDB, is the first one, and those inside of a payload count; 0: it has no
     * BEGIN. */
    uint64_t events;
    uint64_t event_rows; /* of the table in the last event so far */
    uint64_t group_begin;
    uint64_t body_begin; /* of its first event, behind the GTID on MySQL */
    char group_file[BINLOG_FILE_SIZE];
    bool has_last; /* a transaction was read to its end. Of the last one: */
    struct binlog_gtid last_gtid;
    uint64_t last_group_begin; /* not that of one that a crash has cut off since */
    char last_group_file[BINLOG_FILE_SIZE];

    /* The table as its last map describes it. */
    struct binlog_table table;
    struct binlog_column *columns;
    uint64_t table_version; /* grows whenever the description differs from the one before */

    enum change_state state;
    bool ended;   /* CHANGE_COMMIT is to be passed on */
    bool emptied; /* with it */
    struct change_savepoint savepoints[CHANGE_SAVEPOINTS_MAX];
    size_t savepoint_count;

    struct binlog_format format;
    struct binlog_payload payload;
    struct buf expanded; /* of a compressed event of MariaDB */
    struct buf map;      /* the body of the last map of the table, which `table` borrows */
    bool has_map;        /* and `table` has the id that the server uses now */
    struct binlog_event event;
    bool has_event;  /* the last event was not handled yet */
    bool in_payload; /* events inside it follow */
    bool in_rows;
    struct binlog_rows rows;
    struct binlog_value *values;
    uint64_t begin; /* of the last event in its file, and its end */
    uint64_t end;

    /* Set by the user: called for each event before it is handled, also for those inside of a
     * payload. NULL: not called. */
    void (*on_event)(void *ctx, const struct binlog_event *event);
    void *on_event_ctx;
};

/* schema and name are borrowed until change_stream_done(). They are as the server writes them, also
 * in their case: with lower_case_table_names that may be another one than in a setting.
 * event_bytes_max bounds the memory for an event that came compressed. RC_FATAL: no memory; the
 * stream then owns none. */
enum rc change_stream_init(struct change_stream *stream, const char *schema, const char *name,
                           size_t event_bytes_max, struct err *err);

/* Accepts a zeroed stream. */
void change_stream_done(struct change_stream *stream);

/* Prepares for events that begin behind the transactions of `before`, of which the first `skip`
 * rows of the first transaction were done; skip_gtid is its GTID as gtid_put_text() writes it, ""
 * on a server without GTIDs. file may be empty where it is not known. The text of `before` is that
 * of gtid_set.h. RC_REJECT: it is none. */
enum rc change_stream_begin(struct change_stream *stream, bool mariadb, const char *before,
                            const char *file, uint64_t offset, uint64_t skip, const char *skip_gtid,
                            struct err *err);

/* Gives one event with its header and checksum, after CHANGE_WANTS_EVENT. The bytes are borrowed
 * until the next CHANGE_WANTS_EVENT. */
enum rc change_stream_give(struct change_stream *stream, const void *bytes, size_t len,
                           struct err *err);

/* Gives one event that another stream has parsed and verified, and where it lies in its file; as
 * change_stream_give(). Such events may leave out what does not concern the table: all but the GTID
 * and one event that ends the transaction. */
void change_stream_take(struct change_stream *stream, const struct binlog_event *event,
                        uint64_t begin, uint64_t end);

/* Between two transactions: events from here on follow, and the next transaction begins there. */
void change_stream_move(struct change_stream *stream, const char *file, uint64_t offset);

/* Finds the next change. After RC_FATAL the stream can only begin again or be freed. */
enum rc change_stream_next(struct change_stream *stream, struct change *change, struct err *err);

#endif
