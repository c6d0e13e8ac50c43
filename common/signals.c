/* SPDX-License-Identifier: MIT */
#include "common/signals.h"

#include "common/log.h"
#include "common/options.h"
#include "common/os.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* timeout(1) and the like send a signal to the process and again to its group: so soon after the
 * first one the same signal is no second one. */
#define ECHO_MS 500

/* What the thread knows of the stop. */
struct watch {
    int64_t deadline_ms;  /* of the stop; 0: none was requested */
    uint32_t signal;      /* the first one; 0: none came */
    int64_t signalled_ms; /* and when */
};

static const char *signal_name(uint32_t number)
{
    return number == SIGINT ? "SIGINT" : "SIGTERM";
}

static void hear(struct signals *signals, struct watch *watch)
{
    struct signalfd_siginfo info;

    if (read(signals->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP) {
        log_event(LOG_INFO, "signal_ignored",
                  "signal=SIGHUP hint=\"settings are read at start; restart to change them\"");
        return;
    }
    if (info.ssi_signo == watch->signal && os_now_ms() - watch->signalled_ms < ECHO_MS)
        return;
    if (watch->signal != 0) {
        log_event(LOG_ERROR, "stop_forced", "signal=%s", signal_name(info.ssi_signo));
        _exit(EXIT_FAILED);
    }
    watch->signal = info.ssi_signo;
    watch->signalled_ms = os_now_ms();
    log_event(LOG_INFO, "stopping", "signal=%s stop_timeout_ms=%" PRId64,
              signal_name(info.ssi_signo), signals->stop_timeout_ms);
    stop_request(signals->stop);
}

static int wait_ms(const struct watch *watch)
{
    int64_t left_ms;

    if (watch->deadline_ms == 0)
        return -1;
    left_ms = watch->deadline_ms - os_now_ms();
    if (left_ms <= 0)
        return 0;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

static void *signals_main(void *arg)
{
    struct signals *signals = arg;
    struct watch watch = {0};
    struct pollfd fds[3] = {
        {.fd = signals->fd, .events = POLLIN},
        {.fd = signals->finished.fd, .events = POLLIN},
        {.fd = signals->stop->fd, .events = POLLIN},
    };

    os_thread_name("signals");
    while (!(fds[1].revents & POLLIN)) {
        poll(fds, 3, wait_ms(&watch));
        if (fds[0].revents & POLLIN)
            hear(signals, &watch);
        /* Whoever asked for the stop: its time runs from here. */
        if (watch.deadline_ms == 0 && stop_requested(signals->stop)) {
            watch.deadline_ms = os_now_ms() + signals->stop_timeout_ms;
            fds[2].fd = -1;
            continue;
        }
        if (watch.deadline_ms != 0 && wait_ms(&watch) == 0 && !(fds[1].revents & POLLIN)) {
            log_event(LOG_ERROR, "stop_timed_out", "stop_timeout_ms=%" PRId64,
                      signals->stop_timeout_ms);
            _exit(EXIT_FAILED);
        }
    }
    return NULL;
}

enum rc signals_start(struct signals *signals, struct stop *stop, int64_t stop_timeout_ms,
                      struct err *err)
{
    sigset_t set;
    int code;
    enum rc rc;

    memset(signals, 0, sizeof(*signals));
    signals->stop = stop;
    signals->stop_timeout_ms = stop_timeout_ms;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* A peer that went away is an error of the write, not of the process. */
    signal(SIGPIPE, SIG_IGN);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return err_fail(err, RC_FATAL, errno, "cannot wait for signals: %s", strerror(errno));
    rc = bell_init(&signals->finished, err);
    if (rc != RC_OK)
        goto out;
    code = pthread_create(&signals->thread, NULL, signals_main, signals);
    if (code != 0)
        rc = err_fail(err, RC_FATAL, code, "cannot start a thread for signals: %s", strerror(code));
out:
    if (rc != RC_OK) {
        bell_done(&signals->finished);
        close(signals->fd);
    }
    return rc;
}

void signals_end(struct signals *signals)
{
    bell_ring(&signals->finished);
    pthread_join(signals->thread, NULL);
    bell_done(&signals->finished);
    close(signals->fd);
}
