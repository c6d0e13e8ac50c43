/* SPDX-License-Identifier: MIT */
/* A fake of the vote engine's database: transactions with one writer at a time, calls that fail on
 * demand, and COMMITs whose answer is lost. Its tables are copied at COMMIT; the simulation's fake
 * (tests/sim/votes.c) has row locks and several writers, so the two share no code. */
#ifndef TESTS_FAKES_FAKE_VOTES_H
#define TESTS_FAKES_FAKE_VOTES_H

#include "outbox/lanes.h"
#include "producer/producer_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_COUNTS_MAX 64
#define FAKE_STATES_MAX 4096
#define FAKE_EVENTS_MAX 16384

struct fake_event {
    struct id id;
    int64_t voter_id;
    int64_t content_id;
    int64_t votes;
    int voting;
    char lane[OUTBOX_LANE_NAME_SIZE];
    char headers[128];
};

struct fake_tables {
    struct vote_count_row counts[FAKE_COUNTS_MAX];
    size_t count_count;
    struct vote_state_row states[FAKE_STATES_MAX];
    size_t state_count;
    struct fake_event events[FAKE_EVENTS_MAX];
    size_t event_count;
};

enum fake_commit {
    FAKE_COMMIT_WORKS,
    FAKE_COMMIT_LOST_BEFORE, /* RC_RETRY, and nothing happened */
    FAKE_COMMIT_LOST_AFTER,  /* RC_RETRY, and it did happen */
};

struct fake_votes {
    struct vote_store ops;
    struct fake_tables *committed;
    struct fake_tables *work; /* of the open transaction */
    bool open;
    int64_t now_ms;
    unsigned calls;   /* so far, pings and roll-backs not counted */
    unsigned fail_at; /* this call, counted from 1, fails with fail_rc; 0: none */
    enum rc fail_rc;
    bool away;             /* every call fails with RC_RETRY */
    bool collides;         /* a failing call reports a conflict */
    unsigned commits;      /* that happened */
    enum fake_commit next; /* commit; falls back to FAKE_COMMIT_WORKS */
    int64_t refused_voter; /* writing a state of this voter is RC_REJECT; 0: none */
    void (*before_begin)(
        struct fake_votes *fake); /* writes of other clients meanwhile; may be NULL */
};

/* The fake must not move. */
void fake_votes_init(struct fake_votes *fake);
void fake_votes_done(struct fake_votes *fake);

/* Writes of another client, in a transaction of its own. */
void fake_votes_change(struct fake_votes *fake, int64_t voter_id, int64_t content_id, int voting);

/* 0 / false when there is no row. */
int64_t fake_votes_total(const struct fake_votes *fake, int64_t content_id);
int fake_votes_voting(const struct fake_votes *fake, int64_t voter_id, int64_t content_id);

/* Fails the test unless totals, states and events tell the same story: every event id once, each
 * content's events step by one from 0 to its total, and the last event of each pair is its
 * state. */
void fake_votes_check(const struct fake_votes *fake);

#endif
