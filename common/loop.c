/* SPDX-License-Identifier: MIT */
#include "common/loop.h"

#include "common/os.h"

#include <stdio.h>
#include <string.h>

/* All running loops of this process, for loops_stuck(). */
static pthread_mutex_t started_lock = PTHREAD_MUTEX_INITIALIZER; /* guards started, loop->next */
static struct loop *started;

static _Thread_local struct loop *own; /* that the calling thread runs */

enum rc loop_init(struct loop *loop, const char *name, loop_step step, void *engine,
                  struct stop *stop, struct err *err)
{
    memset(loop, 0, sizeof(*loop));
    loop->name = name;
    loop->step = step;
    loop->engine = engine;
    loop->stop = stop;
    atomic_init(&loop->beat_ms, os_now_ms());
    atomic_init(&loop->busy_ms, 0);
    return wakeup_init(&loop->wakeup, err);
}

static void *run_thread(void *arg)
{
    struct loop *loop = arg;
    bool stopping = stop_requested(loop->stop);

    os_thread_name(loop->name);
    own = loop;
    while (!stopping) {
        int64_t now_ms = os_now_ms();
        int64_t wait_ms;

        atomic_store(&loop->busy_ms, now_ms);
        wait_ms = loop->step(loop->engine, now_ms);
        atomic_store(&loop->beat_ms, os_now_ms());
        atomic_store(&loop->busy_ms, 0);
        if (wait_ms == LOOP_END)
            break;
        stopping = wait_ms == 0 ? stop_requested(loop->stop)
                                : wakeup_wait(&loop->wakeup, loop->stop, wait_ms);
    }
    return NULL;
}

static void add_started(struct loop *loop)
{
    pthread_mutex_lock(&started_lock);
    loop->next = started;
    started = loop;
    pthread_mutex_unlock(&started_lock);
}

static void remove_started(const struct loop *loop)
{
    struct loop **at = &started;

    pthread_mutex_lock(&started_lock);
    while (*at != loop)
        at = &(*at)->next;
    *at = loop->next;
    pthread_mutex_unlock(&started_lock);
}

/* Added before its thread runs, so that a step that hangs at once is seen, too. */
enum rc loop_start(struct loop *loop, struct err *err)
{
    int code;

    add_started(loop);
    code = pthread_create(&loop->thread, NULL, run_thread, loop);
    if (code != 0) {
        remove_started(loop);
        return err_fail(err, RC_FATAL, code, "cannot start thread %s: %s", loop->name,
                        strerror(code));
    }
    loop->started = true;
    return RC_OK;
}

void loop_join(struct loop *loop)
{
    if (!loop->started)
        return;
    pthread_join(loop->thread, NULL);
    remove_started(loop);
    loop->started = false;
}

void loop_done(struct loop *loop)
{
    wakeup_done(&loop->wakeup);
}

void loop_goes_on(int64_t now_ms)
{
    if (own)
        atomic_store(&own->busy_ms, now_ms);
}

void loop_wake(struct loop *loop)
{
    wakeup_signal(&loop->wakeup);
}

bool loops_stuck(int64_t now_ms, int64_t within_ms, char name[LOOP_NAME_SIZE])
{
    int64_t longest_ms = within_ms;

    pthread_mutex_lock(&started_lock);
    for (struct loop *loop = started; loop; loop = loop->next) {
        int64_t busy_ms = atomic_load(&loop->busy_ms);

        if (busy_ms == 0 || now_ms - busy_ms <= longest_ms)
            continue;
        longest_ms = now_ms - busy_ms;
        snprintf(name, LOOP_NAME_SIZE, "%s", loop->name);
    }
    pthread_mutex_unlock(&started_lock);
    return longest_ms > within_ms;
}
