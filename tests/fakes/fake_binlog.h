/* SPDX-License-Identifier: MIT */
/* A fake of the servers of a lane that reads the binary log: the log itself with its transactions,
 * and the table of positions. Its rows are those of a struct fake_relay, which is the broker and
 * the retry queue: a row has its number there as its id, and wrappers of those ops translate the
 * numbers that the lane gives to rows.
 *
 * A transaction is written step by step, undone in part, cut off or committed. Each call that
 * breaks a promise of the lane is recorded. Flow tests only: the simulation has no such lane. */
#ifndef TESTS_FAKES_FAKE_BINLOG_H
#define TESTS_FAKES_FAKE_BINLOG_H

#include "outbox/relay/relay_ops.h"
#include "outbox/relay/stream/position_store.h"
#include "outbox/relay/stream/stream_ops.h"
#include "tests/fakes/fake_relay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_BINLOG_STEPS_MAX 16384
#define FAKE_BINLOG_TICKETS 1024

struct fake_binlog_step {
    enum stream_kind kind;
    uint64_t number; /* STREAM_UNDO: rows that stay */
    int64_t row;     /* STREAM_ROW */
};

/* The probability of each fault, in thousandths of calls or rows. */
struct fake_binlog_faults {
    unsigned stream;
    unsigned pause; /* the stream has nothing for a moment, also within a transaction */
    unsigned positions;
    unsigned undo;
    unsigned cut;
    unsigned bad_row;
};

struct fake_binlog {
    struct fake_relay *relay;
    struct fake_binlog_faults faults;
    bool writing;    /* transactions begin; not before the lane has a position */
    size_t rows_max; /* of a transaction */
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
    bool refuses; /* saves fail and save nothing */
    size_t saves;
    size_t saved_rows; /* committed rows before the saved position */

    bool done[FAKE_RELAY_ROWS_MAX + 1];     /* by number: acknowledged or moved */
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
/* Writes a transaction of so many rows, one key after the other. */
void fake_binlog_append(struct fake_binlog *fake, size_t rows);

/* One millisecond passes for the writer. */
void fake_binlog_tick(struct fake_binlog *fake);

/* Whether the saved position is the end of the log. */
bool fake_binlog_is_saved(const struct fake_binlog *fake);

/* Records the first promise that was broken. */
void fake_binlog_blame(struct fake_binlog *fake, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct stream_ops fake_binlog_stream(struct fake_binlog *fake);
struct position_store fake_binlog_positions(struct fake_binlog *fake);
struct broker fake_binlog_broker(struct fake_binlog *fake);
struct diverter_ops fake_binlog_diverter(struct fake_binlog *fake);

#endif
