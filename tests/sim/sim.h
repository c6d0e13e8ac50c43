/* SPDX-License-Identifier: MIT */
/* The state of one run: two databases, a broker, and the processes of every role, all in one real
 * process and decided by one seed. This header holds what all fakes share; each fake keeps its own
 * state in a struct of its own. One thread. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "common/config/settings.h"
#include "tests/sim/sched.h"
#include "tests/sim/story.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_LANES_MAX 3
#define SIM_RELAYS_MAX 3
#define SIM_CONSUMERS_MAX 3
#define SIM_ROLLUPS_MAX 2
#define SIM_VOTERS_MAX 2
#define SIM_WRITERS_MAX 5
#define SIM_RETRIES_MAX 3
#define SIM_SUBMITTERS_MAX 3
#define SIM_OPERATORS_MAX 1
#define SIM_PUBLISHERS_MAX 1
#define TASK_HANDLERS 2 /* of the retry queue */
#define SIM_REPLAYERS_MAX 2
#define SIM_HOUSEKEEPERS_MAX 2
#define SIM_SERVES_MAX 3 /* that remove remarks */
#define SIM_APPLICATIONS_MAX 1
#define SIM_TRIES_MAX 2 /* processes of serve that try tasks first */
#define SIM_PROCS_MAX                                                                          \
    (SIM_RELAYS_MAX + SIM_CONSUMERS_MAX + SIM_ROLLUPS_MAX + SIM_VOTERS_MAX + SIM_WRITERS_MAX + \
     SIM_RETRIES_MAX + SIM_SUBMITTERS_MAX + SIM_OPERATORS_MAX + SIM_PUBLISHERS_MAX +           \
     SIM_REPLAYERS_MAX + SIM_HOUSEKEEPERS_MAX + SIM_SERVES_MAX + SIM_APPLICATIONS_MAX +        \
     SIM_TRIES_MAX)
#define SIM_PROC_FIBERS_MAX 20

/* Keys 1..SIM_CONTENTS are contents that are voted for; the rest are keys of other events. */
#define SIM_CONTENTS 10
#define SIM_KEYS 24
#define SIM_VOTERS 6 /* voters, not processes: 1..SIM_VOTERS */

#define SIM_EVENTS_MAX 8192

/* Virtual time begins here, and the databases' clocks at SIM_WALL_MS. */
#define SIM_START_MS 1000000
#define SIM_WALL_MS INT64_C(1790000000000)

struct sim;

/* A process: its fibers end and freeze together. */
struct proc {
    struct sim *sim;
    char name[16]; /* of this life */
    int lives;
    int64_t began_ms; /* this life */
    bool alive;
    bool stopping; /* SIGTERM came */
    bool ends;     /* it ends when the writing ends, */
    bool finished; /* and is not started again then */
    int64_t frozen_until_ms;
    int64_t cut_until_ms;    /* its network is cut */
    int64_t slow_until_ms;   /* each call takes a part of a lease: a machine that swaps */
    int64_t slowed_ms;       /* when the last such call ended its wait */
    int64_t restart_ms;      /* when it is dead */
    int64_t clock_offset_ms; /* of its monotonic clock */
    int64_t calls_to_end;    /* it is killed at this call from now; 0: it is not */
    int64_t calls_to_freeze;
    int64_t freeze_ms;
    struct fiber *fibers[SIM_PROC_FIBERS_MAX];
    size_t fiber_count;
    void *role;
    void (*start)(struct proc *proc);
    void (*end)(struct proc *proc); /* frees its memory and drops its connections, as a kill does */
};

enum event_kind { EVENT_VOTE, EVENT_STEP, EVENT_POISON, EVENT_END };

/* An event that some transaction appended to an outbox table. */
struct event {
    enum event_kind kind;
    int64_t key;
    size_t lane;
    int64_t seq;
    int64_t order; /* its position in its key, from 1; 0: not committed */
    int64_t voter_id;
    int voting;
    int64_t occurred_ms;
    size_t value_len;
    char value[200];
    char id[40];        /* as text */
    bool refused;       /* the broker refuses its record */
    bool unsendable;    /* send() refuses it */
    int64_t published;  /* records of it */
    bool undone;        /* its commit was lost with its database: it may be in the topic or not */
    bool judged;        /* by judge_anyone() */
    bool stale;         /* it changes nothing, and is not logged */
    bool overtaken;     /* the tally of its content ended while it was held */
    bool closes;        /* EVENT_END: the tombstone of a content that a remover closed */
    int64_t begin_tick; /* EVENT_VOTE of the vote engine: when its transaction had not begun */
    bool skipped;       /* by an operator, in the retry queue: it may be in no topic */
    int64_t logged;     /* rows of vote_document, dropped ones too, or dead_record */
    int64_t too_old;    /* rows of dead_record with reason too_old; set by promises_check() */
};

/* The size of a run and its faults. The unsigned fields are thousandths of calls or chances. */
struct plan {
    size_t lanes;
    size_t relays;
    size_t consumers;
    size_t rollups;
    size_t voters;
    size_t writers;
    size_t retries;
    size_t submitters;
    size_t operators;
    size_t replayers;        /* 0: the log takes every vote */
    size_t serves;           /* 0: nothing is deleted */
    size_t applications;     /* that delete contents and remarks by SQL */
    bool rankings;           /* serve processes have recommended lists */
    unsigned remark_refused; /* deletions of a remark that the database refuses */
    size_t housekeepers;     /* 0: the log keeps all months */
    int64_t housekeep_ms;    /* interval of the rounds */
    int32_t partitions;
    int64_t chaos_ms;       /* faults happen for so long */
    int64_t chaos_every_ms; /* mean time between two faults; 0: none happen */
    unsigned actions;       /* mask of the faults that happen; see chaos.c */
    unsigned yield;         /* calls that let others run */
    unsigned slow;          /* calls that take long */
    unsigned db_fails;
    unsigned db_fatal;
    unsigned commit_lost;
    unsigned roll_back;
    unsigned hold;
    unsigned reserve_slowly;
    unsigned bad_rows;
    unsigned poison;
    unsigned ends; /* votes of anyone that are tombstones instead */
    unsigned tasks_skipped;
    unsigned ghosts;
    unsigned ack_lost;
    unsigned broker_fails;
    unsigned holes;
    unsigned seeks_lost;
    unsigned task_fails;    /* runs of a task that fail */
    unsigned task_poison;   /* tasks that always fail */
    unsigned task_slow;     /* runs that take long, some of them longer than a lease */
    unsigned task_deaf;     /* runs that ignore the end of their lease */
    unsigned task_compared; /* lives of a retry process that claim by compare-and-set */
    unsigned task_lacking;  /* processes that lack a handler */
    unsigned task_unlocked; /* submits that lock nothing for their order */
    size_t tries;           /* processes that try tasks first */
    size_t clients;         /* of the group; 0: no task calls a client */
    int64_t submit_ms;      /* twice the mean time between two new tasks */
    int64_t operator_ms;    /* twice the mean time between two actions of the operator */
    int64_t task_keys;      /* number of ordering keys */
    unsigned streams;       /* mask of the lanes that read the binary log */
    unsigned streams_by_id; /* those of them whose published rows are known by their ids */
    bool streams_begin;     /* none of them has a position at first */
    int64_t shard_lists_ms; /* twice the mean time between two lists of the group's shards; 0: it
                                has all */
    bool main_loses;        /* the writers' database may lose commits; such a run has no votes */
    bool anyone;            /* consumer.votes_from: applications repeat votes and send old ones */
    bool tasks_left;        /* blocked and parked tasks may be left at the end */
    bool leases_jump;       /* only the clock that decides leases is set, and by much */
    bool writers_known;     /* the relays may see open transactions */
    bool grows;             /* topics get more partitions: keys move, and their order with them */
    bool eager;             /* the group takes all partitions away before it gives any */
};

/* Faults of the fakes themselves: the mutants NAME.fault, which the promises must catch. */
enum sim_fault {
    FAULT_NONE,
    FAULT_DELETE_UNFENCED,
    FAULT_MOVE_UNFENCED,
    FAULT_ORIGIN_IGNORED,
    FAULT_MOVE_WITHOUT_TASK,
    FAULT_READ_UNFENCED,
    FAULT_ROLLUP_UNFENCED,
    FAULT_PROGRESS_UNLOCKED,
    FAULT_NO_UNIQUE_KEY,
    FAULT_TASK_FINISH_UNFENCED,
    FAULT_TASK_NO_WAKE,
    FAULT_TASK_QUEUE_UNLOCKED,
    FAULT_TASK_BLOCKERS_IGNORED,
    FAULT_TASK_CLAIM_UNLOCKED,
    FAULT_TASK_RESCUE_COUNTS,
    FAULT_TASK_HEAD_UNLOCKED,
    FAULT_TASK_BUSY_TWICE,
    FAULT_TASK_CLAIM_UNCOMPARED,
    FAULT_TASK_CANCEL_SILENT,
    FAULT_TASK_WAIT_UNMARKED,
    FAULT_FIRST_TRY_UNORDERED,
    FAULT_CLIENT_EXPIRY_IGNORED,
    FAULT_HOUSEKEEP_UNFENCED,
    FAULT_SINGLETON_OWNER_IGNORED,
    FAULT_BEGIN_UNLOCKED,
    FAULT_FOLD_APART,
    FAULT_FOLD_GOES_ON,
    FAULT_POSITION_UNFENCED,
};

struct db;
struct tables;
struct retry_tables;
struct fake_broker;
struct fake_group;
struct sink_tables;
struct task_tables;
struct replica;
struct replay_tables;
struct months;
struct removal_tables;
struct ranking_tables;
struct binlog;

struct sim {
    uint64_t seed;
    uint64_t rng;
    struct sched sched;
    struct story story;
    struct plan plan;
    struct settings settings;
    enum sim_fault fault;
    bool writing; /* new votes and events are made */
    bool healed;  /* no fault happens any more */
    bool grown;   /* topics got more partitions */

    struct proc procs[SIM_PROCS_MAX];
    size_t proc_count;
    struct event *events;
    size_t event_count;
    int64_t order_next[SIM_KEYS + 1];

    struct db *main_db;
    struct db *sink_db;
    struct tables *tables;
    struct retry_tables *retry;
    struct fake_broker *broker;
    struct fake_group *group;
    struct sink_tables *sink;
    struct task_tables *tasks;
    struct replica *replica;
    struct replay_tables *replays;
    struct months *months;
    struct removal_tables *removals;
    struct ranking_tables *rankings;
    struct binlog *binlog;

    int64_t expected_votes[SIM_CONTENTS + 1]; /* where anyone votes */

    bool failed;
    struct story_focus focus; /* the events that the failure is about */
    char failure[400];
};

/* The run that is active: some callbacks have no context. */
extern struct sim *sim_running;

uint64_t sim_below(struct sim *sim, uint64_t limit);
bool sim_chance(struct sim *sim, unsigned thousandths);
/* From low to high, both included. */
int64_t sim_between(struct sim *sim, int64_t low, int64_t high);
int64_t sim_now(const struct sim *sim);
/* Whether the lane reads the binary log. */
bool sim_is_stream(const struct sim *sim, size_t lane);

/* For the engines. */
uint64_t sim_rng(void);
int64_t sim_wall_ms(void);
int64_t sim_clock_us(void);

/* A promise is broken. The first one ends the run. */
void sim_fail(struct sim *sim, int64_t key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The promise is about these events of the key. Call it after sim_fail(). */
void sim_focus(struct sim *sim, size_t event, size_t other);

void sim_tell(struct sim *sim, const char *who, int64_t key, const char *format, int64_t a,
              int64_t b, int64_t c);

/* A new event, not committed; its number + 1 is in its id. */
size_t sim_event_make(struct sim *sim, enum event_kind kind, int64_t key);
/* The number of the event with this id; the id was made by us. */
size_t sim_event_find(const struct sim *sim, const uint8_t id[16]);

struct proc *proc_add(struct sim *sim, void *role, void (*start)(struct proc *proc),
                      void (*end)(struct proc *proc));
void proc_start(struct proc *proc, const char *kind, size_t number);
struct fiber *proc_thread(struct proc *proc, void (*main)(void *arg), void *arg);
int64_t proc_clock(const struct proc *proc);

/* A call to a server: other fibers may run, and the process may freeze or end here. When it ends,
 * this does not return. */
void proc_pass(struct proc *proc);

/* SIGKILL. Does not return when one of its own fibers calls. */
void proc_kill(struct proc *proc);

/* The process ends by itself, after it has closed everything. */
void proc_exit(struct proc *proc);

#endif
