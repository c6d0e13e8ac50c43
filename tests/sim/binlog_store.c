/* SPDX-License-Identifier: MIT */
/* The tables relay_position, relay_published and relay_published_id as a lane that reads the binary
 * log uses them: its positions are saved by the keeper, and its entries ended by the cleaner. */
#include "common/hash.h"
#include "common/id.h"
#include "outbox/relay/stream/seq_ranges.h"
#include "tests/sim/binlog_ops.h"
#include "tests/sim/db.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_MAX 16

static struct sim *sim_of(const struct lane_adapter *adapter)
{
    return adapter->link.db->sim;
}

static struct binlog_lane *lane_of(const struct lane_adapter *adapter)
{
    return &sim_of(adapter)->binlog->lanes[adapter->lane];
}

static bool is_by_id(const struct sim *sim, size_t lane)
{
    return sim->plan.streams_by_id >> lane & 1;
}

/* Calls on_row for each row of an entry. The bytes are those that the engines have written. */
static void visit_seqs(struct sim *sim, const struct binlog_entry *entry,
                       void (*on_row)(struct sim *sim, struct outbox_row *row))
{
    struct seq_ranges from = {.data = entry->rows.data, .len = entry->rows.len};
    struct seq_range ranges[RANGES_MAX];
    size_t count = 1;

    while (count > 0) {
        enum rc rc = seq_ranges_read(&from, ranges, RANGES_MAX, TABLE_ROWS_MAX, &count, NULL);

        assert(rc == RC_OK);
        for (size_t i = 0; i < count; i++)
            for (int64_t seq = ranges[i].from; seq <= ranges[i].to; seq++)
                on_row(sim, tables_row(sim, entry->lane, seq));
    }
}

static void visit_ids(struct sim *sim, struct published_ids from,
                      void (*on_row)(struct sim *sim, struct outbox_row *row))
{
    char uuid[ID_TEXT_SIZE];
    struct bytes id;
    bool found = true;

    while (found) {
        enum rc rc = published_ids_read(&from, uuid, &id, &found, NULL);

        assert(rc == RC_OK);
        if (found)
            on_row(sim, tables_row_of(sim, tables_event_of(sim, id)));
    }
}

static void visit_rows(struct sim *sim, const struct binlog_entry *entry,
                       void (*on_row)(struct sim *sim, struct outbox_row *row))
{
    const struct published_ids ids = {.data = entry->rows.data, .len = entry->rows.len};

    if (entry->kind == CLEANER_IDS)
        visit_ids(sim, ids, on_row);
    else
        visit_seqs(sim, entry, on_row);
}

/* Positions */

static enum rc positions_load(void *ctx, struct stream_position *position, bool *found,
                              struct err *err)
{
    struct binlog_store *store = ctx;
    struct lane_adapter *adapter = &store->reads;
    const struct position_version *saved = &lane_of(adapter)->position.old;
    enum rc rc;

    *found = false;
    buf_reset(&position->before);
    position->file[0] = position->gtid[0] = '\0';
    position->offset = position->rows_done = 0;
    position->epoch = 0;
    /* The lane holds no row. */
    adapter->origin->noted = 0;
    rc = tables_call(adapter, err);
    if (rc != RC_OK)
        return rc;
    if (saved->found) {
        binlog_put_place(sim_of(adapter), position, saved->group);
        position->rows_done = saved->rows_done;
        position->epoch = saved->epoch;
    }
    *found = saved->found;
    snprintf(position->server, sizeof(position->server), "server");
    return link_answer(&adapter->link, err);
}

static enum rc positions_kind(void *ctx, enum published_kind *kind, struct err *err)
{
    struct binlog_store *store = ctx;
    struct lane_adapter *adapter = &store->reads;
    bool by_id = is_by_id(sim_of(adapter), adapter->lane);
    enum rc rc = tables_call(adapter, err);

    *kind = published_kind_choose(!by_id, by_id,
                                  sim_of(adapter)->settings.lanes[adapter->lane].keep_ids_max);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

/* The end of the log is read before the table. */
static enum rc positions_begin(void *ctx, struct stream_position *position, struct err *err)
{
    struct binlog_store *store = ctx;
    struct lane_adapter *adapter = &store->reads;
    struct sim *sim = sim_of(adapter);
    const struct outbox_table *table = &sim->tables->lanes[adapter->lane];
    enum rc rc = tables_call(adapter, err);

    if (rc != RC_OK)
        return rc;
    binlog_put_place(sim, position, sim->binlog->count);
    snprintf(position->server, sizeof(position->server), "server");
    rc = link_answer(&adapter->link, err);
    if (rc == RC_OK)
        rc = tables_call(adapter, err);
    if (rc == RC_OK && table->left > 0)
        return err_fail(err, RC_FATAL, 0, "%s has rows", table->name);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

/* The promise: all rows before a position are done when it is saved. */
static void check_rows_are_done(struct sim *sim, size_t lane, size_t rows)
{
    const struct binlog_lane *log = &sim->binlog->lanes[lane];

    for (size_t i = log->position.old.rows; i < rows; i++) {
        const struct outbox_row *row = tables_row(sim, lane, log->seqs[i]);

        if (binlog_is_done(sim, row))
            continue;
        sim_fail(sim, sim->events[row->event].key,
                 "position: event %zu is row %zu of lane %zu and not published, and a position "
                 "behind row %zu is saved",
                 row->event, i + 1, lane, rows);
        return;
    }
}

static void note_recorded(struct sim *sim, struct outbox_row *row)
{
    if (row->state < OUTBOX_COMMITTED || !binlog_is_done(sim, row))
        sim_fail(sim, sim->events[row->event].key,
                 "cleaner: seq %lld of lane %zu is saved as published, and is not",
                 (long long)row->seq, row->lane);
    row->recorded = true;
}

static void entry_settle(void *ctx, struct fake_row *base, bool commit)
{
    struct binlog_entry *entry = (struct binlog_entry *)base;

    if (!commit)
        return;
    entry->state = BINLOG_ENTRY_KEPT;
    visit_rows(ctx, entry, note_recorded);
}

/* The promises: a saved position does not go back, and the rows before it are known as done. */
static void position_settle(void *ctx, struct fake_row *base, bool commit)
{
    struct sim *sim = ctx;
    struct binlog_position *position = (struct binlog_position *)base;
    struct binlog_lane *lane = (struct binlog_lane *)base;
    size_t number = (size_t)(lane - sim->binlog->lanes);

    if (!commit) {
        position->now = position->old;
        return;
    }
    if (position->now.rows < position->old.rows || position->now.group < position->old.group)
        sim_fail(sim, STORY_ALL,
                 "position: that of lane %zu goes back from row %zu to row %zu, from transaction "
                 "%zu to %zu",
                 number, position->old.rows, position->now.rows, position->old.group,
                 position->now.group);
    position->old = position->now;
    for (; lane->recorded < position->old.rows; lane->recorded++) {
        const struct outbox_row *row = tables_row(sim, number, lane->seqs[lane->recorded]);

        if (!row->recorded)
            sim_fail(sim, sim->events[row->event].key,
                     "position: event %zu is row %zu of lane %zu, before the saved position, and "
                     "is not saved as published",
                     row->event, lane->recorded + 1, number);
    }
    sim_tell(sim, "database", STORY_ALL, "lane %lld has a position behind row %lld",
             (int64_t)number, (int64_t)position->old.rows, 0);
}

static void add_entry(struct lane_adapter *adapter, const struct done_rows *rows, bool of_ids)
{
    struct sim *sim = sim_of(adapter);
    struct binlog_entry *entry = &sim->binlog->entries[sim->binlog->entry_count];
    struct buf buf = entry->rows;

    if (of_ids ? rows->id_count == 0 : rows->seq_count == 0)
        return;
    assert(sim->binlog->entry_count < BINLOG_ENTRIES_MAX);
    sim->binlog->entry_count++;
    buf_reset(&buf);
    if (of_ids)
        published_ids_put(&buf, rows->ids, rows->id_count);
    else
        seq_ranges_put(&buf, rows->seqs, rows->seq_count);
    assert(!buf.failed);
    *entry = (struct binlog_entry){.lane = adapter->lane,
                                   .kind = of_ids ? CLEANER_IDS : CLEANER_SEQS,
                                   .saved_ms = db_clock(adapter->link.db),
                                   .first_seq = of_ids ? 0 : rows->seqs[0],
                                   .id_count = of_ids ? (int64_t)rows->id_count : 0,
                                   .rows = buf};
    link_wrote(&adapter->link, &entry->row, entry_settle);
}

/* One transaction: the lease's row is locked first, and until the COMMIT is done. */
static enum rc write_position(struct lane_adapter *adapter, const struct position_version *next,
                              const struct done_rows *rows, bool *fenced, struct err *err)
{
    struct link *link = &adapter->link;
    struct sim *sim = sim_of(adapter);
    struct binlog_position *position = &lane_of(adapter)->position;
    enum rc rc = RC_OK;

    if (sim->fault != FAULT_POSITION_UNFENCED) {
        rc = link_lock(link, &sim->tables->leases[adapter->lane].row, err);
        *fenced = rc == RC_OK && !tables_is_held(sim, adapter->lane, link->proc, next->epoch);
        if (rc == RC_OK)
            rc = link_answer(link, err);
        if (rc == RC_OK && !*fenced)
            rc = link_call(link, err);
        if (rc != RC_OK || *fenced)
            return rc;
    }
    rc = link_lock(link, &position->row, err);
    if (rc != RC_OK)
        return rc;
    /* A process that was frozen here has lost the transaction, and the lock with it. */
    if (link_is_open(link))
        tables_check_fence(adapter, next->epoch);
    add_entry(adapter, rows, false);
    add_entry(adapter, rows, true);
    position->now = *next;
    link_wrote(link, &position->row, position_settle);
    link_writes(link);
    return link_answer(link, err);
}

static enum rc positions_save(void *ctx, const struct stream_position *position,
                              const struct done_rows *rows, int64_t epoch, bool *fenced,
                              struct err *err)
{
    struct binlog_store *store = ctx;
    struct lane_adapter *adapter = &store->saves;
    struct sim *sim = sim_of(adapter);
    const struct position_version next = {
        .found = true,
        .group = binlog_place_of(sim, position),
        .rows_done = position->rows_done,
        .epoch = epoch,
        .rows = binlog_rows_before(sim, adapter->lane, position),
    };
    enum rc rc;

    *fenced = false;
    check_rows_are_done(sim, adapter->lane, next.rows);
    rc = link_begin(&adapter->link, err);
    if (rc == RC_OK)
        rc = tables_call(adapter, err);
    if (rc == RC_OK)
        rc = write_position(adapter, &next, rows, fenced, err);
    if (rc == RC_OK && !*fenced)
        return link_commit(&adapter->link, err);
    link_rollback(&adapter->link);
    return rc;
}

struct position_store binlog_positions(struct binlog_store *store)
{
    return (struct position_store){
        .ctx = store,
        .load = positions_load,
        .kind = positions_kind,
        .save = positions_save,
        .begin = positions_begin,
    };
}

/* The cleaner */

/* Accepts the database that it meets now. */
static enum rc connect_anew(struct lane_adapter *adapter, struct err *err)
{
    if (adapter->origin->lost)
        adapter->origin->noted = 0;
    adapter->origin->lost = false;
    return tables_call(adapter, err);
}

static enum rc read_table(void *ctx, struct cleaner_table *table, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    bool by_id = is_by_id(sim_of(adapter), adapter->lane);
    enum rc rc = connect_anew(adapter, err);

    *table = (struct cleaner_table){.has_seq = !by_id, .has_id = by_id, .has_created_at = true};
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static bool is_kept(const struct binlog_entry *entry, size_t lane, enum cleaner_kind kind)
{
    return entry->state == BINLOG_ENTRY_KEPT && entry->lane == lane && entry->kind == kind;
}

static enum rc read_oldest(void *ctx, enum cleaner_kind kind, int64_t age_ms,
                           struct cleaner_entry *entry, bool *found, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    const struct binlog *log = sim_of(adapter)->binlog;
    enum rc rc = connect_anew(adapter, err);
    size_t at = 0;

    *found = false;
    buf_reset(&entry->rows);
    while (at < log->entry_count && !is_kept(&log->entries[at], adapter->lane, kind))
        at++;
    if (rc != RC_OK || at == log->entry_count)
        return rc;
    entry->number = (int64_t)at + 1;
    entry->age_ms = db_clock(adapter->link.db) - log->entries[at].saved_ms;
    entry->id_count = log->entries[at].id_count;
    if (entry->age_ms >= age_ms)
        buf_put(&entry->rows, log->entries[at].rows.data, log->entries[at].rows.len);
    rc = link_answer(&adapter->link, err);
    *found = rc == RC_OK;
    return rc;
}

static enum rc delete_ranges(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err)
{
    const struct deleter_ops ops = tables_deleter(ctx);

    return ops.delete_ranges(ops.ctx, ranges, count, epoch, fenced, err);
}

/* As delete_ranges() of tables.c. */
static enum rc delete_ids(void *ctx, const struct published_ids *ids, int64_t epoch, bool *fenced,
                          struct err *err)
{
    struct lane_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    struct published_ids from = *ids;
    char uuid[ID_TEXT_SIZE];
    struct bytes id;
    bool found = true;
    enum rc rc = tables_call(adapter, err);

    *fenced = false;
    if (rc == RC_OK) {
        *fenced = !tables_is_held(sim, adapter->lane, adapter->link.proc, epoch);
        rc = link_answer(&adapter->link, err);
    }
    if (rc == RC_OK && !*fenced)
        rc = tables_call(adapter, err);
    if (rc != RC_OK || *fenced)
        return rc;
    while (rc == RC_OK && found) {
        rc = published_ids_read(&from, uuid, &id, &found, err);
        if (rc == RC_OK && found) {
            struct outbox_row *row = tables_row_of(sim, tables_event_of(sim, id));

            if (row->row.owner)
                return err_fail(err, RC_RETRY, DB_LOCK_WAIT_CODE, "lock wait time-out");
            if (row->state == OUTBOX_COMMITTED)
                tables_delete_row(adapter, row);
        }
    }
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static void check_deleted(struct sim *sim, struct outbox_row *row)
{
    if (row->state != OUTBOX_DELETED)
        sim_fail(sim, sim->events[row->event].key,
                 "cleaner: the entry of seq %lld of lane %zu ends, and its row stays",
                 (long long)row->seq, row->lane);
}

static enum rc end_entry(void *ctx, enum cleaner_kind kind, int64_t number, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    struct binlog_entry *entry = &sim->binlog->entries[number - 1];
    enum rc rc = tables_call(adapter, err);

    if (rc != RC_OK)
        return rc;
    assert(entry->kind == kind);
    visit_rows(sim, entry, check_deleted);
    entry->state = BINLOG_ENTRY_ENDED;
    return link_answer(&adapter->link, err);
}

static enum rc count_ids(void *ctx, int64_t *count, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    const struct binlog *log = sim_of(adapter)->binlog;
    enum rc rc = connect_anew(adapter, err);

    *count = 0;
    for (size_t i = 0; rc == RC_OK && i < log->entry_count; i++)
        if (is_kept(&log->entries[i], adapter->lane, CLEANER_IDS))
            *count += log->entries[i].id_count;
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

static int compare_marks(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/* The lowest seq of all entries. */
static int64_t find_first_seq(const struct lane_adapter *adapter)
{
    const struct binlog *log = sim_of(adapter)->binlog;
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < log->entry_count; i++)
        if (is_kept(&log->entries[i], adapter->lane, CLEANER_SEQS) &&
            log->entries[i].first_seq < first)
            first = log->entries[i].first_seq;
    return first;
}

static enum rc list_old(void *ctx, enum cleaner_kind kind, int64_t age_ms, int64_t *marks,
                        size_t marks_max, size_t *count, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    const struct sim *sim = sim_of(adapter);
    const struct outbox_table *table = &sim->tables->lanes[adapter->lane];
    enum rc rc = connect_anew(adapter, err);
    int64_t below = kind == CLEANER_SEQS ? find_first_seq(adapter) : INT64_MAX;

    *count = 0;
    for (int64_t seq = 1; rc == RC_OK && seq < table->fake.seq_next && seq < below; seq++) {
        const struct outbox_row *row = &table->rows[seq];
        const char *id = sim->events[row->event].id;

        if (row->state != OUTBOX_COMMITTED || *count == marks_max ||
            db_clock(adapter->link.db) - row->written_ms < age_ms)
            continue;
        marks[(*count)++] =
            kind == CLEANER_SEQS ? seq : (int64_t)hash_fnv1a(HASH_START, id, strlen(id));
    }
    qsort(marks, *count, sizeof(*marks), compare_marks);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

struct cleaner_ops binlog_cleaner(struct lane_adapter *adapter)
{
    return (struct cleaner_ops){
        .ctx = adapter,
        .table = read_table,
        .oldest = read_oldest,
        .delete_ranges = delete_ranges,
        .delete_ids = delete_ids,
        .end = end_entry,
        .count_ids = count_ids,
        .list_old = list_old,
    };
}
