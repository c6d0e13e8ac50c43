/* SPDX-License-Identifier: MIT */
/* Preloaded into a process it makes the wall clock wrong by WRONG_CLOCK_S seconds and leaves the
 * steady clocks alone. A wait until a time of that clock ends when the process believes it does, as
 * it would if the clock of the machine were wrong. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

/* No wait is longer; a later time belongs to another clock. */
#define WAIT_S_MAX 86400

/* ISO C converts the result of dlsym() to a function pointer only through memory. */
union found {
    void *symbol;
    int (*clock_gettime)(clockid_t, struct timespec *);
    int (*pthread_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int (*cnd_timedwait)(cnd_t *, mtx_t *, const struct timespec *);
};

static union found next_of(const char *name)
{
    union found found = {dlsym(RTLD_NEXT, name)};

    return found;
}

static time_t offset_s(void)
{
    const char *text = getenv("WRONG_CLOCK_S");

    return text ? (time_t)strtoll(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = next_of("clock_gettime").clock_gettime(clock, now);

    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset_s();
    return rc;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec exact;

    clock_gettime(CLOCK_REALTIME, &exact);
    if (out)
        *out = exact.tv_sec;
    return exact.tv_sec;
}

int timespec_get(struct timespec *now, int base)
{
    return clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

/* The same moment on the kernel's clock. */
static struct timespec real(const struct timespec *until)
{
    struct timespec moment = *until;
    time_t left_s = until->tv_sec - time(NULL);

    if (left_s > -WAIT_S_MAX && left_s < WAIT_S_MAX)
        moment.tv_sec -= offset_s();
    return moment;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    const struct timespec moment = real(until);

    return next_of("pthread_cond_timedwait").pthread_cond_timedwait(cond, mutex, &moment);
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex,
                  const struct timespec *restrict until)
{
    const struct timespec moment = real(until);

    return next_of("cnd_timedwait").cnd_timedwait(cond, mutex, &moment);
}
