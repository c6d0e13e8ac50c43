/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/stream_lane.h"

#include "common/os.h"

#include <string.h>

#define HEARTBEAT_MS 2000
#define SILENCE_MS 6000 /* three heartbeats */

static void wake_step(void *ctx, bool reader)
{
    struct stream_lane *streams = ctx;

    if (reader)
        lane_wake(streams->lane, LANE_READER);
    else
        loop_wake(&streams->pumping);
}

static enum rc open_stream(struct stream_lane *streams, struct origin_mysql *origin,
                           const struct stream_ids *ids, struct err *err)
{
    const struct settings *settings = streams->lane->settings;
    const struct stream_mysql_options options = {
        .mysql = &settings->mysql,
        .origin = origin,
        .lane = streams->lane->own,
        .schema = settings->mysql.database,
        .table = streams->lane->own->table,
        .columns = streams->columns.columns,
        .headers = streams->columns.headers,
        .header_count = streams->columns.header_count,
        .blank_is_null = streams->columns.blank_is_null,
        .ignored = &streams->ignored,
        .bounds = {.row_bytes_max = (uint64_t)settings->relay.row_bytes_max,
                   .batch_bytes_max = streams->lane->batches[0].arena_size},
        .server_id = ids->own,
        .heartbeat_ms = HEARTBEAT_MS,
        .silence_ms = SILENCE_MS,
        .sharing = {.shared = ids->shared,
                    .server_id = ids->together,
                    .joined = &streams->lane->metrics->stream_shared,
                    .queue_bytes = streams->lane->batches[0].arena_size},
    };

    return stream_mysql_make(&streams->stream, &options, err);
}

static enum rc init_pump(struct stream_lane *streams, struct err *err)
{
    const struct stream_ops ops = stream_mysql_ops(streams->stream);
    const struct relay_batch *batch = &streams->lane->batches[0];
    enum rc rc = stream_pump_init(&streams->pump, &ops, batch->rows_max, batch->arena_size, err);

    streams->pump.wake = wake_step;
    streams->pump.wake_ctx = streams;
    return rc;
}

static enum rc open_cleaner(struct stream_lane *streams, const char *instance, struct err *err)
{
    struct lane *lane = streams->lane;
    struct partition_ops partitions;
    struct cleaner_ops ops;
    enum rc rc =
        stream_cleaner_mysql_open(&streams->kept, lane->own, instance, lane->settings, err);

    if (rc != RC_OK)
        return rc;
    ops = stream_cleaner_mysql_ops(&streams->kept);
    stream_cleaner_init(&streams->cleaner, lane, &ops, os_random_u64());
    partitions = stream_cleaner_mysql_partition_ops(&streams->kept);
    stream_cleaner_use_partitions(&streams->cleaner, &partitions);
    return RC_OK;
}

static void wake_fallback(void *ctx)
{
    struct stream_lane *streams = ctx;

    loop_wake(&streams->falling_back);
}

static enum rc open_fallback(struct stream_lane *streams, const char *instance, struct stop *stop,
                             struct err *err)
{
    struct fallback_ops ops;
    enum rc rc;

    if (!table_fallback_is_wanted(streams->lane->own))
        return RC_OK;
    position_store_mysql_let_go_on(&streams->positions);
    rc = table_fallback_open(&streams->fallback, streams->lane, instance, wake_fallback, streams,
                             err);
    if (rc == RC_OK)
        rc = loop_init(&streams->falling_back, "relay-fallback", table_fallback_step,
                       &streams->fallback, stop, err);
    ops = table_fallback_ops(&streams->fallback);
    if (rc == RC_OK)
        stream_reader_use_fallback(&streams->reader, &ops);
    return rc;
}

enum rc stream_lane_open(struct stream_lane *streams, struct lane *lane, const char *instance,
                         struct origin_mysql *origin, const struct stream_ids *ids,
                         const struct diverter_ops *diverts, struct stop *stop, struct err *err)
{
    struct position_store positions;
    enum rc rc;

    memset(streams, 0, sizeof(*streams));
    streams->lane = lane;
    stream_columns_choose(&streams->columns, lane->own);
    ignored_changes_init(&streams->ignored, lane->name, &lane->metrics->log_updates,
                         &lane->metrics->log_statements);
    streams->pumping.wakeup.fd = streams->cleaning.wakeup.fd = -1;
    streams->falling_back.wakeup.fd = -1;
    rc = loop_init(&streams->pumping, "relay-stream", stream_pump_step, &streams->pump, stop, err);
    if (rc == RC_OK)
        rc = loop_init(&streams->cleaning, "relay-clean", stream_cleaner_step, &streams->cleaner,
                       stop, err);
    if (rc == RC_OK)
        rc = open_cleaner(streams, instance, err);
    if (rc == RC_OK)
        rc = position_store_mysql_open(&streams->positions, lane->own, instance, origin,
                                       lane->settings, err);
    if (rc == RC_OK)
        rc = open_stream(streams, origin, ids, err);
    if (rc == RC_OK)
        rc = init_pump(streams, err);
    if (rc != RC_OK)
        return rc;
    positions = position_store_mysql_ops(&streams->positions);
    stream_keeper_init(&streams->keeper, lane, &positions, diverts, os_random_u64());
    rc = stream_reader_init(&streams->reader, lane, &streams->pump, &streams->keeper, &positions,
                            os_random_u64(), err);
    return rc == RC_OK ? open_fallback(streams, instance, stop, err) : rc;
}

void stream_lane_close(struct stream_lane *streams)
{
    if (!streams->lane)
        return;
    stream_reader_done(&streams->reader);
    stream_keeper_done(&streams->keeper);
    stream_pump_done(&streams->pump);
    stream_mysql_free(streams->stream);
    position_store_mysql_close(&streams->positions);
    stream_cleaner_done(&streams->cleaner);
    stream_cleaner_mysql_close(&streams->kept);
    table_fallback_close(&streams->fallback);
    loop_done(&streams->falling_back);
    loop_done(&streams->cleaning);
    loop_done(&streams->pumping);
    streams->lane = NULL;
}

enum rc stream_lane_start(struct stream_lane *streams, struct err *err)
{
    enum rc rc = loop_start(&streams->pumping, err);

    if (rc == RC_OK)
        rc = loop_start(&streams->cleaning, err);
    return rc == RC_OK && streams->fallback.lane ? loop_start(&streams->falling_back, err) : rc;
}

void stream_lane_stop(struct stream_lane *streams)
{
    if (!streams->lane)
        return;
    table_fallback_stop(&streams->fallback);
    stream_pump_stop(&streams->pump);
}

void stream_lane_join(struct stream_lane *streams)
{
    if (!streams->lane)
        return;
    loop_join(&streams->pumping);
    loop_join(&streams->cleaning);
    loop_join(&streams->falling_back);
}
