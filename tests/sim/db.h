/* SPDX-License-Identifier: MIT */
/* A fake of a database server: sessions, transactions, exclusive row locks, and its faults. Tables
 * belong to the other fakes. What owns a row that is locked (struct fake_row) is a session. */
#ifndef TESTS_SIM_DB_H
#define TESTS_SIM_DB_H

#include "common/err.h"
#include "tests/fakes/fake_session.h"
#include "tests/sim/sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DB_SESSIONS_MAX 144
/* Milliseconds of a fast calendar in one of virtual time. */
#define DB_CALENDAR_SPEED INT64_C(3600000)
#define DB_DEADLOCK_CODE 1213
#define DB_LOCK_WAIT_CODE 1205
#define DB_DUPLICATE_CODE 1062

/* On the server. It may live longer than its client. */
struct session {
    struct db *db;
    struct link *link; /* its client, or NULL: the client has gone */
    bool used;
    bool open;       /* in a transaction */
    uint64_t writer; /* number of the transaction, once it has written; 0 */
    struct fake_touches touches;
    const struct fake_row *waits_for;
    struct fiber *waiter;
    bool victim;           /* of a deadlock */
    int64_t busy_ms;       /* time of its last statement */
    int64_t end_ms;        /* without a client: when the server notices */
    bool ends_with_commit; /* a COMMIT is on its way */
};

struct db {
    struct sim *sim;
    const char *name;
    struct session sessions[DB_SESSIONS_MAX];
    uint64_t writer_next;
    uint64_t settles;        /* transactions that have ended */
    int64_t clock_ms;        /* its clock against the true one */
    int64_t clock_before_ms; /* the latest time it has shown before it was set; 0: never set */
    int64_t origin;          /* changes when it is started again, or replaced */
    int64_t away_until_ms;
    int64_t idle_ms_max; /* a session that is silent for so long is ended; 0: never */
    int64_t lock_wait_ms;
    void (*restarted)(struct sim *sim); /* after a crash or a fail-over */
};

/* A client's connection. */
struct link {
    struct proc *proc;
    struct db *db;
    struct session *session;
    uint64_t connects;   /* how often it has connected */
    int64_t idle_ms_max; /* its sessions are ended when they are silent for so long; 0: as the
                            server's */
    bool began;          /* the client believes to be in a transaction */
};

void db_begin_run(struct db *db, struct sim *sim, const char *name);
void db_done(struct db *db);
/* UTC_TIMESTAMP(3), in ms since 1970. */
int64_t db_clock(const struct db *db);
/* Sets the clock, so that it differs from the true one by offset_ms. */
void db_set_clock(struct db *db, int64_t offset_ms);
/* The latest time that the clock has shown in this run: later than db_clock() after the clock was
 * set back. */
int64_t db_clock_latest(const struct db *db);
/* The same for days and months. Where a housekeeper works the calendar runs fast: a month passes in
 * less than a second of virtual time. */
int64_t db_calendar_ms(const struct db *db);
/* The server ends at once: open transactions are rolled back, no commit is lost. */
void db_crash(struct db *db, int64_t away_ms);
/* Ends sessions that are due. Called now and then. */
void db_tend(struct db *db);

void link_init(struct link *link, struct proc *proc, struct db *db);
/* The client has died, or has hung up. */
void link_close(struct link *link);

/* True while the server keeps its transaction. */
bool link_is_open(const struct link *link);

/* Sends a statement. RC_RETRY or RC_FATAL: it did not arrive, and the transaction is over. */
enum rc link_call(struct link *link, struct err *err);
/* Returns its answer. RC_RETRY: the answer is lost. */
enum rc link_answer(struct link *link, struct err *err);

enum rc link_begin(struct link *link, struct err *err);
enum rc link_commit(struct link *link, struct err *err);
void link_rollback(struct link *link);
enum rc link_ping(struct link *link, struct err *err);

/* Locks the row in a transaction, and waits for other transactions. RC_RETRY: deadlock, time-out,
 * or the session ended; the transaction is over. */
enum rc link_lock(struct link *link, struct fake_row *row, struct err *err);
/* The transaction has written the row; its end calls settle with the simulation. */
void link_wrote(struct link *link, struct fake_row *row, fake_settle settle);
/* The transaction writes: from now on it has a number, which other sessions see. */
void link_writes(struct link *link);

/* For the fakes of tables that flow tests use too. The link must not move. */
struct fake_session link_session(struct link *link);

#endif
