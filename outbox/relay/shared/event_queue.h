/* SPDX-License-Identifier: MIT */
/* A bounded queue of parsed events of a binary log, from one thread to another. What is put becomes
 * visible with event_queue_publish(), and may be cut off again before. The bytes of an event are
 * copied once, into a buffer that is allocated when the queue is made.
 *
 * One thread puts, cuts and publishes, one thread takes; event_queue_reset() belongs to both. */
#ifndef OUTBOX_RELAY_SHARED_EVENT_QUEUE_H
#define OUTBOX_RELAY_SHARED_EVENT_QUEUE_H

#include "common/err.h"
#include "outbox/relay/binlog/event.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The offsets grow without end; the place of one in the buffer is the rest of a division by size.
 */
struct event_queue {
    char *bytes;
    size_t size;
    uint64_t end;          /* of all that was put. The thread that puts */
    uint64_t next;         /* of the next event to take. The thread that takes */
    atomic_ullong visible; /* end of what was published */
    atomic_ullong read;    /* end of what was taken and is not borrowed any more */
};

/* An event and where it lies in its file. */
struct queued_event {
    struct binlog_event event;
    uint64_t begin;
    uint64_t end;
};

/* size: bytes for all events together, rounded up to eight. RC_FATAL: no memory, and nothing is
 * owned. */
enum rc event_queue_init(struct event_queue *queue, size_t size, struct err *err);

/* Accepts a zeroed one. */
void event_queue_done(struct event_queue *queue);

/* Empties the queue. No other thread uses it meanwhile. */
void event_queue_reset(struct event_queue *queue);

/* Appends a copy. Returns false, and leaves the queue unchanged, when there is no room. */
bool event_queue_put(struct event_queue *queue, const struct queued_event *queued);

/* The end of what was put, for event_queue_cut(). */
uint64_t event_queue_mark(const struct event_queue *queue);

/* Removes what was put since the mark, which is not before the last event_queue_publish(). */
void event_queue_cut(struct event_queue *queue, uint64_t mark);

/* Makes all that was put visible for the thread that takes. */
void event_queue_publish(struct event_queue *queue);

/* Takes the next visible event, whose body is borrowed until the next call. False: there is none;
 * what was borrowed is given back then, too. */
bool event_queue_take(struct event_queue *queue, struct queued_event *queued);

/* Whether an event is visible. For the thread that takes. */
bool event_queue_has(struct event_queue *queue);

#endif
