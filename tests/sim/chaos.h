/* SPDX-License-Identifier: MIT */
/* What goes wrong, and when: drawn from the seed. */
#ifndef TESTS_SIM_CHAOS_H
#define TESTS_SIM_CHAOS_H

#include "tests/sim/world.h"

/* How large this world is and what may happen in it. */
void chaos_plan(struct world *world);

/* Fibers: what the servers do by themselves, and the mishaps. */
void chaos_start(struct world *world);

/* Everything works again, and nobody writes any more. */
void chaos_heal(struct world *world);

#endif
