/* SPDX-License-Identifier: MIT */
/* The engines of a lane of one relay process that reads the binary log, as stream_lane.h has them,
 * on the fakes of binlog.h: the pump and the cleaner with a thread each, and the engines for the
 * steps LANE_READER and LANE_DELETER. */
#ifndef TESTS_SIM_LOG_LANE_H
#define TESTS_SIM_LOG_LANE_H

#include "outbox/relay/lane.h"
#include "outbox/relay/stream/stream_cleaner.h"
#include "outbox/relay/stream/stream_keeper.h"
#include "outbox/relay/stream/stream_pump.h"
#include "outbox/relay/stream/stream_reader.h"
#include "tests/sim/binlog_ops.h"
#include "tests/sim/tables.h"

#include <stdbool.h>

struct log_lane {
    struct lane *lane; /* NULL: not open */
    struct proc *proc;
    struct stream_pump pump;
    struct stream_keeper keeper;
    struct stream_reader reader;
    struct stream_cleaner cleaner;
    struct binlog_reader log;
    struct binlog_store store;
    struct lane_adapter cleans;
    struct lane_origin cleaner_origin;
    struct fiber *pump_fiber;
    struct fiber *cleaner_fiber;
    bool pump_runs;
    bool cleaner_runs;
};

/* Opens the engines of an initialised lane. diverts is the adapter of its diverter, whose process,
 * origin and number the other adapters share. It must not move, nor must the lane. */
void log_lane_open(struct log_lane *own, struct lane *lane, struct lane_adapter *diverts);
void log_lane_start(struct log_lane *own);
/* Makes its own threads end. */
void log_lane_stop(struct log_lane *own);
bool log_lane_runs(const struct log_lane *own);
/* The process has died. Accepts one that is not open. */
void log_lane_close(struct log_lane *own);

#endif
