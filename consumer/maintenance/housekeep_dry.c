/* SPDX-License-Identifier: MIT */
#include "consumer/maintenance/housekeep_dry.h"

#include "consumer/apply/date_row.h"

#include <assert.h>
#include <stdlib.h>

struct dry {
    const struct housekeep_store *store;
    const struct housekeep_rules *rules;
    housekeep_on_would on_would;
    void *ctx;
    struct housekeep_state state;
    struct housekeep_part *parts;
    size_t count;
};

static enum rc part_tell(struct dry *dry, enum housekeep_deed deed,
                         const struct housekeep_part *part, const struct housekeep_part *counted,
                         struct err *err)
{
    struct housekeep_would would = {.deed = deed, .name = part->name, .limit_day = part->limit_day};
    enum rc rc = RC_OK;

    if (counted)
        rc = dry->store->count_rows(dry->store->ctx, counted, HOUSEKEEP_DRY_ROWS_MAX, &would.rows,
                                    err);
    if (rc == RC_OK)
        dry->on_would(dry->ctx, &would);
    return rc;
}

/* The parts grow at the place of the one without a limit, which is put back behind them. */
static enum rc dry_make(struct dry *dry, struct err *err)
{
    int64_t ahead_day = housekeep_ahead_day(dry->state.now_ms / DATE_MS, dry->rules->months_ahead);
    struct housekeep_part *last = dry->count > 0 ? &dry->parts[dry->count - 1] : NULL;
    struct housekeep_part open;
    size_t limited = dry->count;
    enum rc rc = RC_OK;

    assert(dry->parts);
    if (last && last->limit_day == HOUSEKEEP_NO_LIMIT) {
        open = *last;
        last = &open;
        limited--;
    } else {
        last = NULL;
    }
    while (rc == RC_OK && limited < HOUSEKEEP_PARTS_MAX) {
        struct housekeep_next next = housekeep_next_make(dry->parts, limited, ahead_day);

        if (next.act != HOUSEKEEP_MAKE)
            break;
        rc = part_tell(dry, HOUSEKEEP_WOULD_MAKE, &next.part, last, err);
        dry->parts[limited++] = next.part;
    }
    if (last && limited < HOUSEKEEP_PARTS_MAX)
        dry->parts[limited++] = open;
    dry->count = limited;
    return rc;
}

static enum rc dry_drop(struct dry *dry, struct err *err)
{
    const struct housekeep_state *state = &dry->state;
    int64_t keep_day =
        housekeep_keep_day(state->now_ms / DATE_MS, state->newest_day, dry->rules->keep_months);
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < dry->count; i++) {
        struct housekeep_next next =
            housekeep_next_drop(dry->parts + i, dry->count - i, state->begin_day, keep_day);

        if (next.act == HOUSEKEEP_NOTHING)
            break;
        rc = part_tell(dry, HOUSEKEEP_WOULD_DROP, &next.part, &next.part, err);
    }
    return rc;
}

static enum rc dry_delete(struct dry *dry, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < HOUSEKEEP_KINDS; i++) {
        enum housekeep_kind kind = (enum housekeep_kind)i;
        struct housekeep_would would = {
            .deed = HOUSEKEEP_WOULD_DELETE,
            .name = housekeep_kind_name(kind),
            .keep_days = dry->rules->keep_days[i],
        };

        if (would.keep_days == 0)
            continue;
        rc = dry->store->count_old(dry->store->ctx, kind, would.keep_days, HOUSEKEEP_DRY_ROWS_MAX,
                                   &would.rows, err);
        if (rc == RC_OK && would.rows > 0)
            dry->on_would(dry->ctx, &would);
    }
    return rc;
}

enum rc housekeep_dry(const struct housekeep_store *store, const struct housekeep_rules *rules,
                      housekeep_on_would on_would, void *ctx, struct err *err)
{
    struct dry dry = {.store = store, .rules = rules, .on_would = on_would, .ctx = ctx};
    enum rc rc;

    dry.parts = calloc(HOUSEKEEP_PARTS_MAX, sizeof(*dry.parts));
    if (!dry.parts)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    rc = store->look(store->ctx, &dry.state, err);
    if (rc == RC_OK)
        rc = store->read_parts(store->ctx, dry.parts, HOUSEKEEP_PARTS_MAX, &dry.count, err);
    if (rc == RC_OK)
        rc = dry_make(&dry, err);
    if (rc == RC_OK)
        rc = dry_drop(&dry, err);
    if (rc == RC_OK)
        rc = dry_delete(&dry, err);
    free(dry.parts);
    return rc;
}
