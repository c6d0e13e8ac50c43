/* SPDX-License-Identifier: MIT */
#include "tests/sim/db.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A clock that is set by more would make all votes too old, or none. */
#define CALENDAR_CLOCK_MS_MAX 2000

void db_begin_run(struct db *db, struct sim *sim, const char *name)
{
    for (size_t i = 0; i < DB_SESSIONS_MAX; i++) {
        struct session *session = &db->sessions[i];

        session->used = session->open = false;
        session->touches.count = 0;
    }
    db->sim = sim;
    db->name = name;
    db->writer_next = 100;
    db->settles = 0;
    db->clock_ms = 0;
    db->clock_before_ms = 0;
    db->origin = 1;
    db->away_until_ms = 0;
    db->idle_ms_max = 0;
    db->lock_wait_ms = 2000;
    db->restarted = NULL;
}

void db_done(struct db *db)
{
    for (size_t i = 0; i < DB_SESSIONS_MAX; i++)
        fake_touches_done(&db->sessions[i].touches);
}

int64_t db_clock(const struct db *db)
{
    return SIM_WALL_MS + sim_now(db->sim) + db->clock_ms;
}

void db_set_clock(struct db *db, int64_t offset_ms)
{
    db->clock_before_ms = db_clock_latest(db);
    db->clock_ms = offset_ms;
}

int64_t db_clock_latest(const struct db *db)
{
    int64_t now_ms = db_clock(db);

    return now_ms > db->clock_before_ms ? now_ms : db->clock_before_ms;
}

int64_t db_calendar_ms(const struct db *db)
{
    int64_t clock_ms = db->clock_ms;

    if (db->sim->plan.housekeepers == 0)
        return db_clock(db);
    if (clock_ms > CALENDAR_CLOCK_MS_MAX)
        clock_ms = CALENDAR_CLOCK_MS_MAX;
    if (clock_ms < -CALENDAR_CLOCK_MS_MAX)
        clock_ms = -CALENDAR_CLOCK_MS_MAX;
    return SIM_WALL_MS + (sim_now(db->sim) - SIM_START_MS + clock_ms) * DB_CALENDAR_SPEED;
}

static void wake_waiters(struct db *db, const struct fake_row *row)
{
    for (size_t i = 0; i < DB_SESSIONS_MAX; i++) {
        struct session *session = &db->sessions[i];

        if (session->used && session->waits_for == row)
            sched_wake(&db->sim->sched, session->waiter);
    }
}

/* The end of its transaction. */
static void settle(struct session *session, bool commit)
{
    struct db *db = session->db;

    db->settles++;
    fake_touches_settle(&session->touches, commit);
    for (size_t i = 0; i < session->touches.count; i++) {
        struct fake_row *row = session->touches.list[i].row;

        if (row->owner != session)
            continue;
        row->owner = NULL;
        wake_waiters(db, row);
    }
    session->touches.count = 0;
    session->open = false;
    session->writer = 0;
}

static void session_end(struct session *session, bool commit)
{
    settle(session, commit);
    if (session->link)
        session->link->session = NULL;
    if (session->waits_for)
        sched_wake(&session->db->sim->sched, session->waiter);
    session->used = false;
}

void db_crash(struct db *db, int64_t away_ms)
{
    struct sim *sim = db->sim;

    sim_tell(sim, db->name, STORY_ALL, "crashes, back in %lld ms", away_ms, 0, 0);
    for (size_t i = 0; i < DB_SESSIONS_MAX; i++)
        if (db->sessions[i].used)
            session_end(&db->sessions[i], false);
    db->origin++;
    db->away_until_ms = sim_now(sim) + away_ms;
    if (db->restarted)
        db->restarted(sim);
}

static bool is_idle(const struct session *session, int64_t now_ms)
{
    int64_t max_ms = session->link->idle_ms_max;

    if (max_ms == 0)
        max_ms = session->db->idle_ms_max;
    return max_ms > 0 && now_ms - session->busy_ms > max_ms;
}

void db_tend(struct db *db)
{
    int64_t now_ms = sim_now(db->sim);

    for (size_t i = 0; i < DB_SESSIONS_MAX; i++) {
        struct session *session = &db->sessions[i];

        if (!session->used)
            continue;
        if (!session->link && now_ms >= session->end_ms)
            session_end(session, session->ends_with_commit);
        else if (session->link && !session->waits_for && is_idle(session, now_ms))
            session_end(session, false);
    }
}

static struct session *connect_to(struct link *link)
{
    struct db *db = link->db;
    struct session *session = db->sessions;

    while (session < db->sessions + DB_SESSIONS_MAX && session->used)
        session++;
    assert(session < db->sessions + DB_SESSIONS_MAX);
    link->connects++;
    session->db = db;
    session->link = link;
    session->used = true;
    session->open = session->victim = session->ends_with_commit = false;
    session->writer = 0;
    session->waits_for = NULL;
    session->waiter = NULL;
    return session;
}

void link_init(struct link *link, struct proc *proc, struct db *db)
{
    *link = (struct link){.proc = proc, .db = db};
}

/* The server hears of it at once, or only later: then locks are held meanwhile, and a COMMIT on its
 * way may still work. */
static void hang_up(struct link *link, bool committing)
{
    struct sim *sim = link->db->sim;
    struct session *session = link->session;

    link->session = NULL;
    link->began = false;
    if (!session)
        return;
    session->link = NULL;
    session->end_ms = sim_now(sim);
    session->waits_for = NULL;
    if (!session->open || sim->healed || sim_chance(sim, 500)) {
        session_end(session, committing && session->open && sim_chance(sim, 500));
        return;
    }
    session->ends_with_commit = committing && sim_chance(sim, 500);
    session->end_ms += sim_between(sim, 1, sim_chance(sim, 100) ? 900 : 60);
}

void link_close(struct link *link)
{
    hang_up(link, false);
}

static enum rc lost(struct link *link, const char *text, struct err *err)
{
    hang_up(link, false);
    return err_fail(err, RC_RETRY, 2013, "%s: %s", link->db->name, text);
}

/* RC_OK: the server may be talked to. */
static enum rc reach(struct link *link, struct err *err)
{
    struct sim *sim = link->db->sim;

    if (sim_now(sim) < link->db->away_until_ms)
        return lost(link, "no server listens", err);
    if (sim_now(sim) < link->proc->cut_until_ms) {
        sched_pause(&sim->sched, sim_between(sim, 50, 400));
        return lost(link, "no answer", err);
    }
    return RC_OK;
}

enum rc link_call(struct link *link, struct err *err)
{
    struct sim *sim = link->db->sim;
    enum rc rc;

    proc_pass(link->proc);
    rc = reach(link, err);
    if (rc != RC_OK)
        return rc;
    if (link->began && !link->session) {
        link->began = false;
        return err_fail(err, RC_RETRY, 2006, "%s: server has gone away", link->db->name);
    }
    if (!sim->healed && sim_chance(sim, sim->plan.db_fails)) {
        if (sim_chance(sim, sim->plan.db_fatal)) {
            hang_up(link, false);
            return err_fail(err, RC_FATAL, 1142, "%s: denied", link->db->name);
        }
        return lost(link, "the connection broke", err);
    }
    if (!link->session)
        link->session = connect_to(link);
    link->session->busy_ms = sim_now(sim);
    return RC_OK;
}

enum rc link_answer(struct link *link, struct err *err)
{
    struct sim *sim = link->db->sim;

    if (!sim->healed && sim_chance(sim, sim->plan.db_fails))
        return lost(link, "the connection broke before the answer", err);
    proc_pass(link->proc);
    if (sim_now(sim) < link->db->away_until_ms || sim_now(sim) < link->proc->cut_until_ms)
        return lost(link, "the answer was lost", err);
    return RC_OK;
}

enum rc link_begin(struct link *link, struct err *err)
{
    enum rc rc;

    if (link->session && link->session->open)
        settle(link->session, false);
    link->began = false;
    rc = link_call(link, err);
    if (rc != RC_OK)
        return rc;
    link->session->open = true;
    link->began = true;
    return RC_OK;
}

bool link_is_open(const struct link *link)
{
    return link->session && link->session->open;
}

enum rc link_commit(struct link *link, struct err *err)
{
    struct sim *sim = link->db->sim;
    enum rc rc = link_call(link, err);

    if (rc != RC_OK)
        return rc;
    if (!sim->healed && sim_chance(sim, sim->plan.commit_lost)) {
        sim_tell(sim, link->proc->name, STORY_DETAIL, "loses the answer to COMMIT", 0, 0, 0);
        hang_up(link, true);
        return err_fail(err, RC_RETRY, 2013, "%s: no answer to COMMIT", link->db->name);
    }
    settle(link->session, true);
    link->began = false;
    return link_answer(link, err);
}

void link_rollback(struct link *link)
{
    if (link_is_open(link))
        settle(link->session, false);
    link->began = false;
}

enum rc link_ping(struct link *link, struct err *err)
{
    return link_call(link, err);
}

/* Does it wait, over others, for itself? */
static bool in_circle(const struct session *session)
{
    const struct session *at = session;

    for (size_t i = 0; i < DB_SESSIONS_MAX; i++) {
        if (!at->waits_for || !at->waits_for->owner)
            return false;
        at = at->waits_for->owner;
        if (at == session)
            return true;
    }
    return false;
}

static enum rc roll_back(struct link *link, int code, const char *text, struct err *err)
{
    link_rollback(link);
    return err_fail(err, RC_RETRY, code, "%s: %s", link->db->name, text);
}

/* Until the row is free, or link_lock() has to give up. */
static enum rc lock_wait(struct link *link, struct session *session, const struct fake_row *row,
                         int64_t until_ms, struct err *err)
{
    struct sched *sched = &link->db->sim->sched;

    while (row->owner) {
        session->waits_for = row;
        session->waiter = sched->current;
        if (in_circle(session)) {
            session->waits_for = NULL;
            return roll_back(link, DB_DEADLOCK_CODE, "deadlock", err);
        }
        if (sched->now_ms >= until_ms) {
            session->waits_for = NULL;
            return roll_back(link, DB_LOCK_WAIT_CODE, "lock wait time-out", err);
        }
        sched_idle(sched, until_ms - sched->now_ms);
        if (link->session != session || !session->open)
            return lost(link, "server has gone away", err);
        session->waits_for = NULL;
    }
    return RC_OK;
}

enum rc link_lock(struct link *link, struct fake_row *row, struct err *err)
{
    struct sched *sched = &link->db->sim->sched;
    struct session *session = link->session;

    if (!session || !session->open)
        return lost(link, "server has gone away", err);
    if (row->owner == session)
        return RC_OK;
    if (row->owner) {
        enum rc rc = lock_wait(link, session, row, sched->now_ms + link->db->lock_wait_ms, err);

        /* The wait may have consumed the engine's own wakeup, which must not be lost. */
        sched_wake(sched, sched->current);
        if (rc != RC_OK)
            return rc;
    }
    row->owner = session;
    link_wrote(link, row, NULL);
    return RC_OK;
}

void link_writes(struct link *link)
{
    struct session *session = link->session;

    if (session->writer == 0)
        session->writer = link->db->writer_next++;
}

void link_wrote(struct link *link, struct fake_row *row, fake_settle settle_row)
{
    fake_touches_add(&link->session->touches, row, settle_row, link->db->sim);
}

static enum rc session_call(void *ctx, struct err *err)
{
    return link_call(ctx, err);
}

static enum rc session_answer(void *ctx, struct err *err)
{
    return link_answer(ctx, err);
}

static int64_t session_now_ms(void *ctx)
{
    const struct link *link = ctx;

    return db_clock(link->db);
}

static enum rc session_begin(void *ctx, struct err *err)
{
    return link_begin(ctx, err);
}

static enum rc session_commit(void *ctx, struct err *err)
{
    return link_commit(ctx, err);
}

static void session_rollback(void *ctx)
{
    link_rollback(ctx);
}

static enum rc session_lock(void *ctx, struct fake_row *row, struct err *err)
{
    return link_lock(ctx, row, err);
}

static void session_wrote(void *ctx, struct fake_row *row, fake_settle settle_row, void *tables)
{
    struct link *link = ctx;

    link_writes(link);
    fake_touches_add(&link->session->touches, row, settle_row, tables);
}

static const void *session_owner(void *ctx)
{
    const struct link *link = ctx;

    return link_is_open(link) ? link->session : NULL;
}

static uint64_t session_connects(void *ctx)
{
    const struct link *link = ctx;

    return link->connects;
}

struct fake_session link_session(struct link *link)
{
    return (struct fake_session){
        .hooks = {link, session_call, session_answer, session_now_ms},
        .begin = session_begin,
        .commit = session_commit,
        .rollback = session_rollback,
        .lock = session_lock,
        .wrote = session_wrote,
        .owner = session_owner,
        .connects = session_connects,
    };
}
