/* SPDX-License-Identifier: MIT */
/* The ops through which a lane with `source = binlog` reads the log of binlog.h, keeps its position
 * and deletes its published rows. */
#ifndef TESTS_SIM_BINLOG_OPS_H
#define TESTS_SIM_BINLOG_OPS_H

#include "outbox/relay/stream/cleaner_ops.h"
#include "outbox/relay/stream/position_store.h"
#include "outbox/relay/stream/stream_ops.h"
#include "tests/sim/binlog.h"
#include "tests/sim/tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The connection through which a process reads the log for one lane. */
struct binlog_reader {
    struct lane_adapter adapter;
    struct fiber *pump;
    bool open;
    bool interrupted;
    bool ended; /* the log had no more when it was asked last */
    bool waits;
    uint64_t connects;
    size_t group; /* the present one, or the next */
    size_t at;    /* of the next one of its rows */
    uint64_t number;
    uint64_t skip;
    bool undone; /* that its rows are undone was passed on */
    char key[FAKE_KEY_SIZE];
    struct binlog_reader *next; /* that waits */
};

/* The connections through which a process keeps the position of one lane. */
struct binlog_store {
    struct lane_adapter reads;
    struct lane_adapter saves;
};

/* What is passed must not move afterwards. */
struct stream_ops binlog_stream(struct binlog_reader *reader);
struct position_store binlog_positions(struct binlog_store *store);
/* Of an adapter of the cleaner's. */
struct cleaner_ops binlog_cleaner(struct lane_adapter *adapter);

/* The process has died. */
void binlog_reader_gone(struct binlog_reader *reader);

void binlog_put_place(const struct sim *sim, struct stream_position *position, size_t group);
/* Returns the group before which the position is. */
size_t binlog_place_of(struct sim *sim, const struct stream_position *position);
/* Returns how many committed rows of the lane are before the position. */
size_t binlog_rows_before(struct sim *sim, size_t lane, const struct stream_position *position);

#endif
