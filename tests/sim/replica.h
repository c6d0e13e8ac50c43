/* SPDX-License-Identifier: MIT */
/* A replica that is behind: a copy of a database at one moment, which replaces the database at a
 * later one. All commits between the two are lost, in all tables together. */
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
 * a fail-over is due. */
void replica_fall_behind(struct sim *sim);

/* Fails over when it is due. Called now and then. */
void replica_tend(struct sim *sim);

#endif
