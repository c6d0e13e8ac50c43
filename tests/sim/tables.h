/* SPDX-License-Identifier: MIT */
/* The outbox tables: rows by seq with their transactions, the statements with which a relay reads,
 * probes and deletes them, the leases of the lanes, and the rows that writers lock for order. */
#ifndef TESTS_SIM_TABLES_H
#define TESTS_SIM_TABLES_H

#include "outbox/lease/lease_ops.h"
#include "outbox/relay/lane.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/retry/retry_ops.h"
#include "tests/fakes/fake_leases.h"
#include "tests/fakes/fake_outbox.h"
#include "tests/sim/db.h"

#define TABLE_ROWS_MAX 6000

struct outbox_row {
    struct fake_row row; /* first */
    enum outbox_state state;
    size_t lane;
    int64_t seq;
    size_t event;
    bool refused; /* the broker refuses it */
    bool oversize;
    bool unsendable; /* send() refuses it */
    /* Of a lane that reads the binary log. */
    int64_t written_ms; /* by the database's clock */
    size_t log_number;  /* among the committed rows of its lane in the log, from 1 */
    bool moved;         /* it has or had a task in the retry queue */
    bool recorded;      /* it was saved that it is done */
};

struct outbox_table {
    char name[32];
    struct fake_outbox fake;
    struct outbox_row *rows; /* by seq */
    int64_t left;            /* committed rows */
};

#define LEASE_FENCES 16

/* A lease, with the fields that the simulation's promises need. */
struct lane_lease {
    struct fake_lease base; /* first */
    int64_t beaten_ms;      /* true time of the last beat or take */
    /* True times since when the epoch before this one may not work, by epoch % LEASE_FENCES. */
    int64_t fences_ms[LEASE_FENCES];
    struct fake_row row; /* a transaction that moves rows has it locked at its COMMIT */
};

struct tables {
    struct outbox_table lanes[SIM_LANES_MAX];
    struct lane_lease leases[SIM_LANES_MAX];
    struct fake_instances relays;
    struct lane_lease shards[TASK_HANDLERS][TASK_SHARDS]; /* of the retry queue */
    struct fake_instances retries[TASK_HANDLERS];
    struct fake_row keys[SIM_KEYS + 1];
};

/* The database that a lane's rows are of, as its connections keep it together. */
struct lane_origin {
    int64_t noted; /* 0: none yet */
    bool lost;     /* another one was met */
    struct lane *lane;
    bool of_cleaner; /* the lane does not lose its lease */
};

/* One lane of a relay: the connection of one of its adapters. */
struct lane_adapter {
    struct link link;
    size_t lane;
    struct lane_origin *origin;
    struct fake_source source;
};

struct lease_adapter {
    struct link link;
    size_t lane_count;
    bool of_shards; /* lanes are shards of the retry queue, of this handler */
    size_t handler;
    struct fake_lease_store store;
};

void tables_begin_run(struct tables *tables, struct sim *sim);
void tables_done(struct tables *tables);

/* Inside the transaction of link: seqs that no row has yet; returns the first. */
int64_t tables_reserve(struct link *link, size_t lane, size_t count);
/* Writes the row of an event. */
void tables_insert(struct link *link, size_t lane, int64_t seq, size_t event);

struct outbox_row *tables_row(struct sim *sim, size_t lane, int64_t seq);
/* The row of an event, which was inserted. */
struct outbox_row *tables_row_of(struct sim *sim, size_t event);
/* The event whose row a relay has read: the database may have another row with this seq now, or
 * none. */
size_t tables_event_of(const struct sim *sim, struct bytes id);
/* Writes a row as it is read, without seq and epoch. */
void tables_show_row(const struct sim *sim, size_t event, bool oversize, char key[FAKE_KEY_SIZE],
                     struct relay_row *out);

/* Whether the process holds the lane's lease with this epoch. */
bool tables_is_held(const struct sim *sim, size_t lane, const struct proc *proc, int64_t epoch);
/* The promise: a relay that has lost the lease writes nothing. */
void tables_check_fence(const struct lane_adapter *adapter, int64_t epoch);

/* A statement of a relay: as link_call(), and another database than the noted one is refused. */
enum rc tables_call(struct lane_adapter *adapter, struct err *err);
/* Deletes the row of an event in the adapter's lane, which checks the promises. */
void tables_delete_row(struct lane_adapter *adapter, struct outbox_row *row);

/* The adapter must not move afterwards. */
struct source tables_source(struct lane_adapter *adapter);
struct deleter_ops tables_deleter(struct lane_adapter *adapter);
struct diverter_ops tables_diverter(struct lane_adapter *adapter);
/* The adapter must not move afterwards. */
struct lease_store tables_leases(struct lease_adapter *adapter);

#endif
