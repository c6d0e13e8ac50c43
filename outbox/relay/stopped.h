/* SPDX-License-Identifier: MIT */
/* The stopped keys of one lane: those whose rows go through the retry lane, because one of them was
 * refused and has not come to its end there. And the rows that are on their way into it.
 *
 * The sender stops a key by handing over its refused row (stopped_give()), and hands over every
 * later row of it, too. The mover (mover.h) takes the rows in this order into the retry lane, and
 * asks now and then which keys still have tasks there. A row's place in the order of handing over is
 * its ticket. A key goes back to the fast path when the answer is no, and the last ticket of the key
 * was committed before the question was asked: a row that was under way would be overtaken
 * otherwise.
 *
 * What was handed over is bounded, in all and for each key. Past that a row is left in the table,
 * and the key's later ones of the same pass of the reader with it; the next pass meets the first of
 * them first. So a key that gets more rows than its tasks can follow comes to an end in the retry
 * lane all the same.
 *
 * All of it is worth something under one lease only. stopped_void(): the rows on their way are not
 * moved any more; the sender sees by the generation that it must take up its rows from the start of
 * the table. The lock is held for no longer than a look. Sender and mover; pure otherwise. */
#ifndef OUTBOX_RELAY_STOPPED_H
#define OUTBOX_RELAY_STOPPED_H

#include "common/err.h"
#include "outbox/relay/relay_seam.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows on their way into the retry lane, a power of two. */
#define STOPPED_MOVES_MAX 1024

/* Rows of one key that follow it into the retry lane before it goes back to the fast path. */
#define STOPPED_KEY_ROWS_MAX 10000

struct stopped_key {
    uint64_t key;       /* 0 = empty slot */
    uint64_t ticket;    /* of its last row that was handed over, + 1; 0: none of ours */
    uint64_t left_pass; /* in which a row of it was left in the table; 0: none */
    size_t rows;        /* that were handed over */
    bool ended;         /* its tasks are gone, but the rows left in this pass come first */
    char *ordering_key;
};

struct stopped {
    pthread_mutex_t lock;      /* guards what follows */
    struct stopped_key *slots; /* open addressing */
    size_t mask;
    size_t count_max;
    size_t key_rows_max; /* STOPPED_KEY_ROWS_MAX, or fewer in tests */
    size_t moves_max;    /* STOPPED_MOVES_MAX, or fewer in tests */
    uint64_t pass;
    struct relay_move
        *moves;    /* by ticket; home..done are in the retry lane, done..next on the way */
    uint64_t home; /* the sender has given the rows below back to the reader */
    uint64_t done;
    uint64_t next;

    atomic_size_t count;      /* of keys; written under the lock */
    atomic_ullong generation; /* grows with each stopped_void() and each loading */
    atomic_llong epoch;       /* of the lease that the keys were loaded under; 0: void */
    atomic_bool too_many;     /* keys were there when they were loaded: they are not loaded */
};

enum stopped_say {
    STOPPED_NOT,   /* the key is free: send it */
    STOPPED_IS,    /* hand the row over */
    STOPPED_STALE, /* begin anew */
};

enum stopped_given {
    STOPPED_MOVES, /* it is on its way into the retry lane */
    STOPPED_LEFT,  /* it has to stay in the table until the next pass */
    STOPPED_FULL,  /* there is no room for another key: nothing was done */
    STOPPED_VOID,  /* as STOPPED_STALE: nothing was done */
};

/* RC_FATAL: no memory. */
enum rc stopped_init(struct stopped *stopped, size_t count_max, struct err *err);
void stopped_done(struct stopped *stopped);

/* The sender's.
 *
 * stopped_adopt(): the generation of the keys that were loaded under this lease; 0: none yet.
 * stopped_ask(): what to do with a row of this key.
 * stopped_give(): hands the row over; its key is stopped from now on. move is copied.
 * stopped_leave(): the row was given back to the reader unsent; its key must be stopped.
 * stopped_begin_pass(): the reader begins with the first row again, and no batch is under way.
 * stopped_home(): the next row that is in the retry lane, or will not be moved; false: none. */
uint64_t stopped_adopt(const struct stopped *stopped, int64_t epoch);
enum stopped_say stopped_ask(struct stopped *stopped, uint64_t generation, uint64_t key);
enum stopped_given stopped_give(struct stopped *stopped, uint64_t generation,
                                const struct relay_move *move, bool *news);
void stopped_leave(struct stopped *stopped, uint64_t key);
void stopped_begin_pass(struct stopped *stopped, uint64_t pass);
bool stopped_home(struct stopped *stopped, int64_t *seq);

/* The mover's.
 *
 * stopped_void(): the lease they are of is lost.
 * stopped_load_begin(), _put(), _end(): the keys that have tasks; _begin() is false while rows wait
 * to go home, _put() when there are too many.
 * stopped_moves(): the next rows, borrowed until stopped_moved(); consecutive, rows_max at most.
 * stopped_question(): up to keys_max keys whose rows are all in the retry lane, from *cursor on.
 * stopped_answer(): no task of the key was there when the rows below asked were. True: rows of it
 * were left in the table, and a new pass should find them. */
void stopped_void(struct stopped *stopped);
bool stopped_load_begin(struct stopped *stopped);
bool stopped_put(struct stopped *stopped, const char *ordering_key);
void stopped_load_end(struct stopped *stopped, int64_t epoch);
const struct relay_move *stopped_moves(struct stopped *stopped, size_t rows_max, size_t *count);
void stopped_moved(struct stopped *stopped, size_t count);
size_t stopped_question(struct stopped *stopped, size_t *cursor, struct lane_key *keys,
                        size_t keys_max, uint64_t *asked);
bool stopped_answer(struct stopped *stopped, uint64_t key, uint64_t asked);

#endif
