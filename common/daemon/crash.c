/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* dladdr, gettid, pthread_getname_np */
#include "common/daemon/crash.h"

#include "common/log.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* As many as a log line has room for. */
#define FRAMES_MAX 32
#define STACK_TEXT_BYTES 800

/* A handler that waits for a lock of the crashed thread ends after this time. */
#define HANDLER_SECONDS 10

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static const char *name_signal(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    default:
        return "SIGABRT";
    }
}

/* "tallybox+0x1a2b", with the file's offset, which is the same in each process. */
static int write_frame(char *text, size_t size, void *address)
{
    const char *file = "unknown";
    uintptr_t base = 0;
    Dl_info info;

    if (dladdr(address, &info) != 0 && info.dli_fname) {
        const char *slash = strrchr(info.dli_fname, '/');

        file = slash ? slash + 1 : info.dli_fname;
        base = (uintptr_t)info.dli_fbase;
    }
    return snprintf(text, size, "%s+0x%" PRIxPTR, file, (uintptr_t)address - base);
}

static void write_stack(char *text, size_t size)
{
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    size_t len = 0;

    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        char frame[128];
        int n = write_frame(frame, sizeof(frame), frames[i]);

        if (n <= 0 || len + (size_t)n + 2 > size)
            return;
        len += (size_t)snprintf(text + len, size - len, "%s%s", len > 0 ? "," : "", frame);
    }
}

static void end_process(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* What it calls takes no memory. Other threads that crash meanwhile wait for the end. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    static atomic_int crashed; /* the thread that logs; 0: none */
    char stack[STACK_TEXT_BYTES];
    char thread[16] = "";
    int self = gettid();
    int first = 0;

    (void)context;
    if (!atomic_compare_exchange_strong(&crashed, &first, self)) {
        while (first != self)
            pause();
        end_process(number);
    }
    alarm(HANDLER_SECONDS);
    pthread_getname_np(pthread_self(), thread, sizeof(thread));
    write_stack(stack, sizeof(stack));
    log_event(LOG_ERROR, "crashed", "signal=%s address=0x%" PRIxPTR " thread=\"%s\" stack=%s",
              name_signal(number), (uintptr_t)info->si_addr, thread, stack);
    end_process(number);
}

void crash_init(void)
{
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction present;
    void *frame;

    /* The first call loads a library, which a handler must not do. */
    backtrace(&frame, 1);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &present) == 0 && present.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
}

void crash_unblock(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
