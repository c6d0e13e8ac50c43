/* SPDX-License-Identifier: MIT */
#include "consumer/apply/apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANOTHER_WRITER "another writer is logging events of this batch"

static enum rc write_claim(struct apply *apply, const struct place *place,
                           struct progress_row *progress, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct progress_row row = {0};
    enum rc rc = sink->make_progress(sink->ctx, place, &row, err);

    if (rc != RC_OK)
        return rc;
    row.epoch++;
    snprintf(row.owner, sizeof(row.owner), "%s", apply->owner);
    if (row.topic_id[0] == '\0')
        memcpy(row.topic_id, progress->topic_id, sizeof(row.topic_id));
    rc = sink->own_progress(sink->ctx, place, &row, err);
    if (rc == RC_OK)
        rc = held_read(&apply->held, sink, place, err);
    row.holds = apply->held.count > 0;
    if (rc == RC_OK)
        rc = sink->commit(sink->ctx, err);
    if (rc == RC_OK)
        *progress = row;
    return rc;
}

enum progress_fit { FIT_BEGINS, FIT_APPLIED, FIT_FENCED };

/* Compares the batch with the locked row. A batch fits if it begins at or before the row's
 * next_offset; if it began later, the records between would be skipped.
 * Invariant C1: called with the row locked, in the transaction that writes. */
static enum progress_fit progress_fit(const struct batch *batch, const char *owner, int64_t epoch,
                                      const struct progress_row *progress)
{
    /* A database that lost its last transactions may assign an epoch again, to another owner. */
    if (!progress->found || progress->epoch != epoch || strcmp(progress->owner, owner) != 0)
        return FIT_FENCED;
    if (progress->next_offset >= batch->next_offset)
        return FIT_APPLIED;
    if (batch->from_offset > progress->next_offset)
        return FIT_FENCED;
    /* Invariant C7: months were dropped since the claim, so older votes must be decided again and
     * stored whole. */
    if (progress->begin_day > batch->begin_day &&
        batch_has_older(batch, progress->begin_day, progress->next_offset))
        return FIT_FENCED;
    return FIT_BEGINS;
}

/* Whether all batches of the group begin here. If not, result tells the outcome. */
static bool group_may_begin(struct apply *apply, const struct apply_group *group,
                            struct apply_result *result)
{
    size_t counts[FIT_FENCED + 1] = {0};

    for (size_t i = 0; i < group->count; i++)
        counts[progress_fit(group->batches[i], apply->owner, group->epochs[i],
                            &group->progress[i])]++;
    if (counts[FIT_BEGINS] > 0)
        apply->commit_unknown = false;
    if (counts[FIT_BEGINS] == group->count)
        return true;
    *result = (struct apply_result){0};
    /* A COMMIT whose answer was lost is counted here, once. */
    if (counts[FIT_APPLIED] > 0 && apply->commit_unknown) {
        *result = apply->unknown_counts;
        apply->commit_unknown = false;
    }
    if (counts[FIT_APPLIED] == group->count)
        result->end = APPLY_DONE;
    else
        result->end = group->count > 1 ? APPLY_APART : APPLY_FENCED;
    return false;
}

/* Invariant C6: the totals are computed from the rows that this transaction locks and reads. */
static enum rc lock_tallies(struct apply *apply, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct tally *tally = &apply->tally;
    bool all = true;
    enum rc rc = sink->lock_tallies(sink->ctx, tally->rows, tally->count, err);

    for (size_t i = 0; i < tally->count; i++)
        all = all && tally->rows[i].found;
    if (rc != RC_OK || all)
        return rc;
    /* Another writer may insert the same rows at the same time, so insert first and then lock. */
    rc = sink->make_tallies(sink->ctx, tally->rows, tally->count, err);
    if (rc == RC_OK)
        rc = sink->lock_tallies(sink->ctx, tally->rows, tally->count, err);
    for (size_t i = 0; rc == RC_OK && i < tally->count; i++)
        if (!tally->rows[i].found)
            rc =
                err_fail(err, RC_RETRY, 0, "the total of content %" PRId64 " was deleted meanwhile",
                         tally->rows[i].content_id);
    return rc;
}

struct search {
    struct event_set *events;
    size_t skipped;
};

static void on_event_found(void *ctx, const struct id *event_id)
{
    struct search *search = ctx;

    search->skipped += event_set_skip(search->events, event_id);
}

static enum rc skip_duplicates(struct apply *apply, struct vote_row *rows, size_t count,
                               size_t *skipped, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct search search = {.events = &apply->events};
    enum rc rc;

    search.skipped = event_set_collect(&apply->events, rows, count);
    rc = sink->find_events(sink->ctx, rows, count, on_event_found, &search, err);
    *skipped = search.skipped;
    return rc;
}

static enum rc skip_stale(struct apply *apply, struct vote_row *rows, size_t count, size_t *stale,
                          struct err *err)
{
    const struct sink *sink = apply->sink;
    struct lasts *lasts = &apply->lasts;
    enum rc rc;

    lasts_collect(lasts, rows, count);
    rc = sink->read_lasts(sink->ctx, lasts->rows, lasts->count, err);
    if (rc == RC_OK)
        *stale += lasts_decide(lasts, rows, count);
    return rc;
}

/* Invariant C13: a tally ends in the transaction that moves the offset past its tombstone, and the
 * votes behind the tombstone are stale, now and later. */
static enum rc end_tallies(struct apply *apply, struct vote_row *rows, size_t count,
                           struct apply_result *counts, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct tally *tally = &apply->tally;

    counts->ended = tally_end(tally, rows, count, &counts->stale);
    if (counts->ended == 0)
        return RC_OK;
    return sink->end_tallies(sink->ctx, tally->rows, tally->count, err);
}

static size_t count_votes(const struct vote_row *rows, size_t count)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++)
        left += !rows[i].skip;
    return left;
}

/* Invariant C3: the tallies are locked before the log is searched for duplicates and before the
 * last votes are read, so two writers of one content cannot both find an event missing. */
static enum rc write_votes(struct apply *apply, struct vote_row *rows, size_t count,
                           struct apply_result *counts, bool *duplicate, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct tally *tally = &apply->tally;
    enum rc rc;

    tally_collect(tally, rows, count);
    if (tally->count == 0)
        return RC_OK;
    rc = lock_tallies(apply, err);
    if (rc == RC_OK)
        rc = end_tallies(apply, rows, count, counts, err);
    if (rc == RC_OK && apply->search_duplicates)
        rc = skip_duplicates(apply, rows, count, &counts->duplicates, err);
    if (rc == RC_OK && apply->keeps_lasts)
        rc = skip_stale(apply, rows, count, &counts->stale, err);
    if (rc != RC_OK)
        return rc;
    if (apply->keeps_lasts)
        rc = sink->write_lasts(sink->ctx, apply->lasts.rows, apply->lasts.count, err);
    counts->applied = count_votes(rows, count);
    if (rc != RC_OK || counts->applied == 0)
        return rc;
    tally_count(tally, rows, count);
    rc = sink->insert_votes(sink->ctx, rows, count, duplicate, err);
    apply->refused = rc == RC_REJECT;
    if (rc != RC_OK || *duplicate)
        return rc;
    return sink->write_tallies(sink->ctx, tally->rows, tally->count, err);
}

/* Protects dead_record from a topic with other records. The batch that exceeds the limit is still
 * stored, so that an operator can look at its records. */
static enum rc check_dead_limit(struct apply *apply, const struct place *place, struct err *err)
{
    const struct sink *sink = apply->sink;
    int64_t max = apply->dead_max ? *apply->dead_max : 0;
    int64_t count = 0;
    enum rc rc;

    if (max == 0)
        return RC_OK;
    rc = sink->count_dead(sink->ctx, place, max, &count, err);
    if (rc != RC_OK || count < max)
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "%s/%" PRId32 " has %" PRId64
                    " dead records (consumer.dead_max) and would get more: read them with "
                    "`tallybox dead list`; then replay or drop them, correct consumer.topics, or "
                    "raise the limit; the partition then continues by itself",
                    place->topic, place->partition, count);
}

static enum rc insert_dead(struct apply *apply, const struct place *place,
                           const struct dead_row *dead, struct apply_result *counts,
                           struct err *err)
{
    const struct sink *sink = apply->sink;
    size_t class = record_class_index(dead->reason_class);
    bool first = counts->dead[class]++ == 0;

    return sink->insert_dead(sink->ctx, place, dead, first ? &counts->dead_ids[class] : NULL, err);
}

static enum rc write_dead(struct apply *apply, const struct place *place, const struct batch *batch,
                          int64_t next_offset, size_t held_count, struct apply_result *counts,
                          struct err *err)
{
    struct dead_row dead;
    enum rc rc = batch->dead_count + held_count > 0 ? check_dead_limit(apply, place, err) : RC_OK;

    for (size_t i = 0; rc == RC_OK && i < batch->dead_count; i++) {
        batch_dead_view(batch, i, &dead);
        if (dead.offset < next_offset)
            continue;
        rc = insert_dead(apply, place, &dead, counts, err);
    }
    for (size_t i = 0; rc == RC_OK && held_count > 0 && i < batch->row_count; i++) {
        const struct vote_row *row = &batch->rows[i];

        if (row->offset < next_offset || row->hold == HOLD_NONE)
            continue;
        batch_vote_view(batch, i, held_class(row), held_reason(&apply->held, row), &dead);
        rc = insert_dead(apply, place, &dead, counts, err);
    }
    return rc;
}

/* Decides which votes of a whole batch are held. */
static enum rc hold_votes(struct apply *apply, const struct place *place, struct batch *batch,
                          size_t *held_count, struct err *err)
{
    enum rc rc = held_read(&apply->held, apply->sink, place, err);

    return rc == RC_OK ? held_mark(&apply->held, batch->rows, batch->row_count, held_count, err)
                       : rc;
}

static void skip_before(struct batch *batch, int64_t next_offset)
{
    for (size_t i = 0; i < batch->row_count; i++)
        batch->rows[i].skip = batch->rows[i].offset < next_offset;
}

/* Returns the votes that are not applied yet, those of one partition in the order of their offsets.
 * Of a single batch it returns the batch's own rows and marks applied ones `skip`. Of several
 * batches it copies the votes into rows, which has room for all. */
static struct vote_row *collect_rows(struct apply_group *group, struct vote_row *rows,
                                     size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct batch *batch = group->batches[i];

        skip_before(group->batches[i], group->progress[i].next_offset);
        if (group->count == 1) {
            *count = batch->row_count;
            return batch->rows;
        }
        for (size_t k = 0; k < batch->row_count; k++)
            if (!batch->rows[k].skip)
                rows[(*count)++] = batch->rows[k];
    }
    return rows;
}

/* Invariant C2: the offsets move in the transaction that writes the rows. */
static enum rc move_progress(struct apply *apply, struct apply_group *group, struct err *err)
{
    const struct sink *sink = apply->sink;

    for (size_t i = 0; i < group->count; i++) {
        group->progress[i].next_offset = group->batches[i]->next_offset;
        group->progress[i].leader_epoch = group->batches[i]->leader_epoch;
    }
    return sink->move_progress(sink->ctx, group->places, group->progress, group->count, err);
}

/* The body of the transaction, including its COMMIT. RC_OK without a COMMIT: *duplicate is set, or
 * result->end tells why nothing was written. */
static enum rc write_group(struct apply *apply, struct apply_group *group, bool *duplicate,
                           struct apply_result *result, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct batch *first = group->batches[0]; /* the only batch if it is whole or has dead records */
    struct apply_result counts = {.end = APPLY_DONE};
    struct vote_row *rows;
    size_t count = 0;
    size_t held_count = 0;
    enum rc rc = sink->lock_progress(sink->ctx, group->places, group->progress, group->count, err);

    if (rc != RC_OK || !group_may_begin(apply, group, result))
        return rc;
    rows = collect_rows(group, apply->rows, &count);
    rc = first->whole ? hold_votes(apply, &group->places[0], first, &held_count, err) : RC_OK;
    counts.clear = first->whole && apply->held.count == 0;
    if (rc != RC_OK)
        return rc;
    rc = write_votes(apply, rows, count, &counts, duplicate, err);
    if (rc != RC_OK || *duplicate)
        return rc;
    rc = write_dead(apply, &group->places[0], first, group->progress[0].next_offset, held_count,
                    &counts, err);
    if (rc == RC_OK)
        rc = move_progress(apply, group, err);
    if (rc != RC_OK)
        return rc;
    apply->unknown_counts = counts;
    apply->commit_unknown = true;
    rc = sink->commit(sink->ctx, err);
    if (rc == RC_OK)
        *result = counts;
    return rc;
}

static enum rc try_group(struct apply *apply, struct apply_group *group, bool *duplicate,
                         struct apply_result *result, struct err *err)
{
    const struct sink *sink = apply->sink;
    enum rc rc = sink->begin(sink->ctx, err);

    if (rc != RC_OK)
        return rc;
    apply->refused = false;
    *duplicate = false;
    rc = write_group(apply, group, duplicate, result, err);
    sink->rollback(sink->ctx); /* has no effect after a COMMIT */
    return rc;
}

/* As try_group(), but repeats a group that has a duplicate with a search for duplicates. The usual
 * group has none and does not pay for the search. */
static enum rc try_group_twice(struct apply *apply, struct apply_group *group, bool *duplicate,
                               struct apply_result *result, struct err *err)
{
    enum rc rc = try_group(apply, group, duplicate, result, err);

    if (rc != RC_OK || !*duplicate || apply->search_duplicates)
        return rc;
    apply->search_duplicates = true;
    return try_group(apply, group, duplicate, result, err);
}

/* After a try: marks the votes that the database refuses. *found 0: the votes are not the cause. */
static enum rc find_refused(struct apply *apply, struct batch *batch, size_t *found,
                            struct err *err)
{
    const struct sink *sink = apply->sink;
    enum rc rc = sink->begin(sink->ctx, err);

    if (rc != RC_OK)
        return rc;
    rc = held_probe(&apply->held, sink, batch->rows, batch->row_count, found, err);
    sink->rollback(sink->ctx);
    return rc;
}

static void clear_holds(struct batch *batch)
{
    for (size_t i = 0; batch->whole && i < batch->row_count; i++)
        batch->rows[i].hold = HOLD_NONE;
}

/* After the database refused a batch: holds the votes that it refuses, if they are the cause, and
 * tries again without them. */
static enum rc hold_and_retry(struct apply *apply, struct apply_group *group, bool *duplicate,
                              struct apply_result *result, struct err *err)
{
    struct err why = {0};
    size_t found = 0;
    enum rc rc;

    if (!group->batches[0]->whole) {
        *result = (struct apply_result){.end = APPLY_AGAIN};
        return RC_OK;
    }
    rc = find_refused(apply, group->batches[0], &found, &why);
    if (rc != RC_OK) {
        *err = why;
        return rc;
    }
    return found > 0 ? try_group_twice(apply, group, duplicate, result, err) : RC_REJECT;
}

static bool has_place(const struct apply_group *group, const struct place *place)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->places[i].partition == place->partition &&
            strcmp(group->places[i].topic, place->topic) == 0)
            return true;
    return false;
}

static bool is_plain(const struct batch *batch)
{
    return !batch->whole && batch->dead_count == 0;
}

static bool may_share(const struct apply_group *group, size_t rows_max, const struct place *place,
                      const struct batch *batch)
{
    size_t rows = batch->row_count;

    if (group->count == APPLY_GROUP_MAX || !is_plain(batch) || !is_plain(group->batches[0]))
        return false;
    for (size_t i = 0; i < group->count; i++)
        rows += group->batches[i]->row_count;
    return rows <= rows_max && !has_place(group, place);
}

enum rc apply_init(struct apply *apply, const struct sink *sink, const char *owner,
                   size_t batch_rows_max, struct err *err)
{
    enum rc rc;

    memset(apply, 0, sizeof(*apply));
    apply->sink = sink;
    apply->owner = owner;
    apply->rows_max = batch_rows_max;
    apply->rows = calloc(batch_rows_max, sizeof(*apply->rows));
    if (!apply->rows)
        return err_fail(err, RC_FATAL, 0, "no memory for %zu votes", batch_rows_max);
    rc = tally_init(&apply->tally, batch_rows_max, err);
    if (rc == RC_OK)
        rc = event_set_init(&apply->events, batch_rows_max, err);
    if (rc != RC_OK)
        apply_done(apply);
    return rc;
}

void apply_done(struct apply *apply)
{
    free(apply->rows);
    apply->rows = NULL;
    tally_done(&apply->tally);
    event_set_done(&apply->events);
    lasts_done(&apply->lasts);
    held_done(&apply->held);
}

enum rc apply_keep_lasts(struct apply *apply, size_t batch_rows_max, struct err *err)
{
    enum rc rc = lasts_init(&apply->lasts, batch_rows_max, err);

    apply->keeps_lasts = rc == RC_OK;
    return rc;
}

void apply_limit_dead(struct apply *apply, const _Atomic int64_t *dead_max)
{
    apply->dead_max = dead_max;
}

enum rc apply_claim(struct apply *apply, const struct place *place, struct progress_row *progress,
                    struct err *err)
{
    const struct sink *sink = apply->sink;
    enum rc rc = sink->begin(sink->ctx, err);

    if (rc != RC_OK)
        return rc;
    rc = write_claim(apply, place, progress, err);
    if (rc != RC_OK)
        sink->rollback(sink->ctx);
    return rc;
}

bool apply_group_add(struct apply_group *group, size_t rows_max, const struct place *place,
                     int64_t epoch, struct batch *batch)
{
    if (group->count > 0 && !may_share(group, rows_max, place, batch))
        return false;
    group->batches[group->count] = batch;
    group->places[group->count] = *place;
    group->epochs[group->count] = epoch;
    group->count++;
    return true;
}

enum rc apply_group(struct apply *apply, struct apply_group *group, struct apply_result *result,
                    struct err *err)
{
    bool duplicate = false;
    enum rc rc;

    clear_holds(group->batches[0]);
    rc = try_group_twice(apply, group, &duplicate, result, err);
    if (rc == RC_REJECT && group->count > 1) {
        *result = (struct apply_result){.end = APPLY_APART};
        return RC_OK;
    }
    if (rc == RC_REJECT && apply->refused)
        rc = hold_and_retry(apply, group, &duplicate, result, err);
    if (rc == RC_OK && duplicate)
        return err_fail(err, RC_RETRY, 0, ANOTHER_WRITER);
    if (rc != RC_OK || result->end != APPLY_DONE)
        return rc;
    apply->commit_unknown = false;
    apply->search_duplicates = result->duplicates > 0;
    return RC_OK;
}

enum rc apply_batch(struct apply *apply, const struct place *place, int64_t epoch,
                    struct batch *batch, struct apply_result *result, struct err *err)
{
    struct apply_group group = {0};

    apply_group_add(&group, apply->rows_max, place, epoch, batch);
    return apply_group(apply, &group, result, err);
}

void apply_forget(struct apply *apply)
{
    apply->commit_unknown = false;
}

enum rc apply_votes(struct apply *apply, struct vote_row *rows, size_t count,
                    struct apply_result *result, struct err *err)
{
    bool duplicate = false;
    enum rc rc;

    *result = (struct apply_result){.end = APPLY_DONE};
    apply->search_duplicates = true;
    rc = write_votes(apply, rows, count, result, &duplicate, err);
    if (rc == RC_OK && duplicate)
        return err_fail(err, RC_RETRY, 0, ANOTHER_WRITER);
    return rc;
}
