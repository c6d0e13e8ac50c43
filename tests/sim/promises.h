/* SPDX-License-Identifier: MIT */
/* The promises of DESIGN.md, section 1, held against what the world has come to. What can be seen
 * at once (a deletion before the record, a write behind a fence, an answer without a COMMIT) is
 * checked by the models where it happens. */
#ifndef TESTS_SIM_PROMISES_H
#define TESTS_SIM_PROMISES_H

#include "tests/sim/sim.h"

/* What keeps the world from its rest. */
struct waiting {
    int64_t key; /* or STORY_ALL */
    char text[200];
};

/* Is everything done that is to be done? If not, *waiting says what is missing. */
bool promises_rest(const struct sim *sim, struct waiting *waiting);

/* Fails the world when one is broken. */
void promises_check(struct sim *sim);

#endif
