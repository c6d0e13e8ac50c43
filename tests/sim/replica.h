/* SPDX-License-Identifier: MIT */
/* A replica that is behind: what a database held at one moment, which takes its place at a later
 * one. Everything that was committed between the two is lost, in all of its tables together. */
#ifndef TESTS_SIM_REPLICA_H
#define TESTS_SIM_REPLICA_H

#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stdint.h>

struct replica;

struct replica *replica_open(void);
void replica_close(struct replica *replica);
void replica_begin_run(struct replica *replica, struct sim *sim);

/* Takes a copy of one of the databases, which fails over to it some time later. Does nothing while
 * that is still to come. */
void replica_fall_behind(struct sim *sim);

/* Called now and then: fails over when it is time. */
void replica_tend(struct sim *sim);

#endif
