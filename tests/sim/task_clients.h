/* SPDX-License-Identifier: MIT */
/* Applications that take the tasks of a scene: clients of the group, which beat, stop beating and
 * cannot be reached. Each retry process reads them by the real client_watch on a fake of
 * retry_client, and picks one for each attempt. Promises: only a client of the last reading is
 * called, and none that has been gone for long; where there is none, the task waits, and has no
 * attempt. */
#ifndef TESTS_SIM_TASK_CLIENTS_H
#define TESTS_SIM_TASK_CLIENTS_H

#include "outbox/retry/clients/client_watch.h"
#include "outbox/retry/handler.h"
#include "tests/sim/db.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_CLIENTS_MAX 3

struct task_client {
    char address[32];
    bool up;               /* it beats, and can be reached */
    int64_t live_until_ms; /* by the database's clock: its row */
    int64_t gone_ms;       /* when it ended */
};

/* Those of a retry process. */
struct client_reader {
    struct proc *proc;
    struct link link;
    struct clients *clients; /* NULL: the process is dead, or the run has no clients */
    struct client_watch watch;
    bool read;
    unsigned bits; /* the clients of the last reading */
};

struct task_clients {
    struct task_client list[SIM_CLIENTS_MAX];
    struct client_reader readers[SIM_PROCS_MAX];
    int64_t healed_ms;
};

void task_clients_begin_run(struct task_clients *clients);
/* Begins their lives if the plan has clients. */
void task_clients_start(struct sim *sim);
/* All go, and those that remain come some time later for good. */
void task_clients_heal(struct sim *sim);

/* A retry process begins and ends. */
void task_clients_open(struct proc *proc);
void task_clients_close(struct proc *proc);

/* Returns whether tasks of the scene are calls of clients. */
bool task_clients_take(const struct sim *sim, int scene);

enum task_client_found {
    TASK_CLIENT_REACHED,
    TASK_CLIENT_UNREACHED, /* all that could be tried */
    TASK_CLIENT_NONE,      /* the task waits; nothing was called */
};

/* Picks clients until one is reached, which the caller calls then. call keeps the pick. */
enum task_client_found task_clients_pick(struct proc *proc, const struct retry_job *job,
                                         struct clients_attempt *call, int64_t *wait_ms);
/* The call has ended. */
void task_clients_report(struct proc *proc, const struct clients_attempt *call, bool failed);

#endif
