/* SPDX-License-Identifier: MIT */
#include "tests/flow/votes_fixture.h"

#include "schema/vote_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CODE_COLLISION 1213
#define CODE_AWAY 2006

static enum rc fail_call(const struct votes_db *db, enum rc rc, struct err *err)
{
    return err_fail(err, rc, db->collides ? CODE_COLLISION : CODE_AWAY, "call %u fails", db->calls);
}

static enum rc count_call(void *ctx, struct err *err)
{
    struct votes_db *db = ctx;

    if (db->fake.op == FAKE_VOTES_PING)
        return db->away ? err_fail(err, RC_RETRY, CODE_AWAY, "the database is away") : RC_OK;
    if (db->fake.op == FAKE_VOTES_BEGIN && db->before_begin)
        db->before_begin(db);
    if (++db->calls == db->fail_at)
        return fail_call(db, db->fail_rc, err);
    if (db->away)
        return fail_call(db, RC_RETRY, err);
    if (db->fake.op != FAKE_VOTES_COMMIT || db->next != VOTES_COMMIT_LOST_BEFORE)
        return RC_OK;
    db->next = VOTES_COMMIT_WORKS;
    return err_fail(err, RC_RETRY, CODE_AWAY, "the answer to COMMIT is lost");
}

static enum rc get_answer(void *ctx, struct err *err)
{
    struct votes_db *db = ctx;
    enum votes_commit how = db->next;

    if (db->fake.op != FAKE_VOTES_COMMIT)
        return RC_OK;
    db->commits++;
    db->next = VOTES_COMMIT_WORKS;
    if (how == VOTES_COMMIT_WORKS)
        return RC_OK;
    return err_fail(err, RC_RETRY, CODE_AWAY, "the answer to COMMIT is lost");
}

static int64_t read_clock(void *ctx)
{
    const struct votes_db *db = ctx;

    return db->now_ms;
}

/* A place that has no row is at the end. */
static struct fake_count *count_of(void *ctx, int64_t content_id)
{
    struct votes_db *db = ctx;
    struct fake_count *count = db->tables->counts;

    if (content_id == db->missed_content) {
        static struct fake_count missed;

        db->missed_content = 0;
        missed = (struct fake_count){.content_id = content_id};
        return &missed;
    }
    for (; count->now.found; count++) {
        if (count->content_id == content_id)
            return count;
        assert_true(count < &db->tables->counts[VOTES_COUNTS_MAX - 1]);
    }
    count->content_id = content_id;
    return count;
}

static struct fake_state *state_of(void *ctx, int64_t voter_id, int64_t content_id)
{
    const struct votes_db *db = ctx;
    struct fake_state *state = db->tables->states;

    for (; state->now.found; state++) {
        if (state->now.voter_id == voter_id && state->now.content_id == content_id)
            return state;
        assert_true(state < &db->tables->states[VOTES_STATES_MAX - 1]);
    }
    return state;
}

static void event_add(struct votes_db *db, const char *lane, const struct outbox_event *event)
{
    struct vote_event read = {.votes = -2};
    struct votes_event *kept = &db->tables->events[db->tables->event_end++];
    struct err err = {0};

    assert_true(db->tables->event_end <= VOTES_EVENTS_MAX);
    assert_string_equal(event->aggregate_type, "vote");
    if (!event->payload) {
        assert_string_equal(event->type, "ContentDeleted");
        *kept = (struct votes_event){
            .id = event->id, .content_id = strtoll(event->aggregate_id, NULL, 10), .ends = true};
        snprintf(kept->lane, sizeof(kept->lane), "%s", lane);
        return;
    }
    if (vote_event_decode(&read, event->payload, event->payload_len, &err) != RC_OK)
        fail_msg("%s", err.text);
    assert_memory_equal(&read.event_id, &event->id, sizeof(event->id));
    assert_int_equal(read.occurred_ms, db->now_ms);
    assert_int_equal(strtoll(event->aggregate_id, NULL, 10), read.content_id);
    assert_string_equal(event->type, "VoteChanged");
    *kept = (struct votes_event){.id = event->id,
                                 .voter_id = read.voter_id,
                                 .content_id = read.content_id,
                                 .votes = read.votes,
                                 .voting = read.voting};
    snprintf(kept->lane, sizeof(kept->lane), "%s", lane);
    snprintf(kept->headers, sizeof(kept->headers), "%s", event->headers ? event->headers : "");
}

static void settle_events(void *ctx, struct fake_row *row, bool commit)
{
    struct votes_tables *tables = ctx;

    (void)row;
    if (commit)
        tables->event_count = tables->event_end;
    else
        tables->event_end = tables->event_count;
}

static void append(void *ctx, const char *lane, const struct outbox_event *events, size_t count)
{
    struct votes_db *db = ctx;
    struct err err;

    assert_true(count > 0);
    assert_int_equal(fake_lock(&db->fake.session, &db->tables->outbox, &err), RC_OK);
    fake_wrote(&db->fake.session, &db->tables->outbox, settle_events, db->tables);
    for (size_t i = 0; i < count; i++)
        event_add(db, lane, &events[i]);
}

static bool is_refused(void *ctx, const struct vote_state_row *state)
{
    const struct votes_db *db = ctx;

    return state->voter_id == db->refused_voter;
}

/* As count_of(). */
static struct fake_deletion *find_deletion(const struct votes_db *db, int64_t content_id)
{
    struct votes_tables *tables = db->tables;
    size_t at = 0;

    while (tables->deleted[at].deletion.now.found && tables->deleted[at].content_id != content_id)
        assert_true(++at < VOTES_DELETED_MAX);
    tables->deleted[at].content_id = content_id;
    return &tables->deleted[at].deletion;
}

static struct fake_deletion *deletion_of(void *ctx, int64_t content_id)
{
    return find_deletion(ctx, content_id);
}

/* The lock orders the deletion among the votes of the content. */
static void check_close(void *ctx, int64_t content_id)
{
    const struct votes_db *db = ctx;

    assert_true(fake_owns(&db->fake.session, &count_of(ctx, content_id)->row));
}

/* Invariant P6. */
static void check_deletion(const struct votes_db *db, int64_t content_id)
{
    assert_false(db->alone.open);
    assert_true(find_deletion(db, content_id)->old.found);
}

/* The last row fills the gap. */
static enum rc delete_states(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                             struct err *err)
{
    const struct votes_db *db = ctx;
    struct fake_state *states = db->tables->states;
    size_t deleted = 0;
    size_t at = 0;
    size_t end = 0;

    (void)err;
    check_deletion(db, content_id);
    while (states[end].old.found)
        end++;
    while (at < end && deleted < rows_max) {
        if (states[at].old.content_id != content_id) {
            at++;
            continue;
        }
        states[at] = states[--end];
        states[end] = (struct fake_state){.row = {NULL}};
        deleted++;
    }
    *count = deleted;
    return RC_OK;
}

static enum rc delete_count(void *ctx, int64_t content_id, struct err *err)
{
    const struct votes_db *db = ctx;
    struct fake_count *counts = db->tables->counts;
    size_t end = 0;

    (void)err;
    check_deletion(db, content_id);
    while (counts[end].old.found)
        end++;
    for (size_t at = 0; at < end; at++) {
        if (counts[at].content_id != content_id)
            continue;
        counts[at] = counts[end - 1];
        counts[end - 1] = (struct fake_count){.content_id = 0};
        break;
    }
    return RC_OK;
}

void votes_db_init(struct votes_db *db)
{
    *db = (struct votes_db){.now_ms = 1700000000000, .fail_rc = RC_RETRY};
    db->tables = calloc(1, sizeof(*db->tables));
    assert_non_null(db->tables);
    db->alone.hooks = (struct fake_hooks){db, count_call, get_answer, read_clock};
    db->fake = (struct fake_votes){
        .session = fake_alone_session(&db->alone),
        .ctx = db,
        .count_of = count_of,
        .state_of = state_of,
        .append = append,
        .deletion_of = deletion_of,
        .on_close = check_close,
        .delete_states = delete_states,
        .delete_count = delete_count,
        .refuses_state = is_refused,
    };
    db->ops = fake_votes_ops(&db->fake);
}

void votes_db_done(struct votes_db *db)
{
    free(db->tables);
}

void votes_db_change(struct votes_db *db, int64_t voter_id, int64_t content_id, int voting)
{
    struct votes_tables *tables = db->tables;
    struct fake_count *count = count_of(db, content_id);
    struct fake_state *state = state_of(db, voter_id, content_id);
    struct votes_event *event = &tables->events[tables->event_end++];

    assert_true(count->now.found && !db->alone.open);
    assert_int_not_equal(state->now.found && state->now.voting, voting);
    count->now.votes += voting ? 1 : -1;
    count->old = count->now;
    state->now = (struct vote_state_row){.voter_id = voter_id,
                                         .content_id = content_id,
                                         .voting = (uint8_t)voting,
                                         .version = state->now.version + 1,
                                         .found = true};
    id_new(&state->now.event_id);
    state->old = state->now;
    *event = (struct votes_event){.id = state->now.event_id,
                                  .voter_id = voter_id,
                                  .content_id = content_id,
                                  .votes = count->now.votes,
                                  .voting = voting};
    snprintf(event->lane, sizeof(event->lane), "outbox");
    tables->event_count = tables->event_end;
}

void votes_db_delete(struct votes_db *db, int64_t content_id)
{
    struct fake_deletion *deletion = find_deletion(db, content_id);

    deletion->now.found = true;
    deletion->old = deletion->now;
}

int64_t votes_db_total(const struct votes_db *db, int64_t content_id)
{
    for (const struct fake_count *count = db->tables->counts; count->old.found; count++)
        if (count->content_id == content_id)
            return count->old.votes;
    return 0;
}

int votes_db_voting(const struct votes_db *db, int64_t voter_id, int64_t content_id)
{
    for (const struct fake_state *state = db->tables->states; state->old.found; state++)
        if (state->old.voter_id == voter_id && state->old.content_id == content_id)
            return state->old.voting;
    return 0;
}

static int id_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct id));
}

static void ids_check(const struct votes_tables *tables)
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

static void content_check(const struct votes_tables *tables, const struct fake_count *count)
{
    int64_t votes = 0;
    int64_t sum = 0;

    for (size_t i = 0; i < tables->event_count; i++) {
        const struct votes_event *event = &tables->events[i];

        if (event->content_id != count->content_id || event->ends)
            continue;
        votes += event->voting ? 1 : -1;
        assert_int_equal(event->votes, votes);
    }
    for (const struct fake_state *state = tables->states; state->old.found; state++) {
        if (state->old.content_id == count->content_id)
            sum += state->old.voting;
    }
    assert_int_equal(count->old.votes, votes);
    assert_int_equal(count->old.votes, sum);
}

static void state_check(const struct votes_tables *tables, const struct vote_state_row *state)
{
    const struct votes_event *last = NULL;
    int64_t changes = 0;

    for (size_t i = 0; i < tables->event_count; i++) {
        const struct votes_event *event = &tables->events[i];

        if (event->ends || event->voter_id != state->voter_id ||
            event->content_id != state->content_id)
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

static void tombstones_check(const struct votes_tables *tables)
{
    for (size_t i = 0; i < tables->event_count; i++) {
        for (size_t n = i + 1; tables->events[i].ends && n < tables->event_count; n++)
            assert_int_not_equal(tables->events[n].content_id, tables->events[i].content_id);
    }
}

void votes_db_check(const struct votes_db *db)
{
    const struct votes_tables *tables = db->tables;

    ids_check(tables);
    tombstones_check(tables);
    for (const struct fake_count *count = tables->counts; count->old.found; count++)
        content_check(tables, count);
    for (const struct fake_state *state = tables->states; state->old.found; state++)
        state_check(tables, &state->old);
}
