/* SPDX-License-Identifier: MIT */
/* One run: builds the state from a seed, lets faults happen, ends them, and checks the promises. */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run;

struct run_result {
    bool failed;
    struct story_focus focus; /* the events that the failure is about */
    char failure[400];
    uint64_t hash;
    uint64_t steps;
    size_t events;
    int64_t ms; /* virtual */
};

/* Memory for any number of runs, one after the other. */
struct run *run_open(void);
void run_close(struct run *run);

void run_seed(struct run *run, uint64_t seed, enum sim_fault fault, struct run_result *result);

/* Repeats the run and keeps the lines of its story; returns the hash. run_tell() prints them. */
uint64_t run_hear(struct run *run, uint64_t seed, enum sim_fault fault,
                  const struct story_focus *focus);
void run_tell(struct run *run, uint64_t seed, enum sim_fault fault,
              const struct story_focus *focus);

#endif
