/* SPDX-License-Identifier: MIT */
/* One stream of the binary log for several lanes of a process. Its thread parses and verifies each
 * event once (change_stream.h) and gives each lane, through a bounded queue, the events that
 * concern the lane's table; of a transaction without such events only its GTID and its end. The
 * lane makes its rows and positions of them as of a stream of its own.
 *
 * A lane begins with a stream of its own. At the end of a transaction that the shared stream has
 * read, too, it asks to be fed (shared_member_join()), reads on until it has read the transaction
 * behind which it is fed, and then takes from its queue. The first lane that reaches the end of the
 * log opens the shared stream (shared_stream_claim(), shared_stream_begin()).
 *
 * A queue that is full, or too small for an event, ends the lane's membership behind the last
 * transaction that is whole in the queue; the lane goes on with a stream of its own. So no lane
 * holds up another one, and the memory is that of the queues. A failure of the stream ends it for
 * all members, each of which gets the failure. MySQL goes on with heartbeats of a log that it has
 * deleted; lanes that notice this end the stream (shared_member_report_gone()).
 *
 * Invariant R18: what a lane takes continues what it has read before, without a transaction that
 * is missing, cut or repeated, whenever it joins or leaves (test_shared_stream).
 *
 * The step belongs to the thread of the shared stream, functions of a member to the thread of its
 * lane, but for shared_member_interrupt(). */
#ifndef OUTBOX_RELAY_SHARED_SHARED_STREAM_H
#define OUTBOX_RELAY_SHARED_SHARED_STREAM_H

#include "common/err.h"
#include "common/loop.h"
#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/binlog/log_end.h"
#include "outbox/relay/binlog/silence.h"
#include "outbox/relay/shared/event_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_MEMBERS_MAX 64

/* Where the events come from. */
struct shared_link {
    void *ctx;
    /* Waits for the next event, which is borrowed until the next call. After any failure only close
     * is called. */
    enum rc (*next)(void *ctx, const void **event, size_t *len, struct err *err);
    /* Whether next returns without waiting. */
    bool (*ready)(void *ctx);
    /* Whether next has failed because nothing came for the time that shared_stream_claim() gave. */
    bool (*was_silent)(void *ctx);
    /* Ends it and frees ctx. */
    void (*close)(void *ctx);
    /* Makes a next that waits return RC_RETRY. Any thread, before close. */
    void (*interrupt)(void *ctx);
};

/* Between two transactions. */
struct shared_place {
    struct binlog_gtid gtid;           /* of the transaction before it */
    char group_file[BINLOG_FILE_SIZE]; /* where that one begins */
    uint64_t group_begin;
    char file[BINLOG_FILE_SIZE]; /* where the next one begins */
    uint64_t offset;
};

struct shared_stream {
    struct stop *stop;
    void (*wake)(void *ctx); /* wakes the thread of the step */
    void *wake_ctx;

    pthread_mutex_t lock; /* guards the fields below, and those of members that name it */
    struct shared_link link;
    bool claimed; /* a lane opens the stream */
    bool reads;   /* link is open */
    bool stopping;
    bool gone;              /* a member has found that the server does not have its log any more */
    uint64_t server;        /* that it reads from; see origin_mysql_server() */
    size_t readers;         /* lanes that read, alone or here */
    int64_t retry_ms;       /* not opened again before this time */
    struct silence silence; /* of the links */
    struct log_end end;
    int64_t found_ms;  /* since when end.found is set; 0: it is not */
    bool caught_up;    /* it has read all that the server had, or had a member, once */
    int64_t lonely_ms; /* since when it has no member, caught up; 0: it has one */
    struct shared_member *members[SHARED_MEMBERS_MAX];
    size_t member_count;
    struct change_stream changes;
    struct shared_place place; /* of the last time between two transactions */
    struct buf expanded;       /* of a compressed statement */
    bool has_news;             /* of any member. The thread of the step */
    atomic_bool is_at_end;     /* between two transactions it has read all that the log has */
    atomic_llong ahead_ms;     /* see shared_stream_set_clock() */
};

enum shared_state {
    SHARED_APART,   /* no member */
    SHARED_PENDING, /* fed from the end of the present transaction on */
    SHARED_FED,     /* from `begin` on */
    SHARED_FULL,    /* not fed any more: the queue had no room */
    SHARED_FAILED,  /* not fed any more: the stream has ended, see rc and err */
};

/* A lane. */
struct shared_member {
    struct shared_stream *shared;
    const char *schema;
    const char *table;
    struct event_queue queue;
    struct wakeup wakeup;      /* of the lane's thread in shared_member_wait() */
    atomic_int waits;          /* enum shared_wait */
    atomic_bool interrupted;   /* until shared_member_resume() */
    atomic_int state;          /* enum shared_state; changed with the lock of the stream */
    struct shared_place begin; /* SHARED_FED; the lock of the stream */
    enum rc rc;                /* SHARED_FAILED: written before the state */
    struct err err;

    /* The lane's thread. */
    bool is_reader; /* it counts among the readers */
    bool is_quiet;  /* no event came during the last wait, so the next one is a long one */

    /* With the lock of the stream. */
    bool has_map;
    uint64_t map_id;      /* of the table */
    bool concerned;       /* by the present transaction */
    bool has_last;        /* the last event of the transaction was put */
    uint64_t behind_gtid; /* mark behind the GTID of the present transaction */
    int news;             /* enum shared_wait: the wait to end once the event is handled */
};

enum shared_answer {
    SHARED_REFUSED, /* it is no member: ask later */
    SHARED_READ_ON, /* it is not there yet: ask again behind the next transaction */
    SHARED_WAIT,    /* ask again soon, before the next transaction is read */
    SHARED_JOINED,  /* it takes from its queue now */
};

/* Borrows stop until shared_stream_done(). RC_FATAL: no memory, and nothing is owned. */
enum rc shared_stream_init(struct shared_stream *shared, struct stop *stop, struct err *err);

/* Accepts a zeroed one. It has no member any more, and its thread has ended. */
void shared_stream_done(struct shared_stream *shared);

/* Ends the thread at its next step, also while it waits for the server. Any thread. */
void shared_stream_stop(struct shared_stream *shared);

/* A step of its thread, a loop_step. Waits for the server as long as next of the link does. */
int64_t shared_stream_step(void *shared, int64_t now_ms);

/* Borrows all parameters until shared_member_done(). bytes: of its queue. schema and table as the
 * server writes them. RC_FATAL: no memory or file descriptor, and nothing is owned. */
enum rc shared_member_init(struct shared_member *member, struct shared_stream *shared,
                           const char *schema, const char *table, size_t bytes, struct err *err);

/* Accepts a zeroed one. Leaves before. */
void shared_member_done(struct shared_member *member);

/* The lane reads, or does not any more, alone or as a member. */
void shared_member_set_reader(struct shared_member *member, bool is_reader);

/* Whether the caller is to open the stream: there is none, two lanes or more read, and none failed
 * lately. shared_stream_begin() has to follow with RC_OK, or shared_stream_give_up(). *silence_ms:
 * of the link, see silence.h. */
bool shared_stream_claim(struct shared_stream *shared, int64_t now_ms, int64_t base_ms,
                         int64_t *silence_ms);

/* os_now_ms() and ahead_ms are the server's clock, since 1970. Before the stream begins, and at any
 * time later. Any thread. */
void shared_stream_set_clock(struct shared_stream *shared, int64_t ahead_ms);

/* After shared_stream_claim(): no link could be opened, or the stream could not begin. now_ms: the
 * present time, for opening a link may have taken long. */
void shared_stream_give_up(struct shared_stream *shared, int64_t now_ms);

/* After shared_stream_claim(): reads from link from now on, which it owns after any result. After a
 * failure shared_stream_give_up() has to follow, and the stream is as before. server: see
 * origin_mysql_server(); 0, of a server that is not known any more, is RC_RETRY: no lane could
 * join. before: the text of the GTIDs of all transactions before the place. Else as
 * change_stream_begin(). */
enum rc shared_stream_begin(struct shared_stream *shared, const struct shared_link *link,
                            uint64_t server, bool mariadb, const char *before,
                            const struct shared_place *place, struct err *err);

/* The place of a stream that is between two transactions and has read one. */
void shared_place_set(struct shared_place *place, const struct change_stream *changes);

/* For a lane between two transactions, after at least one that it has read; after SHARED_READ_ON or
 * SHARED_WAIT before each further transaction, or shared_member_leave() is called. *own: where it
 * is, and after SHARED_JOINED with file and offset as the queue continues them. server: that it
 * reads from. A lane that is far behind, or far ahead, is refused. */
enum shared_answer shared_member_join(struct shared_member *member, uint64_t server,
                                      struct shared_place *own);

/* Takes the next event of a member, whose body is borrowed until the next call. False: there is
 * none. */
bool shared_member_take(struct shared_member *member, struct queued_event *queued);

/* After shared_member_take() has returned false: whether the membership has ended, and no event
 * will come. SHARED_FULL: read on behind the last transaction; SHARED_FAILED: *rc and err have the
 * failure. Otherwise the state is not written. */
bool shared_member_has_ended(struct shared_member *member, enum shared_state *state, enum rc *rc,
                             struct err *err);

/* Waits for an event, an end of the membership or an interrupt, for a time that is bounded. False:
 * it was interrupted. */
bool shared_member_wait(struct shared_member *member);

/* Waits some milliseconds, or until an interrupt, before the lane asks again. */
void shared_member_pause(struct shared_member *member);

/* Whether a member that has taken all is at the end of the log. */
bool shared_member_is_at_end(const struct shared_member *member);

/* A member has found that the shared stream reads a log which the server has deleted: it ends for
 * all members, and a lane may open it again where that one is. */
void shared_member_report_gone(struct shared_member *member);

/* Ends the membership and forgets what was not taken. */
void shared_member_leave(struct shared_member *member);

/* Makes shared_member_wait() return false until shared_member_resume(). Any thread. */
void shared_member_interrupt(struct shared_member *member);
void shared_member_resume(struct shared_member *member);

#endif
