/* SPDX-License-Identifier: MIT */
/* The diverted keys of one lane: those whose rows go through the retry queue, because one of them
 * was refused and has not come to its end there. And the rows that are on their way into it.
 *
 * The sender stops a key by handing over its refused row (diverted_keys_give()), and hands over
 * every later row of it, too. The diverter (diverter.h) takes the rows in this order into the retry
 * queue, and asks now and then which keys still have tasks there. A row's place in the order of
 * handing over is its ticket. A key goes back to the fast path when the answer is no, and the last
 * ticket of the key was committed before the question was asked: a row that was under way would be
 * overtaken otherwise.
 *
 * What was handed over is bounded, in all and for each key. Past that a row is left in the table,
 * and the key's later ones of the same full scan with it; the next full scan meets the first of
 * them first. So a key that gets more rows than its tasks can follow comes to an end in the retry
 * queue all the same.
 *
 * All of it is worth something under one lease only. diverted_keys_void(): the rows on their way
 * are not moved any more; the sender sees by the generation that it must take up its rows from the
 * start of the table. The lock is held for no longer than a look. Sender and diverter; pure
 * otherwise. */
#ifndef OUTBOX_RELAY_DIVERTED_KEYS_H
#define OUTBOX_RELAY_DIVERTED_KEYS_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows on their way into the retry queue, a power of two. */
#define DIVERTED_MOVES_MAX 1024

/* Rows of one key that follow it into the retry queue before it goes back to the fast path. */
#define DIVERTED_KEY_ROWS_MAX 10000

struct diverted_key {
    uint64_t key;       /* 0 = empty slot */
    uint64_t ticket;    /* of its last row that was handed over, + 1; 0: none of ours */
    uint64_t left_scan; /* in which a row of it was left in the table; 0: none */
    size_t rows;        /* that were handed over */
    bool ended;         /* its tasks are gone, but the rows left in this scan come first */
    char *ordering_key;
};

struct diverted_keys {
    pthread_mutex_t lock;       /* guards what follows */
    struct diverted_key *slots; /* open addressing */
    size_t mask;
    size_t count_max;
    size_t key_rows_max; /* DIVERTED_KEY_ROWS_MAX, or fewer in tests */
    size_t moves_max;    /* DIVERTED_MOVES_MAX, or fewer in tests */
    uint64_t scan;
    struct relay_move
        *moves;    /* by ticket; home..done are in the retry queue, done..next on the way */
    uint64_t home; /* the sender has given the rows below back to the reader */
    uint64_t done;
    uint64_t next;

    atomic_size_t count;      /* of keys; written under the lock */
    atomic_ullong generation; /* grows with each diverted_keys_void() and each loading */
    atomic_llong epoch;       /* of the lease that the keys were loaded under; 0: void */
    atomic_bool too_many;     /* keys were there when they were loaded: they are not loaded */
};

enum diverted_keys_say {
    DIVERTED_NOT,   /* the key is free: send it */
    DIVERTED_IS,    /* hand the row over */
    DIVERTED_STALE, /* begin anew */
};

enum diverted_given {
    DIVERTED_MOVES, /* it is on its way into the retry queue */
    DIVERTED_LEFT,  /* it has to stay in the table until the next scan */
    DIVERTED_FULL,  /* there is no room for another key: nothing was done */
    DIVERTED_VOID,  /* as DIVERTED_STALE: nothing was done */
};

/* RC_FATAL: no memory. */
enum rc diverted_keys_init(struct diverted_keys *diverted, size_t count_max, struct err *err);
void diverted_keys_done(struct diverted_keys *diverted);

/* The sender's.
 *
 * diverted_keys_adopt(): the generation of the keys that were loaded under this lease; 0: none yet.
 * diverted_keys_ask(): what to do with a row of this key.
 * diverted_keys_give(): hands the row over; its key is diverted from now on. move is copied.
 * diverted_keys_leave(): the row was given back to the reader unsent; its key must be diverted.
 * diverted_keys_begin_full_scan(): the reader begins with the first row again, and no batch is
 * under way. diverted_keys_home(): the next row that is in the retry queue, or will not be moved;
 * false: none. */
uint64_t diverted_keys_adopt(const struct diverted_keys *diverted, int64_t epoch);
enum diverted_keys_say diverted_keys_ask(struct diverted_keys *diverted, uint64_t generation,
                                         uint64_t key);
enum diverted_given diverted_keys_give(struct diverted_keys *diverted, uint64_t generation,
                                       const struct relay_move *move, bool *news);
void diverted_keys_leave(struct diverted_keys *diverted, uint64_t key);
void diverted_keys_begin_full_scan(struct diverted_keys *diverted, uint64_t scan);
bool diverted_keys_home(struct diverted_keys *diverted, int64_t *seq);

/* The diverter's.
 *
 * diverted_keys_void(): the lease they are of is lost.
 * diverted_keys_load_begin(), _put(), _end(): the keys that have tasks; _begin() is false while
 * rows wait to go home, _put() when there are too many. diverted_keys_moves(): the next rows,
 * borrowed until diverted_keys_moved(); consecutive, rows_max at most. diverted_keys_question(): up
 * to keys_max keys whose rows are all in the retry queue, from *cursor on. diverted_keys_answer():
 * no task of the key was there when the rows below asked were. True: rows of it were left in the
 * table, and a full scan should find them. */
void diverted_keys_void(struct diverted_keys *diverted);
bool diverted_keys_load_begin(struct diverted_keys *diverted);
bool diverted_keys_put(struct diverted_keys *diverted, const char *ordering_key);
void diverted_keys_load_end(struct diverted_keys *diverted, int64_t epoch);
const struct relay_move *diverted_keys_moves(struct diverted_keys *diverted, size_t rows_max,
                                             size_t *count);
void diverted_keys_moved(struct diverted_keys *diverted, size_t count);
size_t diverted_keys_question(struct diverted_keys *diverted, size_t *cursor, struct lane_key *keys,
                              size_t keys_max, uint64_t *asked);
bool diverted_keys_answer(struct diverted_keys *diverted, uint64_t key, uint64_t asked);

#endif
