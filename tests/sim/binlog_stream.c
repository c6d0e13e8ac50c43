/* SPDX-License-Identifier: MIT */
/* Positions, and the connection that reads the log for a lane. */
#include "tests/sim/binlog_ops.h"
#include "tests/sim/db.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define HEARTBEAT_MS 2000
#define PAUSES 30 /* thousandths of the rows that the server sends later */

/* A position has its place three times, so a mixture of two positions is found. */
void binlog_put_place(const struct sim *sim, struct stream_position *position, size_t group)
{
    buf_reset(&position->before);
    buf_print(&position->before, "0-1-%zu", group);
    snprintf(position->file, sizeof(position->file), "binlog.%06zu", group / BINLOG_FILE_GROUPS);
    snprintf(position->gtid, sizeof(position->gtid), "0-1-%zu", group + 1);
    position->by_gtid = sim->binlog->by_gtid;
    position->offset = group;
    position->rows_done = 0;
    assert(!position->before.failed);
}

size_t binlog_place_of(struct sim *sim, const struct stream_position *position)
{
    struct stream_position same = {0};
    size_t group = (size_t)position->offset;

    binlog_put_place(sim, &same, group);
    if (position->before.len != same.before.len || position->by_gtid != same.by_gtid ||
        memcmp(position->before.data, same.before.data, same.before.len) != 0 ||
        strcmp(position->file, same.file) != 0 ||
        (position->rows_done > 0 && strcmp(position->gtid, same.gtid) != 0))
        sim_fail(sim, STORY_ALL, "position: %s and %llu are not one place", position->file,
                 (unsigned long long)position->offset);
    buf_done(&same.before);
    if (group > sim->binlog->count) {
        sim_fail(sim, STORY_ALL, "position: %zu is behind the end of the log, %zu", group,
                 sim->binlog->count);
        group = sim->binlog->count;
    }
    return group;
}

size_t binlog_rows_before(struct sim *sim, size_t lane, const struct stream_position *position)
{
    const struct binlog *log = sim->binlog;
    size_t rows =
        log->groups[binlog_place_of(sim, position)].rows_before[lane] + (size_t)position->rows_done;

    if (rows <= log->lanes[lane].count)
        return rows;
    sim_fail(sim, STORY_ALL, "position: behind %zu of %zu rows of lane %zu", rows,
             log->lanes[lane].count, lane);
    return log->lanes[lane].count;
}

/* The stream */

static enum rc stream_open(void *ctx, const struct stream_position *from, struct err *err)
{
    struct binlog_reader *reader = ctx;
    struct lane_adapter *adapter = &reader->adapter;
    struct sim *sim = adapter->link.db->sim;
    size_t group = binlog_place_of(sim, from);
    enum rc rc;

    reader->open = reader->ended = reader->undone = false;
    link_close(&adapter->link);
    rc = tables_call(adapter, err);
    if (rc != RC_OK)
        return rc;
    if (group < sim->binlog->purged) {
        if (tables_is_held(sim, adapter->lane, adapter->link.proc,
                           (int64_t)atomic_load(&adapter->origin->lane->lease.epoch)))
            sim_fail(sim, STORY_ALL,
                     "purged: %s reads lane %zu from transaction %zu, before the saved position",
                     adapter->link.proc->name, adapter->lane, group);
        return err_fail(err, RC_FATAL, 1236, "the log is purged");
    }
    reader->group = group;
    reader->at = 0;
    reader->number = 0;
    reader->skip = from->rows_done;
    rc = link_answer(&adapter->link, err);
    reader->connects = adapter->link.connects;
    reader->open = rc == RC_OK;
    return rc;
}

/* Whether the connection is the one that was opened. */
static enum rc check_open(struct binlog_reader *reader, struct err *err)
{
    const struct link *link = &reader->adapter.link;

    if (reader->interrupted)
        return err_fail(err, RC_RETRY, 0, "interrupted");
    if (!reader->open || !link->session || link->connects != reader->connects)
        return err_fail(err, RC_RETRY, 2013, "%s: the stream broke", link->db->name);
    return RC_OK;
}

static void leave_readers(struct binlog *log, struct binlog_reader *reader)
{
    struct binlog_reader **at = &log->readers;

    while (*at && *at != reader)
        at = &(*at)->next;
    if (*at)
        *at = reader->next;
    reader->waits = false;
}

/* Until something is written, or the server sends a heartbeat. */
static void wait_for_event(struct binlog_reader *reader)
{
    struct sim *sim = reader->adapter.link.db->sim;
    struct binlog *log = sim->binlog;

    reader->waits = true;
    reader->next = log->readers;
    log->readers = reader;
    sched_idle(&sim->sched, HEARTBEAT_MS);
    leave_readers(log, reader);
    /* As in link_lock(). */
    sched_wake(&sim->sched, sim->sched.current);
}

/* What arrives next. A group comes with a packet, which a broken connection does not bring. */
static enum rc receive(struct binlog_reader *reader, bool *nothing, struct err *err)
{
    struct sim *sim = reader->adapter.link.db->sim;
    const struct binlog *log = sim->binlog;
    enum rc rc = check_open(reader, err);

    *nothing = false;
    if (rc == RC_OK && reader->group == log->count) {
        if (!reader->ended) {
            *nothing = reader->ended = true;
            return RC_OK;
        }
        wait_for_event(reader);
        rc = check_open(reader, err);
    }
    reader->ended = false;
    if (rc == RC_OK && reader->at == 0) {
        rc = link_call(&reader->adapter.link, err);
        if (rc == RC_OK)
            rc = check_open(reader, err);
    } else if (rc == RC_OK) {
        proc_pass(reader->adapter.link.proc);
        rc = check_open(reader, err);
        *nothing = sim_chance(sim, PAUSES);
    }
    *nothing = *nothing || reader->group == log->count;
    return rc;
}

/* Takes the next row of the lane from the present group. */
static const struct binlog_row *take_row(struct binlog_reader *reader)
{
    const struct binlog *log = reader->adapter.link.db->sim->binlog;
    const struct binlog_group *group = &log->groups[reader->group];

    while (reader->at < group->count) {
        const struct binlog_row *row = &log->rows[group->first + reader->at++];

        if (row->lane == reader->adapter.lane && ++reader->number > reader->skip)
            return row;
    }
    return NULL;
}

static enum stream_kind end_group(struct binlog_reader *reader)
{
    const struct binlog *log = reader->adapter.link.db->sim->binlog;
    enum binlog_end end = log->groups[reader->group].end;

    if (end == BINLOG_UNDONE && !reader->undone) {
        reader->undone = true;
        reader->number = 0;
        return STREAM_UNDO;
    }
    reader->group++;
    reader->at = 0;
    reader->number = reader->skip = 0;
    reader->undone = false;
    return end == BINLOG_CUT ? STREAM_CUT : STREAM_COMMIT;
}

static enum rc stream_next(void *ctx, struct stream_change *change, struct err *err)
{
    struct binlog_reader *reader = ctx;
    struct sim *sim = reader->adapter.link.db->sim;
    const struct binlog_row *row;
    bool counts_only = change->counts_only;
    bool nothing = false;
    enum rc rc;

    memset(reader->key, '?', sizeof(reader->key));
    memset(change, 0, sizeof(*change));
    rc = receive(reader, &nothing, err);
    if (rc != RC_OK || nothing)
        return rc;
    row = take_row(reader);
    if (!row) {
        change->kind = end_group(reader);
        return RC_OK;
    }
    change->kind = STREAM_ROW;
    change->number = reader->number;
    if (counts_only)
        return RC_OK;
    tables_show_row(sim, row->event, row->oversize, reader->key, &change->row);
    if (!(sim->plan.streams_by_id >> row->lane & 1))
        change->row.table_seq = row->seq;
    change->row.read_ms = db_clock(reader->adapter.link.db);
    return RC_OK;
}

static enum rc stream_position(void *ctx, struct stream_position *position, struct err *err)
{
    struct binlog_reader *reader = ctx;

    (void)err;
    proc_pass(reader->adapter.link.proc);
    binlog_put_place(reader->adapter.link.db->sim, position, reader->group);
    return RC_OK;
}

static void stream_close(void *ctx)
{
    struct binlog_reader *reader = ctx;

    link_close(&reader->adapter.link);
    reader->open = reader->interrupted = false;
}

static void stream_interrupt(void *ctx)
{
    struct binlog_reader *reader = ctx;

    reader->interrupted = true;
    if (reader->waits)
        sched_wake(&reader->adapter.link.db->sim->sched, reader->pump);
}

struct stream_ops binlog_stream(struct binlog_reader *reader)
{
    return (struct stream_ops){
        .ctx = reader,
        .open = stream_open,
        .next = stream_next,
        .position = stream_position,
        .close = stream_close,
        .interrupt = stream_interrupt,
    };
}

void binlog_reader_gone(struct binlog_reader *reader)
{
    if (reader->waits)
        leave_readers(reader->adapter.link.db->sim->binlog, reader);
    link_close(&reader->adapter.link);
    reader->pump = NULL;
}
