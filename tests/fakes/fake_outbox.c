/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_outbox.h"

#include <assert.h>

bool fake_outbox_in_ranges(int64_t seq, const struct seq_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (seq >= ranges[i].from && seq <= ranges[i].to)
            return true;
    }
    return false;
}

int64_t fake_outbox_scan_to(const struct fake_outbox *table, int64_t to)
{
    return to < table->seq_next ? to : table->seq_next - 1;
}

static enum outbox_state read_state(const struct fake_source *source, int64_t seq)
{
    return source->state(source->hooks.ctx, seq);
}

static bool is_settled(const struct fake_source *source, int64_t seq)
{
    enum outbox_state state = read_state(source, seq);

    return state == OUTBOX_NONE || state >= OUTBOX_MOVED;
}

static int64_t scan_from(const struct fake_source *source, int64_t from)
{
    struct fake_outbox *table = source->table;

    while (table->settled + 1 < table->seq_next && is_settled(source, table->settled + 1))
        table->settled++;
    return from > table->settled ? from : table->settled + 1;
}

enum rc fake_source_read(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                         source_on_row on_row, void *on_row_ctx, struct err *err)
{
    const struct fake_source *source = ctx;
    enum rc broken = RC_OK;
    enum rc rc = source->call_read(source->hooks.ctx, &broken, err);
    size_t rows = 0;

    if (rc != RC_OK)
        return rc;
    for (size_t i = 1; i < count; i++)
        assert(ranges[i - 1].to < ranges[i].from);
    for (int64_t seq = scan_from(source, ranges[0].from);
         seq <= fake_outbox_scan_to(source->table, ranges[count - 1].to) && rows < rows_max;
         seq++) {
        struct relay_row row;
        char key[FAKE_KEY_SIZE];

        if (read_state(source, seq) != OUTBOX_COMMITTED ||
            !fake_outbox_in_ranges(seq, ranges, count))
            continue;
        if (broken != RC_OK && rows == 2)
            break;
        source->show(source->hooks.ctx, seq, key, &row);
        rows++;
        if (!on_row(on_row_ctx, &row))
            break;
    }
    return broken != RC_OK ? broken : source->hooks.answer(source->hooks.ctx, err);
}

enum rc fake_source_probe(void *ctx, const struct seq_range *ranges, size_t count, bool *busy,
                          bool *found, struct err *err)
{
    const struct fake_source *source = ctx;
    enum rc rc = source->hooks.call(source->hooks.ctx, err);

    *busy = *found = false;
    if (rc != RC_OK)
        return rc;
    for (int64_t seq = scan_from(source, ranges[0].from);
         seq <= fake_outbox_scan_to(source->table, ranges[count - 1].to); seq++) {
        if (!fake_outbox_in_ranges(seq, ranges, count))
            continue;
        *busy = *busy || read_state(source, seq) == OUTBOX_WRITTEN;
        *found = *found || read_state(source, seq) == OUTBOX_COMMITTED;
    }
    return source->hooks.answer(source->hooks.ctx, err);
}

enum rc fake_source_look(void *ctx, int64_t from, int64_t above, struct source_look *look,
                         struct err *err)
{
    const struct fake_source *source = ctx;
    enum rc rc = source->hooks.call(source->hooks.ctx, err);

    *look = (struct source_look){0};
    if (rc != RC_OK)
        return rc;
    for (int64_t seq = scan_from(source, from); seq < source->table->seq_next; seq++) {
        if (read_state(source, seq) != OUTBOX_COMMITTED)
            continue;
        if (look->oldest_seq == 0) {
            look->oldest_seq = seq;
            look->oldest_age_ms = source->hooks.now_ms(source->hooks.ctx) -
                                  source->created_ms(source->hooks.ctx, seq);
            if (look->oldest_age_ms < 0)
                look->oldest_age_ms = 0;
        }
        if (seq > above)
            look->newest_seq = seq;
    }
    return source->hooks.answer(source->hooks.ctx, err);
}

enum rc fake_source_restart(void *ctx, int64_t below, struct source_restart *restart,
                            struct err *err)
{
    const struct fake_source *source = ctx;
    enum rc rc = source->hooks.call(source->hooks.ctx, err);

    *restart = (struct source_restart){.next_seq = source->table->seq_next};
    if (rc != RC_OK)
        return rc;
    for (int64_t seq = scan_from(source, 1); seq < below && seq < source->table->seq_next; seq++) {
        if (read_state(source, seq) != OUTBOX_COMMITTED)
            continue;
        restart->low_seq = seq;
        break;
    }
    return source->hooks.answer(source->hooks.ctx, err);
}
