/* SPDX-License-Identifier: MIT */
/* A small world for the relay's engines: an outbox table with writers whose transactions overlap,
 * roll back and reserve seqs they write later, a broker with partitions, lost answers, refused
 * records and requests that arrive late, and a retry queue that publishes the first task of each
 * key now and then. All in virtual time, all decided by one seed. */
#ifndef TESTS_FLOW_RELAY_WORLD_H
#define TESTS_FLOW_RELAY_WORLD_H

#include "outbox/relay/relay_ops.h"
#include "tests/fakes/fake_outbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORLD_ROWS_MAX 8192
#define WORLD_KEYS 12
#define WORLD_WRITERS 10
#define WORLD_PARTITIONS 3
#define WORLD_MESSAGES_MAX 256
#define WORLD_LOG_MAX 65536

struct world_row {
    enum outbox_state state;
    int key;
    int n; /* its place in its key */
    uint64_t writer;
    int64_t made_ms;
    bool bad;      /* the broker refuses it */
    bool sync_bad; /* send() refuses it */
    bool oversize;
    size_t published;
    size_t refused;
};

struct world_writer {
    bool busy;
    bool written;
    bool will_roll_back;
    int key;
    int64_t first;
    int count;
    uint64_t id;
    int64_t act_ms;
};

enum world_message_state { MESSAGE_QUEUED, MESSAGE_APPENDED, MESSAGE_REPORTED };

struct world_message {
    int64_t seq;
    uint64_t ticket;
    int partition;
    enum world_message_state state;
    bool report_due;
    enum rc report;
};

/* How much goes wrong, in thousandths of calls or steps. */
struct world_faults {
    unsigned database;
    unsigned broker;
    unsigned lost_answer;
    unsigned roll_back;
    unsigned hold; /* a transaction stays open for long */
    unsigned bad_row;
    unsigned move;  /* the retry queue takes nothing */
    unsigned ghost; /* requests of a producer that was thrown away still arrive */
};

struct world {
    uint64_t rng;
    int64_t now_ms;
    struct world_faults faults;
    bool writing; /* writers begin new transactions */
    bool healed;  /* nothing is refused any more */
    bool writers_known;
    bool next_hidden;   /* the server does not tell the table's next AUTO_INCREMENT value */
    bool several_nodes; /* a row that is reserved only is of another node */
    bool calls_advance; /* writers and broker go on between two calls of a step */

    struct world_row rows[WORLD_ROWS_MAX + 1]; /* by seq */
    struct fake_outbox outbox;
    struct fake_source source;
    uint64_t writer_next;
    struct world_writer writers[WORLD_WRITERS];
    bool key_locked[WORLD_KEYS];
    int key_next[WORLD_KEYS];

    struct world_message messages[WORLD_MESSAGES_MAX]; /* of the producer, in order */
    size_t message_count;
    struct world_message ghosts[WORLD_MESSAGES_MAX];
    size_t ghost_count;
    bool finished; /* the producer is */
    int64_t down_until_ms;
    int64_t silent_until_ms; /* appends, and does not answer */

    int64_t log[WORLD_LOG_MAX]; /* seqs, all partitions in one: keys do not mix */
    size_t log_count;

    int64_t epoch; /* of the lease in the database */
    size_t calls;
    size_t fail_call; /* this call fails; 0: none */
    enum rc fail_rc;
    size_t wrong_deletes;
    int64_t look_from;     /* of the last look for metrics */
    int64_t look_takes_ms; /* the next look alone; also when it fails */

    int64_t
        tasks[WORLD_ROWS_MAX + 1]; /* rows in the retry queue, in their order; 0: it has ended */
    size_t task_count;
    unsigned task_chance; /* of each tick that one is published; in thousandths */
};

void world_init(struct world *world, uint64_t seed);

/* A row that is there from the start; returns its seq. */
int64_t world_append(struct world *world, int key);

/* Reserves a seq and leaves it open; world_commit() makes it a row. */
int64_t world_reserve(struct world *world, int key);
void world_commit(struct world *world, int64_t seq);
void world_roll_back(struct world *world, int64_t seq);

/* A fail-over to a copy that never heard of the rows from this seq on: their seqs are given out
 * again. Nothing may be open or on its way to the broker. */
void world_lose_rows(struct world *world, int64_t from);

/* One millisecond passes. */
void world_tick(struct world *world);

/* True with a chance of thousandths / 1000. */
bool world_chance(struct world *world, unsigned thousandths);
uint64_t world_below(struct world *world, uint64_t limit);

/* A process ended: its producer is gone, its requests may still arrive. */
void world_kill(struct world *world);

struct source world_source(struct world *world);
struct broker world_broker(struct world *world);
struct deleter_ops world_deleter(struct world *world);

/* Rows that are committed and not deleted. */
size_t world_left(const struct world *world);

/* Tasks of the retry queue; those of one key. world_run_task() publishes the key's first one. */
size_t world_tasks(const struct world *world);
size_t world_key_tasks(const struct world *world, int key);
void world_run_task(struct world *world, int key);

/* What is wrong with the log: rows whose first record came before that of a predecessor in their
 * key; committed rows without a record. */
size_t world_overtaken(const struct world *world);
size_t world_lost(const struct world *world);

/* Of the world's own files.
 *
 * world_fails(): a call is made; does it fail, and how? world_append_record(): the broker has one
 * more. world_pass(): a call lasts, and others go on meanwhile. The others are of
 * relay_world_tasks.c. */
bool world_fails(struct world *world, unsigned chance, enum rc *rc, struct err *err);
void world_pass(struct world *world);
void world_append_record(struct world *world, int64_t seq);
void world_task_step(struct world *world);
enum rc world_move_rows(void *ctx, const struct relay_move *moves, size_t count, int64_t epoch,
                        bool *fenced, struct err *err);
enum rc world_load_keys(void *ctx, size_t keys_max, deleter_on_key on_key, void *on_key_ctx,
                        struct err *err);
enum rc world_keys_left(void *ctx, struct lane_key *keys, size_t count, struct err *err);

#endif
