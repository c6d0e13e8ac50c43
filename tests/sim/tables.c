/* SPDX-License-Identifier: MIT */
#include "tests/sim/tables.h"

#include "common/id.h"
#include "tests/sim/binlog.h"
#include "tests/sim/retry_queue.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void restarted(struct sim *sim)
{
    binlog_restarted(sim);
    /* The server may forget its counter: seqs that were not committed are given out again. */
    if (!sim_chance(sim, 500))
        return;
    for (size_t lane = 0; lane < SIM_LANES_MAX; lane++) {
        struct outbox_table *table = &sim->tables->lanes[lane];

        while (table->fake.seq_next > 1 &&
               table->rows[table->fake.seq_next - 1].state < OUTBOX_COMMITTED)
            table->fake.seq_next--;
        if (table->fake.settled >= table->fake.seq_next)
            table->fake.settled = table->fake.seq_next - 1;
    }
}

void tables_begin_run(struct tables *tables, struct sim *sim)
{
    for (size_t lane = 0; lane < SIM_LANES_MAX; lane++) {
        struct outbox_table *table = &tables->lanes[lane];

        if (!table->rows)
            table->rows = calloc(TABLE_ROWS_MAX, sizeof(*table->rows));
        assert(table->rows);
        if (lane == 0)
            snprintf(table->name, sizeof(table->name), "outbox");
        else
            snprintf(table->name, sizeof(table->name), "outbox_%zu", lane);
        table->fake.seq_next = 1;
        table->fake.settled = 0;
        table->left = 0;
    }
    memset(tables->leases, 0, sizeof(tables->leases));
    memset(tables->keys, 0, sizeof(tables->keys));
    memset(tables->shards, 0, sizeof(tables->shards));
    tables->relays.count = 0;
    memset(tables->retries, 0, sizeof(tables->retries));
    sim->main_db->restarted = restarted;
}

void tables_done(struct tables *tables)
{
    for (size_t lane = 0; lane < SIM_LANES_MAX; lane++)
        free(tables->lanes[lane].rows);
}

struct outbox_row *tables_row(struct sim *sim, size_t lane, int64_t seq)
{
    return &sim->tables->lanes[lane].rows[seq];
}

struct outbox_row *tables_row_of(struct sim *sim, size_t event)
{
    return tables_row(sim, sim->events[event].lane, sim->events[event].seq);
}

size_t tables_event_of(const struct sim *sim, struct bytes bytes)
{
    char text[ID_TEXT_SIZE];
    struct id id;
    bool known;

    snprintf(text, sizeof(text), "%.*s", (int)bytes.len, bytes.data);
    known = id_parse(&id, text, strlen(text));
    assert(known);
    return known ? sim_event_find(sim, id.bytes) : 0;
}

/* The order of a key is that of the commits that wrote it; in one transaction that of the seqs. */
static void row_settle_commit(struct sim *sim, struct outbox_row *row)
{
    struct event *event = &sim->events[row->event];

    row->state = OUTBOX_COMMITTED;
    sim->tables->lanes[row->lane].left++;
    event->order = ++sim->order_next[event->key];
    sim_tell(sim, "database", event->key, "event %lld is committed as seq %lld of lane %lld",
             (int64_t)row->event, row->seq, (int64_t)row->lane);
}

static void settle(void *ctx, struct fake_row *base, bool commit)
{
    struct sim *sim = ctx;
    struct outbox_row *row = (struct outbox_row *)base;

    if (row->state == OUTBOX_WRITTEN)
        binlog_write(sim, row, commit);
    if (commit && row->state == OUTBOX_WRITTEN)
        row_settle_commit(sim, row);
    else if (row->state == OUTBOX_RESERVED || row->state == OUTBOX_WRITTEN)
        row->state = OUTBOX_NONE;
}

int64_t tables_reserve(struct link *link, size_t lane, size_t count)
{
    struct outbox_table *table = &link->db->sim->tables->lanes[lane];
    int64_t first = table->fake.seq_next;

    assert(first + (int64_t)count < TABLE_ROWS_MAX);
    for (int64_t seq = first; seq < first + (int64_t)count; seq++) {
        table->rows[seq] = (struct outbox_row){.state = OUTBOX_RESERVED, .lane = lane, .seq = seq};
        link_wrote(link, &table->rows[seq].row, settle);
    }
    table->fake.seq_next += (int64_t)count;
    return first;
}

void tables_insert(struct link *link, size_t lane, int64_t seq, size_t event)
{
    struct sim *sim = link->db->sim;
    struct outbox_row *row = tables_row(sim, lane, seq);

    assert(row->state == OUTBOX_RESERVED);
    row->state = OUTBOX_WRITTEN;
    row->event = event;
    row->written_ms = db_clock(link->db);
    sim->events[event].lane = lane;
    sim->events[event].seq = seq;
    if (sim_chance(sim, sim->plan.bad_rows)) {
        switch (sim_below(sim, 3)) {
        case 0:
            row->refused = sim->events[event].refused = true;
            break;
        case 1:
            row->oversize = true;
            break;
        default:
            row->unsendable = sim->events[event].unsendable = true;
            break;
        }
    }
    link_writes(link);
    sim_tell(sim, link->proc->name, sim->events[event].key,
             "inserts event %lld as seq %lld of lane %lld", (int64_t)event, seq, (int64_t)lane);
}

/* The relay's side */

static enum outbox_state read_state(void *ctx, int64_t seq)
{
    const struct lane_adapter *adapter = ctx;

    return tables_row(adapter->link.db->sim, adapter->lane, seq)->state;
}

static int64_t read_created_ms(void *ctx, int64_t seq)
{
    (void)ctx;
    (void)seq;
    return SIM_WALL_MS;
}

void tables_show_row(const struct sim *sim, size_t number, bool oversize, char key[FAKE_KEY_SIZE],
                     struct relay_row *out)
{
    const struct event *event = &sim->events[number];
    const char *type = event->kind == EVENT_STEP ? "step" : "vote";
    int len = snprintf(key, FAKE_KEY_SIZE, "%lld", (long long)event->key);

    *out = (struct relay_row){.size = event->value_len, .created_ms = SIM_WALL_MS};
    out->id = (struct bytes){event->id, strlen(event->id)};
    out->aggregate_type = (struct bytes){type, 4};
    out->aggregate_id = (struct bytes){key, (size_t)len};
    out->type = (struct bytes){"Changed", 7};
    out->oversize = oversize && !sim->healed;
    if (out->oversize)
        out->size = UINT32_MAX;
    if (!out->oversize && event->kind != EVENT_END)
        out->payload = (struct bytes){event->value, event->value_len};
}

static void show_row(void *ctx, int64_t seq, char key[FAKE_KEY_SIZE], struct relay_row *out)
{
    const struct lane_adapter *adapter = ctx;
    struct sim *sim = adapter->link.db->sim;
    const struct outbox_row *row = tables_row(sim, adapter->lane, seq);

    tables_show_row(sim, row->event, row->oversize, key, out);
    out->seq = row->seq;
    out->epoch = sim->fault == FAULT_READ_UNFENCED
                     ? (int64_t)atomic_load(&adapter->origin->lane->lease.epoch)
                     : sim->tables->leases[row->lane].base.epoch;
}

/* As origin_mysql.h. */
enum rc tables_call(struct lane_adapter *adapter, struct err *err)
{
    struct lane_origin *origin = adapter->origin;
    enum rc rc = link_call(&adapter->link, err);

    if (rc != RC_OK)
        return rc;
    if (origin->noted == 0)
        origin->noted = adapter->link.db->origin;
    if (origin->noted == adapter->link.db->origin ||
        adapter->link.db->sim->fault == FAULT_ORIGIN_IGNORED)
        return RC_OK;
    rc = err_fail(err, RC_RETRY, 0, "another database than before");
    origin->lost = true;
    if (!origin->of_cleaner)
        lane_origin_lost(origin->lane, err);
    return rc;
}

static enum rc send_call(void *ctx, struct err *err)
{
    return tables_call(ctx, err);
}

static enum rc get_answer(void *ctx, struct err *err)
{
    struct lane_adapter *adapter = ctx;

    return link_answer(&adapter->link, err);
}

static int64_t read_clock(void *ctx)
{
    const struct lane_adapter *adapter = ctx;

    return db_clock(adapter->link.db);
}

static enum rc call_read(void *ctx, enum rc *broken, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    struct sim *sim = adapter->link.db->sim;
    enum rc rc = tables_call(adapter, err);

    if (rc == RC_OK && !sim->healed && sim_chance(sim, sim->plan.db_fails))
        *broken = err_fail(err, RC_RETRY, 2013, "the connection broke in the middle of the rows");
    return rc;
}

static struct lane_adapter *adapter_of(void *ctx)
{
    return ((struct fake_source *)ctx)->hooks.ctx;
}

static enum rc source_begin(void *ctx, struct err *err)
{
    (void)err;
    adapter_of(ctx)->origin->noted = 0;
    return RC_OK;
}

static enum rc source_writers(void *ctx, struct source_writers *writers, struct err *err)
{
    struct lane_adapter *adapter = adapter_of(ctx);
    const struct db *db = adapter->link.db;
    int64_t asked_ms = proc_clock(adapter->link.proc);
    enum rc rc = tables_call(adapter, err);

    *writers = (struct source_writers){.known = db->sim->plan.writers_known, .asked_ms = asked_ms};
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; writers->known && i < DB_SESSIONS_MAX; i++) {
        const struct session *session = &db->sessions[i];

        if (!session->used || session->writer == 0)
            continue;
        if (writers->oldest == 0 || session->writer < writers->oldest)
            writers->oldest = session->writer;
        if (session->writer > writers->newest)
            writers->newest = session->writer;
    }
    return link_answer(&adapter->link, err);
}

struct source tables_source(struct lane_adapter *adapter)
{
    adapter->source = (struct fake_source){
        .hooks = {adapter, send_call, get_answer, read_clock},
        .table = &adapter->link.db->sim->tables->lanes[adapter->lane].fake,
        .state = read_state,
        .created_ms = read_created_ms,
        .show = show_row,
        .call_read = call_read,
    };
    return (struct source){
        .ctx = &adapter->source,
        .begin = source_begin,
        .read = fake_source_read,
        .probe = fake_source_probe,
        .writers = source_writers,
        .look = fake_source_look,
        .restart = fake_source_restart,
    };
}

void tables_delete_row(struct lane_adapter *adapter, struct outbox_row *row)
{
    struct sim *sim = adapter->link.db->sim;
    const struct event *event = &sim->events[row->event];

    if (sim_is_stream(sim, adapter->lane))
        binlog_check_deletion(sim, row);
    else if (event->published == 0 && !event->skipped)
        sim_fail(sim, event->key,
                 "lost: event %zu (%s, key %lld) was deleted from %s as seq %lld before any "
                 "record of it was in the topic",
                 row->event, event->id, (long long)event->key,
                 sim->tables->lanes[adapter->lane].name, (long long)row->seq);
    row->state = OUTBOX_DELETED;
    sim->tables->lanes[adapter->lane].left--;
    sim_tell(sim, adapter->link.proc->name, event->key, "deletes event %lld, seq %lld of lane %lld",
             (int64_t)row->event, row->seq, (int64_t)adapter->lane);
}

bool tables_is_held(const struct sim *sim, size_t lane, const struct proc *proc, int64_t epoch)
{
    const struct fake_lease *lease = &sim->tables->leases[lane].base;

    return lease->epoch == epoch && strcmp(lease->owner, proc->name) == 0;
}

static bool is_held(const struct lane_adapter *adapter, int64_t epoch)
{
    return tables_is_held(adapter->link.db->sim, adapter->lane, adapter->link.proc, epoch);
}

void tables_check_fence(const struct lane_adapter *adapter, int64_t epoch)
{
    struct sim *sim = adapter->link.db->sim;
    const struct fake_lease *lease = &sim->tables->leases[adapter->lane].base;

    if (!is_held(adapter, epoch))
        sim_fail(sim, STORY_ALL, "fence: %s writes for lane %zu with epoch %lld, which is %lld",
                 adapter->link.proc->name, adapter->lane, (long long)epoch,
                 (long long)lease->epoch);
}

/* As the adapter does it: first a look at the lease, then the deletions. */
static enum rc delete_ranges(void *ctx, const struct seq_range *ranges, size_t count, int64_t epoch,
                             bool *fenced, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    struct sim *sim = adapter->link.db->sim;
    struct outbox_table *table = &sim->tables->lanes[adapter->lane];
    enum rc rc = tables_call(adapter, err);

    *fenced = false;
    if (rc != RC_OK)
        return rc;
    *fenced = !is_held(adapter, epoch) && sim->fault != FAULT_DELETE_UNFENCED;
    if (!*fenced)
        tables_check_fence(adapter, epoch);
    rc = link_answer(&adapter->link, err);
    if (rc == RC_OK && !*fenced)
        rc = tables_call(adapter, err);
    if (rc != RC_OK || *fenced)
        return rc;
    for (int64_t seq = ranges[0].from;
         seq <= fake_outbox_scan_to(&table->fake, ranges[count - 1].to); seq++) {
        if (table->rows[seq].row.owner && fake_outbox_in_ranges(seq, ranges, count))
            return err_fail(err, RC_RETRY, DB_LOCK_WAIT_CODE, "lock wait time-out");
    }
    for (int64_t seq = ranges[0].from;
         seq <= fake_outbox_scan_to(&table->fake, ranges[count - 1].to); seq++) {
        if (table->rows[seq].state == OUTBOX_COMMITTED && fake_outbox_in_ranges(seq, ranges, count))
            tables_delete_row(adapter, &table->rows[seq]);
    }
    return link_answer(&adapter->link, err);
}

static void row_moved(void *ctx, struct fake_row *base, bool commit)
{
    struct sim *sim = ctx;
    struct outbox_row *row = (struct outbox_row *)base;

    if (!commit || row->state != OUTBOX_COMMITTED)
        return;
    row->state = OUTBOX_DELETED;
    sim->tables->lanes[row->lane].left--;
}

static void row_copied(void *ctx, struct fake_row *base, bool commit)
{
    struct outbox_row *row = (struct outbox_row *)base;

    (void)ctx;
    row->moved = row->moved || commit;
}

/* Of a lane that reads the binary log: the row stays in the table, and is skipped if it has a task.
 * In the program a unique key keeps others from making one at the same time. */
static enum rc copy_row(struct lane_adapter *adapter, const struct relay_move *move,
                        struct err *err)
{
    struct link *link = &adapter->link;
    struct sim *sim = link->db->sim;
    struct outbox_row *row = tables_row_of(sim, tables_event_of(sim, move->row->id));
    enum rc rc = link_lock(link, &row->row, err);

    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc != RC_OK || retry_has_event(sim, row->event))
        return rc;
    if (sim->fault != FAULT_MOVE_WITHOUT_TASK)
        retry_insert(link, row, move->ordering_key);
    link_wrote(link, &row->row, row_copied);
    sim_tell(sim, link->proc->name, sim->events[row->event].key,
             "copies event %lld, seq %lld of lane %lld", (int64_t)row->event, row->seq,
             (int64_t)adapter->lane);
    return link_answer(link, err);
}

static enum rc move_row(struct lane_adapter *adapter, const struct relay_move *move,
                        struct err *err)
{
    struct link *link = &adapter->link;
    struct sim *sim = link->db->sim;
    struct outbox_row *row = tables_row(sim, adapter->lane, move->seq);
    enum rc rc = link_lock(link, &row->row, err);

    if (rc == RC_OK)
        rc = link_call(link, err);
    if (rc != RC_OK || row->state != OUTBOX_COMMITTED)
        return rc;
    if (sim->fault != FAULT_MOVE_WITHOUT_TASK)
        retry_insert(link, row, move->ordering_key);
    link_wrote(link, &row->row, row_moved);
    sim_tell(sim, link->proc->name, sim->events[row->event].key,
             "moves event %lld, seq %lld of lane %lld", (int64_t)row->event, row->seq,
             (int64_t)adapter->lane);
    return link_answer(link, err);
}

/* One transaction. The lease's row is locked last, and until the COMMIT is done. */
static enum rc move_rows(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                         bool *fenced, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    struct sim *sim = adapter->link.db->sim;
    enum rc rc = link_begin(&adapter->link, err);

    *fenced = false;
    if (rc == RC_OK)
        rc = tables_call(adapter, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = moves[i].row ? copy_row(adapter, &moves[i], err) : move_row(adapter, &moves[i], err);
    if (rc == RC_OK)
        rc = link_call(&adapter->link, err);
    if (rc == RC_OK && sim->fault != FAULT_MOVE_UNFENCED) {
        rc = link_lock(&adapter->link, &sim->tables->leases[adapter->lane].row, err);
        *fenced = rc == RC_OK && !is_held(adapter, epoch);
    }
    if (rc == RC_OK)
        rc = link_answer(&adapter->link, err);
    if (rc == RC_OK && !*fenced) {
        /* A process that was frozen here has lost the transaction, and the lock with it. */
        if (link_is_open(&adapter->link))
            tables_check_fence(adapter, epoch);
        return link_commit(&adapter->link, err);
    }
    link_rollback(&adapter->link);
    return rc;
}

static enum rc load_keys(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    struct lane_adapter *adapter = ctx;
    enum rc rc = tables_call(adapter, err);

    return rc == RC_OK ? retry_load_keys(adapter, keys_max, on_key, on_key_ctx, err) : rc;
}

static enum rc keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct lane_adapter *adapter = ctx;
    enum rc rc = tables_call(adapter, err);

    for (size_t i = 0; i < count && rc == RC_OK; i++)
        keys[i].left = retry_has_key(adapter->link.db->sim, adapter->lane, keys[i].ordering_key);
    return rc == RC_OK ? link_answer(&adapter->link, err) : rc;
}

struct deleter_ops tables_deleter(struct lane_adapter *adapter)
{
    return (struct deleter_ops){
        .ctx = adapter,
        .delete_ranges = delete_ranges,
    };
}

struct diverter_ops tables_diverter(struct lane_adapter *adapter)
{
    return (struct diverter_ops){
        .ctx = adapter,
        .move_rows = move_rows,
        .load_keys = load_keys,
        .keys_left = keys_left,
    };
}
