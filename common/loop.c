/* SPDX-License-Identifier: MIT */
#include "common/loop.h"

#include "common/os.h"

#include <string.h>

enum rc loop_init(struct loop *loop, const char *name, loop_step step, void *engine,
                  struct stop *stop, struct err *err)
{
    memset(loop, 0, sizeof(*loop));
    loop->name = name;
    loop->step = step;
    loop->engine = engine;
    loop->stop = stop;
    atomic_init(&loop->beat_ms, os_now_ms());
    return bell_init(&loop->bell, err);
}

static void *loop_main(void *arg)
{
    struct loop *loop = arg;
    bool stopping = stop_requested(loop->stop);

    os_thread_name(loop->name);
    while (!stopping) {
        int64_t wait_ms = loop->step(loop->engine, os_now_ms());

        atomic_store(&loop->beat_ms, os_now_ms());
        if (wait_ms == LOOP_END)
            break;
        stopping =
            wait_ms == 0 ? stop_requested(loop->stop) : bell_wait(&loop->bell, loop->stop, wait_ms);
    }
    return NULL;
}

enum rc loop_start(struct loop *loop, struct err *err)
{
    int code = pthread_create(&loop->thread, NULL, loop_main, loop);

    if (code != 0)
        return err_fail(err, RC_FATAL, code, "cannot start thread %s: %s", loop->name,
                        strerror(code));
    loop->started = true;
    return RC_OK;
}

void loop_join(struct loop *loop)
{
    if (loop->started)
        pthread_join(loop->thread, NULL);
    loop->started = false;
}

void loop_done(struct loop *loop)
{
    bell_done(&loop->bell);
}

void loop_wake(struct loop *loop)
{
    bell_ring(&loop->bell);
}
