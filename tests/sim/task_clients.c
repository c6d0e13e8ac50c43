/* SPDX-License-Identifier: MIT */
#include "tests/sim/task_clients.h"

#include "tests/sim/tasks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* RETRY_CLIENT_LIVE_MS is longer than a run. */
#define LIVE_MS 1500
#define BEAT_MS 200
/* After the faults: from when on the clients that remain are there, */
#define RETURN_MS 3000
/* and that another one is called no more. */
#define GONE_MS 8000

static struct task_clients *clients_of(const struct proc *proc)
{
    return &proc->sim->tasks->clients;
}

static struct client_reader *reader_of(const struct proc *proc)
{
    return &clients_of(proc)->readers[proc - proc->sim->procs];
}

void task_clients_begin_run(struct task_clients *clients)
{
    memset(clients, 0, sizeof(*clients));
    for (size_t i = 0; i < SIM_CLIENTS_MAX; i++)
        snprintf(clients->list[i].address, sizeof(clients->list[i].address),
                 "http://client-%zu.example:80", i);
}

bool task_clients_take(const struct sim *sim, int scene)
{
    return sim->plan.clients > 0 && scene == SCENE_FIRST;
}

static void set_up(struct sim *sim, struct task_client *client, bool up)
{
    if (client->up == up)
        return;
    client->up = up;
    if (!up)
        client->gone_ms = sim_now(sim);
    sim_tell(sim, client->address, STORY_ALL, up ? "comes" : "goes", 0, 0, 0);
}

/* The last client does not come back after the faults, unless it is the only one. */
static bool returns(const struct sim *sim, size_t client)
{
    return sim->plan.clients == 1 || client + 1 < sim->plan.clients;
}

static void live(void *arg)
{
    struct sim *sim = arg;
    struct task_clients *clients = &sim->tasks->clients;

    for (;;) {
        for (size_t i = 0; i < sim->plan.clients; i++) {
            struct task_client *client = &clients->list[i];

            if (sim->healed)
                set_up(sim, client,
                       returns(sim, i) && sim_now(sim) > clients->healed_ms + RETURN_MS);
            else if (sim_chance(sim, 60))
                set_up(sim, client, !client->up);
            if (client->up)
                client->live_until_ms = db_clock(sim->main_db) + LIVE_MS;
        }
        sched_pause(&sim->sched, sim_between(sim, 1, BEAT_MS));
    }
}

void task_clients_start(struct sim *sim)
{
    if (sim->plan.clients > 0)
        sched_start(&sim->sched, live, sim, NULL);
}

void task_clients_heal(struct sim *sim)
{
    sim->tasks->clients.healed_ms = sim_now(sim);
}

/* SELECT ... WHERE the last beat is young, ORDER BY address. */
static enum rc read_live(void *ctx,
                         enum rc (*on_client)(void *client_ctx, const struct live_client *client,
                                              struct err *err),
                         void *client_ctx, struct err *err)
{
    struct client_reader *reader = ctx;
    struct sim *sim = reader->proc->sim;
    unsigned bits = 0;
    enum rc rc = link_call(&reader->link, err);

    for (size_t i = 0; rc == RC_OK && i < sim->plan.clients; i++) {
        const struct task_client *client = &clients_of(reader->proc)->list[i];
        const struct live_client row = {.group = RETRY_GROUP_DEFAULT,
                                        .address = client->address,
                                        .route = "round_robin",
                                        .told_version = "",
                                        .config_version = ""};

        if (client->live_until_ms <= db_clock(sim->main_db) &&
            (sim->fault != FAULT_CLIENT_EXPIRY_IGNORED || client->live_until_ms == 0))
            continue;
        bits |= 1U << i;
        rc = on_client(client_ctx, &row, err);
    }
    if (rc == RC_OK)
        rc = link_answer(&reader->link, err);
    if (rc == RC_OK) {
        reader->read = true;
        reader->bits = bits;
    }
    return rc;
}

static enum rc push_config(void *ctx, const struct client_push *pushes, size_t count,
                           size_t *pushed, struct err *err)
{
    (void)ctx;
    (void)pushes;
    (void)count;
    (void)err;
    *pushed = 0;
    return RC_OK;
}

static enum rc forget_old(void *ctx, size_t rows_max, size_t *count, struct err *err)
{
    (void)ctx;
    (void)rows_max;
    (void)err;
    *count = 0;
    return RC_OK;
}

static void watch_thread(void *arg)
{
    struct client_reader *reader = arg;
    struct proc *proc = reader->proc;

    while (!proc->stopping)
        sched_idle(&proc->sim->sched, client_watch_step(&reader->watch, proc_clock(proc)));
}

void task_clients_open(struct proc *proc)
{
    struct client_reader *reader = reader_of(proc);
    const struct client_ops ops = {reader, read_live, push_config, forget_old};
    enum rc rc;

    if (proc->sim->plan.clients == 0)
        return;
    *reader = (struct client_reader){.proc = proc};
    link_init(&reader->link, proc, proc->sim->main_db);
    rc = clients_open(&reader->clients, NULL);
    assert(rc == RC_OK);
    (void)rc;
    client_watch_init(&reader->watch, reader->clients, &ops, "*.example", sim_rng());
    proc_thread(proc, watch_thread, reader);
}

void task_clients_close(struct proc *proc)
{
    struct client_reader *reader = reader_of(proc);

    if (!reader->clients)
        return;
    link_close(&reader->link);
    client_watch_done(&reader->watch);
    clients_close(reader->clients);
    reader->clients = NULL;
}

static size_t find_client(const struct sim *sim, const char *address)
{
    size_t at = 0;

    while (at < sim->plan.clients && strcmp(sim->tasks->clients.list[at].address, address) != 0)
        at++;
    return at;
}

/* By a clock that was set back, a beat is younger than it is. */
static void check_called(const struct proc *proc, size_t number)
{
    struct sim *sim = proc->sim;
    const struct client_reader *reader = reader_of(proc);
    const struct task_client *client = &clients_of(proc)->list[number];
    int64_t from_ms = clients_of(proc)->healed_ms;

    if (number == sim->plan.clients || (reader->bits >> number & 1) == 0)
        sim_fail(sim, STORY_ALL, "clients: %s calls client %zu, which its last reading has not",
                 proc->name, number);
    else if (sim->healed && !client->up && sim->main_db->clock_ms == 0 &&
             sim_now(sim) - from_ms > GONE_MS && sim_now(sim) - client->gone_ms > GONE_MS)
        sim_fail(sim, STORY_ALL, "clients: %s calls client %zu, which is gone for %lld ms",
                 proc->name, number, (long long)(sim_now(sim) - client->gone_ms));
}

static void check_none(const struct proc *proc, enum clients_found found)
{
    const struct client_reader *reader = reader_of(proc);

    if (found == CLIENTS_UNREAD ? reader->read : !reader->read || reader->bits != 0)
        sim_fail(proc->sim, STORY_ALL, "clients: %s finds no client, and has read %x", proc->name,
                 reader->bits);
}

enum task_client_found task_clients_pick(struct proc *proc, const struct retry_job *job,
                                         struct clients_attempt *call, int64_t *wait_ms)
{
    struct client_reader *reader = reader_of(proc);
    struct sim *sim = proc->sim;

    *call = (struct clients_attempt){
        .group = job->group,
        .scene = job->scene,
        .rate = &job->client_rate,
        .key = job->ordering_key ? job->ordering_key : job->idempotency_key,
    };
    for (;;) {
        enum clients_found found = clients_pick(reader->clients, call, proc_clock(proc), sim_rng());
        size_t number;

        if (found != CLIENTS_FOUND && call->tried_count > 0)
            return TASK_CLIENT_UNREACHED;
        if (found != CLIENTS_FOUND) {
            check_none(proc, found);
            *wait_ms = found == CLIENTS_NONE
                           ? clients_wait_ms(reader->clients, job->group, proc_clock(proc))
                           : CLIENTS_WAIT_MS;
            return TASK_CLIENT_NONE;
        }
        number = find_client(sim, call->tried[call->tried_count - 1]);
        check_called(proc, number);
        if (sim->failed || clients_of(proc)->list[number].up)
            return TASK_CLIENT_REACHED;
        clients_report(reader->clients, call, CLIENTS_UNSENT, proc_clock(proc), sim_rng());
    }
}

void task_clients_report(struct proc *proc, const struct clients_attempt *call, bool failed)
{
    clients_report(reader_of(proc)->clients, call, failed ? CLIENTS_FAILED : CLIENTS_WORKED,
                   proc_clock(proc), sim_rng());
}
