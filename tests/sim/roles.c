/* SPDX-License-Identifier: MIT */
#include "tests/sim/roles.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct kind {
    size_t (*bytes)(void);
    void (*add)(void *memory, struct sim *sim, size_t number);
    size_t max;
    bool ends; /* it ends when the writing ends */
};

static const struct kind kinds[] = {
    {relay_bytes, relay_add, SIM_RELAYS_MAX, false},
    {consumer_bytes, consumer_add, SIM_CONSUMERS_MAX, false},
    {rollup_bytes, rollup_add, SIM_ROLLUPS_MAX, false},
    {voter_bytes, voter_add, SIM_VOTERS_MAX, true},
    {writer_bytes, writer_add, SIM_WRITERS_MAX, true},
    {retry_bytes, retry_add, SIM_RETRIES_MAX, false},
    {submitter_bytes, submitter_add, SIM_SUBMITTERS_MAX, true},
    {operator_bytes, operator_add, SIM_OPERATORS_MAX, false},
    {publisher_bytes, publisher_add, SIM_PUBLISHERS_MAX, false},
    {replayer_bytes, replayer_add, SIM_REPLAYERS_MAX, false},
    {housekeeper_bytes, housekeeper_add, SIM_HOUSEKEEPERS_MAX, false},
    {serve_bytes, serve_add, SIM_SERVES_MAX, false},
    {application_bytes, application_add, SIM_APPLICATIONS_MAX, true},
    {try_bytes, try_add, SIM_TRIES_MAX, false},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct roles {
    char *memory[KINDS];
};

struct roles *roles_open(void)
{
    struct roles *roles = calloc(1, sizeof(*roles));

    assert(roles);
    for (size_t i = 0; i < KINDS; i++) {
        roles->memory[i] = calloc(kinds[i].max, kinds[i].bytes());
        assert(roles->memory[i]);
    }
    return roles;
}

void roles_close(struct roles *roles)
{
    for (size_t i = 0; i < KINDS; i++)
        free(roles->memory[i]);
    free(roles);
}

void roles_add(struct roles *roles, struct sim *sim)
{
    const struct plan *plan = &sim->plan;
    const size_t counts[KINDS] = {plan->relays,       plan->consumers,    plan->rollups,
                                  plan->voters,       plan->writers,      plan->retries,
                                  plan->submitters,   plan->operators,    SIM_PUBLISHERS_MAX,
                                  plan->replayers,    plan->housekeepers, plan->serves,
                                  plan->applications, plan->tries};

    for (size_t i = 0; i < KINDS; i++) {
        for (size_t number = 0; number < counts[i]; number++) {
            kinds[i].add(roles->memory[i] + number * kinds[i].bytes(), sim, number);
            sim->procs[sim->proc_count - 1].ends = kinds[i].ends;
        }
    }
}
