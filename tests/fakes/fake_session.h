/* SPDX-License-Identifier: MIT */
/* A connection to a fake database, as the fakes of its tables use it: statements, transactions, and
 * the rows that these lock and write. A row that can be locked begins with a struct fake_row and
 * has two versions: `now`, which the transaction sees that has it locked, and `old`, which is
 * committed.
 *
 * The connections of the simulation (tests/sim/db.h) wait for locks, find deadlocks, break, and run
 * beside each other. Those of flow tests (struct fake_alone) have the database for themselves. One
 * thread. */
#ifndef TESTS_FAKES_FAKE_SESSION_H
#define TESTS_FAKES_FAKE_SESSION_H

#include "common/err.h"
#include "tests/fakes/fake_hooks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_row {
    const void *owner; /* what has it locked, or NULL */
};

/* The end of a transaction that has written the row: makes `now` the committed version, or undoes
 * it. tables is the pointer that fake_wrote() got. */
typedef void (*fake_settle)(void *tables, struct fake_row *row, bool commit);

struct fake_session {
    struct fake_hooks hooks; /* of a statement; all functions get its ctx */
    enum rc (*begin)(void *ctx, struct err *err);
    enum rc (*commit)(void *ctx, struct err *err);
    void (*rollback)(void *ctx);
    /* On any result but RC_OK the transaction is over. */
    enum rc (*lock)(void *ctx, struct fake_row *row, struct err *err);
    /* The transaction has written the row, which it has locked. */
    void (*wrote)(void *ctx, struct fake_row *row, fake_settle settle, void *tables);
    /* What owns the rows that the open transaction has locked; NULL: none is open. */
    const void *(*owner)(void *ctx);
    /* Changes with every new connection. */
    uint64_t (*connects)(void *ctx);
};

enum rc fake_call(const struct fake_session *session, struct err *err);
enum rc fake_answer(const struct fake_session *session, struct err *err);
int64_t fake_now_ms(const struct fake_session *session);
enum rc fake_begin(const struct fake_session *session, struct err *err);
enum rc fake_commit(const struct fake_session *session, struct err *err);
void fake_rollback(const struct fake_session *session);
enum rc fake_lock(const struct fake_session *session, struct fake_row *row, struct err *err);
void fake_wrote(const struct fake_session *session, struct fake_row *row, fake_settle settle,
                void *tables);
/* The open transaction has the row locked, and sees `now`; all others see `old`. */
bool fake_owns(const struct fake_session *session, const struct fake_row *row);

/* The rows that a transaction has locked or written. */
struct fake_touch {
    struct fake_row *row;
    fake_settle settle; /* NULL: only locked */
    void *tables;
};

struct fake_touches {
    struct fake_touch *list; /* malloc */
    size_t count;
    size_t size;
};

void fake_touches_add(struct fake_touches *touches, struct fake_row *row, fake_settle settle,
                      void *tables);
/* Settles all rows in the order in which they were written. They stay locked and listed. */
void fake_touches_settle(const struct fake_touches *touches, bool commit);
void fake_touches_done(struct fake_touches *touches);

/* A connection that no other one disturbs: while its transaction is open, no other one locks a row
 * that it locks. The hooks decide which call fails. A call that fails ends the transaction, unless
 * it is RC_REJECT. */
struct fake_alone {
    struct fake_hooks hooks;
    struct fake_touches touches;
    bool open;
    uint64_t connects;
};

/* The session must not outlive alone, which must not move. It holds no memory between two
 * transactions. */
struct fake_session fake_alone_session(struct fake_alone *alone);

#endif
