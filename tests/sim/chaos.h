/* SPDX-License-Identifier: MIT */
/* The faults of a run, and when they happen, drawn from the seed. */
#ifndef TESTS_SIM_CHAOS_H
#define TESTS_SIM_CHAOS_H

#include "tests/sim/sim.h"

/* Draws the size of the run and the faults that may happen. */
void chaos_plan(struct sim *sim);

/* Starts the fibers of the servers' own work and of the faults. */
void chaos_start(struct sim *sim);

/* Ends all faults and all writing. */
void chaos_heal(struct sim *sim);

#endif
