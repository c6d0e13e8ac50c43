/* SPDX-License-Identifier: MIT */
/* The window of a reporter: the tasks that wait in memory, when the next request is due and how
 * many tasks it has, and what its answer means for them. Time and randomness are parameters. The
 * caller holds a lock around each call.
 *
 * Invariant: queued = reported + refused + lost + count. Only report_window_apply() and
 * report_window_lose() take tasks away, and the order of the others never changes. */
#ifndef OUTBOX_CLIENT_REPORT_WINDOW_H
#define OUTBOX_CLIENT_REPORT_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A task that waits. The owner allocates it as one block, and frees it by free(). */
struct report_task {
    struct report_task *next;
    int64_t since_ms;
    const char *key; /* its idempotency key, inside the block */
    size_t len;      /* of json */
    char json[];     /* one object, ended by a zero byte */
};

struct report_limits {
    size_t tasks_max;
    size_t bytes_max;
    size_t batch_max;
    int64_t flush_ms;
    int64_t retry_ms;
    int64_t retry_ms_max;
};

struct report_window {
    struct report_limits limits;
    struct report_task *first;
    struct report_task *last;
    size_t count;
    size_t bytes;
    size_t batch;      /* tasks of the next request at the most; halved when one is refused */
    int64_t wait_ms;   /* after the next failure */
    int64_t paused_ms; /* when the pause began */
    int64_t pause_ms;  /* 0: no pause */
    uint64_t queued, reported, refused, failed, lost;
};

void report_window_init(struct report_window *window, const struct report_limits *limits);

/* Whether a task of so many bytes has room now. An empty window has room for any. */
bool report_window_fits(const struct report_window *window, size_t len);

/* Takes the task, which has room. */
void report_window_take(struct report_window *window, struct report_task *task, int64_t now_ms);

#define REPORT_IDLE (-1)

/* Returns in how many milliseconds the next request is due: 0 for now, REPORT_IDLE without tasks.
 * closing: nothing waits for more tasks, and a pause lasts for retry_ms at the most. */
int64_t report_window_due(const struct report_window *window, int64_t now_ms, bool closing);

/* Returns how many tasks, from window->first on, the next request has. */
size_t report_window_batch(const struct report_window *window);

enum report_end {
    REPORT_ANSWERED,    /* there is one state for each task */
    REPORT_REFUSED,     /* the request as it is will always be refused: a task or its size */
    REPORT_UNAVAILABLE, /* the server did not take it now, or its answer was lost */
};

enum report_state { REPORT_TAKEN, REPORT_KEPT, REPORT_BAD };

struct report_reply {
    enum report_end end;
    int64_t wait_ms; /* that the server asks for; 0: none */
};

/* Applies the reply to a request of the first `count` tasks. states: of REPORT_ANSWERED. Takes the
 * reported tasks away and frees them. Returns a list of the refused ones, in their order, which the
 * caller owns; their positions in the request are in `at` (count of them). random: any number, for
 * the jitter. */
struct report_task *report_window_apply(struct report_window *window, size_t count,
                                        const struct report_reply *reply,
                                        const enum report_state *states, int64_t now_ms,
                                        uint64_t random, size_t *at);

/* Counts the tasks that still wait as lost, and frees them. */
void report_window_lose(struct report_window *window);

#endif
