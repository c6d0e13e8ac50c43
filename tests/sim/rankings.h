/* SPDX-License-Identifier: MIT */
/* Recommended lists: the tables that they are read from, the real watcher and builder of a serve
 * process on a fake of their store, readers between any two of their calls, and the promises P7 and
 * P8. The model keeps each list that was right at some time, by a sort of its own. */
#ifndef TESTS_SIM_RANKINGS_H
#define TESTS_SIM_RANKINGS_H

#include "producer/remark/recommended_builder.h"
#include "tests/sim/db.h"
#include "tests/sim/promises.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Items 1..RANKING_ITEMS; the last ones have no remarks. */
#define RANKING_ITEMS 5
#define RANKING_ITEMS_FULL 3
#define RANKING_VERSIONS_MAX 1024
#define RANKING_NEEDS_MAX 64

/* A list that was right from from_ms on, until the next one was. */
struct ranking_version {
    int64_t from_ms;
    size_t count;
    int64_t ids[SIM_CONTENTS];
};

/* From due_ms on, readers get the list of this version or a later one. */
struct ranking_need {
    int64_t due_ms;
    size_t version;
    bool waits; /* due_ms has the time for which an item that was built shortly before waits */
};

struct ranking_item {
    struct ranking_version versions[RANKING_VERSIONS_MAX];
    size_t version_count;
    struct ranking_need needs[RANKING_NEEDS_MAX];
    size_t need_count;
    size_t needed; /* the version that the needs which were due asked for */
    int64_t written_ms;
    int64_t changed_db_ms; /* its row of recommended_change; 0: none */
};

struct ranking_tables {
    struct ranking_item items[RANKING_ITEMS + 1];
    struct rank_weights weights;
    int64_t weights_count; /* changes so far */
    int64_t scores[SIM_CONTENTS + 1];
    int64_t finished;     /* the last roll-up that the model has seen */
    int64_t retry_max_ms; /* of all processes */
    bool quiet;           /* without new weights, and with few writes, after that time */
    int64_t healed_ms;    /* when faults ended; 0: not yet */
};

/* What the model knows of an item in one life of a process. */
struct ranking_entry {
    bool asked; /* a reader was told that the list is being built */
    int64_t asked_ms;
    bool has_list;
    int failures; /* of builds since the last one that succeeded */
    int64_t failed_ms;
    /* Since the last build began: of a change while it was built, of a write that could not be
     * announced, of a later roll-up that wrote a remark, which may be removed since, or of a state
     * that the watcher has read while it was built, and that differs from that of the build. */
    bool told;
    size_t version; /* that its readers have seen */
    int64_t step;   /* of the builder, of the last build */
    int64_t built_ms;
    int64_t built_db_ms;
    int64_t window;
    int64_t weights_count;
};

#define RANKING_HELD_MAX 2

/* The lists of one serve process. */
struct ranking_process {
    struct proc *proc;
    struct link watcher_link;
    struct link builder_link;
    struct link writer_link;
    struct recommended_store watcher_store;
    struct recommended_store builder_store;
    struct recommended_config config;
    struct recommended *lists; /* NULL: the run has none */
    struct recommended_watcher watcher;
    struct recommended_builder builder;
    struct stop stop; /* never requested */
    struct fiber *watcher_fiber;
    struct fiber *builder_fiber;
    int64_t slow_ms;             /* the last slow query after the faults have ended */
    int64_t building;            /* the item; 0: none */
    int64_t steps;               /* of the builder */
    int builds;                  /* in this step */
    bool built;                  /* the last one: a list is kept */
    int64_t building_weights;    /* weights_count when the build was read */
    int64_t building_changed_ms; /* the last announcement of the item read meanwhile; 0: none */
    bool watched;                /* the watcher has read the state meanwhile, */
    struct recommended_state watched_state; /* which was this one */
    struct ranking_entry entries[RANKING_ITEMS + 1];
    struct recommended_list *held[RANKING_HELD_MAX]; /* by readers */
};

void rankings_begin_run(struct ranking_tables *tables, struct sim *sim);

/* Starts the threads of a process, whose memory must not move; frees what it has. */
void ranking_start(struct ranking_process *ranking, struct proc *proc);
void ranking_end(struct ranking_process *ranking);
/* A remark of the item was written by this process. */
void ranking_written(void *ranking, int64_t item);

int64_t rankings_item_of(int64_t content);
/* Remarks were written, or a roll-up may have ended. */
void rankings_note(struct sim *sim);

/* As promises.h. */
bool rankings_rest(const struct sim *sim, struct waiting *waiting);

#endif
