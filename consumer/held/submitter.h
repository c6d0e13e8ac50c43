/* SPDX-License-Identifier: MIT */
/* Submits held keys (held.h) to the retry queue: one task for each key, which replays its records.
 * Decides when to search for held keys. Held records are in the sink database and tasks may be on
 * another server, so a task cannot be part of the COMMIT that holds a record. The submitter
 * therefore searches at the start, soon after an applier has stored a held record, and every
 * minute. A key that has an active task gets no second one. If the process is killed between the
 * two databases, nothing is lost. If the database of the tasks is unavailable, tasks are delayed
 * and consuming continues.
 *
 * submitter_step() is the loop of one thread (common/loop.h). Several may run for one group. */
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

struct vote_task;

#define HELD_SUBMIT_MAX 100

/* A held key, represented by one of its dead records. */
struct held_key {
    int64_t id; /* of the record */
    char topic[TOPIC_SIZE];
    int32_t partition;
    char key[VOTE_KEY_SIZE];
};

/* What the submitter needs of the sink database, which has the held records, and of the database
 * that has the tasks. No transaction spans both, and none stays open between calls. */
struct held_store {
    void *ctx;

    /* Calls on_key for held records of the group with an id above `after`, ordered by id, at most
     * rows_max. */
    enum rc (*read_keys)(void *ctx, int64_t after, size_t rows_max,
                         void (*on_key)(void *key_ctx, const struct held_key *key), void *key_ctx,
                         struct err *err);

    /* Submits the tasks, at most HELD_SUBMIT_MAX, all or none. *made: how many of them are new. A
     * second call has no further effect. */
    enum rc (*submit)(void *ctx, const struct retry_new_task *tasks, size_t count, size_t *made,
                      struct err *err);
};

/* Rows of a page. More than HELD_SUBMIT_MAX, because several rows may belong to one key, and a key
 * gets one task. */
#define SUBMITTER_PAGE_ROWS 500
#define SUBMITTER_SEARCH_MS 60000
/* The shortest time between the starts of two searches. */
#define SUBMITTER_GAP_MS 5000

struct submitter {
    const struct held_store *store;
    const char *group; /* of the consumers */
    uint64_t (*rng)(void);
    atomic_uint kept; /* grows when an applier has stored a held record; any thread */
    unsigned seen;    /* the value of kept when the last search began */
    bool searching;
    int64_t began_ms; /* of the last search */
    int64_t next_ms;  /* of the next search, unless kept grows earlier */
    int64_t after;
    size_t rows;             /* of the current page */
    struct dead_keys keys;   /* found by this search */
    size_t count;            /* new keys of the page */
    int64_t found;           /* keys found by this search */
    struct held_key *page;   /* SUBMITTER_PAGE_ROWS of them */
    struct vote_task *tasks; /* HELD_SUBMIT_MAX of them */
    bool full;               /* memory for a key ran out */
    struct backoff backoff;
    struct condition submitting;
};

/* store and group are borrowed for the life of submitter. RC_FATAL: no memory. */
enum rc submitter_init(struct submitter *submitter, const struct held_store *store,
                       const char *group, uint64_t (*rng)(void), struct err *err);
void submitter_done(struct submitter *submitter);

/* Asks for a search soon, because a held record was stored. Any thread; the caller also wakes the
 * loop. */
void submitter_request(struct submitter *submitter);

/* A loop_step: handles one page. */
int64_t submitter_step(void *submitter, int64_t now_ms);

#endif
