/* SPDX-License-Identifier: MIT */
/* The destinations of tasks, each with its circuit breaker: the origin of a URL, a topic, a
 * program, the sink's database. Invariant Q9: failures of one destination do not affect others, not
 * even within one scene; scenes that share a destination share its breaker.
 *
 *     closed      every task passes
 *     open        after DESTINATION_FAILURES failures in a row: no task passes for up to a minute
 *     half-open   after that: one task passes as a probe, which closes the breaker or opens it for
 *                 longer
 *
 * A task that does not pass is put off: it leaves the front of its queue, so that the tasks behind
 * it are found, and is due again when the breaker is half-open. The tasks of one destination are
 * due again DESTINATION_RETURN_MS apart, so that many tasks cost little while the destination
 * fails.
 *
 * The destinations with tasks in flight are kept, and of the others the DESTINATIONS_IDLE_MAX that
 * were used last. Only the dispatcher's thread calls these functions; any thread may read
 * `open`. */
#ifndef OUTBOX_RETRY_DESTINATIONS_H
#define OUTBOX_RETRY_DESTINATIONS_H

#include "common/backoff.h"
#include "common/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DESTINATION_NAME_SIZE 320
#define DESTINATIONS_IDLE_MAX 1024
#define DESTINATIONS_CHAINS 1024 /* a power of two */

#define DESTINATION_FAILURES 10
#define DESTINATION_RETURN_MS 10
#define DESTINATION_PUT_OFF_MS_MAX 300000

struct destination {
    char name[DESTINATION_NAME_SIZE]; /* a longer name ends with a hash of the whole */
    struct breaker breaker;
    unsigned failures; /* in a row */
    int64_t opened_ms;
    int64_t return_ms; /* when the last task that was put off is due again */
    char why[256];     /* the last failure */
    atomic_bool open;  /* the breaker is open or half-open */
    size_t in_flight;
    struct destination *next;                    /* in its chain */
    struct destination *used_before, *used_then; /* neighbours in the list of idle destinations */
};

struct destinations {
    struct destination *chains[DESTINATIONS_CHAINS];
    /* those without tasks in flight, by the time of their last use */
    struct destination *idle_first, *idle_last;
    size_t idle_count;
    size_t open_count;
};

/* Frees all destinations. A zeroed struct destinations has none. */
void destinations_done(struct destinations *destinations);

/* Returns the destination of this name, which it creates if necessary, and counts a task in flight
 * there until destinations_leave(). NULL: no memory. */
struct destination *destinations_use(struct destinations *destinations, const char *name,
                                     size_t len);
void destinations_leave(struct destinations *destinations, struct destination *destination);

/* Returns whether a task may be sent there now, and sets *probe if the task is the probe of a
 * half-open breaker. */
bool destination_passes(struct destination *destination, int64_t now_ms, bool *probe);
/* Returns for how long a task that did not pass is put off. */
int64_t destination_put_off_ms(struct destination *destination, int64_t now_ms);

/* Record the outcome of an attempt, and log a change of the breaker. random_bits choose how long
 * the breaker stays open. */
void destinations_failed(struct destinations *destinations, struct destination *destination,
                         const struct err *err, int64_t now_ms, uint64_t random_bits);
void destinations_worked(struct destinations *destinations, struct destination *destination,
                         int64_t now_ms);
/* Records that a probe had no result: the next task is the probe. */
void destination_learned_nothing(struct destination *destination);

/* Returns the destination whose breaker has been open or half-open for the longest time; NULL: all
 * are closed. */
const struct destination *destinations_find_open(const struct destinations *destinations);

#endif
