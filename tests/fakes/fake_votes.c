/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_votes.h"

#include "schema/vote_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CODE_COLLISION 1213
#define CODE_AWAY 2006

static enum rc call(struct fake_votes *fake, struct err *err)
{
    bool fails = ++fake->calls == fake->fail_at;

    if (!fake->away && !fails)
        return RC_OK;
    return err_fail(err, fails ? fake->fail_rc : RC_RETRY,
                    fake->collides ? CODE_COLLISION : CODE_AWAY, "call %u fails", fake->calls);
}

static struct vote_count_row *count_find(struct fake_tables *tables, int64_t content_id)
{
    for (size_t i = 0; i < tables->count_count; i++)
        if (tables->counts[i].content_id == content_id)
            return &tables->counts[i];
    return NULL;
}

static struct vote_state_row *state_find(struct fake_tables *tables, int64_t voter_id,
                                         int64_t content_id)
{
    for (size_t i = 0; i < tables->state_count; i++)
        if (tables->states[i].voter_id == voter_id && tables->states[i].content_id == content_id)
            return &tables->states[i];
    return NULL;
}

/* Copies only existing rows, because every transaction does this. */
static void tables_copy(struct fake_tables *to, const struct fake_tables *from)
{
    memcpy(to->counts, from->counts, from->count_count * sizeof(from->counts[0]));
    memcpy(to->states, from->states, from->state_count * sizeof(from->states[0]));
    memcpy(to->events, from->events, from->event_count * sizeof(from->events[0]));
    to->count_count = from->count_count;
    to->state_count = from->state_count;
    to->event_count = from->event_count;
}

static enum rc fake_ping(void *ctx, struct err *err)
{
    struct fake_votes *fake = ctx;

    assert_false(fake->open);
    return fake->away ? err_fail(err, RC_RETRY, CODE_AWAY, "the database is away") : RC_OK;
}

static enum rc fake_begin(void *ctx, struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc;

    assert_false(fake->open);
    if (fake->before_begin)
        fake->before_begin(fake);
    rc = call(fake, err);
    fake->open = rc == RC_OK;
    if (fake->open)
        tables_copy(fake->work, fake->committed);
    return rc;
}

static enum rc fake_lock_counts(void *ctx, struct vote_count_row *counts, size_t count,
                                struct err *err)
{
    struct fake_votes *fake = ctx;

    assert_true(fake->open);
    for (size_t i = 0; i < count; i++) {
        struct vote_count_row *row = count_find(fake->work, counts[i].content_id);

        assert_true(i == 0 || counts[i - 1].content_id < counts[i].content_id);
        if (row) {
            counts[i].votes = row->votes;
            counts[i].found = true;
        }
    }
    return call(fake, err);
}

static enum rc fake_make_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                struct err *err)
{
    struct fake_votes *fake = ctx;

    assert_true(fake->open);
    for (size_t i = 0; i < count; i++) {
        if (!counts[i].wanted || count_find(fake->work, counts[i].content_id))
            continue;
        assert_true(fake->work->count_count < FAKE_COUNTS_MAX);
        fake->work->counts[fake->work->count_count++] =
            (struct vote_count_row){.content_id = counts[i].content_id};
    }
    return call(fake, err);
}

static enum rc fake_read_states(void *ctx, struct vote_state_row *states, size_t count,
                                int64_t *now_ms, struct err *err)
{
    struct fake_votes *fake = ctx;

    assert_true(fake->open);
    *now_ms = fake->now_ms;
    for (size_t i = 0; i < count; i++) {
        const struct vote_state_row *row =
            state_find(fake->work, states[i].voter_id, states[i].content_id);

        if (row) {
            states[i] = *row;
            states[i].changed = false;
        }
    }
    return call(fake, err);
}

static enum rc fake_write_states(void *ctx, const struct vote_state_row *states, size_t count,
                                 struct err *err)
{
    struct fake_votes *fake = ctx;

    assert_true(fake->open);
    for (size_t i = 0; i < count; i++) {
        struct vote_state_row *row;

        if (!states[i].changed)
            continue;
        if (states[i].voter_id == fake->refused_voter)
            return err_fail(err, RC_REJECT, 1644, "voter %lld is refused",
                            (long long)states[i].voter_id);
        row = state_find(fake->work, states[i].voter_id, states[i].content_id);
        if (!row) {
            assert_true(fake->work->state_count < FAKE_STATES_MAX);
            row = &fake->work->states[fake->work->state_count++];
        }
        *row = states[i];
    }
    return call(fake, err);
}

static enum rc fake_write_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                 struct err *err)
{
    struct fake_votes *fake = ctx;

    assert_true(fake->open);
    for (size_t i = 0; i < count; i++) {
        struct vote_count_row *row = count_find(fake->work, counts[i].content_id);

        if (!counts[i].changed)
            continue;
        assert_non_null(row);
        row->votes = counts[i].votes;
    }
    return call(fake, err);
}

static void event_add(struct fake_votes *fake, const char *lane, const struct outbox_event *event)
{
    struct vote_event read = {.votes = -2};
    struct fake_event *kept = &fake->work->events[fake->work->event_count++];
    struct err err = {0};

    assert_true(fake->work->event_count <= FAKE_EVENTS_MAX);
    if (vote_event_decode(&read, event->payload, event->payload_len, &err) != RC_OK)
        fail_msg("%s", err.text);
    assert_memory_equal(&read.event_id, &event->id, sizeof(event->id));
    assert_int_equal(read.occurred_ms, fake->now_ms);
    assert_int_equal(strtoll(event->aggregate_id, NULL, 10), read.content_id);
    assert_string_equal(event->aggregate_type, "vote");
    assert_string_equal(event->type, "VoteChanged");
    *kept = (struct fake_event){.id = event->id,
                                .voter_id = read.voter_id,
                                .content_id = read.content_id,
                                .votes = read.votes,
                                .voting = read.voting};
    snprintf(kept->lane, sizeof(kept->lane), "%s", lane);
    snprintf(kept->headers, sizeof(kept->headers), "%s", event->headers ? event->headers : "");
}

static enum rc fake_append(void *ctx, const char *lane, const struct outbox_event *events,
                           size_t count, struct err *err)
{
    struct fake_votes *fake = ctx;

    assert_true(fake->open);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        event_add(fake, lane, &events[i]);
    return call(fake, err);
}

static enum rc fake_commit(void *ctx, struct err *err)
{
    struct fake_votes *fake = ctx;
    enum fake_commit how = fake->next;
    enum rc rc = call(fake, err);

    assert_true(fake->open);
    fake->open = false;
    fake->next = FAKE_COMMIT_WORKS;
    if (rc != RC_OK)
        return rc;
    if (how != FAKE_COMMIT_LOST_BEFORE) {
        tables_copy(fake->committed, fake->work);
        fake->commits++;
    }
    if (how == FAKE_COMMIT_WORKS)
        return RC_OK;
    return err_fail(err, RC_RETRY, CODE_AWAY, "the answer to COMMIT is lost");
}

static void fake_rollback(void *ctx)
{
    struct fake_votes *fake = ctx;

    fake->open = false;
}

static bool fake_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == CODE_COLLISION;
}

void fake_votes_init(struct fake_votes *fake)
{
    *fake = (struct fake_votes){.now_ms = 1700000000000, .fail_rc = RC_RETRY};
    fake->committed = calloc(1, sizeof(*fake->committed));
    fake->work = calloc(1, sizeof(*fake->work));
    assert_non_null(fake->committed);
    assert_non_null(fake->work);
    fake->ops = (struct vote_store){
        .ctx = fake,
        .ping = fake_ping,
        .begin = fake_begin,
        .lock_counts = fake_lock_counts,
        .make_counts = fake_make_counts,
        .read_states = fake_read_states,
        .write_states = fake_write_states,
        .write_counts = fake_write_counts,
        .append = fake_append,
        .commit = fake_commit,
        .rollback = fake_rollback,
        .collided = fake_collided,
    };
}

void fake_votes_done(struct fake_votes *fake)
{
    free(fake->work);
    free(fake->committed);
}

void fake_votes_change(struct fake_votes *fake, int64_t voter_id, int64_t content_id, int voting)
{
    struct fake_tables *tables = fake->committed;
    struct vote_count_row *count = count_find(tables, content_id);
    struct vote_state_row *state = state_find(tables, voter_id, content_id);
    struct fake_event *event = &tables->events[tables->event_count++];

    assert_non_null(count);
    if (!state) {
        state = &tables->states[tables->state_count++];
        *state = (struct vote_state_row){.voter_id = voter_id, .content_id = content_id};
        state->found = true;
    }
    assert_int_not_equal(state->voting, voting);
    count->votes += voting ? 1 : -1;
    state->voting = (uint8_t)voting;
    state->version++;
    id_new(&state->event_id);
    *event = (struct fake_event){.id = state->event_id,
                                 .voter_id = voter_id,
                                 .content_id = content_id,
                                 .votes = count->votes,
                                 .voting = voting};
    snprintf(event->lane, sizeof(event->lane), "outbox");
}

int64_t fake_votes_total(const struct fake_votes *fake, int64_t content_id)
{
    const struct vote_count_row *row = count_find(fake->committed, content_id);

    return row ? row->votes : 0;
}

int fake_votes_voting(const struct fake_votes *fake, int64_t voter_id, int64_t content_id)
{
    const struct vote_state_row *row = state_find(fake->committed, voter_id, content_id);

    return row ? row->voting : 0;
}

static int id_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct id));
}

static void ids_check(const struct fake_tables *tables)
{
    struct id *ids = calloc(tables->event_count + 1, sizeof(*ids));

    assert_non_null(ids);
    for (size_t i = 0; i < tables->event_count; i++)
        ids[i] = tables->events[i].id;
    qsort(ids, tables->event_count, sizeof(*ids), id_order);
    for (size_t i = 1; i < tables->event_count; i++)
        assert_int_not_equal(id_order(&ids[i - 1], &ids[i]), 0);
    free(ids);
}

static void content_check(struct fake_tables *tables, const struct vote_count_row *count)
{
    int64_t votes = 0;
    int64_t sum = 0;

    for (size_t i = 0; i < tables->event_count; i++) {
        const struct fake_event *event = &tables->events[i];

        if (event->content_id != count->content_id)
            continue;
        votes += event->voting ? 1 : -1;
        assert_int_equal(event->votes, votes);
    }
    for (size_t i = 0; i < tables->state_count; i++) {
        if (tables->states[i].content_id == count->content_id)
            sum += tables->states[i].voting;
    }
    assert_int_equal(count->votes, votes);
    assert_int_equal(count->votes, sum);
}

static void state_check(const struct fake_tables *tables, const struct vote_state_row *state)
{
    const struct fake_event *last = NULL;
    int64_t changes = 0;

    for (size_t i = 0; i < tables->event_count; i++) {
        const struct fake_event *event = &tables->events[i];

        if (event->voter_id != state->voter_id || event->content_id != state->content_id)
            continue;
        assert_int_not_equal(last ? last->voting : 0, event->voting);
        last = event;
        changes++;
    }
    if (!last) {
        fail_msg("a state without an event");
        return;
    }
    assert_int_equal(state->version, changes);
    assert_int_equal(state->voting, last->voting);
    assert_memory_equal(&state->event_id, &last->id, sizeof(last->id));
}

void fake_votes_check(const struct fake_votes *fake)
{
    struct fake_tables *tables = fake->committed;

    ids_check(tables);
    for (size_t i = 0; i < tables->count_count; i++)
        content_check(tables, &tables->counts[i]);
    for (size_t i = 0; i < tables->state_count; i++)
        state_check(tables, &tables->states[i]);
}
