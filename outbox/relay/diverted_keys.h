/* SPDX-License-Identifier: MIT */
/* The diverted keys of one lane, and the queue of rows to be moved into the retry queue. A key is
 * diverted while it has rows or tasks in the retry queue, because one of its rows was refused.
 *
 * The sender diverts a key by queueing its refused row with diverted_keys_divert_row(), and queues
 * every later row of the key, too. The diverter (diverter.h) moves the rows into the retry queue in
 * the order of the queue, and queries at intervals which keys still have tasks there. The ticket of
 * a row is its place in the queue, counted from 1.
 *
 * Invariant R6: while a key is diverted, none of its rows is sent; its rows are moved in order
 * (mutants diverted-key-passes, moves-forgotten, left-row-passed; test_diverted_keys).
 * Invariant R7: a key is released only if a query found no task of it, and the move of the key's
 * last queued row had been committed before that query. Otherwise a later row could overtake a row
 * that was not moved yet (mutant ticket-ignored).
 *
 * The number of queued rows is bounded, in total and per key, and so are the bytes of their copies
 * (struct relay_move). Above a bound a row is left in the table, and so are the key's later rows of
 * the same full scan; the next full scan reads the first of them first. So a key that receives rows
 * faster than its tasks run still drains in the retry queue.
 *
 * The keys and the queue are valid under one lease only. After diverted_keys_invalidate() the
 * queued rows are not moved any more. The sender learns from the changed generation that it must
 * return all rows and read the table from its first row. The sender and the diverter may call these
 * functions at the same time: the lock is held for memory accesses only. Otherwise pure. */
#ifndef OUTBOX_RELAY_DIVERTED_KEYS_H
#define OUTBOX_RELAY_DIVERTED_KEYS_H

#include "common/err.h"
#include "outbox/relay/relay_ops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places of the queue, a power of two. */
#define DIVERTED_MOVES_MAX 1024

/* Bytes of queued copies of rows. One copy may be larger. */
#define DIVERTED_ROW_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* Rows of one key that are queued before it is released. Later rows are left in the table. */
#define DIVERTED_KEY_ROWS_MAX 10000

struct diverted_key {
    uint64_t key;       /* 0 = empty slot */
    uint64_t ticket;    /* of its last queued row; 0: this process queued none */
    uint64_t left_scan; /* full scan in which a row was left in the table; 0: none */
    size_t rows;        /* that were queued */
    bool tasks_ended;   /* it has no task, but rows were left in this full scan */
    char *ordering_key;
};

struct diverted_keys {
    pthread_mutex_t lock;       /* guards slots, scan and the queue */
    struct diverted_key *slots; /* open addressing */
    size_t mask;
    size_t count_max;
    size_t key_rows_max;      /* DIVERTED_KEY_ROWS_MAX, or fewer in tests */
    size_t moves_max;         /* DIVERTED_MOVES_MAX, or fewer in tests */
    size_t row_bytes_max;     /* DIVERTED_ROW_BYTES_MAX, or fewer in tests */
    size_t row_bytes;         /* of the copies of rows in the queue */
    uint64_t scan;            /* number of the present full scan */
    struct relay_move *moves; /* the queue, a ring */
    uint64_t returned;        /* rows that the sender has returned to the reader */
    uint64_t moved;           /* rows that were moved or returned, >= returned */
    uint64_t next;            /* rows that were queued, >= moved */

    atomic_size_t count;      /* keys; written under the lock */
    atomic_ullong generation; /* grows when the keys become invalid and when loading begins */
    atomic_llong epoch;       /* of the lease under which the keys were loaded; 0: not loaded */
    atomic_bool too_many;     /* the last loading found more than count_max keys and failed */
};

enum diverted_key_state {
    KEY_NOT_DIVERTED, /* send the row */
    KEY_DIVERTED,     /* queue the row */
    KEY_STALE,        /* the keys are not valid any more: return all rows */
};

enum divert_result {
    DIVERT_QUEUED, /* the row is queued */
    DIVERT_LEFT,   /* the row must be left in the table until the next full scan */
    DIVERT_FULL,   /* no room for another key; nothing was changed */
    DIVERT_STALE,  /* as KEY_STALE; nothing was changed */
};

/* Allocates for up to count_max keys, none loaded. Returns RC_FATAL when memory is exhausted; then
 * diverted_keys_done() is allowed. */
enum rc diverted_keys_init(struct diverted_keys *diverted, size_t count_max, struct err *err);

/* Frees the memory. A zeroed struct is allowed. */
void diverted_keys_done(struct diverted_keys *diverted);

/* For the sender. Returns the generation of the keys that were loaded under the lease with this
 * epoch, or 0 when they are not loaded. */
uint64_t diverted_keys_adopt(const struct diverted_keys *diverted, int64_t epoch);

/* For the sender. Returns what to do with a row of this key. */
enum diverted_key_state diverted_keys_check(struct diverted_keys *diverted, uint64_t generation,
                                            uint64_t key);

/* For the sender. Queues a copy of move; its key is diverted from now on. Sets *newly_diverted when
 * the key was not diverted before. With DIVERT_QUEUED the queue owns move->row, with any other
 * result the caller still owns it. */
enum divert_result diverted_keys_divert_row(struct diverted_keys *diverted, uint64_t generation,
                                            const struct relay_move *move, bool *newly_diverted);

/* For the sender. Returns whether diverted_keys_divert_row() has room for a copy with so many
 * bytes, as relay_row_bytes(). Only the sender takes room. */
bool diverted_keys_has_room(struct diverted_keys *diverted, size_t row_bytes);

/* For the sender. Returns whether queued rows were not returned yet. */
bool diverted_keys_has_moves(struct diverted_keys *diverted);

/* Any thread. Returns whether the keys are loaded under the lease with this epoch, and none is
 * diverted: the lane has no task in the retry queue. */
bool diverted_keys_are_none(const struct diverted_keys *diverted, int64_t epoch);

/* For the sender. Records that a row of this diverted key was returned to the reader unsent and
 * stays in the table: the key's later rows of this full scan must stay there, too. */
void diverted_keys_leave_row(struct diverted_keys *diverted, uint64_t key);

/* For the sender. Records the number of a full scan that has begun, and releases the keys whose
 * tasks had ended while rows of theirs were left in the table. No batch of an older full scan may
 * be in use. */
void diverted_keys_begin_full_scan(struct diverted_keys *diverted, uint64_t scan);

/* For the sender. Returns whether the first queued row can be returned to the reader, because it
 * was moved or its move was abandoned, and sets *moved: which of the two. The answer does not
 * change until diverted_keys_return_row(). */
bool diverted_keys_can_return(struct diverted_keys *diverted, bool *moved);

/* For the sender, after diverted_keys_can_return(). Takes this row from the queue, frees its copy,
 * and returns its seq. */
int64_t diverted_keys_return_row(struct diverted_keys *diverted);

/* For the diverter. Records that the lease is lost: the keys are unknown and no row is moved. */
void diverted_keys_invalidate(struct diverted_keys *diverted);

/* For the diverter. Removes all keys before they are loaded again. Returns false, and changes
 * nothing, while the sender has not yet returned all queued rows. */
bool diverted_keys_load_begin(struct diverted_keys *diverted);

/* For the diverter, after diverted_keys_load_begin(). Adds one key that has tasks in the retry
 * queue. Returns false when there is no room for it. */
bool diverted_keys_load_key(struct diverted_keys *diverted, const char *ordering_key);

/* For the diverter. All keys were loaded under the lease with this epoch; the sender may send. */
void diverted_keys_load_end(struct diverted_keys *diverted, int64_t epoch);

/* For the diverter. Returns the next rows to move, consecutive in the queue and at most rows_max,
 * and sets *count. They and their rows are borrowed until diverted_keys_moved(),
 * diverted_keys_invalidate(), or the next call. */
const struct relay_move *diverted_keys_moves(struct diverted_keys *diverted, size_t rows_max,
                                             size_t *count);

/* For the diverter. The first count of these rows were moved and the transaction has committed. */
void diverted_keys_moved(struct diverted_keys *diverted, size_t count);

/* For the diverter. Copies up to keys_max keys, from slot *cursor on, whose queued rows were all
 * moved, sets *moved_at_query to the ticket of the last moved row, and advances *cursor. Returns
 * the number of keys. */
size_t diverted_keys_list_moved(struct diverted_keys *diverted, size_t *cursor,
                                struct lane_key *keys, size_t keys_max, uint64_t *moved_at_query);

/* For the diverter. A query that was sent after diverted_keys_list_moved() found no task of the
 * key: releases the key, unless a row of it was queued since. A key with rows left in the table
 * during the present full scan stays diverted until the next one begins. Returns whether rows of
 * the key were left in the table, so that a full scan should read them. */
bool diverted_keys_release_key(struct diverted_keys *diverted, uint64_t key,
                               uint64_t moved_at_query);

#endif
