/* SPDX-License-Identifier: MIT */
/* A fake of the sink's database for the consumer's engines: transactions that take effect at COMMIT
 * or not at all, calls that fail on demand, COMMITs whose answer is lost, and a check of all data.
 * Any number of connections; one thread. A transaction works on a copy of all data; the
 * simulation's fake (tests/sim/sink.c) has row locks, deadlocks and two versions of each row, so
 * the two share no code. */
#ifndef TESTS_FAKES_FAKE_SINK_H
#define TESTS_FAKES_FAKE_SINK_H

#include "consumer/apply/sink_ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_VOTES_MAX 4096
#define SINK_CONTENTS 16 /* content ids 1..15 */
#define SINK_PARTITIONS 4
#define SINK_DEAD_MAX 1024
#define SINK_LASTS_MAX 64

struct sink_dead {
    int64_t id;
    int32_t partition;
    int64_t offset;
    bool has_key;
    bool has_value;
    char key[16];
    char reason_class[16];
    char reason[128];
    char value[256];
    char decision[16];      /* of dead_history; "": it is dead */
    char mended_value[256]; /* that was applied instead */
};

struct sink_data {
    struct vote_row votes[SINK_VOTES_MAX];
    size_t vote_count;
    struct tally_row tallies[SINK_CONTENTS];
    struct progress_row progress[SINK_PARTITIONS];
    bool has_progress[SINK_PARTITIONS];
    struct last_row lasts[SINK_LASTS_MAX];
    size_t last_count;
    struct sink_dead dead[SINK_DEAD_MAX];
    size_t dead_count;
    int64_t begin_day; /* of the log */
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

struct fake_sink_db {
    struct sink_data data; /* the committed data */
    struct sink_faults faults;
    int searches; /* for duplicates */
    int commits;
};

/* A connection. */
struct fake_sink {
    struct fake_sink_db *db;
    struct sink ops;
    bool open;
    struct sink_data data; /* as its transaction sees it */
};

void fake_sink_init(struct fake_sink *fake, struct fake_sink_db *db);

/* Every call of a fake begins here, also those of fakes that share this one's transaction.
 * RC_REJECT leaves the transaction open, as db.h says. */
enum rc fake_sink_called(struct fake_sink *fake, struct err *err);

/* The votes of a content in the order of the log are 1, 2, 3 ..., their totals are running sums,
 * the tallies are at their ends, and no event is there twice. Fails the test otherwise. */
void fake_sink_check(const struct fake_sink_db *db);

#endif
