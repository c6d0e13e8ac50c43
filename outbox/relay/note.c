/* SPDX-License-Identifier: MIT */
#include "outbox/relay/note.h"

#include "common/hash.h"
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

/* While a server comes and goes its reasons take turns: each is news once. */
static bool is_news(struct note *note, const char *text)
{
    uint64_t hash = hash_bytes(HASH_START, text, strlen(text));
    size_t kept = note->said_count < NOTE_SAID_MAX ? note->said_count : NOTE_SAID_MAX;

    for (size_t i = 0; i < kept; i++)
        if (note->said[i] == hash)
            return false;
    note->said[note->said_count++ % NOTE_SAID_MAX] = hash;
    return true;
}

/* Only the thread that owns the note writes it, so what it reads outside the lock is its own. */
void note_set(struct note *note, int64_t now_ms, const struct err *err)
{
    if (note->on && strcmp(note->text, err->text) == 0)
        return;
    pthread_mutex_lock(&note->lock);
    if (!note->on) {
        note->since_ms = now_ms;
        note->said_count = 0;
    }
    note->on = true;
    snprintf(note->text, sizeof(note->text), "%s", err->text);
    pthread_mutex_unlock(&note->lock);
    if (is_news(note, err->text))
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
