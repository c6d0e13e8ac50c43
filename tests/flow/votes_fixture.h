/* SPDX-License-Identifier: MIT */
/* The vote engine's database (tests/fakes/fake_votes.h) with one transaction at a time, calls that
 * fail on demand, and COMMITs whose answer is lost. */
#ifndef TESTS_FLOW_VOTES_FIXTURE_H
#define TESTS_FLOW_VOTES_FIXTURE_H

#include "outbox/lanes.h"
#include "tests/fakes/fake_votes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOTES_COUNTS_MAX 64
#define VOTES_STATES_MAX 4096
#define VOTES_EVENTS_MAX 16384
#define VOTES_DELETED_MAX 8

struct votes_event {
    struct id id;
    int64_t voter_id;
    int64_t content_id;
    int64_t votes;
    int voting;
    bool ends; /* the tombstone of the content */
    char lane[OUTBOX_LANE_NAME_SIZE];
    char headers[128];
};

/* Rows are at the beginning of each table. */
struct votes_tables {
    struct fake_count counts[VOTES_COUNTS_MAX];
    struct fake_state states[VOTES_STATES_MAX];
    struct {
        struct fake_deletion deletion; /* first */
        int64_t content_id;
    } deleted[VOTES_DELETED_MAX];
    struct fake_row outbox; /* locked by the transaction that appends events */
    struct votes_event events[VOTES_EVENTS_MAX];
    size_t event_count; /* committed */
    size_t event_end;   /* with those of the open transaction */
};

enum votes_commit {
    VOTES_COMMIT_WORKS,
    VOTES_COMMIT_LOST_BEFORE, /* RC_RETRY, and nothing happened */
    VOTES_COMMIT_LOST_AFTER,  /* RC_RETRY, and it did happen */
};

struct votes_db {
    struct vote_store ops;
    struct votes_tables *tables;
    struct fake_votes fake;
    struct fake_alone alone;
    int64_t now_ms;
    unsigned calls;   /* so far, pings and roll-backs not counted */
    unsigned fail_at; /* this call, counted from 1, fails with fail_rc; 0: none */
    enum rc fail_rc;
    bool away;              /* every call fails with RC_RETRY */
    bool collides;          /* a failing call reports a conflict */
    unsigned commits;       /* that happened */
    enum votes_commit next; /* commit; falls back to VOTES_COMMIT_WORKS */
    int64_t missed_content; /* its total is not there yet when it is locked next; 0: none */
    int64_t refused_voter;  /* writing a state of this voter is RC_REJECT; 0: none */
    /* Writes of other clients meanwhile; may be NULL. */
    void (*before_begin)(struct votes_db *db);
};

/* db must not move. */
void votes_db_init(struct votes_db *db);
void votes_db_done(struct votes_db *db);

/* Writes of another client, in a transaction of its own. */
void votes_db_change(struct votes_db *db, int64_t voter_id, int64_t content_id, int voting);

/* Deletes a content, as an application does with an INSERT. */
void votes_db_delete(struct votes_db *db, int64_t content_id);

/* 0 / false when there is no row. */
int64_t votes_db_total(const struct votes_db *db, int64_t content_id);
int votes_db_voting(const struct votes_db *db, int64_t voter_id, int64_t content_id);

/* Fails the test unless totals, states and events tell the same story: every event id once, each
 * content's events step by one from 0 to its total, the last event of each pair is its state, and a
 * tombstone is the last event of its content. */
void votes_db_check(const struct votes_db *db);

#endif
