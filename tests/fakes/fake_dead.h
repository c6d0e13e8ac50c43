/* SPDX-License-Identifier: MIT */
/* A fake of dead_record and dead_history on a connection of fake_sink.h: it shares the sink's
 * transaction and its faults. One thread. It knows the filters of an operator; the simulation's
 * fake (replays.c) knows only held records, but their row locks, so the two share no code. */
#ifndef TESTS_FAKES_FAKE_DEAD_H
#define TESTS_FAKES_FAKE_DEAD_H

#include "consumer/dead/dead.h"
#include "tests/fakes/fake_sink.h"

struct fake_dead {
    struct fake_sink *sink;
    struct dead_store store;
};

/* Supports the fields ids, reason_class, id_max and held of a filter; the topic is "votes". */
void fake_dead_init(struct fake_dead *fake, struct fake_sink *sink);

#endif
