/* SPDX-License-Identifier: MIT */
/* The tables of the vote engine: vote_state and vote_count. */
#ifndef TESTS_SIM_VOTES_H
#define TESTS_SIM_VOTES_H

#include "tests/fakes/fake_votes.h"
#include "tests/sim/sim.h"

#include <stddef.h>
#include <stdint.h>

/* Forgets the votes of the run before. */
void votes_begin_run(struct sim *sim);
/* The votes of a content in vote_state. */
int64_t votes_count(const struct sim *sim, int64_t content_id);

/* The places of rows, for struct fake_votes; ctx is not used. */
struct fake_count *votes_count_of(void *ctx, int64_t content_id);
struct fake_state *votes_state_of(void *ctx, int64_t voter_id, int64_t content_id);
/* The number of the lane with this name. */
size_t votes_lane_number(const struct sim *sim, const char *name);

#endif
