/* SPDX-License-Identifier: MIT */
/* The sink's database for the consumer's engines (tests/fakes/fake_sink.h) without a server beside
 * them: calls that fail on demand, COMMITs whose answer is lost, and a check of all data. Any
 * number of connections, one transaction at a time; one thread. Outside of a transaction `now` and
 * `old` of a row are the same: a test that changes `now` calls sink_db_save(). */
#ifndef TESTS_FLOW_SINK_FIXTURE_H
#define TESTS_FLOW_SINK_FIXTURE_H

#include "consumer/apply/sink_ops.h"
#include "tests/fakes/fake_dead.h"
#include "tests/fakes/fake_sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_VOTES_MAX 4096
#define SINK_CONTENTS 16 /* content ids 1..15 */
#define SINK_PARTITIONS 4
#define SINK_DEAD_MAX 1024
#define SINK_LASTS_MAX 64

/* The texts of a dead record that change. */
struct sink_dead_texts {
    char reason_class[16];
    char reason[128];
    char decision[16];      /* of dead_history; "": it is dead */
    char mended_value[256]; /* that was applied instead */
};

struct sink_dead {
    struct fake_dead_row base; /* first */
    bool has_key;
    bool has_value;
    char key[16];
    char value[256];
    struct sink_dead_texts now;
    struct sink_dead_texts old; /* committed */
};

/* The faults of the next calls. Calls are counted over all connections. */
struct sink_faults {
    int calls;
    int fail_at; /* this call fails with rc; 0: none does */
    bool lost;   /* if it is a COMMIT, it takes effect all the same */
    bool away;   /* every call fails with RC_RETRY */
    enum rc rc;
    uint64_t session;    /* of every connection */
    int64_t refused;     /* votes for this content are RC_REJECT */
    bool refused_totals; /* no total can be written: RC_REJECT */
    int refused_event;   /* the vote whose event ends with this number is RC_REJECT; 0: none */
};

struct sink_db {
    struct fake_sink_tables tables;
    struct fake_progress progress[SINK_PARTITIONS];
    struct fake_tally tallies[SINK_CONTENTS];
    struct fake_last lasts[SINK_LASTS_MAX]; /* the first ones that are found */
    struct fake_vote votes[SINK_VOTES_MAX]; /* in the order of the log */
    size_t vote_count;                      /* committed */
    struct sink_dead dead[SINK_DEAD_MAX];   /* by id, from 1; also those that are decided */
    size_t dead_count;                      /* committed */
    int64_t begin_day;                      /* of the log */
    struct sink_faults faults;
    int searches; /* for duplicates */
    int commits;
};

/* A connection. */
struct sink_connection {
    struct sink_db *db;
    struct fake_alone alone;
    struct fake_sink fake;
    struct sink ops;
    bool answer_lost; /* of the COMMIT that runs */
};

/* The store of dead records on a connection. */
struct sink_dead_store {
    struct fake_dead fake;
    struct dead_store ops;
};

/* Of a zeroed db. Both must not move. */
void sink_connection_init(struct sink_connection *connection, struct sink_db *db);

/* Of topic "votes". The store must not move. */
void sink_dead_store_init(struct sink_dead_store *store, struct sink_connection *connection);

void sink_db_save(struct sink_db *db);
/* The rows of the log are dropped, and the totals stay. */
void sink_db_drop_votes(struct sink_db *db);
/* Adds a dead record; key and value may be NULL. */
struct sink_dead *sink_db_add_dead(struct sink_db *db, int32_t partition, int64_t offset,
                                   const char *key, const char *value, const char *reason_class);

/* An operator decides the record. */
void sink_db_decide(struct sink_db *db, size_t index, const char *decision);

/* The votes of a content in the order of the log are 1, 2, 3 ..., their totals are running sums,
 * the tallies are at their ends, and no event is there twice. Fails the test otherwise. */
void sink_db_check(const struct sink_db *db);

#endif
