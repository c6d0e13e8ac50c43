/* SPDX-License-Identifier: MIT */
/* Two committers on one fake database, in virtual time, and requests that record their answers. */
#ifndef TESTS_FLOW_COMMIT_FIXTURE_H
#define TESTS_FLOW_COMMIT_FIXTURE_H

#include "common/loop.h"
#include "producer/vote/committer.h"
#include "tests/flow/votes_fixture.h"

#include <stddef.h>
#include <stdint.h>

#define SHARDS 2
#define TIMEOUT_MS 1000
#define BREAKER_CAP_MS 400
#define QUEUE_VOTES_MAX 50
#define BATCH_VOTES_MAX 10
#define ASKED_ITEMS_MAX 40
#define ASKED_MAX 4000

struct asked {
    struct committer_request request; /* first */
    struct commit_fixture *fixture;
    struct vote_item items[ASKED_ITEMS_MAX];
    unsigned answers;
    unsigned releases;
    enum queue_end end;
    unsigned commits; /* of the database when it was answered */
};

struct commit_fixture {
    struct votes_db fake;
    struct queue *queue;
    struct committer *committers[SHARDS];
    struct stop stop; /* of the process */
    int64_t now_ms;
    unsigned wakes[SHARDS];
    struct asked *asked[ASKED_MAX]; /* those that were taken */
    size_t asked_count;
    struct err err;
};

/* For cmocka. The tear-down drops waiting requests, and fails unless each request was answered once
 * and released once, and the database is consistent. */
int commit_fixture_set_up(void **state);
int commit_fixture_tear_down(void **state);

/* The first look of a committer finds the database. */
void commit_fixture_begin(struct commit_fixture *fixture);

int64_t commit_fixture_step(struct commit_fixture *fixture, size_t shard);

/* A new request with `count` items, for the caller to fill; then commit_fixture_put() it. */
struct asked *commit_fixture_make(struct commit_fixture *fixture, size_t count);
/* Takes it over, or frees it when the queue did not take it. */
enum queue_verdict commit_fixture_put(struct commit_fixture *fixture, size_t shard,
                                      struct asked *asked);

/* A vote of each voter first..first+count-1 for a content. NULL when the queue did not take it,
 * as expected. */
struct asked *commit_fixture_ask(struct commit_fixture *fixture, size_t shard, int64_t first,
                                 size_t count, int64_t content_id, enum queue_verdict expected);

#endif
