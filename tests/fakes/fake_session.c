/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_session.h"

#include <assert.h>
#include <stdlib.h>

enum rc fake_call(const struct fake_session *session, struct err *err)
{
    return session->hooks.call(session->hooks.ctx, err);
}

enum rc fake_answer(const struct fake_session *session, struct err *err)
{
    return session->hooks.answer(session->hooks.ctx, err);
}

int64_t fake_now_ms(const struct fake_session *session)
{
    return session->hooks.now_ms(session->hooks.ctx);
}

enum rc fake_begin(const struct fake_session *session, struct err *err)
{
    return session->begin(session->hooks.ctx, err);
}

enum rc fake_commit(const struct fake_session *session, struct err *err)
{
    return session->commit(session->hooks.ctx, err);
}

void fake_rollback(const struct fake_session *session)
{
    session->rollback(session->hooks.ctx);
}

enum rc fake_lock(const struct fake_session *session, struct fake_row *row, struct err *err)
{
    return session->lock(session->hooks.ctx, row, err);
}

void fake_wrote(const struct fake_session *session, struct fake_row *row, fake_settle settle,
                void *tables)
{
    session->wrote(session->hooks.ctx, row, settle, tables);
}

bool fake_owns(const struct fake_session *session, const struct fake_row *row)
{
    return row->owner && row->owner == session->owner(session->hooks.ctx);
}

void fake_touches_add(struct fake_touches *touches, struct fake_row *row, fake_settle settle,
                      void *tables)
{
    if (touches->count == touches->size) {
        touches->size = touches->size > 0 ? touches->size * 2 : 32;
        touches->list = realloc(touches->list, touches->size * sizeof(*touches->list));
        assert(touches->list);
    }
    touches->list[touches->count++] = (struct fake_touch){row, settle, tables};
}

void fake_touches_settle(const struct fake_touches *touches, bool commit)
{
    for (size_t i = 0; i < touches->count; i++) {
        const struct fake_touch *touch = &touches->list[i];

        if (touch->settle)
            touch->settle(touch->tables, touch->row, commit);
    }
}

void fake_touches_done(struct fake_touches *touches)
{
    free(touches->list);
    *touches = (struct fake_touches){0};
}

static void alone_end(struct fake_alone *alone, bool commit)
{
    fake_touches_settle(&alone->touches, commit);
    for (size_t i = 0; i < alone->touches.count; i++)
        alone->touches.list[i].row->owner = NULL;
    fake_touches_done(&alone->touches);
    alone->open = false;
}

static void alone_rollback(void *ctx)
{
    alone_end(ctx, false);
}

static enum rc end_if_failed(struct fake_alone *alone, enum rc rc)
{
    if (rc == RC_RETRY || rc == RC_FATAL)
        alone_end(alone, false);
    return rc;
}

static enum rc alone_call(void *ctx, struct err *err)
{
    struct fake_alone *alone = ctx;

    return end_if_failed(alone, alone->hooks.call(alone->hooks.ctx, err));
}

static enum rc alone_answer(void *ctx, struct err *err)
{
    struct fake_alone *alone = ctx;

    return end_if_failed(alone, alone->hooks.answer(alone->hooks.ctx, err));
}

static int64_t alone_now_ms(void *ctx)
{
    const struct fake_alone *alone = ctx;

    return alone->hooks.now_ms(alone->hooks.ctx);
}

static enum rc alone_begin(void *ctx, struct err *err)
{
    struct fake_alone *alone = ctx;
    enum rc rc = alone_call(alone, err);

    assert(!alone->open);
    alone->open = rc == RC_OK;
    return rc;
}

static enum rc alone_commit(void *ctx, struct err *err)
{
    struct fake_alone *alone = ctx;
    enum rc rc = alone_call(alone, err);

    assert(rc != RC_OK || alone->open);
    if (rc != RC_OK) {
        alone_end(alone, false);
        return rc;
    }
    alone_end(alone, true);
    return alone->hooks.answer(alone->hooks.ctx, err);
}

static enum rc alone_lock(void *ctx, struct fake_row *row, struct err *err)
{
    struct fake_alone *alone = ctx;

    (void)err;
    assert(alone->open && (!row->owner || row->owner == alone));
    if (row->owner)
        return RC_OK;
    row->owner = alone;
    fake_touches_add(&alone->touches, row, NULL, NULL);
    return RC_OK;
}

static void alone_wrote(void *ctx, struct fake_row *row, fake_settle settle, void *tables)
{
    struct fake_alone *alone = ctx;

    assert(row->owner == alone);
    fake_touches_add(&alone->touches, row, settle, tables);
}

static const void *alone_owner(void *ctx)
{
    const struct fake_alone *alone = ctx;

    return alone->open ? alone : NULL;
}

static uint64_t alone_connects(void *ctx)
{
    const struct fake_alone *alone = ctx;

    return alone->connects;
}

struct fake_session fake_alone_session(struct fake_alone *alone)
{
    return (struct fake_session){
        .hooks = {alone, alone_call, alone_answer, alone_now_ms},
        .begin = alone_begin,
        .commit = alone_commit,
        .rollback = alone_rollback,
        .lock = alone_lock,
        .wrote = alone_wrote,
        .owner = alone_owner,
        .connects = alone_connects,
    };
}
