/* SPDX-License-Identifier: MIT */
/* A fake of the servers of a lane that reads the binary log: the log itself with its transactions,
 * and the table of positions. Its rows are those of a struct fake_relay, which is the broker and
 * the retry queue: a row has its number there as its id, and wrappers of those ops translate the
 * numbers that the lane gives to rows.
 *
 * A transaction is written step by step, undone in part, cut off or committed. Each call that
 * breaks a promise of the lane is recorded. Flow tests only: the log of the simulation is that of a
 * database with several lanes and sessions (tests/sim/binlog.h). */
#ifndef TESTS_FAKES_FAKE_BINLOG_H
#define TESTS_FAKES_FAKE_BINLOG_H

#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/stream/position_store.h"
#include "outbox/relay/stream/stream_ops.h"
#include "tests/fakes/fake_relay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_BINLOG_STEPS_MAX 16384
#define FAKE_BINLOG_TICKETS 1024
#define FAKE_BINLOG_TRANSACTIONS_MAX 65536

struct fake_binlog_step {
    enum stream_kind kind;
    uint64_t number; /* STREAM_UNDO: rows that stay; STREAM_COMMIT: 1 if the table is emptied */
    int64_t row;     /* STREAM_ROW */
};

/* The probability of each fault, in thousandths of calls or rows. */
struct fake_binlog_faults {
    unsigned stream;
    unsigned pause; /* the stream has nothing for a moment, also within a transaction */
    unsigned positions;
    unsigned undo;
    unsigned cut;
    unsigned empty; /* the table is emptied between two transactions */
    unsigned bad_row;
    unsigned claim;
    unsigned commit;
};

struct fake_binlog {
    struct fake_relay *relay;
    struct fake_binlog_faults faults;
    bool writing;    /* transactions begin; not before the lane has a position */
    bool purged;     /* the stream has no event any more */
    size_t rows_max; /* of a transaction */
    size_t far_from; /* positions from this step on, and before the other, are offsets in a file */
    size_t far_to;   /* above 4 GiB, which no server opens */
    /* Called within the calls of ops: the steps of other threads go on meanwhile. May be NULL. */
    void (*pass)(void *ctx);
    void *pass_ctx;

    struct fake_binlog_step steps[FAKE_BINLOG_STEPS_MAX];
    size_t count;
    size_t start;                           /* of the transaction that is open */
    int64_t open_rows[FAKE_RELAY_ROWS_MAX]; /* its rows that stay */
    size_t open_count;
    size_t planned; /* rows that the writer will still add */
    bool is_open;
    bool is_planned;                   /* the writer ends it */
    int64_t rows[FAKE_RELAY_ROWS_MAX]; /* committed ones, in the order of the log */
    size_t row_count;
    size_t rows_before[FAKE_BINLOG_STEPS_MAX]; /* committed before the transaction of a step */
    size_t gone_before[FAKE_BINLOG_STEPS_MAX]; /* those of them that were removed before it */
    size_t gone;                               /* the first committed rows, which are removed */
    size_t forgets;                            /* saves that forgot all rows */

    /* The connection that reads. */
    size_t at;
    size_t at_start; /* of the present transaction */
    uint64_t number;
    uint64_t skip;
    bool interrupted;
    size_t opens;
    char row_key[FAKE_KEY_SIZE];
    char row_id[FAKE_KEY_SIZE];

    /* The table of positions. */
    struct stream_position saved;
    bool found;
    size_t accepts; /* how often the next database was accepted */
    bool refuses;   /* saves fail and save nothing */
    size_t saves;
    size_t saved_rows; /* committed rows before the saved position */

    /* The transactions and the topic of positions, of a lane that publishes exactly once. */
    bool exact;
    bool by_id; /* rows are recorded by their ids */
    enum broker_claim claimed;
    uint64_t transactions; /* that were begun; the last one is open */
    bool committed[FAKE_BINLOG_TRANSACTIONS_MAX];
    bool may_commit_late;        /* the last commit has not arrived, and may */
    struct position_record sent; /* with it */
    struct position_record last; /* that was committed */
    bool has_last;
    size_t claims;
    size_t topic_opens;
    size_t commits;
    int64_t saved_epoch; /* of the saved position */

    bool done[FAKE_RELAY_ROWS_MAX + 1];     /* by number: acknowledged, or committed, or moved */
    size_t done_count;                      /* of the first committed rows: all are done */
    bool recorded[FAKE_RELAY_ROWS_MAX + 1]; /* by number: saved as done */
    size_t recorded_count;                  /* of the first committed rows: all are */
    int64_t ticket_rows[FAKE_BINLOG_TICKETS];
    struct broker broker;
    struct diverter_ops diverter;
    broker_on_report on_report;
    void *on_report_ctx;
    char broken[160]; /* the first promise that was broken */
};

/* Borrows relay. The log is empty, the lane has no position, and no fault happens. */
void fake_binlog_init(struct fake_binlog *fake, struct fake_relay *relay);
void fake_binlog_done(struct fake_binlog *fake);

/* Writes a row into the open transaction, or begins one. Returns its number. */
int64_t fake_binlog_write(struct fake_binlog *fake, int key);
/* The first `rows` rows of the open transaction stay. */
void fake_binlog_undo(struct fake_binlog *fake, size_t rows);
void fake_binlog_cut(struct fake_binlog *fake);
void fake_binlog_commit(struct fake_binlog *fake);
/* Removes all committed rows from the table, by a statement that is in the log. */
void fake_binlog_empty(struct fake_binlog *fake);
/* Writes a transaction of so many rows, one key after the other. */
void fake_binlog_append(struct fake_binlog *fake, size_t rows);

/* One millisecond passes for the writer. */
void fake_binlog_tick(struct fake_binlog *fake);

/* Whether the saved position is the end of the log. */
bool fake_binlog_is_saved(const struct fake_binlog *fake);

/* Another process makes a producer with the lane's transactional id. */
void fake_binlog_fence(struct fake_binlog *fake);

/* Removes the records of transactions that were not committed from the log, as a reader with
 * isolation.level = read_committed sees it. */
void fake_binlog_read_committed(struct fake_binlog *fake);

/* The number of committed rows that do not have one record. */
size_t fake_binlog_not_once(const struct fake_binlog *fake);

/* Records the first promise that was broken. */
void fake_binlog_blame(struct fake_binlog *fake, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct stream_ops fake_binlog_stream(struct fake_binlog *fake);
struct position_store fake_binlog_positions(struct fake_binlog *fake);
struct broker fake_binlog_broker(struct fake_binlog *fake);
struct diverter_ops fake_binlog_diverter(struct fake_binlog *fake);

#endif
