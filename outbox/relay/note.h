/* SPDX-License-Identifier: MIT */
/* Something that one thread waits for, told once in the log when it begins and once when it is
 * over, and readable by the admin thread meanwhile. */
#ifndef OUTBOX_RELAY_NOTE_H
#define OUTBOX_RELAY_NOTE_H

#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many reasons may take turns without being repeated in the log. */
#define NOTE_SAID_MAX 8

struct note {
    const char *event;    /* of the log lines; static */
    const char *lane;     /* borrowed for the note's life */
    pthread_mutex_t lock; /* guards on, since_ms and text */
    bool on;
    int64_t since_ms;
    char text[384];
    uint64_t said[NOTE_SAID_MAX]; /* hashes of the reasons in the log since it is on */
    size_t said_count;            /* of all of them; the last ones are kept */
};

void note_init(struct note *note, const char *event, const char *lane);
void note_done(struct note *note);

/* It is so, because of err. A line is written when it was not so before or err->text is new. */
void note_set(struct note *note, int64_t now_ms, const struct err *err);

/* It is over; does nothing when it was not so. */
void note_clear(struct note *note, int64_t now_ms);

/* Any thread. Copies the reason; false when there is none. */
bool note_read(struct note *note, char *text, size_t size);

#endif
