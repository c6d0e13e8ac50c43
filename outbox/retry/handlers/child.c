/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memfd_create(), pipe2(), posix_spawn_file_actions_addclosefrom_np() */
#include "outbox/retry/handlers/child.h"

#include "common/loop.h"
#include "common/os.h"
#include "outbox/retry/handler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 16384
#define CHUNKS_MAX 64 /* read at once */
#define STOP_GRACE_MS (CHILD_GRACE_MS / 2)
#define LEASE_GRACE_PART 8 /* of the lease, as it is in the beginning */
#define ERRORS_SIZE 2048

enum { IN, OUT, ERRORS, PIPES };

struct child {
    const struct child_order *order;
    struct child_end *end;
    pid_t pid;
    int ours[PIPES]; /* -1: closed, or there is none */
    int64_t term_ms;
    int64_t kill_ms;
    int64_t lease_grace_ms; /* between SIGTERM and the end of the lease */
    bool told;
    bool killed;
    int look_ms;
    char errors[ERRORS_SIZE]; /* the last it wrote */
    size_t errors_len;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A process whose stdin is closed could get the pipe as descriptor 0 to 2, which the child
 * replaces. */
static bool move_above_stderr(int *fd)
{
    int up;

    if (*fd > STDERR_FILENO)
        return true;
    up = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(*fd);
    *fd = up;
    return up >= 0;
}

static bool open_pipe(int *read_end, int *write_end)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    *read_end = ends[0];
    *write_end = ends[1];
    return move_above_stderr(read_end) && move_above_stderr(write_end);
}

/* The whole input is there before the program begins: with a pipe, one that outlives us would take
 * a part of it for all. */
static int open_input(const struct child_order *order, int *fd)
{
    size_t written = 0;

    *fd = memfd_create("params", MFD_CLOEXEC);
    if (*fd < 0 || !move_above_stderr(fd))
        return errno;
    while (written < order->input_len) {
        ssize_t len = write(*fd, (const char *)order->input + written, order->input_len - written);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return errno;
        written += (size_t)len;
    }
    return lseek(*fd, 0, SEEK_SET) == 0 ? 0 : errno;
}

static void close_all(int fds[PIPES])
{
    for (size_t i = 0; i < PIPES; i++)
        close_fd(&fds[i]);
}

static void close_inherited(posix_spawn_file_actions_t *actions)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
#else
    /* Most descriptors are close-on-exec; those of a library may not be. */
    for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
        posix_spawn_file_actions_addclose(actions, fd);
#endif
}

static int spawn_child(struct child *child, const int theirs[PIPES])
{
    const struct child_order *order = child->order;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    int code;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < PIPES; i++)
        posix_spawn_file_actions_adddup2(&actions, theirs[i], i);
    close_inherited(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    /* The texts are copied into the new process, not written to. */
    code = posix_spawn(&child->pid, order->args[0], &actions, &attributes,
                       (char *const *)(uintptr_t)order->args,
                       (char *const *)(uintptr_t)order->environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static int start_child(struct child *child)
{
    int theirs[PIPES] = {-1, -1, -1};
    int code = open_input(child->order, &theirs[IN]);

    if (code == 0 && (!open_pipe(&child->ours[OUT], &theirs[OUT]) ||
                      !open_pipe(&child->ours[ERRORS], &theirs[ERRORS])))
        code = errno;
    for (size_t i = OUT; i < PIPES && code == 0; i++)
        if (fcntl(child->ours[i], F_SETFL, O_NONBLOCK) != 0)
            code = errno;
    if (code == 0)
        code = spawn_child(child, theirs);
    close_all(theirs);
    return code;
}

static void keep_error_text(struct child *child, const char *bytes, size_t len)
{
    size_t half = sizeof(child->errors) / 2;

    if (len >= half) {
        bytes += len - half;
        len = half;
        child->errors_len = 0;
    } else if (child->errors_len + len > sizeof(child->errors)) {
        memmove(child->errors, child->errors + child->errors_len - half, half);
        child->errors_len = half;
    }
    memcpy(child->errors + child->errors_len, bytes, len);
    child->errors_len += len;
}

/* Reads what the pipe holds; a child that writes without pause is read again in the next round. */
static void drain_pipe(struct child *child, int pipe)
{
    char chunk[CHUNK];

    for (int i = 0; i < CHUNKS_MAX && child->ours[pipe] >= 0; i++) {
        ssize_t len = read(child->ours[pipe], chunk, sizeof(chunk));

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && errno == EAGAIN)
            return;
        if (len <= 0)
            close_fd(&child->ours[pipe]);
        else if (pipe == OUT)
            buf_put(child->order->output, chunk, (size_t)len);
        else
            keep_error_text(child, chunk, (size_t)len);
    }
}

/* The child stays a zombie until it is reaped, so its process id and group id are not reused until
 * then. */
static bool has_ended(const struct child *child)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return errno != EINTR;
    return info.si_pid == child->pid;
}

static void reap_child(struct child *child)
{
    int status = 0;
    pid_t pid;

    /* Ends the processes that the child left in its group. */
    kill(-child->pid, SIGKILL);
    do {
        pid = waitpid(child->pid, &status, 0);
    } while (pid < 0 && errno == EINTR);
    if (pid < 0)
        child->end->error = errno;
    else if (WIFSIGNALED(status))
        child->end->signal = WTERMSIG(status);
    else
        child->end->code = WEXITSTATUS(status);
    drain_pipe(child, OUT);
    drain_pipe(child, ERRORS);
}

static void advance_deadlines(struct child *child, int64_t now_ms, int64_t kill_ms)
{
    if (now_ms < child->term_ms)
        child->term_ms = now_ms;
    if (kill_ms < child->kill_ms)
        child->kill_ms = kill_ms;
}

static void end_child_if_due(struct child *child, int64_t now_ms)
{
    int64_t lease_until_ms = atomic_load(child->order->lease_until_ms);

    if (!child->told && stop_requested(child->order->stop)) {
        child->end->stopped = true;
        advance_deadlines(child, now_ms, now_ms + STOP_GRACE_MS);
    }
    /* Invariant: a child that already got SIGTERM for another reason also ends before the lease
     * does. */
    if (now_ms >= lease_until_ms - child->lease_grace_ms) {
        child->end->lease_lost = true;
        advance_deadlines(child, now_ms, lease_until_ms);
    }
    if (!child->told && now_ms >= child->term_ms) {
        child->told = true;
        child->end->timed_out = !child->end->stopped && !child->end->lease_lost;
        kill(-child->pid, SIGTERM);
    }
    if (!child->killed && now_ms >= child->kill_ms) {
        child->killed = true;
        kill(-child->pid, SIGKILL);
    }
}

static int compute_wait_ms(struct child *child, int64_t now_ms)
{
    int64_t next_ms = child->told ? child->kill_ms : child->term_ms;
    int64_t left_ms = child->killed || next_ms - now_ms > HANDLER_WAIT_MS_MAX ? HANDLER_WAIT_MS_MAX
                                                                              : next_ms - now_ms;

    /* An end is not announced: the closed pipes were, and it should follow soon. */
    if (child->ours[OUT] >= 0 || child->ours[ERRORS] >= 0)
        return left_ms > 0 ? (int)left_ms : 0;
    if (child->look_ms < HANDLER_WAIT_MS_MAX)
        child->look_ms = child->look_ms > 0 ? child->look_ms * 2 : 1;
    return child->look_ms < left_ms ? child->look_ms : (int)left_ms;
}

static void poll_child(struct child *child, int64_t now_ms)
{
    struct pollfd fds[PIPES] = {
        {.fd = child->told ? -1 : child->order->stop->fd, .events = POLLIN},
        {.fd = child->ours[OUT], .events = POLLIN},
        {.fd = child->ours[ERRORS], .events = POLLIN},
    };

    if (poll(fds, PIPES, compute_wait_ms(child, now_ms)) <= 0)
        return;
    if (fds[OUT].revents)
        drain_pipe(child, OUT);
    if (fds[ERRORS].revents)
        drain_pipe(child, ERRORS);
}

static void find_last_line(const struct child *child)
{
    const char *end = child->errors + child->errors_len;
    const char *begin;
    size_t len;

    while (end > child->errors && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
        end--;
    begin = end;
    while (begin > child->errors && begin[-1] != '\n')
        begin--;
    len = (size_t)(end - begin);
    if (len >= CHILD_WORDS_SIZE)
        len = CHILD_WORDS_SIZE - 1;
    memcpy(child->end->words, begin, len);
    child->end->words[len] = '\0';
    /* A zero byte ends it sooner, and err_set() makes the rest fit to be read. */
}

struct child_end child_run(const struct child_order *order)
{
    struct child_end end = {0};
    int64_t now_ms = os_now_ms();
    int64_t lease_ms = atomic_load(order->lease_until_ms) - now_ms;
    struct child child = {
        .order = order,
        .end = &end,
        .ours = {-1, -1, -1},
        .term_ms = order->until_ms,
        .kill_ms = order->until_ms + CHILD_GRACE_MS,
        .lease_grace_ms = lease_ms > 0 ? lease_ms / LEASE_GRACE_PART : 0,
    };

    if (child.lease_grace_ms > CHILD_GRACE_MS)
        child.lease_grace_ms = CHILD_GRACE_MS;
    end.error = start_child(&child);
    if (end.error == 0) {
        for (; !has_ended(&child); now_ms = os_now_ms()) {
            loop_goes_on(now_ms);
            end_child_if_due(&child, now_ms);
            poll_child(&child, now_ms);
        }
        reap_child(&child);
        find_last_line(&child);
    }
    close_all(child.ours);
    return end;
}
