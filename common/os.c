/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pthread_setname_np() */
#include "common/os.h"

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FILES_MAX_GUESS 1024 /* the usual limit */
#define HEAPS_MAX 2
#define LARGE_BYTES (256 * 1024)

/* CLOCK_MONOTONIC stops while the machine is suspended, but leases in the database do not. */
#ifdef CLOCK_BOOTTIME
#define STEADY_CLOCK CLOCK_BOOTTIME
#else
#define STEADY_CLOCK CLOCK_MONOTONIC
#endif

static int64_t read_clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t os_now_ms(void)
{
    return read_clock_us(STEADY_CLOCK) / 1000;
}

int64_t os_now_us(void)
{
    return read_clock_us(STEADY_CLOCK);
}

int64_t os_wall_ms(void)
{
    return read_clock_us(CLOCK_REALTIME) / 1000;
}

void os_random(void *bytes, size_t len)
{
    unsigned char *at = bytes;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno != EINTR)
            abort();
        if (n < 0)
            continue;
        at += n;
        len -= (size_t)n;
    }
}

uint64_t os_random_u64(void)
{
    uint64_t value;

    os_random(&value, sizeof(value));
    return value;
}

void os_host_name(char *name, size_t size)
{
    if (gethostname(name, size) != 0)
        snprintf(name, size, "localhost");
    name[size - 1] = '\0';
}

/* The name of the account of this process, cut to fit; its number if it has no name. */
static void get_user_name(char *name, size_t size)
{
    struct passwd account;
    struct passwd *found = NULL;
    char texts[2048];

    if (getpwuid_r(geteuid(), &account, texts, sizeof(texts), &found) == 0 && found)
        snprintf(name, size, "%s", account.pw_name);
    else
        snprintf(name, size, "%ld", (long)geteuid());
}

void os_operator_name(char name[OS_OPERATOR_SIZE])
{
    char user[OS_OPERATOR_SIZE / 2];
    char host[OS_OPERATOR_SIZE / 2];

    get_user_name(user, sizeof(user));
    os_host_name(host, sizeof(host));
    snprintf(name, OS_OPERATOR_SIZE, "%s@%s", user, host);
}

long os_pid(void)
{
    return (long)getpid();
}

bool os_is_root(void)
{
    return geteuid() == 0;
}

uint64_t os_rss_bytes(void)
{
    unsigned long total = 0;
    unsigned long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &total, &resident) !=
        2) /* NOLINT(cert-err34-c): checked by count */
        resident = 0;
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t os_cpu_us(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

struct os_service os_service(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    const char *period = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    struct os_service service = {.notify_socket = path ? path : ""};

    /* With another pid the watchdog is for a parent process that passed on its environment. */
    if (path && period && (!pid || strtol(pid, NULL, 10) == os_pid()))
        service.watchdog_ms = strtoll(period, NULL, 10) / 1000;
    return service;
}

size_t os_files_max(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return FILES_MAX_GUESS;
    if (files.rlim_cur < files.rlim_max) {
        struct rlimit all = {.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &all) == 0)
            files = all;
    }
    return files.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)files.rlim_cur;
}

void os_share_heaps(void)
{
#ifdef __GLIBC__
    if (!getenv("MALLOC_ARENA_MAX"))
        mallopt(M_ARENA_MAX, HEAPS_MAX);
    if (!getenv("MALLOC_MMAP_THRESHOLD_"))
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
#endif
}

void os_thread_name(const char *name)
{
    char cut[16];

    snprintf(cut, sizeof(cut), "%s", name);
    pthread_setname_np(pthread_self(), cut);
}
