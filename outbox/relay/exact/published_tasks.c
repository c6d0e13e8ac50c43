/* SPDX-License-Identifier: MIT */
#include "outbox/relay/exact/published_tasks.h"

#include "common/hash.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The first line names the form of the others: ID HASH TIME, one for each task. */
#define VERSION "published_tasks=1"
#define LINE_SIZE 80

struct published_task published_task_name(int64_t id, const char *idempotency_key, int64_t time_s)
{
    return (struct published_task){
        id, hash_fnv1a(HASH_START, idempotency_key, strlen(idempotency_key)), time_s};
}

static size_t find_task(const struct published_tasks *tasks, const struct published_task *task)
{
    for (size_t i = tasks->count; i-- > 0;)
        if (tasks->tasks[i].id == task->id && tasks->tasks[i].hash == task->hash)
            return i;
    return tasks->count;
}

static void remove_at(struct published_tasks *tasks, size_t at)
{
    tasks->count--;
    memmove(tasks->tasks + at, tasks->tasks + at + 1, (tasks->count - at) * sizeof(*tasks->tasks));
}

bool published_tasks_has(const struct published_tasks *tasks, const struct published_task *task)
{
    return find_task(tasks, task) < tasks->count;
}

void published_tasks_add(struct published_tasks *tasks, const struct published_task *task)
{
    assert(!published_tasks_has(tasks, task));
    while (tasks->count == PUBLISHED_TASKS_MAX ||
           (tasks->count > 0 && tasks->tasks[0].time_s + PUBLISHED_TASKS_S < task->time_s))
        remove_at(tasks, 0);
    tasks->tasks[tasks->count++] = *task;
}

void published_tasks_remove(struct published_tasks *tasks, const struct published_task *task)
{
    size_t at = find_task(tasks, task);

    if (at < tasks->count)
        remove_at(tasks, at);
}

void published_tasks_put(struct buf *text, const struct published_tasks *tasks)
{
    buf_text_put(text, VERSION "\n");
    for (size_t i = 0; i < tasks->count; i++)
        buf_print(text, "%" PRId64 " %" PRIu64 " %" PRId64 "\n", tasks->tasks[i].id,
                  tasks->tasks[i].hash, tasks->tasks[i].time_s);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool read_task(struct bytes line, struct published_task *task)
{
    char text[LINE_SIZE];
    char *end = text;

    if (line.len == 0 || line.len >= sizeof(text))
        return false;
    memcpy(text, line.data, line.len);
    text[line.len] = '\0';
    errno = 0;
    task->id = strtoll(text, &end, 10);
    if (!is_digit(text[0]) || *end != ' ' || !is_digit(end[1]))
        return false;
    task->hash = strtoull(end + 1, &end, 10);
    if (*end != ' ' || !is_digit(end[1]))
        return false;
    task->time_s = strtoll(end + 1, &end, 10);
    return errno == 0 && *end == '\0';
}

enum rc published_tasks_read(struct published_tasks *tasks, struct bytes text, struct err *err)
{
    const size_t version_len = sizeof(VERSION "\n") - 1;
    const char *at = text.data;
    const char *end = text.data + text.len;

    tasks->count = 0;
    if (text.len < version_len || memcmp(at, VERSION "\n", version_len) != 0)
        return err_fail(err, RC_FATAL, 0, "the first line is not " VERSION);
    for (at += version_len; at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        struct published_task task;

        if (!line_end || tasks->count == PUBLISHED_TASKS_MAX ||
            !read_task((struct bytes){at, (size_t)(line_end - at)}, &task)) {
            tasks->count = 0;
            return err_fail(err, RC_FATAL, 0, "byte %zu begins no line `ID HASH TIME`",
                            (size_t)(at - text.data));
        }
        tasks->tasks[tasks->count++] = task;
        at = line_end + 1;
    }
    return RC_OK;
}
