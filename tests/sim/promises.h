/* SPDX-License-Identifier: MIT */
/* Checks the promises of DESIGN.md, section 1, at the end of a run. The fakes check at each call
 * what can be seen then: a deletion before the record, a write behind a fence, an answer without a
 * COMMIT. */
#ifndef TESTS_SIM_PROMISES_H
#define TESTS_SIM_PROMISES_H

#include "tests/sim/sim.h"

/* Work that is not done yet. */
struct waiting {
    int64_t key; /* or STORY_ALL */
    char text[200];
};

/* True when all work is done. If not, *waiting says what is missing. */
bool promises_rest(const struct sim *sim, struct waiting *waiting);

/* Fails the run when a promise is broken. */
void promises_check(struct sim *sim);

#endif
