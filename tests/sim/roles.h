/* SPDX-License-Identifier: MIT */
/* The processes of a run: how each role is built from its engines and fakes, started, stopped and
 * thrown away. */
#ifndef TESTS_SIM_ROLES_H
#define TESTS_SIM_ROLES_H

#include "tests/sim/sim.h"

#include <stddef.h>

/* Memory of all processes of a role. Every run reuses it. */
struct roles;

struct roles *roles_open(void);
void roles_close(struct roles *roles);

/* Adds the processes of the plan. None runs before proc->start(). */
void roles_add(struct roles *roles, struct sim *sim);

/* Each adds one process; number counts within its role. */
void relay_add(void *memory, struct sim *sim, size_t number);
void consumer_add(void *memory, struct sim *sim, size_t number);
void rollup_add(void *memory, struct sim *sim, size_t number);
void publisher_add(void *memory, struct sim *sim, size_t number);
void voter_add(void *memory, struct sim *sim, size_t number);
void retry_add(void *memory, struct sim *sim, size_t number);
void submitter_add(void *memory, struct sim *sim, size_t number);
void operator_add(void *memory, struct sim *sim, size_t number);
void replayer_add(void *memory, struct sim *sim, size_t number);
void housekeeper_add(void *memory, struct sim *sim, size_t number);
void serve_add(void *memory, struct sim *sim, size_t number);
void application_add(void *memory, struct sim *sim, size_t number);
void try_add(void *memory, struct sim *sim, size_t number);
void writer_add(void *memory, struct sim *sim, size_t number);

size_t relay_bytes(void);
size_t consumer_bytes(void);
size_t rollup_bytes(void);
size_t publisher_bytes(void);
size_t voter_bytes(void);
size_t retry_bytes(void);
size_t submitter_bytes(void);
size_t operator_bytes(void);
size_t replayer_bytes(void);
size_t housekeeper_bytes(void);
size_t serve_bytes(void);
size_t application_bytes(void);
size_t try_bytes(void);
size_t writer_bytes(void);

/* Diverted keys of all lanes that are held. */
size_t relays_diverted_keys(const struct sim *sim);

#endif
