/* SPDX-License-Identifier: MIT */
/* The keys whose order is held because one of their rows was refused: that row and every later one
 * of its key stay in the table until it is accepted or gone. Bounded. The reader's passes over the
 * whole table (sweeps) bring the refused row back, in order; it is tried at the next pass, then at
 * every second, fourth ... sixteenth, because each try of a row that the broker refuses stops the
 * pipeline. Pure; one thread at a time. */
#ifndef OUTBOX_STOPPED_H
#define OUTBOX_STOPPED_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stopped_key {
    uint64_t key; /* hash of topic and key; 0 = empty slot */
    int64_t seq;  /* the refused row */
    uint64_t seen_pass;
    uint64_t try_pass;
    unsigned tries;
};

struct stopped {
    struct stopped_key *slots; /* open addressing */
    size_t mask;
    size_t count;
    size_t count_max;
    uint64_t pass;
};

enum stopped_say {
    STOPPED_NOT,  /* the key is free, or the row is older than the refused one */
    STOPPED_TRY,  /* send it alone and see */
    STOPPED_SKIP, /* leave it in the table */
};

/* RC_FATAL: no memory. */
enum rc stopped_init(struct stopped *stopped, size_t count_max, struct err *err);
void stopped_done(struct stopped *stopped);
void stopped_clear(struct stopped *stopped);

/* A new pass over the table begins. Keys whose refused row the last pass did not meet, and no later
 * one either, have nothing left to hold: they are dropped. */
void stopped_begin_pass(struct stopped *stopped, uint64_t pass);

/* What to do with this row, met in order during the current pass. The answer stays STOPPED_TRY until
 * stopped_add() or stopped_free() tells the outcome. */
enum stopped_say stopped_ask(struct stopped *stopped, uint64_t key, int64_t seq);

/* The row was refused. False: there is no room for another key; nothing changed.
 * *news: the key was not stopped before, or by another row. */
bool stopped_add(struct stopped *stopped, uint64_t key, int64_t seq, bool *news);

/* The current pass has come by the refused row of the key. */
void stopped_meet(struct stopped *stopped, uint64_t key);

/* A row of the key was accepted. True when this set it free. */
bool stopped_free(struct stopped *stopped, uint64_t key, int64_t seq);

#endif
