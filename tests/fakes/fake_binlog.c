/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_binlog.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps that the writer adds in one millisecond. */
#define TICK_STEPS 6

#define MOVES_MAX 128

void fake_binlog_blame(struct fake_binlog *fake, const char *format, ...)
{
    va_list args;

    if (fake->broken[0])
        return;
    va_start(args, format);
    vsnprintf(fake->broken, sizeof(fake->broken), format, args);
    va_end(args);
}

/* The writer */

void fake_binlog_init(struct fake_binlog *fake, struct fake_relay *relay)
{
    memset(fake, 0, sizeof(*fake));
    fake->relay = relay;
    fake->rows_max = 1;
    fake->broker = fake_relay_broker(relay);
    fake->diverter = fake_relay_diverter(relay);
}

void fake_binlog_done(struct fake_binlog *fake)
{
    buf_done(&fake->saved.before);
    position_record_done(&fake->sent);
    position_record_done(&fake->last);
}

static void add_step(struct fake_binlog *fake, enum stream_kind kind, uint64_t number, int64_t row)
{
    assert(fake->count + 1 < FAKE_BINLOG_STEPS_MAX);
    fake->steps[fake->count++] = (struct fake_binlog_step){kind, number, row};
}

int64_t fake_binlog_write(struct fake_binlog *fake, int key)
{
    int64_t row = fake_relay_reserve(fake->relay, key);

    fake->is_open = true;
    fake->open_rows[fake->open_count++] = row;
    add_step(fake, STREAM_ROW, 0, row);
    return row;
}

/* The places of the rows in their keys are given again. */
static void roll_back(struct fake_binlog *fake, size_t rows)
{
    while (fake->open_count > rows) {
        int64_t row = fake->open_rows[--fake->open_count];

        fake_relay_roll_back(fake->relay, row);
        fake->relay->key_next[fake->relay->rows[row].key]--;
    }
}

void fake_binlog_undo(struct fake_binlog *fake, size_t rows)
{
    roll_back(fake, rows);
    add_step(fake, STREAM_UNDO, rows, 0);
}

static void end_transaction(struct fake_binlog *fake, enum stream_kind kind, uint64_t number)
{
    add_step(fake, kind, number, 0);
    fake->is_open = fake->is_planned = false;
    fake->open_count = 0;
    fake->start = fake->count;
    fake->rows_before[fake->count] = fake->row_count;
    fake->gone_before[fake->count] = fake->gone;
}

void fake_binlog_cut(struct fake_binlog *fake)
{
    roll_back(fake, 0);
    end_transaction(fake, STREAM_CUT, 0);
}

void fake_binlog_commit(struct fake_binlog *fake)
{
    for (size_t i = 0; i < fake->open_count; i++) {
        fake_relay_commit(fake->relay, fake->open_rows[i]);
        fake->rows[fake->row_count++] = fake->open_rows[i];
    }
    end_transaction(fake, STREAM_COMMIT, 0);
}

void fake_binlog_empty(struct fake_binlog *fake)
{
    assert(!fake->is_open);
    fake->gone = fake->row_count;
    end_transaction(fake, STREAM_COMMIT, 1);
}

void fake_binlog_append(struct fake_binlog *fake, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        fake_binlog_write(fake, (int)(i % FAKE_RELAY_KEYS));
    fake_binlog_commit(fake);
}

static void spoil(struct fake_binlog *fake, struct fake_relay_row *row)
{
    uint64_t how = fake_relay_below(fake->relay, 3);

    if (!fake_relay_chance(fake->relay, fake->faults.bad_row))
        return;
    row->sync_bad = how == 0;
    row->oversize = how == 1;
    row->bad = how == 2;
}

static void begin_transaction(struct fake_binlog *fake)
{
    if (!fake->writing || !fake->found || !fake_relay_chance(fake->relay, 60))
        return;
    if (fake->relay->outbox.seq_next + (int64_t)fake->rows_max > FAKE_RELAY_ROWS_MAX ||
        fake->count + 4 * fake->rows_max > FAKE_BINLOG_STEPS_MAX)
        return;
    fake->is_open = fake->is_planned = true;
    fake->planned = (size_t)fake_relay_below(
        fake->relay, fake_relay_chance(fake->relay, 100) ? fake->rows_max + 1 : 5);
}

static void empty_table(struct fake_binlog *fake)
{
    if (fake->writing && fake->found && fake->count + 2 < FAKE_BINLOG_STEPS_MAX &&
        fake_relay_chance(fake->relay, fake->faults.empty))
        fake_binlog_empty(fake);
}

static void write_step(struct fake_binlog *fake)
{
    struct fake_relay *relay = fake->relay;
    int64_t row;

    if (fake->planned == 0) {
        if (fake_relay_chance(relay, fake->faults.cut))
            fake_binlog_cut(fake);
        else
            fake_binlog_commit(fake);
        return;
    }
    fake->planned--;
    row = fake_binlog_write(fake, (int)fake_relay_below(relay, FAKE_RELAY_KEYS));
    spoil(fake, &relay->rows[row]);
    if (fake_relay_chance(relay, fake->faults.undo))
        fake_binlog_undo(fake, (size_t)fake_relay_below(relay, fake->open_count + 1));
}

void fake_binlog_tick(struct fake_binlog *fake)
{
    if (!fake->is_open)
        empty_table(fake);
    if (!fake->is_open)
        begin_transaction(fake);
    for (int i = 0; i < TICK_STEPS && fake->is_planned; i++)
        write_step(fake);
}

/* The log */

static void pass(struct fake_binlog *fake)
{
    if (fake->pass)
        fake->pass(fake->pass_ctx);
}

static bool call_fails(struct fake_binlog *fake, unsigned chance, enum rc *rc, struct err *err)
{
    pass(fake);
    if (!fake_relay_fails(fake->relay, chance, rc, err))
        return false;
    if (*rc == RC_REJECT)
        *rc = RC_RETRY;
    return true;
}

#define FAR (UINT64_C(1) << 32)

/* A position has its place three times, so a mixture of two positions is found. */
static size_t place_of(struct fake_binlog *fake, const struct stream_position *position)
{
    bool is_far = position->offset > UINT32_MAX;
    size_t place = (size_t)(position->offset - (is_far ? FAR : 0));
    char text[32];

    if (position->file[0] == '\0' && position->before.len == 0 && place == 0)
        return 0;
    snprintf(text, sizeof(text), "0-1-%zu", place);
    if (position->before.len != strlen(text) ||
        memcmp(position->before.data, text, strlen(text)) != 0 ||
        strcmp(position->file, text) != 0 || position->by_gtid == is_far ||
        (position->rows_done > 0 && strcmp(position->gtid, text) != 0))
        fake_binlog_blame(fake, "the position %s has another place, %zu", position->file, place);
    return place;
}

static void write_place(const struct fake_binlog *fake, struct stream_position *position,
                        size_t place)
{
    bool is_far = place >= fake->far_from && place < fake->far_to;

    buf_reset(&position->before);
    buf_print(&position->before, "0-1-%zu", place);
    snprintf(position->file, sizeof(position->file), "0-1-%zu", place);
    snprintf(position->gtid, sizeof(position->gtid), "0-1-%zu", place);
    position->by_gtid = !is_far;
    position->offset = place + (is_far ? FAR : 0);
    position->rows_done = 0;
}

static enum rc stream_open(void *ctx, const struct stream_position *from, struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;

    fake->opens++;
    if (call_fails(fake, fake->faults.stream, &rc, err))
        return rc;
    fake->at_start = fake->at = place_of(fake, from);
    fake->skip = from->rows_done;
    fake->number = 0;
    fake->interrupted = false;
    return RC_OK;
}

static void show_row(struct fake_binlog *fake, int64_t number, struct relay_row *row)
{
    int len = snprintf(fake->row_id, sizeof(fake->row_id), "row-%" PRId64, number);

    fake_relay_show_row(fake->relay, number, fake->row_key, row);
    /* Of a lane that records ids the column seq is not its primary key: any number. */
    row->table_seq = fake->by_id ? number % 3 : number;
    row->seq = row->epoch = 0;
    row->id = (struct bytes){fake->row_id, (size_t)len};
}

static enum rc stream_next(void *ctx, struct stream_change *change, struct err *err)
{
    struct fake_binlog *fake = ctx;
    const struct fake_binlog_step *step;
    bool counts_only = change->counts_only;
    enum rc rc;

    memset(fake->row_id, '?', sizeof(fake->row_id));
    memset(change, 0, sizeof(*change));
    if (call_fails(fake, fake->faults.stream, &rc, err))
        return rc;
    if (fake->interrupted)
        return err_fail(err, RC_RETRY, 0, "interrupted");
    if (fake->purged)
        return err_fail(err, RC_FATAL, 0, "the log was purged");
    if (fake_relay_chance(fake->relay, fake->faults.pause))
        return RC_OK;
    do {
        if (fake->at == fake->count)
            return RC_OK;
        step = &fake->steps[fake->at++];
        change->kind = step->kind;
        if (step->kind == STREAM_COMMIT || step->kind == STREAM_CUT) {
            fake->at_start = fake->at;
            fake->number = fake->skip = 0;
            change->emptied = step->kind == STREAM_COMMIT && step->number > 0;
            return RC_OK;
        }
        fake->number = step->kind == STREAM_ROW ? fake->number + 1 : step->number;
        change->number = fake->number;
    } while (step->kind == STREAM_ROW && fake->number <= fake->skip);
    if (step->kind == STREAM_ROW && !counts_only)
        show_row(fake, step->row, &change->row);
    return RC_OK;
}

static enum rc stream_position(void *ctx, struct stream_position *position, struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;

    if (call_fails(fake, fake->faults.stream, &rc, err))
        return rc;
    write_place(fake, position, fake->at_start);
    return RC_OK;
}

static void stream_close(void *ctx)
{
    struct fake_binlog *fake = ctx;

    fake->interrupted = true;
}

static void stream_interrupt(void *ctx)
{
    stream_close(ctx);
}

static bool stream_purged(void *ctx)
{
    const struct fake_binlog *fake = ctx;

    return fake->purged;
}

struct stream_ops fake_binlog_stream(struct fake_binlog *fake)
{
    bool waits = fake_relay_chance(fake->relay, 500);

    return (struct stream_ops){
        .ctx = fake,
        .open = stream_open,
        .next = stream_next,
        .position = stream_position,
        .close = waits ? stream_close : NULL,
        .interrupt = waits ? stream_interrupt : NULL,
        .purged = stream_purged,
    };
}

/* The positions */

/* Committed rows before a position. Within a transaction those that stay have the numbers from 1.
 */
static size_t count_rows_before(struct fake_binlog *fake, const struct stream_position *position)
{
    size_t rows = fake->rows_before[place_of(fake, position)] + (size_t)position->rows_done;

    if (rows > fake->row_count)
        fake_binlog_blame(fake, "a position behind %zu of %zu committed rows", rows,
                          fake->row_count);
    return rows;
}

/* Invariant R12 of stream_reader.h; also of a save that is refused. */
static void check_rows_are_done(struct fake_binlog *fake, size_t rows)
{
    while (fake->done_count < fake->row_count && fake->done[fake->rows[fake->done_count]])
        fake->done_count++;
    if (rows > fake->done_count)
        fake_binlog_blame(fake, "a position behind row %" PRId64 " is saved, which is not done",
                          fake->rows[fake->done_count]);
}

static void save_position(struct fake_binlog *fake, const struct stream_position *position,
                          size_t rows)
{
    size_t committed = 0;

    /* In Kafka the position is before a transaction of which rows are committed. */
    if (rows < fake->saved_rows && !fake->exact)
        fake_binlog_blame(fake, "the saved position goes back from %zu to %zu rows",
                          fake->saved_rows, rows);
    if (fake->exact && fake->has_last)
        committed = count_rows_before(fake, &fake->last.position) + (size_t)fake->last.rows;
    if (fake->exact && rows > committed)
        fake_binlog_blame(fake, "a position behind %zu rows is saved, %zu are committed in Kafka",
                          rows, committed);
    fake->saved_rows = rows;
    fake->found = true;
    fake->saves++;
    stream_position_copy(&fake->saved, position);
}

/* Invariant R13 of stream_keeper.h. */
static int64_t number_of_id(const struct published_id *id)
{
    char text[FAKE_KEY_SIZE + 1] = "";

    memcpy(text, id->bytes + 1, id->bytes[0]);
    return strtoll(text + strlen("row-"), NULL, 10);
}

static void save_row(struct fake_binlog *fake, int64_t row)
{
    if (!fake->done[row])
        fake_binlog_blame(fake, "row %" PRId64 " is saved as done, which is not", row);
    fake->recorded[row] = true;
}

/* All rows that are saved were removed from the table, or are saved again. */
static void forget_rows(struct fake_binlog *fake, size_t gone)
{
    memset(fake->recorded, 0, sizeof(fake->recorded));
    fake->recorded_count = gone;
    fake->forgets++;
}

/* A seq of a row that is removed may be that of a later row. Before the lane has read the last
 * statement it need not have forgotten what earlier ones have removed. */
static void check_rows_are_forgotten(struct fake_binlog *fake, size_t gone)
{
    if (gone < fake->gone)
        return;
    for (size_t i = 0; i < gone; i++)
        if (fake->recorded[fake->rows[i]])
            fake_binlog_blame(fake, "row %" PRId64 " is saved behind its removal", fake->rows[i]);
}

/* Rows that are removed later need not be saved. */
static void save_rows(struct fake_binlog *fake, const struct done_rows *done, size_t rows,
                      size_t gone)
{
    if (done->emptied)
        forget_rows(fake, gone);
    for (size_t i = 0; i < done->seq_count; i++)
        save_row(fake, done->seqs[i]);
    for (size_t i = 0; i < done->id_count; i++)
        save_row(fake, number_of_id(&done->ids[i]));
    for (; fake->recorded_count < rows; fake->recorded_count++) {
        int64_t row = fake->rows[fake->recorded_count];

        if (fake->recorded_count >= fake->gone && !fake->recorded[row])
            fake_binlog_blame(fake, "the position is saved without row %" PRId64 " before it", row);
    }
    check_rows_are_forgotten(fake, gone);
}

static void positions_accept(void *ctx)
{
    struct fake_binlog *fake = ctx;

    fake->accepts++;
}

static enum rc positions_load(void *ctx, struct stream_position *position, bool *found,
                              struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;

    *found = false;
    buf_reset(&position->before);
    position->file[0] = position->gtid[0] = '\0';
    position->offset = position->rows_done = 0;
    position->by_gtid = false;
    if (call_fails(fake, fake->faults.positions, &rc, err))
        return rc;
    *found = fake->found;
    if (fake->found)
        stream_position_copy(position, &fake->saved);
    position->epoch = fake->found ? fake->saved_epoch : 0;
    snprintf(position->server, sizeof(position->server), "server");
    return RC_OK;
}

static enum rc positions_kind(void *ctx, enum published_kind *kind, struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;

    if (call_fails(fake, fake->faults.positions, &rc, err))
        return rc;
    *kind = fake->by_id ? PUBLISHED_BY_ID : PUBLISHED_BY_SEQ;
    return RC_OK;
}

static enum rc positions_save(void *ctx, const struct stream_position *position,
                              const struct done_rows *done, int64_t epoch, bool *fenced,
                              struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;
    bool failed = call_fails(fake, fake->faults.positions, &rc, err);
    size_t rows;

    *fenced = false;
    if (fake->refuses)
        return err_fail(err, RC_RETRY, 0, "the table cannot be written");
    if (failed && fake_relay_chance(fake->relay, 500))
        return rc;
    rows = count_rows_before(fake, position);
    check_rows_are_done(fake, rows);
    if (position->offset > UINT32_MAX)
        fake_binlog_blame(fake, "a position is saved that no server opens");
    *fenced = epoch != fake->relay->epoch;
    if (!*fenced) {
        save_position(fake, position, rows);
        fake->saved_epoch = epoch;
        save_rows(fake, done, rows, fake->gone_before[place_of(fake, position)]);
    }
    pass(fake);
    return failed ? rc : RC_OK;
}

static enum rc positions_begin(void *ctx, struct stream_position *position, struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;

    if (call_fails(fake, fake->faults.positions, &rc, err))
        return rc;
    if (fake->row_count > 0)
        return err_fail(err, RC_FATAL, 0, "the table has rows");
    if (fake->is_open)
        return err_fail(err, RC_RETRY, 0, "a transaction is open");
    write_place(fake, position, fake->count);
    snprintf(position->server, sizeof(position->server), "server");
    return RC_OK;
}

static enum rc positions_check_log(void *ctx, const struct stream_position *position,
                                   struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;

    if (call_fails(fake, fake->faults.positions, &rc, err))
        return rc;
    return position->offset > fake->count ? err_fail(err, RC_REJECT, 0, "the log is shorter")
                                          : RC_OK;
}

struct position_store fake_binlog_positions(struct fake_binlog *fake)
{
    return (struct position_store){
        .ctx = fake,
        .accept = positions_accept,
        .load = positions_load,
        .kind = positions_kind,
        .save = positions_save,
        .begin = positions_begin,
        .check_log = positions_check_log,
    };
}

bool fake_binlog_is_saved(const struct fake_binlog *fake)
{
    return fake->found && fake->saved.offset == fake->count && fake->saved.rows_done == 0;
}

/* The broker and the retry queue */

/* Returns the number of a row that the lane sends or moves, or 0. */
static int64_t find_row(struct fake_binlog *fake, const struct relay_row *row)
{
    char text[FAKE_KEY_SIZE] = "";
    char key[FAKE_KEY_SIZE];
    struct relay_row known;
    int64_t number;

    if (row->id.len < sizeof(text))
        memcpy(text, row->id.data, row->id.len);
    number = strncmp(text, "row-", 4) == 0 ? strtoll(text + 4, NULL, 10) : 0;
    if (number <= 0 || number >= fake->relay->outbox.seq_next ||
        fake->relay->rows[number].state < OUTBOX_COMMITTED) {
        fake_binlog_blame(fake, "row \"%s\" is used, which is not committed", text);
        return 0;
    }
    fake_relay_show_row(fake->relay, number, key, &known);
    if (row->aggregate_id.len != known.aggregate_id.len ||
        memcmp(row->aggregate_id.data, key, known.aggregate_id.len) != 0)
        fake_binlog_blame(fake, "row %s has the key of another one", text);
    return number;
}

static enum rc broker_topic_open(void *ctx, const char *topic, size_t topic_index, struct err *err)
{
    struct fake_binlog *fake = ctx;

    fake->topic_opens++;
    return fake->broker.topic_open(fake->broker.ctx, topic, topic_index, err);
}

static enum rc broker_send(void *ctx, const char *topic, size_t topic_index,
                           const struct relay_row *row, uint64_t ticket, struct err *err)
{
    struct fake_binlog *fake = ctx;
    struct relay_row copy = *row;

    copy.seq = find_row(fake, row);
    if (copy.seq == 0)
        return err_fail(err, RC_FATAL, 0, "a row that is not committed");
    if (!fake->found)
        fake_binlog_blame(fake, "row %" PRId64 " is sent before a position is saved", copy.seq);
    fake->ticket_rows[ticket % FAKE_BINLOG_TICKETS] = copy.seq;
    pass(fake);
    return fake->broker.send(fake->broker.ctx, topic, topic_index, &copy, ticket, err);
}

static void pass_report(void *ctx, uint64_t ticket, enum rc rc, const struct err *err)
{
    struct fake_binlog *fake = ctx;

    if (rc == RC_OK && !fake->exact)
        fake->done[fake->ticket_rows[ticket % FAKE_BINLOG_TICKETS]] = true;
    fake->on_report(fake->on_report_ctx, ticket, rc, err);
}

static enum rc broker_poll(void *ctx, broker_on_report on_report, void *on_report_ctx,
                           struct err *err)
{
    struct fake_binlog *fake = ctx;

    fake->on_report = on_report;
    fake->on_report_ctx = on_report_ctx;
    return fake->broker.poll(fake->broker.ctx, pass_report, fake, err);
}

static void broker_purge(void *ctx)
{
    struct fake_binlog *fake = ctx;

    fake->broker.purge(fake->broker.ctx);
}

static void broker_reset(void *ctx)
{
    struct fake_binlog *fake = ctx;

    fake->broker.reset(fake->broker.ctx);
    fake->claimed = BROKER_UNCLAIMED;
}

/* Transactions */

static void check_commit(struct fake_binlog *fake, const struct position_record *record)
{
    size_t rows = count_rows_before(fake, &record->position) + (size_t)record->rows;

    check_rows_are_done(fake, rows);
    if (record->position.offset > UINT32_MAX)
        fake_binlog_blame(fake, "a position is committed that no server opens");
}

/* Invariant R19 of commits.h. */
static void apply_commit(struct fake_binlog *fake, const struct position_record *record)
{
    struct fake_relay *relay = fake->relay;

    for (size_t i = relay->log_count; i > 0 && fake->transactions > 0; i--) {
        uint64_t transaction = relay->log_transactions[i - 1];

        if (transaction != 0 && transaction < fake->transactions)
            break;
        if (transaction == fake->transactions)
            fake->done[relay->log[i - 1]] = true;
    }
    fake->committed[fake->transactions] = true;
    check_commit(fake, record);
    if (fake->has_last && record->epoch < fake->last.epoch)
        fake_binlog_blame(fake, "a record of an earlier lease is committed");
    position_record_copy(&fake->last, record);
    fake->has_last = true;
    fake->commits++;
}

static void begin_transaction_of_producer(struct fake_binlog *fake)
{
    assert(fake->transactions + 1 < FAKE_BINLOG_TRANSACTIONS_MAX);
    fake->relay->transaction = ++fake->transactions;
}

/* Ends the transaction of the last producer. */
static void init_transactions(struct fake_binlog *fake)
{
    if (fake->may_commit_late && fake_relay_chance(fake->relay, 500))
        apply_commit(fake, &fake->sent);
    fake->may_commit_late = false;
    fake->relay->ghost_count = 0;
    fake->relay->message_count = 0;
    begin_transaction_of_producer(fake);
}

void fake_binlog_fence(struct fake_binlog *fake)
{
    init_transactions(fake);
    fake->relay->finished = true;
    if (fake->claimed == BROKER_CLAIMED)
        fake->claimed = BROKER_FENCED;
}

static enum rc broker_claim(void *ctx, int64_t epoch, struct position_record *last, bool *found,
                            struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;
    bool failed = call_fails(fake, fake->faults.claim, &rc, err);

    fake->claims++;
    if (failed && fake_relay_chance(fake->relay, 500))
        return rc;
    *found = fake->has_last;
    if (fake->has_last)
        position_record_copy(last, &fake->last);
    if (fake->has_last && fake->last.epoch > epoch) {
        fake->claimed = BROKER_UNCLAIMED;
        return RC_OK;
    }
    fake->relay->finished = false;
    init_transactions(fake);
    if (failed)
        return rc;
    fake->claimed = BROKER_CLAIMED;
    *found = fake->has_last;
    if (fake->has_last)
        position_record_copy(last, &fake->last);
    return RC_OK;
}

static enum broker_claim broker_claimed(void *ctx)
{
    const struct fake_binlog *fake = ctx;

    return fake->claimed;
}

static enum rc broker_commit(void *ctx, const struct position_record *record, struct err *err)
{
    struct fake_binlog *fake = ctx;
    enum rc rc;
    bool failed;

    if (fake->claimed != BROKER_CLAIMED)
        return err_fail(err, RC_REJECT, 0, "fenced");
    failed = call_fails(fake, fake->faults.commit, &rc, err);
    if (fake->claimed != BROKER_CLAIMED)
        return err_fail(err, RC_REJECT, 0, "fenced");
    for (size_t i = 0; i < fake->relay->message_count; i++)
        fake_binlog_blame(fake, "a transaction is committed with records in flight");
    if (failed && fake_relay_chance(fake->relay, 500)) {
        fake->may_commit_late = position_record_copy(&fake->sent, record);
        return rc == RC_REJECT ? RC_RETRY : rc;
    }
    apply_commit(fake, record);
    begin_transaction_of_producer(fake);
    if (failed)
        return rc == RC_REJECT ? RC_RETRY : rc;
    pass(fake);
    return RC_OK;
}

void fake_binlog_read_committed(struct fake_binlog *fake)
{
    struct fake_relay *relay = fake->relay;
    size_t kept = 0;

    for (size_t i = 0; i < relay->log_count; i++) {
        uint64_t transaction = relay->log_transactions[i];

        if (transaction == 0 || fake->committed[transaction]) {
            relay->log_transactions[kept] = 0;
            relay->log[kept++] = relay->log[i];
        } else {
            relay->rows[relay->log[i]].published--;
        }
    }
    relay->log_count = kept;
}

size_t fake_binlog_not_once(const struct fake_binlog *fake)
{
    size_t count = 0;

    for (size_t i = 0; i < fake->row_count; i++)
        count += fake->relay->rows[fake->rows[i]].published != 1;
    return count;
}

struct broker fake_binlog_broker(struct fake_binlog *fake)
{
    struct broker broker = {.ctx = fake,
                            .topic_open = broker_topic_open,
                            .send = broker_send,
                            .poll = broker_poll,
                            .purge = broker_purge,
                            .reset = broker_reset};

    if (fake->exact) {
        broker.claim = broker_claim;
        broker.claimed = broker_claimed;
        broker.commit = broker_commit;
    }
    return broker;
}

/* A row may be moved a second time after its task has ended: the retry queue does not know it any
 * more. */
static enum rc move_rows(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                         bool *fenced, struct err *err)
{
    struct fake_binlog *fake = ctx;
    struct relay_move copies[MOVES_MAX] = {0};
    struct relay_row rows[MOVES_MAX];
    enum rc rc;

    assert(count <= MOVES_MAX);
    assert(fake->relay->task_count + count < FAKE_RELAY_ROWS_MAX);
    for (size_t i = 0; i < count; i++) {
        copies[i] = moves[i];
        rows[i] = *moves[i].row;
        if (rows[i].seq != moves[i].seq)
            fake_binlog_blame(fake, "a move has the copy of another row");
        copies[i].seq = rows[i].seq = find_row(fake, moves[i].row);
        if (copies[i].seq == 0)
            return err_fail(err, RC_FATAL, 0, "a row that is not committed");
        rows[i].id = (struct bytes){"id", 2};
        copies[i].row = &rows[i];
        if (fake->relay->rows[copies[i].seq].state == OUTBOX_DELETED)
            fake->relay->rows[copies[i].seq].state = OUTBOX_COMMITTED;
    }
    pass(fake);
    fake->relay->stream_moves = moves;
    rc = fake->diverter.move_rows(fake->diverter.ctx, copies, count, epoch, fenced, err);
    pass(fake);
    for (size_t i = 0; i < count; i++)
        if (fake->relay->rows[copies[i].seq].state == OUTBOX_MOVED)
            fake->done[copies[i].seq] = true;
    return rc;
}

static enum rc load_keys(void *ctx, size_t keys_max, diverter_on_key on_key, void *on_key_ctx,
                         struct err *err)
{
    struct fake_binlog *fake = ctx;

    pass(fake);
    return fake->diverter.load_keys(fake->diverter.ctx, keys_max, on_key, on_key_ctx, err);
}

static enum rc keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err)
{
    struct fake_binlog *fake = ctx;

    enum rc rc;

    pass(fake);
    rc = fake->diverter.keys_left(fake->diverter.ctx, keys, count, err);
    pass(fake);
    return rc;
}

struct diverter_ops fake_binlog_diverter(struct fake_binlog *fake)
{
    return (struct diverter_ops){
        .ctx = fake, .move_rows = move_rows, .load_keys = load_keys, .keys_left = keys_left};
}
