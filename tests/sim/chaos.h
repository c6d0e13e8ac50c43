/* SPDX-License-Identifier: MIT */
/* What goes wrong, and when: drawn from the seed. */
#ifndef TESTS_SIM_CHAOS_H
#define TESTS_SIM_CHAOS_H

#include "tests/sim/sim.h"

/* How large this world is and what may happen in it. */
void chaos_plan(struct sim *sim);

/* Fibers: what the servers do by themselves, and the mishaps. */
void chaos_start(struct sim *sim);

/* Everything works again, and nobody writes any more. */
void chaos_heal(struct sim *sim);

#endif
