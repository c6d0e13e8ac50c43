/* SPDX-License-Identifier: MIT */
/* Drops partitions of a lane's table that is partitioned by RANGE (seq), instead of deleting their
 * rows one by one, and makes partitions ahead. A part of stream_cleaner.h.
 *
 * A partition is dropped when it is finished, its last row was published keep_ms ago, and each of
 * its rows is known to be published. The order of the steps matters:
 *
 * 1. A row with a seq from the limit on was committed, so the AUTO_INCREMENT of the table is behind
 *    the partition: no statement that begins from now on gets a seq in it.
 * 2. The cleaner waits for all transactions that use the table, by a lock of the table that it
 *    releases at once. Statements that got a seq earlier have ended then, and their rows can be
 *    seen.
 *    A prepared XA transaction keeps its metadata locks on MySQL, also when its session ends or the
 *    server is started again. On MariaDB it loses them (tests/e2e/test_prepared.py), so there the
 *    cleaner waits until the server has no prepared transaction without a session.
 * 3. It puts the seqs of the entries together, and reads which seqs the partition has.
 * 4. It drops the partition, which is one atomic statement, and then the entries below the limit.
 *
 * A process that ends between any two steps begins again with the first one. An entry that was left
 * behind a dropped partition is harmless, and ends with the next one.
 *
 * A partition with a row that is not known to be published, although the lane has read the log
 * behind it, is kept: the cleaner deletes the other rows of it one by one, and looks at it again
 * after PARTITION_KEPT_MS. It does the same with a table of which it lacks the privileges, with a
 * partition of more than SEQ_SET_SEQS_MAX seqs, and with one that is not finished when its first
 * rows were kept for keep_ms and twice the time that a partition is to cover (partition_size.h).
 *
 * Invariant R23: a partition is dropped only when each row that a writer has put into it with the
 * seq of its AUTO_INCREMENT is saved as published (test_partition_cleaner). The cleaner's thread.
 */
#ifndef OUTBOX_RELAY_PARTITIONS_PARTITION_CLEANER_H
#define OUTBOX_RELAY_PARTITIONS_PARTITION_CLEANER_H

#include "common/err.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/partitions/partition_ops.h"

#include <stdbool.h>
#include <stdint.h>

#define PARTITION_KEPT_MS INT64_C(600000)
/* Time between two looks. */
#define PARTITION_LOOK_MS INT64_C(10000)
/* Wait after the table was not granted: the first time, and at most, after it has doubled. Writers
 * wait behind each try, for up to a second. */
#define PARTITION_BUSY_MS INT64_C(5000)
#define PARTITION_BUSY_MS_MAX INT64_C(60000)
/* The end of a session takes less. */
#define PARTITION_CHECK_MS INT64_C(2000)

enum partition_phase {
    PARTITION_LOOKING,
    PARTITION_WAITING,  /* for transactions that use the table */
    PARTITION_CHECKING, /* that none of them is prepared and has lost its session */
    PARTITION_FILLING,
    PARTITION_SCANNING,
    PARTITION_DROPPING,
    PARTITION_ENDING, /* entries of the dropped one */
};

struct partition_cleaner {
    const struct lane *lane;
    struct partition_ops ops; /* ops.next NULL: there are none */
    enum partition_phase phase;
    bool is_on; /* the table is partitioned, and the account has the privileges */
    struct partition partition;
    struct seq_set set;
    struct entry_cursor cursor;
    int64_t at;    /* PARTITION_SCANNING: the next seq */
    int64_t rows;  /* of the partition so far */
    int64_t below; /* partitions up to this limit are kept until kept_ms */
    int64_t limit; /* rows from here on are in no partition with a limit */
    int64_t high;  /* highest seq that the table, or an entry of it, was seen with */
    int64_t kept_ms;
    int64_t doubted;  /* limit of a partition that had a row that was not saved as published; 0 */
    int64_t doubt_ms; /* and when that was seen first */
    int64_t told;     /* limit of the last partition that was told to be kept */
    int64_t due_ms;   /* of the next step */
    int64_t made_ms;  /* when to look next whether a partition is to be made */
    bool is_full;     /* too many rows are behind the last limit to make a partition */
    bool is_checked;  /* PARTITION_CHECKING has begun, and is repeated */
    int64_t without_session; /* transactions without a session, at the last check */
    int64_t prepared;        /* the same, if the check before has met one, too: held names them */
    int64_t busy_ms;         /* the last wait for the table; 0: it was granted since */
    struct err held; /* why partitions are neither dropped nor made at present; text "": they are */
};

/* lane is borrowed and ops are copied; no memory is allocated yet. */
void partition_cleaner_init(struct partition_cleaner *cleaner, const struct lane *lane,
                            const struct partition_ops *ops);
void partition_cleaner_done(struct partition_cleaner *cleaner);

/* Begins anew, after the table was read or an op has failed. */
void partition_cleaner_begin(struct partition_cleaner *cleaner, bool is_partitioned);
void partition_cleaner_reset(struct partition_cleaner *cleaner);

/* What a step needs to know. */
struct partition_input {
    int64_t keep_ms;
    int64_t epoch;
    int64_t current_ms; /* all rows that were committed before are saved as published; 0: unknown */
    int64_t now_ms;
};

/* Runs one step: at most one call of ops. Another result than RC_OK: an op has failed, and it
 * begins with the first step again. */
enum rc partition_cleaner_step(struct partition_cleaner *cleaner,
                               const struct partition_input *input, struct err *err);

#endif
