/* SPDX-License-Identifier: MIT */
#include "common/loop.h"

#include "common/os.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static enum rc open_eventfd(int *fd, struct err *err)
{
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (*fd < 0)
        return err_fail(err, RC_FATAL, errno, "cannot open an eventfd: %s", strerror(errno));
    return RC_OK;
}

static void raise_eventfd(int fd)
{
    uint64_t one = 1;
    int kept = errno;

    /* A full counter is already readable; there is nothing else to do. */
    if (write(fd, &one, sizeof(one)) < 0)
        errno = kept;
}

static void lower_eventfd(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof(count)) < 0)
        return;
}

static int limit_poll_ms(int64_t wait_ms)
{
    if (wait_ms < 0)
        return -1;
    return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

enum rc stop_init(struct stop *stop, struct err *err)
{
    atomic_init(&stop->requested, false);
    atomic_init(&stop->requested_ms, 0);
    atomic_init(&stop->failed, false);
    return open_eventfd(&stop->fd, err);
}

void stop_done(struct stop *stop)
{
    if (stop->fd > 0)
        close(stop->fd);
    stop->fd = 0;
}

void stop_request(struct stop *stop)
{
    long long never = 0;

    atomic_compare_exchange_strong(&stop->requested_ms, &never, os_now_ms());
    atomic_store(&stop->requested, true);
    raise_eventfd(stop->fd);
}

void stop_fail(struct stop *stop)
{
    atomic_store(&stop->failed, true);
    stop_request(stop);
}

bool stop_requested(const struct stop *stop)
{
    return atomic_load(&stop->requested);
}

int64_t stop_until_ms(const struct stop *stop, int64_t ms)
{
    int64_t requested_ms = atomic_load(&stop->requested_ms);

    return (requested_ms > 0 ? requested_ms : os_now_ms()) + ms;
}

bool stop_wait(const struct stop *stop, int64_t wait_ms)
{
    struct pollfd fds = {.fd = stop->fd, .events = POLLIN};

    /* A debugger or a handler may interrupt a sleep; only one without end must go on then. */
    while (wait_ms != 0 && !stop_requested(stop))
        if (poll(&fds, 1, limit_poll_ms(wait_ms)) >= 0 || wait_ms > 0)
            break;
    return stop_requested(stop);
}

enum rc wakeup_init(struct wakeup *wakeup, struct err *err)
{
    return open_eventfd(&wakeup->fd, err);
}

void wakeup_done(struct wakeup *wakeup)
{
    if (wakeup->fd > 0)
        close(wakeup->fd);
    wakeup->fd = 0;
}

void wakeup_signal(const struct wakeup *wakeup)
{
    raise_eventfd(wakeup->fd);
}

bool wakeup_wait(const struct wakeup *wakeup, const struct stop *stop, int64_t wait_ms)
{
    struct pollfd fds[2] = {{.fd = wakeup->fd, .events = POLLIN},
                            {.fd = stop->fd, .events = POLLIN}};

    if (stop_requested(stop))
        return true;
    poll(fds, 2, limit_poll_ms(wait_ms));
    if (fds[0].revents & POLLIN)
        lower_eventfd(wakeup->fd);
    return stop_requested(stop);
}

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
