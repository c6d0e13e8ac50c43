/* SPDX-License-Identifier: MIT */
#include "outbox/relay/shared/event_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT sizeof(uint64_t)

/* In front of each event. Invariant: it begins at a multiple of ALIGNMENT, and so does the end of
 * the buffer, so a size fits wherever an event ends. */
struct entry {
    uint64_t size; /* with the body; 0: the next entry is at the begin of the buffer */
    struct queued_event queued;
};

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

enum rc event_queue_init(struct event_queue *queue, size_t size, struct err *err)
{
    memset(queue, 0, sizeof(*queue));
    queue->size = round_up(size);
    queue->bytes = malloc(queue->size);
    if (queue->bytes)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "no memory for a queue of %zu bytes of the binary log", size);
}

void event_queue_done(struct event_queue *queue)
{
    free(queue->bytes);
    queue->bytes = NULL;
}

void event_queue_reset(struct event_queue *queue)
{
    queue->end = queue->next = 0;
    atomic_store(&queue->visible, 0);
    atomic_store(&queue->read, 0);
}

bool event_queue_put(struct event_queue *queue, const struct queued_event *queued)
{
    struct entry entry = {.queued = *queued};
    size_t at = (size_t)(queue->end % queue->size);
    size_t left = queue->size - at;
    size_t skip = 0;
    uint64_t used = queue->end - atomic_load_explicit(&queue->read, memory_order_acquire);

    if (queued->event.body_len > queue->size)
        return false;
    entry.size = round_up(sizeof(entry) + queued->event.body_len);
    if (left < entry.size)
        skip = left;
    if (skip + entry.size > queue->size - used)
        return false;
    if (skip > 0) {
        memset(queue->bytes + at, 0, sizeof(entry.size));
        at = 0;
    }
    memcpy(queue->bytes + at, &entry, sizeof(entry));
    if (queued->event.body_len > 0)
        memcpy(queue->bytes + at + sizeof(entry), queued->event.body, queued->event.body_len);
    queue->end += skip + entry.size;
    return true;
}

uint64_t event_queue_mark(const struct event_queue *queue)
{
    return queue->end;
}

void event_queue_cut(struct event_queue *queue, uint64_t mark)
{
    assert(mark <= queue->end && mark >= atomic_load(&queue->visible));
    queue->end = mark;
}

void event_queue_publish(struct event_queue *queue)
{
    atomic_store(&queue->visible, queue->end);
}

bool event_queue_has(struct event_queue *queue)
{
    return atomic_load(&queue->visible) != queue->next;
}

bool event_queue_take(struct event_queue *queue, struct queued_event *queued)
{
    struct entry entry = {0};
    size_t at;

    atomic_store_explicit(&queue->read, queue->next, memory_order_release);
    if (!event_queue_has(queue))
        return false;
    at = (size_t)(queue->next % queue->size);
    memcpy(&entry.size, queue->bytes + at, sizeof(entry.size));
    if (entry.size == 0) {
        queue->next += queue->size - at;
        at = 0;
    }
    memcpy(&entry, queue->bytes + at, sizeof(entry));
    *queued = entry.queued;
    queued->event.body = (const uint8_t *)queue->bytes + at + sizeof(entry);
    queue->next += entry.size;
    return true;
}
