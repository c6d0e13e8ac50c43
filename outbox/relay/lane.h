/* SPDX-License-Identifier: MIT */
/* The state that the three steps of one lane share: reader, sender and deleter. The reader puts the
 * seq of each row that it passes to the sender into its window, and each seq returns to the reader
 * in a block:
 *
 *     reader --filled batches--> sender --acked blocks--> deleter --deleted blocks--> reader
 *                                  |--- dropped blocks: left in the table, or moved --^
 *
 * Empty batches return from the sender to the reader, and empty blocks go from the reader to the
 * sender. Each ring has one producing and one consuming step; all other shared fields are atomic.
 *
 * Invariant R5: after a failure, every row that was read and not acknowledged or refused is read
 * again, from the lowest one on, before any later row (mutants no-rewind, undecided-forgotten;
 * test_relay_trouble). For this the sender requests a hold with lane_request_hold(). When the
 * reader holds, it passes no batch. The sender then empties the ring of batches, returns every
 * undecided row, and releases the hold; the reader continues at the lowest of them. */
#ifndef OUTBOX_RELAY_LANE_H
#define OUTBOX_RELAY_LANE_H

#include "common/condition.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "common/metrics.h"
#include "common/ring.h"
#include "outbox/lease/leases.h"
#include "outbox/relay/diverted_keys.h"
#include "outbox/relay/relay_row.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The reader fills one, the sender sends one, and one waits in a ring. */
#define LANE_BATCHES 3

/* The longest sleep of a step that waits for another step while something is under way. */
#define LANE_WAIT_MS 100

/* The longest sleep of a step that has nothing under way. Invariant: whatever makes work for such a
 * step wakes it, and no progress depends on the end of this sleep (the fixtures of tests/flow let
 * it sleep without end). */
#define LANE_REST_MS 20000

#define SEQS_MAX 1024

#define RELAY_LANES_MAX 64

struct takeover;

/* The metrics of one lane. Any thread. */
struct relay_metrics {
    struct metric published;
    struct metric deleted;
    struct metric refused;
    struct metric moved;
    struct metric resets;
    struct metric origins_lost;
    struct metric gaps_closed;
    struct metric gaps_found;
    struct metric rows;
    struct metric oldest_age;
    struct metric open_gaps;
    struct metric in_flight;
    struct metric in_window;
    struct metric diverted_keys;
    struct metric unpublished;
    struct metric from_table;
    struct metric stream_shared;
    struct metric log_updates;
    struct metric log_statements;
    struct metric log_expires;
    struct metric lease_held;
    struct metric lease_epoch;
    struct metric send_seconds;
    char labels[80];
};

/* What has happened to the rows of a block that returns to the reader. */
enum seqs_kind {
    SEQS_DONE, /* deleted or moved into the retry queue; from the deleter: all after a lost lease */
    SEQS_LEFT, /* rows of diverted keys that were not queued: the next full scan reads them */
    SEQS_REREAD, /* read these rows again now */
};

/* A block of seqs that the steps pass to each other. */
struct seqs {
    size_t count;
    enum seqs_kind kind;
    int64_t list[SEQS_MAX];
};

enum lane_step { LANE_READER, LANE_SENDER, LANE_DELETER, LANE_STEPS };

struct lane {
    const char *name; /* in the log and in metrics */
    const struct lane_settings *own;
    const struct settings *settings;
    struct relay_metrics *metrics;
    void (*wake)(void *ctx, enum lane_step step);
    void *wake_ctx;
    int64_t (*time_ms)(void *ctx); /* present time within a step; NULL: the time of its begin */
    void *time_ctx;
    struct takeover *takeover; /* of a lane that publishes exactly once, else NULL */
    bool is_stream; /* its rows come from a stream, so a move needs their bytes; see relay_move */

    struct ring filled_batches; /* reader to sender */
    struct ring empty_batches;  /* sender to reader */
    struct ring acked_blocks;   /* sender to deleter */
    struct ring dropped_blocks; /* sender to reader */
    struct ring deleted_blocks; /* deleter to reader: deleted rows, or all after a lost lease */
    struct ring empty_blocks;   /* reader to sender */
    struct relay_batch batches[LANE_BATCHES];
    struct seqs *blocks;
    size_t block_count;

    struct leased lease; /* idle: every row and batch has returned to the reader */

    atomic_llong hold_requested;     /* by the sender: number of requested holds */
    atomic_llong hold_granted;       /* by the reader: the request for which it holds */
    atomic_llong hold_released;      /* by the sender: the request that is released */
    atomic_bool from_start;          /* by the sender: begin a full scan after the hold */
    atomic_llong scan;               /* by the reader: number of its present full scan */
    atomic_bool full_scan_requested; /* by any step: begin the next full scan now */

    atomic_llong emptied; /* by the keeper: how often the published rows were forgotten because the
                             table was emptied */

    atomic_bool watched; /* lane_note_write() is called for transactions that write rows */
    atomic_bool written; /* it was called since the reader has looked last */

    struct diverted_keys diverted; /* keys whose rows are moved into the retry queue */

    struct condition reading;       /* MySQL, set by the reader */
    struct condition sending;       /* Kafka, set by the sender */
    struct condition deleting;      /* MySQL, set by the deleter */
    struct condition diverting;     /* MySQL, set by the diverter in the deleter's thread */
    struct condition key_delivery;  /* failing while a key is diverted; set by the sender */
    struct condition lane_delivery; /* failing while too many are; set by the sender */
};

/* Registers the metrics of one lane, so that generated lists of all metrics contain them. */
void relay_metrics_register(void);

/* Registers and returns the metrics of the lane with this number, below RELAY_LANES_MAX (asserted).
 * They live as long as the process. */
struct relay_metrics *relay_metrics_of(size_t number, const char *lane);

/* Allocates the batches, the blocks and the rings. own, settings and metrics are borrowed until
 * lane_done(). Returns RC_FATAL when memory is exhausted; the lane then owns no memory. */
enum rc lane_init(struct lane *lane, const struct lane_settings *own,
                  const struct settings *settings, struct relay_metrics *metrics, struct err *err);

/* Frees the memory. No step may use the lane any more. */
void lane_done(struct lane *lane);

/* Ends the sleep of a step. Any thread. */
void lane_wake(const struct lane *lane, enum lane_step step);

/* Returns the epoch of the lease if it is held at now_ms, otherwise 0. Any thread. */
int64_t lane_epoch(const struct lane *lane, int64_t now_ms);

/* Returns how long a step with nothing under way may sleep: LANE_REST_MS, or until the lease ends
 * by the clock. The leases wake the steps when they take, drain or release the lease, but not when
 * they extend one that had ended by the clock. Any thread. */
int64_t lane_rest_ms(const struct lane *lane, int64_t now_ms);

/* Returns the present time in ms, within a step that began at now_ms. */
int64_t lane_now(const struct lane *lane, int64_t now_ms);

/* Returns lane_epoch() at the present time: the process may have been stopped since the step began
 * at now_ms. */
int64_t lane_epoch_now(const struct lane *lane, int64_t now_ms);

/* Reports that the database is not the one from which the rows in the window were read; why is the
 * reason for the log. The lease counts as lost. It is released when all rows have returned to the
 * reader, and may then be taken again. Ignored while the lane holds no rows. Any thread.
 * Invariant R9: when its database was replaced or has lost transactions, a lane gives up its rows
 * in flight and reads from the lowest row (mutant origin-ignored). */
void lane_origin_lost(struct lane *lane, const struct err *why);

/* Reports that another process publishes this lane. The lease counts as lost, as above. Any thread.
 */
void lane_fenced(struct lane *lane, const struct err *why);

/* Gives the lease up, to be taken with a new epoch by this process or another one: the state of the
 * lane in the database was changed outside of its steps. As lane_fenced(), without a log line. */
void lane_begin_again(struct lane *lane);

/* Tells that a transaction has written to the lane's table. Its rows can be seen soon after, most
 * often within milliseconds. Any thread. */
void lane_note_write(struct lane *lane);

/* Sets whether lane_note_write() will be called: an idle reader then polls once a second, which
 * also finds what was not told of. Any thread. */
void lane_set_watched(struct lane *lane, bool watched);

/* Makes the reader begin a full scan as soon as every batch has returned to it. Any thread. */
void lane_request_full_scan(struct lane *lane);

/* For the sender. Passes a block of rows to the reader, unless it is NULL or empty; *drops is then
 * NULL. */
void lane_pass_drops(struct lane *lane, struct seqs **drops);

/* For the sender. Makes room for one row of this kind in *drops, or in a new block: rows of
 * different kinds do not share one. Returns false when no empty block is left. */
bool lane_make_drop_room(struct lane *lane, struct seqs **drops, enum seqs_kind kind);

/* For the sender. Requests that the reader stops passing batches. */
void lane_request_hold(struct lane *lane);

/* For the reader: returns whether the sender requests a hold, and grants a new request. */
bool lane_grant_hold(struct lane *lane);

/* For the sender. Returns whether the reader holds; it then passes no batch until the release. */
bool lane_is_held(const struct lane *lane);

/* For the sender. Ends the hold. from_start makes the reader begin a full scan. */
void lane_release_hold(struct lane *lane, bool from_start);

#endif
