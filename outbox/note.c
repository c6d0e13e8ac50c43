/* SPDX-License-Identifier: MIT */
#include "outbox/note.h"

#include "common/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void note_init(struct note *note, const char *event, const char *lane)
{
    memset(note, 0, sizeof(*note));
    note->event = event;
    note->lane = lane;
    pthread_mutex_init(&note->lock, NULL);
}

void note_done(struct note *note)
{
    if (note->event)
        pthread_mutex_destroy(&note->lock);
    note->event = NULL;
}

/* Only the thread that owns the note writes it, so what it reads outside the lock is its own. */
void note_set(struct note *note, int64_t now_ms, const struct err *err)
{
    if (note->on && strcmp(note->text, err->text) == 0)
        return;
    pthread_mutex_lock(&note->lock);
    if (!note->on)
        note->since_ms = now_ms;
    note->on = true;
    snprintf(note->text, sizeof(note->text), "%s", err->text);
    pthread_mutex_unlock(&note->lock);
    log_error(LOG_WARN, note->event, err, "lane=%s", note->lane);
}

void note_clear(struct note *note, int64_t now_ms)
{
    if (!note->on)
        return;
    pthread_mutex_lock(&note->lock);
    note->on = false;
    pthread_mutex_unlock(&note->lock);
    log_event(LOG_INFO, note->event, "lane=%s state=over after_ms=%" PRId64, note->lane,
              now_ms - note->since_ms);
}

bool note_read(struct note *note, char *text, size_t size)
{
    bool on;

    pthread_mutex_lock(&note->lock);
    on = note->on;
    if (on)
        snprintf(text, size, "%s", note->text);
    pthread_mutex_unlock(&note->lock);
    return on;
}
