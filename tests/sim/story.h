/* SPDX-License-Identifier: MIT */
/* The events of a run, line by line. Every run makes a hash of its story, by which two runs are
 * compared. Only a run that is told keeps the lines, and only those about the key in question. */
#ifndef TESTS_SIM_STORY_H
#define TESTS_SIM_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* About no single key: part of every story. */
#define STORY_ALL 0
/* Part of no story of a single key. */
#define STORY_DETAIL (-1)

/* The events that a broken promise is about. */
struct story_focus {
    int64_t key;       /* or STORY_ALL: all lines are told */
    int64_t events[2]; /* their numbers; STORY_NONE: all events of the key */
};

#define STORY_NONE (-1)

struct story {
    uint64_t hash;
    uint64_t lines;
    bool told;
    struct story_focus focus;
    char *text; /* ring of lines */
    size_t next;
    size_t kept;
};

/* Begins a story. Reuses the memory of the story before. */
void story_begin(struct story *story, bool told, const struct story_focus *focus);
void story_done(struct story *story);

/* One line; format takes up to three int64_t as %lld, and where key is a key, the first is an event
 * of it. */
void story_tell(struct story *story, int64_t now_ms, const char *who, int64_t key,
                const char *format, int64_t a, int64_t b, int64_t c);

/* The last lines, oldest first. */
void story_print(const struct story *story);

#endif
