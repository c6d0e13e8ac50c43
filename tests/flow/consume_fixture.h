/* SPDX-License-Identifier: MIT */
/* A whole consumer without threads: the fetching step and its appliers on the fakes of the topic
 * and of the database. The test calls the steps in virtual time and may end the consumer between
 * any two of them. */
#ifndef TESTS_FLOW_CONSUME_FIXTURE_H
#define TESTS_FLOW_CONSUME_FIXTURE_H

#include "consumer/apply/applier.h"
#include "consumer/ingest/fetch.h"
#include "consumer/ingest/part.h"
#include "tests/flow/sink_fixture.h"
#include "tests/flow/topic_fixture.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIXTURE_APPLIERS 2

struct consume_fixture {
    bool alive;
    char owner[16];
    struct topic_member stream;
    struct sink_connection sinks[FIXTURE_APPLIERS];
    struct applier appliers[FIXTURE_APPLIERS];
    struct fetch_link links[FIXTURE_APPLIERS];
    struct fetch fetch;
    int64_t fetch_ms; /* when the steps are due */
    int64_t apply_ms[FIXTURE_APPLIERS];
    bool ended; /* a step has returned LOOP_END */
};

struct fixture_limits {
    size_t rows_max;
    size_t batches_max;
    int64_t wait_ms;
};

void consume_fixture_open(struct consume_fixture *fixture, struct topic *topic,
                          struct sink_db *sink, int member, const char *owner,
                          const struct fixture_limits *limits);

/* As the process' sudden end: nothing is handed back. */
void consume_fixture_kill(struct consume_fixture *fixture);

/* Calls the step if it is due at now_ms: the fetching step (which 0), or an applier (1 ...). */
void consume_fixture_step(struct consume_fixture *fixture, int which, int64_t now_ms);

/* Steps all that is due until nothing is before until_ms, moving *now_ms on. */
void consume_fixture_run(struct consume_fixture *fixture, int64_t *now_ms, int64_t until_ms);

#endif
