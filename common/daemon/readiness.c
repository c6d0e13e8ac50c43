/* SPDX-License-Identifier: MIT */
#include "common/daemon/readiness.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void readiness_init(struct readiness *readiness)
{
    memset(readiness, 0, sizeof(*readiness));
    atomic_init(&readiness->state, READINESS_WAITING);
    snprintf(readiness->waiting, sizeof(readiness->waiting), "the process is starting");
    pthread_mutex_init(&readiness->lock, NULL);
}

void readiness_done(struct readiness *readiness)
{
    pthread_mutex_destroy(&readiness->lock);
}

void readiness_set_waiting(struct readiness *readiness, const struct err *err)
{
    pthread_mutex_lock(&readiness->lock);
    snprintf(readiness->waiting, sizeof(readiness->waiting), "%s", err->text);
    pthread_mutex_unlock(&readiness->lock);
}

void readiness_set_running(struct readiness *readiness, const struct readiness_part *parts,
                           size_t count)
{
    readiness->parts = parts;
    readiness->count = count;
    atomic_store(&readiness->state, READINESS_RUNNING);
}

void readiness_set_stopping(struct readiness *readiness)
{
    pthread_mutex_lock(&readiness->lock);
    atomic_store(&readiness->state, READINESS_STOPPING);
    pthread_mutex_unlock(&readiness->lock);
}

static void put_line(struct buf *out, const char *dependency, const char *text)
{
    buf_print(out, "%s: %s\n", dependency, text);
}

/* One dependency, one line, whatever the reason is made of. */
static void flatten_text(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            *text = ' ';
}

void health_bad(struct health *health, const char *dependency, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    flatten_text(text);
    put_line(health->out, dependency, text);
    if (health->ready)
        snprintf(health->why, sizeof(health->why), "%s: %s", dependency, text);
    health->ready = false;
}

void health_warn(struct health *health, const char *dependency, const char *format, ...)
{
    static const char mark[] = "warning: ";
    char text[512];
    va_list args;

    memcpy(text, mark, sizeof(mark));
    va_start(args, format);
    vsnprintf(text + sizeof(mark) - 1, sizeof(text) - sizeof(mark) + 1, format, args);
    va_end(args);
    flatten_text(text);
    put_line(health->out, dependency, text);
}

void health_good(struct health *health, const char *dependency)
{
    put_line(health->out, dependency, "ok");
}

/* Asks one role; its lines get its name in front, because roles share dependencies. */
static void ask_role(const struct readiness_part *part, struct health *health)
{
    struct buf lines = {0};
    struct health asked = {.out = &lines, .ready = true};
    const char *at;
    const char *end;

    part->health(part->role, &asked);
    for (at = buf_text(&lines); (end = strchr(at, '\n')); at = end + 1) {
        buf_print(health->out, "%s ", part->name);
        buf_put(health->out, at, (size_t)(end - at) + 1);
    }
    if (health->ready && !asked.ready)
        snprintf(health->why, sizeof(health->why), "%s %s", part->name, asked.why);
    health->ready = health->ready && asked.ready && !lines.failed;
    buf_done(&lines);
}

void readiness_ask(struct readiness *readiness, struct health *health)
{
    pthread_mutex_lock(&readiness->lock);
    switch (atomic_load(&readiness->state)) {
    case READINESS_WAITING:
        health_bad(health, "start", "%s", readiness->waiting);
        break;
    case READINESS_RUNNING:
        for (size_t i = 0; i < readiness->count; i++)
            if (readiness->parts[i].health)
                ask_role(&readiness->parts[i], health);
        break;
    case READINESS_STOPPING:
        health_bad(health, "stop", "the process is stopping");
        break;
    }
    pthread_mutex_unlock(&readiness->lock);
}
