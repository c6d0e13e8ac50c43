/* SPDX-License-Identifier: MIT */
/* What a lane with `source = binlog` has instead of the reader and the deleter of a table: its
 * stream, the pump, the cleaner and the fallback with a thread each, and the engines for the steps
 * LANE_READER and LANE_DELETER. The main thread. */
#ifndef OUTBOX_RELAY_STREAM_STREAM_LANE_H
#define OUTBOX_RELAY_STREAM_STREAM_LANE_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/relay/fallback/table_fallback.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/stream/position_store_mysql.h"
#include "outbox/relay/stream/stream_cleaner.h"
#include "outbox/relay/stream/stream_cleaner_mysql.h"
#include "outbox/relay/stream/stream_keeper.h"
#include "outbox/relay/stream/stream_mysql.h"
#include "outbox/relay/stream/stream_pump.h"
#include "outbox/relay/stream/stream_reader.h"

#include <stdint.h>

struct stream_lane {
    struct lane *lane; /* NULL: not open */
    struct stream_mysql *stream;
    struct stream_columns columns;
    struct ignored_changes ignored;
    struct position_store_mysql positions;
    struct stream_pump pump;
    struct stream_keeper keeper;
    struct stream_reader reader;
    struct stream_cleaner_mysql kept;
    struct stream_cleaner cleaner;
    struct loop pumping;
    struct loop cleaning;
    struct table_fallback fallback; /* of a lane that may go on from its table */
    struct loop falling_back;
};

/* How the server knows the readers of its log. */
struct stream_ids {
    uint32_t own;                 /* of the lane's stream */
    uint32_t together;            /* of the shared one */
    struct shared_stream *shared; /* NULL: none */
};

/* Opens all of it without a thread or a connection. lane has been initialised; everything is
 * borrowed until stream_lane_close(), but ids and diverts are copied. After a failure
 * stream_lane_close() is called as well. */
enum rc stream_lane_open(struct stream_lane *streams, struct lane *lane, const char *instance,
                         struct origin_mysql *origin, const struct stream_ids *ids,
                         const struct diverter_ops *diverts, struct stop *stop, struct err *err);

/* Accepts a zeroed one. */
void stream_lane_close(struct stream_lane *streams);

/* Starts its threads. */
enum rc stream_lane_start(struct stream_lane *streams, struct err *err);

/* Makes the threads of the pump and the fallback end, also while they wait for a server. */
void stream_lane_stop(struct stream_lane *streams);

/* Waits for the end of the threads, after stream_lane_stop() and a requested stop. */
void stream_lane_join(struct stream_lane *streams);

#endif
