/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_sink.h"

#include "consumer/apply/date.h"

#include <assert.h>
#include <string.h>

/* 1526: no partition for this value. */
#define REFUSED_CODE 1526

static enum rc fake_ping(void *ctx, struct err *err)
{
    struct fake_sink *fake = ctx;

    return fake_call(&fake->session, err);
}

static uint64_t fake_connects(void *ctx)
{
    struct fake_sink *fake = ctx;

    return fake->session.connects(fake->session.hooks.ctx);
}

static enum rc begin_transaction(void *ctx, struct err *err)
{
    struct fake_sink *fake = ctx;

    fake->op = FAKE_SINK_OTHER;
    return fake_begin(&fake->session, err);
}

static enum rc commit_transaction(void *ctx, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc;

    fake->op = FAKE_SINK_COMMIT;
    rc = fake_commit(&fake->session, err);
    fake->op = FAKE_SINK_OTHER;
    return rc;
}

static void roll_back(void *ctx)
{
    struct fake_sink *fake = ctx;

    fake_rollback(&fake->session);
}

static void settle_progress(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_sink_tables *tables = ctx;
    struct fake_progress *progress = (struct fake_progress *)row;

    if (commit && tables->on_progress)
        tables->on_progress(tables->ctx, progress);
    if (commit)
        progress->old = progress->now;
    else
        progress->now = progress->old;
}

static void write_progress(struct fake_sink *fake, struct fake_progress *progress)
{
    fake_wrote(&fake->session, &progress->row, settle_progress, fake->tables);
}

static struct fake_progress *progress_of(const struct fake_sink *fake, int32_t partition)
{
    assert(partition >= 0 && partition < fake->tables->partition_count);
    return &fake->tables->progress[partition];
}

static enum rc lock_progress(struct fake_sink *fake, int32_t partition, struct progress_row *row,
                             struct err *err)
{
    struct fake_progress *progress = progress_of(fake, partition);
    enum rc rc = RC_OK;

    if (!fake->progress_unlocked)
        rc = fake_lock(&fake->session, &progress->row, err);
    if (rc != RC_OK)
        return rc;
    if (progress->now.row.found)
        *row = progress->now.row;
    row->found = progress->now.row.found;
    return RC_OK;
}

static enum rc keep_begin(struct fake_sink *fake, struct progress_row *rows, size_t count,
                          struct err *err)
{
    int64_t begin_day = 0;
    enum rc rc = fake->lock_begin(fake->ctx, &begin_day, err);

    for (size_t i = 0; i < count; i++)
        rows[i].begin_day = begin_day;
    return rc;
}

/* Locks the rows in the order of their keys, in any order of the arguments. */
static enum rc fake_lock_progress(void *ctx, const struct place *places, struct progress_row *rows,
                                  size_t count, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (int32_t partition = 0; partition < fake->tables->partition_count; partition++)
        for (size_t i = 0; rc == RC_OK && i < count; i++)
            if (places[i].partition == partition)
                rc = lock_progress(fake, partition, &rows[i], err);
    if (rc == RC_OK)
        rc = keep_begin(fake, rows, count, err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_make_progress(void *ctx, const struct place *place, struct progress_row *row,
                                  struct err *err)
{
    struct fake_sink *fake = ctx;
    struct fake_progress *progress = progress_of(fake, place->partition);
    enum rc rc = fake_call(&fake->session, err);

    if (rc == RC_OK)
        rc = fake_lock(&fake->session, &progress->row, err);
    if (rc != RC_OK)
        return rc;
    if (!progress->now.row.found) {
        write_progress(fake, progress);
        progress->now.row = (struct progress_row){
            .next_offset = OFFSET_BEGINNING, .leader_epoch = -1, .found = true};
    }
    *row = progress->now.row;
    rc = keep_begin(fake, row, 1, err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_lock_log_begin(void *ctx, int64_t *begin_day, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    if (rc == RC_OK)
        rc = fake->lock_begin(fake->ctx, begin_day, err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_own_progress(void *ctx, const struct place *place,
                                 const struct progress_row *row, struct err *err)
{
    struct fake_sink *fake = ctx;
    struct fake_progress *progress = progress_of(fake, place->partition);
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    write_progress(fake, progress);
    progress->now.row.epoch = row->epoch;
    memcpy(progress->now.row.owner, row->owner, sizeof(row->owner));
    memcpy(progress->now.row.topic_id, row->topic_id, sizeof(row->topic_id));
    if (fake->on_own)
        fake->on_own(fake->ctx, progress);
    return fake_answer(&fake->session, err);
}

static enum rc fake_move_progress(void *ctx, const struct place *places,
                                  const struct progress_row *rows, size_t count, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_progress *progress = progress_of(fake, places[i].partition);

        if (fake->on_move)
            fake->on_move(fake->ctx, progress, &rows[i]);
        write_progress(fake, progress);
        progress->now.row.next_offset = rows[i].next_offset;
        progress->now.row.leader_epoch = rows[i].leader_epoch;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static void settle_tally(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_sink_tables *tables = ctx;
    struct fake_tally *tally = (struct fake_tally *)row;

    if (commit && tables->on_tally)
        tables->on_tally(tables->ctx, tally);
    if (commit)
        tally->old = tally->now;
    else
        tally->now = tally->old;
}

static void write_tally(struct fake_sink *fake, struct fake_tally *tally, int64_t votes,
                        int64_t seq)
{
    fake_wrote(&fake->session, &tally->row, settle_tally, fake->tables);
    tally->now.found = true;
    tally->now.votes = votes;
    tally->now.seq = seq;
    tally->now.changed_ms = fake_now_ms(&fake->session);
}

/* A row that is not there is not locked: another transaction may make it. */
static enum rc fake_lock_tallies(void *ctx, struct tally_row *rows, size_t count, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_tally *tally = &fake->tables->tallies[rows[i].content_id];

        assert(i == 0 || rows[i - 1].content_id < rows[i].content_id);
        rows[i].found = false;
        if (!tally->now.found)
            continue;
        rc = fake_lock(&fake->session, &tally->row, err);
        if (rc != RC_OK || !tally->now.found)
            continue;
        rows[i].found = true;
        rows[i].votes = tally->now.votes;
        rows[i].seq = tally->now.seq;
        rows[i].ended = tally->now.ended;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_make_tallies(void *ctx, const struct tally_row *rows, size_t count,
                                 struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_tally *tally = &fake->tables->tallies[rows[i].content_id];

        if (rows[i].found)
            continue;
        rc = fake_lock(&fake->session, &tally->row, err);
        if (rc == RC_OK && !tally->now.found)
            write_tally(fake, tally, 0, 0);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_write_tallies(void *ctx, const struct tally_row *rows, size_t count,
                                  struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && fake->refuses_tally && i < count; i++)
        if (rows[i].changed && fake->refuses_tally(fake->ctx, &rows[i]))
            return err_fail(err, RC_REJECT, REFUSED_CODE, "the total is refused");
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_tally *tally = &fake->tables->tallies[rows[i].content_id];

        if (!rows[i].changed)
            continue;
        rc = fake_lock(&fake->session, &tally->row, err);
        if (rc == RC_OK)
            write_tally(fake, tally, rows[i].votes, rows[i].seq);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_end_tallies(void *ctx, const struct tally_row *rows, size_t count,
                                struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_tally *tally = &fake->tables->tallies[rows[i].content_id];

        if (!rows[i].ends)
            continue;
        rc = fake_lock(&fake->session, &tally->row, err);
        if (rc != RC_OK || !tally->now.found || tally->now.ended)
            continue;
        fake_wrote(&fake->session, &tally->row, settle_tally, fake->tables);
        tally->now.ended = true;
        tally->now.ended_ms = fake_now_ms(&fake->session);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static void settle_last(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_last *last = (struct fake_last *)row;

    (void)ctx;
    if (commit)
        last->old = last->now;
    else
        last->now = last->old;
}

static struct fake_last *last_of(const struct fake_sink *fake, const struct last_row *row)
{
    return fake->tables->last_of(fake->tables->ctx, row->content_id, row->voter_id);
}

/* A consistent read: committed rows, and the rows that this transaction has written. */
static enum rc fake_read_lasts(void *ctx, struct last_row *rows, size_t count, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct fake_last *last = last_of(fake, &rows[i]);
        const struct last_row *seen =
            fake_owns(&fake->session, &last->row) ? &last->now : &last->old;

        rows[i].found = seen->found;
        rows[i].voting = seen->voting;
        rows[i].occurred_ms = seen->occurred_ms;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_write_lasts(void *ctx, const struct last_row *rows, size_t count,
                                struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_last *last = last_of(fake, &rows[i]);

        if (!rows[i].changed)
            continue;
        rc = fake_lock(&fake->session, &last->row, err);
        if (rc != RC_OK)
            break;
        fake_wrote(&fake->session, &last->row, settle_last, fake->tables);
        last->now = rows[i];
        last->now.found = true;
        last->now.changed = false;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static void settle_vote(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_sink_tables *tables = ctx;
    struct fake_vote *vote = (struct fake_vote *)row;

    if (!commit) {
        vote->now_found = vote->old_found;
        return;
    }
    if (tables->on_vote)
        tables->on_vote(tables->ctx, vote);
    vote->old_found = true;
}

static struct fake_vote *vote_of(const struct fake_sink *fake, const struct vote_row *row)
{
    return fake->tables->vote_of(fake->tables->ctx, &row->event.event_id);
}

/* *duplicate: the log has the event. */
static enum rc insert_vote(struct fake_sink *fake, const struct vote_row *row, bool *duplicate,
                           struct err *err)
{
    struct fake_vote *vote = vote_of(fake, row);
    enum rc rc = fake_lock(&fake->session, &vote->row, err);

    if (rc != RC_OK)
        return rc;
    *duplicate = vote->now_found && !fake->duplicates_taken;
    if (*duplicate)
        return RC_OK;
    fake_wrote(&fake->session, &vote->row, settle_vote, fake->tables);
    vote->now_found = true;
    vote->vote = *row;
    vote->day = row->event.occurred_ms / MS_PER_DAY;
    vote->id = fake->tables->vote_id_next++;
    return RC_OK;
}

/* A statement that is refused has written nothing. */
static enum rc fake_insert_votes(void *ctx, const struct vote_row *rows, size_t count,
                                 bool *duplicate, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    *duplicate = false;
    for (size_t i = 0; rc == RC_OK && fake->refuses_vote && i < count; i++)
        if (!rows[i].skip && fake->refuses_vote(fake->ctx, &rows[i]))
            return err_fail(err, RC_REJECT, REFUSED_CODE, "the log does not take it");
    if (rc == RC_OK && fake->use_log)
        rc = fake->use_log(fake->ctx, err);
    for (size_t i = 0; rc == RC_OK && i < count && !*duplicate; i++)
        if (!rows[i].skip)
            rc = insert_vote(fake, &rows[i], duplicate, err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

/* A consistent read: committed rows, and the rows that this transaction has written. */
static enum rc fake_find_events(void *ctx, const struct vote_row *rows, size_t count,
                                void (*on_found)(void *found_ctx, const struct id *event_id),
                                void *found_ctx, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc;

    fake->op = FAKE_SINK_FIND_EVENTS;
    rc = fake_call(&fake->session, err);
    fake->op = FAKE_SINK_OTHER;
    if (rc == RC_OK && fake->use_log)
        rc = fake->use_log(fake->ctx, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct fake_vote *vote;

        if (rows[i].skip)
            continue;
        vote = vote_of(fake, &rows[i]);
        if (vote->old_found || (vote->now_found && fake_owns(&fake->session, &vote->row)))
            on_found(found_ctx, &rows[i].event.event_id);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

enum fake_dead_class fake_dead_class_of(const char *reason_class)
{
    if (strcmp(reason_class, REASON_REFUSED) == 0)
        return FAKE_DEAD_REFUSED;
    if (strcmp(reason_class, "too_old") == 0)
        return FAKE_DEAD_TOO_OLD;
    return strcmp(reason_class, REASON_BEHIND) == 0 ? FAKE_DEAD_BEHIND : FAKE_DEAD_NEVER;
}

bool fake_dead_is_held(const struct fake_dead_version *dead)
{
    return dead->found && (dead->class == FAKE_DEAD_REFUSED || dead->class == FAKE_DEAD_BEHIND);
}

static void settle_dead(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_sink_tables *tables = ctx;
    struct fake_dead_row *dead = (struct fake_dead_row *)row;

    if (tables->on_dead)
        tables->on_dead(tables->ctx, dead, commit);
    if (commit)
        dead->old = dead->now;
    else
        dead->now = dead->old;
}

void fake_dead_write(struct fake_sink_tables *tables, const struct fake_session *session,
                     struct fake_dead_row *dead)
{
    fake_wrote(session, &dead->row, settle_dead, tables);
}

static enum rc fake_insert_dead(void *ctx, const struct place *place, const struct dead_row *row,
                                int64_t *id, struct err *err)
{
    struct fake_sink *fake = ctx;
    struct fake_sink_tables *tables = fake->tables;
    struct fake_dead_row *dead;
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    dead = tables->dead_of(tables->ctx, place->partition, row->offset);
    rc = fake_lock(&fake->session, &dead->row, err);
    if (rc != RC_OK)
        return rc;
    if (id)
        *id = dead->now.found ? 0 : dead->id;
    if (dead->now.found)
        return fake_answer(&fake->session, err);
    fake_dead_write(tables, &fake->session, dead);
    dead->now = (struct fake_dead_version){true, fake_dead_class_of(row->reason_class)};
    if (fake->on_dead)
        fake->on_dead(fake->ctx, dead, row);
    return fake_answer(&fake->session, err);
}

/* As the transaction sees it. */
static const struct fake_dead_version *see_dead(const struct fake_sink *fake,
                                                const struct fake_dead_row *dead)
{
    return fake_owns(&fake->session, &dead->row) ? &dead->now : &dead->old;
}

static enum rc fake_read_held(void *ctx, const struct place *place,
                              void (*on_content)(void *content_ctx, int64_t content_id),
                              void *content_ctx, struct err *err)
{
    struct fake_sink *fake = ctx;
    const struct fake_sink_tables *tables = fake->tables;
    const struct fake_dead_row *dead = NULL;
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    while ((dead = tables->next_dead(tables->ctx, place->partition, dead ? dead->offset : -1)))
        if (fake_dead_is_held(see_dead(fake, dead)))
            on_content(content_ctx, tables->dead_content(tables->ctx, dead));
    return fake_answer(&fake->session, err);
}

static enum rc fake_count_dead(void *ctx, const struct place *place, int64_t max, int64_t *count,
                               struct err *err)
{
    struct fake_sink *fake = ctx;
    const struct fake_sink_tables *tables = fake->tables;
    const struct fake_dead_row *dead = NULL;
    enum rc rc = fake_call(&fake->session, err);

    *count = 0;
    if (rc != RC_OK)
        return rc;
    while (*count < max &&
           (dead = tables->next_dead(tables->ctx, place->partition, dead ? dead->offset : -1)))
        *count += see_dead(fake, dead)->found;
    return fake_answer(&fake->session, err);
}

struct sink fake_sink_ops(struct fake_sink *fake)
{
    return (struct sink){
        .ctx = fake,
        .ping = fake_ping,
        .session = fake_connects,
        .begin = begin_transaction,
        .make_progress = fake_make_progress,
        .lock_progress = fake_lock_progress,
        .lock_log_begin = fake_lock_log_begin,
        .own_progress = fake_own_progress,
        .move_progress = fake_move_progress,
        .lock_tallies = fake_lock_tallies,
        .make_tallies = fake_make_tallies,
        .write_tallies = fake_write_tallies,
        .end_tallies = fake_end_tallies,
        .read_lasts = fake_read_lasts,
        .write_lasts = fake_write_lasts,
        .insert_votes = fake_insert_votes,
        .find_events = fake_find_events,
        .insert_dead = fake_insert_dead,
        .read_held = fake_read_held,
        .count_dead = fake_count_dead,
        .commit = commit_transaction,
        .rollback = roll_back,
    };
}
