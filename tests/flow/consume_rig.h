/* SPDX-License-Identifier: MIT */
/* A whole consumer without threads: the fetching step and its appliers on the models of the topic
 * and of the database, stepped by the test in virtual time, and ended between any two steps. */
#ifndef TESTS_FLOW_CONSUME_RIG_H
#define TESTS_FLOW_CONSUME_RIG_H

#include "consumer/apply/applier.h"
#include "consumer/ingest/fetch.h"
#include "consumer/ingest/part.h"
#include "tests/flow/consume_sink.h"
#include "tests/flow/consume_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIG_APPLIERS 2

struct consume_rig {
    bool alive;
    char owner[16];
    struct stream_model stream;
    struct sink_model sinks[RIG_APPLIERS];
    struct applier appliers[RIG_APPLIERS];
    struct fetch_link links[RIG_APPLIERS];
    struct fetch fetch;
    int64_t fetch_ms; /* when the steps want to be called again */
    int64_t apply_ms[RIG_APPLIERS];
    bool ended; /* a step has returned LOOP_END */
};

struct rig_limits {
    size_t rows_max;
    size_t batches_max;
    int64_t wait_ms;
};

void consume_rig_open(struct consume_rig *rig, struct topic_world *topic, struct sink_world *sink,
                      int member, const char *owner, const struct rig_limits *limits);

/* As the process' sudden end: nothing is handed back. */
void consume_rig_kill(struct consume_rig *rig);

/* Steps what is due at now_ms: the fetching step (which 0), or an applier (1 ...). */
void consume_rig_step(struct consume_rig *rig, int which, int64_t now_ms);

/* Steps all that is due until nothing is before until_ms, moving *now_ms on. */
void consume_rig_run(struct consume_rig *rig, int64_t *now_ms, int64_t until_ms);

#endif
