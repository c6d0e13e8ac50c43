/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_tasks.h"

#include <assert.h>
#include <string.h>

struct fake_task *fake_task_at(const struct fake_task_tables *tables, int64_t id)
{
    assert(id >= 1);
    return (struct fake_task *)(void *)((char *)tables->rows + (size_t)(id - 1) * tables->row_size);
}

int64_t fake_task_scene_version(const struct fake_task_tables *tables, const struct fake_task *task)
{
    struct scene_row row;

    for (size_t n = 0; tables->read_scene(tables->ctx, n, &row); n++)
        if (strcmp(row.group, task->class.group) == 0 && strcmp(row.scene, task->class.scene) == 0)
            return row.version;
    return tables->group_version ? -tables->group_version(tables->ctx, task->class.group) : 0;
}

static void note_first(struct order_task *row, const struct fake_task *task, enum task_state state)
{
    if (row->id == 0)
        *row = (struct order_task){.id = task->id, .state = state};
}

void fake_tasks_ahead(const struct fake_task_tables *tables, const struct fake_session *session,
                      int64_t key, struct order_ahead *ahead)
{
    memset(ahead, 0, sizeof(*ahead));
    for (int64_t id = tables->first_live; id < tables->id_next; id++) {
        const struct fake_task *task = fake_task_at(tables, id);
        const struct fake_task_version *seen = &task->old;

        if (task->key != key)
            continue;
        if (session && fake_owns(session, &task->row))
            seen = &task->now;
        if (!seen->found)
            continue;
        if (seen->state == TASK_WAITING)
            note_first(&ahead->waiting, task, seen->state);
        else if (seen->state == TASK_QUEUED)
            note_first(&ahead->queued, task, seen->state);
        else
            note_first(&ahead->busy, task, seen->state);
    }
}

static void settle(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_task_tables *tables = ctx;
    struct fake_task *task = (struct fake_task *)row;

    if (!commit) {
        task->now = task->old;
        return;
    }
    if (task->now.writes == task->old.writes)
        return; /* settled before */
    if (tables->on_commit)
        tables->on_commit(tables->ctx, task);
    task->old = task->now;
    while (tables->first_live < tables->id_next) {
        const struct fake_task *first = fake_task_at(tables, tables->first_live);

        if (first->now.found || first->old.found || first->row.owner)
            break;
        tables->first_live++;
    }
}

void fake_task_write(struct fake_task_tables *tables, const struct fake_session *session,
                     struct fake_task *task)
{
    assert(fake_owns(session, &task->row));
    task->now.writes++;
    fake_wrote(session, &task->row, settle, tables);
}

void fake_task_end(struct fake_task_tables *tables, const struct fake_session *session,
                   struct fake_task *task, enum fake_task_ended ended, bool keep)
{
    task->now.found = false;
    task->now.ended = ended;
    task->now.kept = keep;
    fake_task_write(tables, session, task);
}

/* Wakes the head of the key, if it has not changed since it was read; *settled: it has not. */
static enum rc wake_head(struct fake_task_tables *tables, const struct fake_session *session,
                         struct fake_task *head, bool *settled, struct err *err)
{
    enum rc rc = fake_call(session, err);

    if (rc == RC_OK)
        rc = fake_lock(session, &head->row, err);
    if (rc != RC_OK)
        return rc;
    *settled =
        head->now.found && (head->now.state == TASK_QUEUED || head->now.state == TASK_WAITING);
    if (*settled && head->now.state == TASK_QUEUED) {
        head->now.state = TASK_WAITING;
        head->now.next_ms = fake_now_ms(session);
        fake_task_write(tables, session, head);
    }
    return fake_answer(session, err);
}

enum rc fake_task_wake(struct fake_task_tables *tables, const struct fake_session *session,
                       int64_t key, struct err *err)
{
    bool settled = key == 0 || tables->faults.no_wake;
    enum rc rc = RC_OK;

    while (rc == RC_OK && !settled) {
        struct order_ahead ahead;
        struct order_task head;

        rc = fake_call(session, err);
        if (rc != RC_OK)
            break;
        fake_tasks_ahead(tables, session, key, &ahead);
        head = ahead.busy.id > 0 ? (struct order_task){0} : order_head(&ahead);
        rc = fake_answer(session, err);
        settled = head.id == 0 || (tables->faults.head_unlocked && head.state == TASK_WAITING);
        if (rc == RC_OK && !settled)
            rc = wake_head(tables, session, fake_task_at(tables, head.id), &settled, err);
    }
    return rc;
}
