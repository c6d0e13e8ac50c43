/* SPDX-License-Identifier: MIT */
#include "common/stop.h"

#include "common/os.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
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
