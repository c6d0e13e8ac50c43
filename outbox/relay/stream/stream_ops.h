/* SPDX-License-Identifier: MIT */
/* The ops through which the relay reads the committed rows of a table as a stream, in the order of
 * commits. An adapter fills them from the binary log, tests from a model. The reader's thread. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_OPS_H
#define OUTBOX_RELAY_STREAM_STREAM_OPS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/event.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stdint.h>

/* Server ids that are not configured have this bit: above those that people give to their servers.
 */
#define STREAM_OWN_SERVER_IDS UINT32_C(0x80000000)

#define POSITION_SERVER_SIZE 65 /* of relay_position.server */

/* relay_position.server of a lane that goes on from its table: its position is none in any log. A
 * server has no such identity. */
#define POSITION_FROM_TABLE "from-table"

/* Where reading may begin: always between two transactions, the first rows of the next one skipped.
 * A zeroed one is ready for use. */
struct stream_position {
    bool by_gtid;      /* the server finds it by `before`, otherwise by file and offset */
    struct buf before; /* text of the GTIDs of all transactions before it */
    char file[BINLOG_FILE_SIZE];
    uint64_t offset;
    char gtid[BINLOG_GTID_SIZE]; /* of the next transaction if rows_done is above 0 */
    uint64_t rows_done;          /* rows of the table in the next transaction that are done */
    int64_t time_s; /* of the last transaction before it, by the server's clock; 0: unknown */
    /* Of a position that was loaded or begun, else 0 and "". */
    int64_t epoch;                     /* of the lease under which it was saved */
    char server[POSITION_SERVER_SIZE]; /* the identity of the present server */
    bool from_table; /* it is no place in a log: the lane goes on from its table */
    bool moved;      /* it was saved on another server */
};

enum stream_kind {
    STREAM_NOTHING, /* the server has no more at present */
    STREAM_ROW,
    STREAM_COMMIT, /* the rows since the last commit are committed */
    STREAM_UNDO,   /* of the rows of the transaction only the first `number` ones stay */
    STREAM_CUT,    /* a crash of the server has cut the transaction off: none of its rows stays */
};

struct stream_change {
    bool counts_only; /* set by the caller: the bytes of a row are not needed, only that it is there
                       */
    enum stream_kind kind;
    uint64_t number; /* STREAM_ROW: of the row in its transaction, from 1 */
    bool emptied;    /* STREAM_COMMIT: the transaction has removed all rows of the table, and later
                        ones may have the seqs of those */
    /* STREAM_ROW, unless counts_only: without seq and epoch; borrowed until the next call of next
     * or open. */
    struct relay_row row;
};

/* RC_RETRY: try again later. RC_FATAL: an operator has to act. After either of them, only open is
 * called. */
struct stream_ops {
    void *ctx;
    /* Begins to read at a position, also when it was open before. */
    enum rc (*open)(void *ctx, const struct stream_position *from, struct err *err);
    /* Reads the next change. Blocks no longer than the adapter's time-out for one packet. */
    enum rc (*next)(void *ctx, struct stream_change *change, struct err *err);
    /* Writes the position of the present transaction, or outside of one that of the next. gtid is
     * that of the transaction, also before it was read again if the stream was opened inside of it.
     * The caller sets rows_done. */
    enum rc (*position)(void *ctx, struct stream_position *position, struct err *err);
    /* Ends reading. Only open is called afterwards. NULL, as interrupt: the stream never waits. */
    void (*close)(void *ctx);
    /* Until close, each next that waits or would wait returns RC_RETRY. Any thread. */
    void (*interrupt)(void *ctx);
    /* Whether the last next has failed because the server has purged the log at the position. NULL:
     * it never has. On the thread of next. */
    bool (*purged)(void *ctx);
    /* After STREAM_NOTHING: whether the log has no more, either. NULL: always. */
    bool (*is_at_end)(void *ctx);
};

/* Where in the log a change is, as other readers of the log count. A COMMIT belongs to its
 * transaction. Before the first transaction all are 0 and "". */
struct stream_place {
    const char *file;    /* in which the transaction begins */
    uint64_t begin;      /* of it in the file */
    uint64_t body_begin; /* of its BEGIN, which MySQL writes behind the GTID; else as begin */
    uint64_t events;     /* of it so far; BEGIN, or the GTID on MariaDB, is the first one */
    uint64_t event_rows; /* of the table in the last event so far */
    uint64_t read_end;   /* of all that was read, in the file that is read now */
    const struct binlog_gtid *gtid; /* of the transaction; borrowed until the next call of next */
    int64_t time_s;      /* of the transaction: when its COMMIT, or its only statement, began */
    int64_t file_time_s; /* when the file that is read now was begun; 0: not known yet */
};

/* A stream that ends at the end of the log, and where it is. */
struct stream_log {
    struct stream_ops stream;
    void *ctx;
    struct stream_place (*place)(void *ctx); /* of the change that next has returned */
    bool (*has_ended)(void *ctx);
};

/* Which of two places in the log comes first: below 0, 0 or above 0. Files of one server have the
 * same name but for their number, which has six digits, or more when it needs more. */
int stream_place_compare(const char *file, uint64_t offset, const char *other,
                         uint64_t other_offset);

/* Copies a position and keeps the memory of `to`. Returns false when memory is exhausted. */
bool stream_position_copy(struct stream_position *to, const struct stream_position *from);

/* So that the memory of both is used again. */
void stream_position_swap(struct stream_position *a, struct stream_position *b);

/* Whether a stream can be opened at the position: a request for a file has 32 bits for the offset,
 * and a transaction may end behind them. The next file begins then. */
bool stream_position_opens(const struct stream_position *position);

#endif
