/* SPDX-License-Identifier: MIT */
/* A fake of all servers that a relay uses: an outbox table with writers whose transactions overlap,
 * roll back and reserve seqs that they write later; a broker with partitions, lost answers, refused
 * records and requests that arrive late; and a retry queue that publishes the first task of a key
 * now and then. All of it runs in virtual time and is decided by one seed. The reader's statements
 * are those of tests/fakes/fake_outbox.h. The broker has one producer and one log; the simulation's
 * fake (tests/sim/broker.c) has brokers, leaders and holes. */
#ifndef TESTS_FAKES_FAKE_RELAY_H
#define TESTS_FAKES_FAKE_RELAY_H

#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/relay_ops.h"
#include "tests/fakes/fake_outbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_RELAY_ROWS_MAX 8192
#define FAKE_RELAY_KEYS 12
#define FAKE_RELAY_WRITERS 10
#define FAKE_RELAY_PARTITIONS 3
#define FAKE_RELAY_MESSAGES_MAX 256
#define FAKE_RELAY_LOG_MAX 65536

/* When a row was moved; see position_record_cover(). */
struct fake_move {
    int64_t epoch;
    uint64_t term;
    uint64_t row;
};

struct fake_relay_row {
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

struct fake_relay_writer {
    bool busy;
    bool written;
    bool will_roll_back;
    int key;
    int64_t first;
    int count;
    uint64_t id;
    int64_t act_ms;
};

enum fake_relay_message_state { MESSAGE_QUEUED, MESSAGE_APPENDED, MESSAGE_REPORTED };

struct fake_relay_message {
    int64_t seq;
    uint64_t ticket;
    int partition;
    enum fake_relay_message_state state;
    bool report_due;
    enum rc report;
};

/* The probability of each fault, in thousandths of calls or steps. */
struct fake_relay_faults {
    unsigned database;
    unsigned broker;
    unsigned lost_answer;
    unsigned roll_back;
    unsigned hold; /* a transaction stays open for long */
    unsigned bad_row;
    unsigned move;  /* the retry queue takes nothing */
    unsigned ghost; /* requests of a producer that was reset still arrive */
};

struct fake_relay {
    uint64_t rng;
    int64_t now_ms;
    struct fake_relay_faults faults;
    bool writing; /* writers begin new transactions */
    bool healed;  /* nothing is refused any more */
    bool writers_known;
    bool next_hidden;   /* the server does not tell the table's next AUTO_INCREMENT value */
    bool several_nodes; /* a row that is reserved only is of another node */
    bool calls_advance; /* writers and broker continue between two calls of a step */

    struct fake_relay_row rows[FAKE_RELAY_ROWS_MAX + 1]; /* by seq */
    struct fake_outbox outbox;
    struct fake_source source;
    uint64_t writer_next;
    struct fake_relay_writer writers[FAKE_RELAY_WRITERS];
    bool key_locked[FAKE_RELAY_KEYS];
    int key_next[FAKE_RELAY_KEYS];

    struct fake_relay_message messages[FAKE_RELAY_MESSAGES_MAX]; /* of the producer, in order */
    size_t message_count;
    struct fake_relay_message ghosts[FAKE_RELAY_MESSAGES_MAX];
    size_t ghost_count;
    bool finished; /* the producer is */
    int64_t down_until_ms;
    int64_t silent_until_ms; /* appends, and does not answer */

    int64_t log[FAKE_RELAY_LOG_MAX]; /* seqs, all partitions in one: keys do not mix */
    size_t log_count;
    uint64_t log_transactions[FAKE_RELAY_LOG_MAX]; /* of each record; 0: it is in none */
    uint64_t transaction;                          /* of what the producer sends; 0: it has none */

    int64_t epoch; /* of the lease in the database */
    size_t calls;
    size_t fail_call; /* this call fails; 0: none */
    enum rc fail_rc;
    size_t wrong_deletes;
    int64_t look_from;     /* of the last look for metrics */
    int64_t look_takes_ms; /* the next look alone; also when it fails */

    int64_t tasks[FAKE_RELAY_ROWS_MAX +
                  1]; /* rows in the retry queue, in their order; 0: it has ended */
    struct fake_move moves[FAKE_RELAY_ROWS_MAX + 1]; /* that made them */
    size_t task_count;
    /* Of a lane that publishes exactly once: the last record that was committed; else NULL. */
    const struct position_record *position;
    const struct relay_move *stream_moves; /* of the call under way, with numbers of the stream */
    size_t replaced;     /* tasks that ended without a record: the lane has read their rows again */
    size_t undecided;    /* of which the record did not tell */
    size_t copies;       /* tasks that were made from a copy of the row */
    size_t wrong_copies; /* copies that are not equal to their rows */
    unsigned task_chance; /* of each tick that one is published; in thousandths */
};

void fake_relay_init(struct fake_relay *fake, uint64_t seed);

/* A row that is there from the start; returns its seq. */
int64_t fake_relay_append(struct fake_relay *fake, int key);

/* Reserves a seq and leaves it open; fake_relay_commit() makes it a row. */
int64_t fake_relay_reserve(struct fake_relay *fake, int key);
void fake_relay_commit(struct fake_relay *fake, int64_t seq);
void fake_relay_roll_back(struct fake_relay *fake, int64_t seq);

/* A fail-over to a copy without the rows from this seq on: their seqs are given out again. No
 * transaction may be open and no request in flight. */
void fake_relay_lose_rows(struct fake_relay *fake, int64_t from);

/* One millisecond passes. */
void fake_relay_tick(struct fake_relay *fake);

/* True with a chance of thousandths / 1000. */
bool fake_relay_chance(struct fake_relay *fake, unsigned thousandths);
uint64_t fake_relay_below(struct fake_relay *fake, uint64_t limit);

/* The process is killed: its producer is lost, and its requests may still arrive. */
void fake_relay_kill(struct fake_relay *fake);

struct source fake_relay_source(struct fake_relay *fake);
struct broker fake_relay_broker(struct fake_relay *fake);
struct deleter_ops fake_relay_deleter(struct fake_relay *fake);
struct diverter_ops fake_relay_diverter(struct fake_relay *fake);

/* Rows that are committed and not deleted. */
size_t fake_relay_left(const struct fake_relay *fake);

/* Tasks of the retry queue; those of one key. fake_relay_run_task() publishes the key's first one.
 */
size_t fake_relay_tasks(const struct fake_relay *fake);
size_t fake_relay_key_tasks(const struct fake_relay *fake, int key);
void fake_relay_run_task(struct fake_relay *fake, int key);

/* Faults of the log: the number of rows whose first record came before that of a predecessor in
 * their key, and of committed rows without a record. */
size_t fake_relay_overtaken(const struct fake_relay *fake);
size_t fake_relay_lost(const struct fake_relay *fake);

/* For the files of the fake only. A call is made: true when it fails, with *rc. */
bool fake_relay_fails(struct fake_relay *fake, unsigned chance, enum rc *rc, struct err *err);
/* A call takes time; writers and broker continue meanwhile. */
void fake_relay_pass(struct fake_relay *fake);
/* The row as the table has it; key is memory for its aggregateid. ctx: the fake. */
void fake_relay_show_row(void *ctx, int64_t seq, char key[FAKE_KEY_SIZE], struct relay_row *row);
/* The broker appends a record of the row. */
void fake_relay_append_record(struct fake_relay *fake, int64_t seq);
/* The retry queue, in fake_relay_tasks.c. */
void fake_relay_task_step(struct fake_relay *fake);

#endif
