/* SPDX-License-Identifier: MIT */
#include "common/daemon/signals.h"

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

#define STOP_LOOK_MS 100

/* The thread's view of the stop. */
struct stop_state {
    int64_t timeout_ms;   /* of the stop */
    int64_t deadline_ms;  /* of the stop; 0: none was requested */
    uint32_t signal;      /* the first one; 0: none came */
    int64_t signalled_ms; /* and when */
    int64_t look_ms;      /* when the next look is due */
};

static const char *name_signal(uint32_t number)
{
    return number == SIGINT ? "SIGINT" : "SIGTERM";
}

static void take_signal(struct signals *signals, struct stop_state *state)
{
    struct signalfd_siginfo info;

    if (read(signals->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP) {
        if (!stop_requested(signals->stop))
            signals->chores.hang_up(signals->chores.ctx);
        return;
    }
    if (info.ssi_signo == state->signal && os_now_ms() - state->signalled_ms < ECHO_MS)
        return;
    if (state->signal != 0) {
        log_event(LOG_ERROR, "stop_forced", "signal=%s", name_signal(info.ssi_signo));
        _exit(EXIT_FAILED);
    }
    state->signal = info.ssi_signo;
    state->signalled_ms = os_now_ms();
    log_event(LOG_INFO, "stopping", "signal=%s stop_timeout_ms=%" PRId64,
              name_signal(info.ssi_signo), (int64_t)signals->settings->admin.stop_timeout_ms);
    stop_request(signals->stop);
}

static int compute_wait_ms(const struct stop_state *state, int64_t now_ms)
{
    int64_t until_ms = state->look_ms;

    if (state->deadline_ms != 0 && state->deadline_ms < until_ms)
        until_ms = state->deadline_ms;
    if (until_ms <= now_ms)
        return 0;
    return until_ms - now_ms > INT_MAX ? INT_MAX : (int)(until_ms - now_ms);
}

/* During a stop the chores run at least every STOP_LOOK_MS. */
static void run_chores(struct signals *signals, struct stop_state *state)
{
    const struct signals_chores *chores = &signals->chores;
    int64_t now_ms = os_now_ms();

    if (now_ms < state->look_ms)
        return;
    state->look_ms = now_ms + chores->look(chores->ctx, now_ms);
    if (state->deadline_ms == 0)
        return;
    chores->stop_lasts(chores->ctx, now_ms, now_ms - state->deadline_ms + state->timeout_ms,
                       state->timeout_ms);
    if (state->look_ms > now_ms + STOP_LOOK_MS)
        state->look_ms = now_ms + STOP_LOOK_MS;
}

static void *run_signals(void *arg)
{
    struct signals *signals = arg;
    struct stop_state state = {0};
    struct pollfd fds[3] = {
        {.fd = signals->fd, .events = POLLIN},
        {.fd = signals->finished.fd, .events = POLLIN},
        {.fd = signals->stop->fd, .events = POLLIN},
    };

    os_thread_name("signals");
    while (!(fds[1].revents & POLLIN)) {
        run_chores(signals, &state);
        poll(fds, 3, compute_wait_ms(&state, os_now_ms()));
        if (fds[0].revents & POLLIN)
            take_signal(signals, &state);
        /* The time of the stop runs from here, for a signal and for a failed thread alike. */
        if (state.deadline_ms == 0 && stop_requested(signals->stop)) {
            state.timeout_ms = signals->settings->admin.stop_timeout_ms;
            state.deadline_ms = os_now_ms() + state.timeout_ms;
            state.look_ms = 0;
            fds[2].fd = -1;
            continue;
        }
        if (state.deadline_ms != 0 && os_now_ms() >= state.deadline_ms &&
            !(fds[1].revents & POLLIN)) {
            log_event(LOG_ERROR, "stop_timed_out", "stop_timeout_ms=%" PRId64, state.timeout_ms);
            _exit(EXIT_FAILED);
        }
    }
    return NULL;
}

enum rc signals_start(struct signals *signals, struct stop *stop, const struct settings *settings,
                      const struct signals_chores *chores, struct err *err)
{
    sigset_t set;
    int code;
    enum rc rc;

    memset(signals, 0, sizeof(*signals));
    signals->stop = stop;
    signals->settings = settings;
    signals->chores = *chores;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* A closed connection is an error of the write, not of the process. */
    signal(SIGPIPE, SIG_IGN);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return err_fail(err, RC_FATAL, errno, "cannot wait for signals: %s", strerror(errno));
    rc = wakeup_init(&signals->finished, err);
    if (rc != RC_OK)
        goto out;
    code = pthread_create(&signals->thread, NULL, run_signals, signals);
    if (code != 0)
        rc = err_fail(err, RC_FATAL, code, "cannot start a thread for signals: %s", strerror(code));
out:
    if (rc != RC_OK) {
        wakeup_done(&signals->finished);
        close(signals->fd);
    }
    return rc;
}

void signals_end(struct signals *signals)
{
    wakeup_signal(&signals->finished);
    pthread_join(signals->thread, NULL);
    wakeup_done(&signals->finished);
    close(signals->fd);
}
