/* SPDX-License-Identifier: MIT */
/* Hands what is held (held.h) to the retry queue: one task for each key, which replays it there.
 * Decides when to look. What is held is in the sink, and tasks may be on another server, so nothing
 * is handed over with the COMMIT that holds it: it is looked for, at the start, soon after an
 * applier has kept something, and every minute, and a key that has a task gets no second one. A
 * kill between the two loses nothing, a writers' side that is away delays tasks and stops nobody.
 *
 * submitter_step() is the loop of one thread (common/loop.h). Any number may run for a group. */
#ifndef CONSUMER_HELD_SUBMITTER_H
#define CONSUMER_HELD_SUBMITTER_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "consumer/dead/dead.h"
#include "outbox/retry/retry.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held_task;

#define HELD_SUBMIT_MAX 100

/* A key that is held, by one of its dead records. */
struct held_key {
    int64_t id; /* of the record */
    char topic[TOPIC_SIZE];
    int32_t partition;
    char key[VOTE_KEY_SIZE];
};

/* What is needed of the sink, where held keys are read, and of the writers' side, where tasks are.
 * No transaction spans both, and none stays open between calls. */
struct held_store {
    void *ctx;

    /* Calls on_key for records of the group that are held, with higher ids than after, in the order
     * of their ids, rows_max at most. */
    enum rc (*read_keys)(void *ctx, int64_t after, size_t rows_max,
                         void (*on_key)(void *key_ctx, const struct held_key *key), void *key_ctx,
                         struct err *err);

    /* Submits the tasks, HELD_SUBMIT_MAX at most, all or none. *made: how many of them were not
     * there already. Done twice is as good as once. */
    enum rc (*submit)(void *ctx, const struct retry_new_task *tasks, size_t count, size_t *made,
                      struct err *err);
};

/* More rows than keys: what waits behind a key has rows, and no task, of its own. */
#define SUBMITTER_PAGE_ROWS 500
#define SUBMITTER_LOOK_MS 60000
/* Between two looks, however much is kept meanwhile. */
#define SUBMITTER_GAP_MS 5000

struct submitter {
    const struct held_store *store;
    const char *group; /* of the consumers */
    uint64_t (*rng)(void);
    atomic_uint kept; /* grows when something was kept; any thread */
    unsigned seen;    /* of it, when the last look began */
    bool looking;
    int64_t began_ms; /* the last look */
    int64_t next_ms;  /* the next one, when nothing is kept meanwhile */
    int64_t after;
    size_t rows;             /* of the page in hand */
    struct dead_keys keys;   /* of this look */
    size_t count;            /* keys of the page that are new */
    int64_t found;           /* keys of this look */
    struct held_key *page;   /* SUBMITTER_PAGE_ROWS of them */
    struct held_task *tasks; /* HELD_SUBMIT_MAX of them */
    bool full;               /* no memory for a key */
    struct backoff backoff;
    struct condition submitting;
};

/* store and group are borrowed for the life of submitter. RC_FATAL: no memory. */
enum rc submitter_init(struct submitter *submitter, const struct held_store *store,
                       const char *group, uint64_t (*rng)(void), struct err *err);
void submitter_done(struct submitter *submitter);

/* Something was kept: look soon. Any thread; the loop has to be woken, too. */
void submitter_note(struct submitter *submitter);

/* A loop_step: one page. */
int64_t submitter_step(void *submitter, int64_t now_ms);

#endif
