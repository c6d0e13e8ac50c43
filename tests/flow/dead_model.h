/* SPDX-License-Identifier: MIT */
/* A model of dead_record and dead_history on a connection of consume_sink.h: it shares the sink's
 * transaction and its faults. One thread. */
#ifndef TESTS_FLOW_DEAD_MODEL_H
#define TESTS_FLOW_DEAD_MODEL_H

#include "consumer/dead/dead.h"
#include "tests/flow/consume_sink.h"

struct dead_model {
    struct sink_model *sink;
    struct dead_store store;
};

/* Knows ids, reason_class, id_max and what is held of a filter; the topic is "votes". */
void dead_model_init(struct dead_model *model, struct sink_model *sink);

#endif
