/* SPDX-License-Identifier: MIT */
#include "tests/sim/story.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 1000
#define LINE_SIZE 200

#define HASH_START UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

void story_begin(struct story *story, bool told, const struct story_focus *focus)
{
    story->hash = HASH_START;
    story->lines = 0;
    story->told = told;
    story->focus = *focus;
    story->next = story->kept = 0;
    if (told && !story->text)
        story->text = malloc((size_t)LINES_MAX * LINE_SIZE);
    assert(!told || story->text);
}

void story_done(struct story *story)
{
    free(story->text);
    memset(story, 0, sizeof(*story));
}

static void mix(struct story *story, uint64_t value)
{
    story->hash = (story->hash ^ value) * HASH_PRIME;
    story->hash ^= story->hash >> 29;
}

static void mix_text(struct story *story, const char *text)
{
    for (; *text; text++)
        story->hash = (story->hash ^ (unsigned char)*text) * HASH_PRIME;
}

static void keep(struct story *story, int64_t now_ms, const char *who, const char *format,
                 int64_t a, int64_t b, int64_t c)
{
    char *line = story->text + story->next * LINE_SIZE;
    int len = snprintf(line, LINE_SIZE, "%9" PRId64 " ms  %-10s ", now_ms, who);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(line + len, LINE_SIZE - (size_t)len, format, (long long)a, (long long)b, (long long)c);
#pragma GCC diagnostic pop
    story->next = (story->next + 1) % LINES_MAX;
    if (story->kept < LINES_MAX)
        story->kept++;
}

static bool is_told(const struct story *story, int64_t key, int64_t event)
{
    const struct story_focus *focus = &story->focus;

    if (!story->told)
        return false;
    if (focus->key == STORY_ALL || key == STORY_ALL)
        return true;
    return key == focus->key && (focus->events[0] == STORY_NONE || event == focus->events[0] ||
                                 event == focus->events[1]);
}

void story_tell(struct story *story, int64_t now_ms, const char *who, int64_t key,
                const char *format, int64_t a, int64_t b, int64_t c)
{
    story->lines++;
    mix(story, (uint64_t)now_ms);
    mix_text(story, who);
    mix_text(story, format);
    mix(story, (uint64_t)a);
    mix(story, (uint64_t)b);
    mix(story, (uint64_t)c);
    if (is_told(story, key, a))
        keep(story, now_ms, who, format, a, b, c);
}

void story_print(const struct story *story)
{
    size_t first = (story->next + LINES_MAX - story->kept) % LINES_MAX;

    for (size_t i = 0; i < story->kept; i++)
        printf("%s\n", story->text + (first + i) % LINES_MAX * LINE_SIZE);
}
