/* SPDX-License-Identifier: MIT */
/* The binary log of the writers' database with its transactions in the order of their commits, the
 * tables relay_position, relay_published and relay_published_id, and the promises of the lanes with
 * `source = binlog`, which use all of them (binlog_ops.h).
 *
 * A transaction that was rolled back may be in the log, cut off by a crash or undone. The log has
 * one file for each few transactions, and the server deletes those before the saved positions of
 * all lanes. */
#ifndef TESTS_SIM_BINLOG_H
#define TESTS_SIM_BINLOG_H

#include "outbox/relay/stream/cleaner_ops.h"
#include "tests/sim/tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BINLOG_ROWS_MAX ((size_t)SIM_LANES_MAX * TABLE_ROWS_MAX)
#define BINLOG_ENTRIES_MAX 4096

/* A row as it was written. */
struct binlog_row {
    size_t lane;
    int64_t seq;
    size_t event;
    bool oversize;
};

enum binlog_end { BINLOG_COMMITTED, BINLOG_CUT, BINLOG_UNDONE };

struct binlog_group {
    size_t first; /* of its rows */
    size_t count;
    enum binlog_end end;
    size_t rows_before[SIM_LANES_MAX]; /* committed ones of each lane */
};

struct position_version {
    bool found;
    size_t group; /* transactions before it */
    uint64_t rows_done;
    int64_t epoch;
    size_t rows; /* committed rows of the lane before it */
};

struct binlog_position {
    struct fake_row row; /* first */
    struct position_version old;
    struct position_version now;
};

enum binlog_entry_state { BINLOG_ENTRY_NONE, BINLOG_ENTRY_KEPT, BINLOG_ENTRY_ENDED };

/* A row of relay_published or relay_published_id; its number is its index + 1. */
struct binlog_entry {
    struct fake_row row; /* first */
    enum binlog_entry_state state;
    size_t lane;
    enum cleaner_kind kind;
    int64_t saved_ms; /* by the database's clock */
    int64_t first_seq;
    int64_t id_count;
    struct buf rows;
};

struct binlog_lane {
    struct binlog_position position;
    int64_t *seqs; /* of its committed rows, in the order of the log */
    size_t count;
    size_t recorded; /* the first rows: it was saved that they are done */
};

struct binlog_reader;

struct binlog {
    struct binlog_row *rows;
    size_t row_count;
    struct binlog_group *groups;
    size_t count;
    size_t purged;   /* the server does not have the groups before this one */
    bool by_gtid;    /* of positions */
    uint64_t settle; /* db.settles of the transaction that was written last */
    bool written;    /* it is in the log */
    struct binlog_lane lanes[SIM_LANES_MAX];
    struct binlog_entry *entries;
    size_t entry_count;
    struct binlog_reader *readers; /* that wait at the end of the log */
};

void binlog_begin_run(struct binlog *log, struct sim *sim);
void binlog_done(struct binlog *log);

/* The end of the transaction that has written the row. */
void binlog_write(struct sim *sim, struct outbox_row *row, bool commit);

/* The server deletes files, now and then. Called now and then. */
void binlog_tend(struct sim *sim);

/* The database has started again: connections are gone. */
void binlog_restarted(struct sim *sim);

/* Whether a lane that reads the log has no position yet: no other process writes before. */
bool binlog_has_to_begin(const struct sim *sim);

/* The promises of a row that is sent by a process, and of one that is deleted. */
void binlog_check_sending(struct sim *sim, size_t event, const struct proc *proc, int64_t epoch);
void binlog_check_deletion(struct sim *sim, const struct outbox_row *row);
/* Whether nothing is lost when the row is not read again. */
bool binlog_is_done(const struct sim *sim, const struct outbox_row *row);

#define BINLOG_FILE_GROUPS 16

#endif
