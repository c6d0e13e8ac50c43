/* SPDX-License-Identifier: MIT */
/* `tallybox retry` with one handler, noop, which does nothing: measures the cost of the retry queue
 * itself. retry_noop retry [--config FILE] [--set NAME=VALUE]... as the role of the program. If
 * TALLYBOX_BENCH_SHARE names a file, it notes there when it ran a task first: the parameters of a
 * task are a row of the file, which has a time in us (CLOCK_MONOTONIC) in 8 bytes (latency.c). */
#include "common/daemon/role.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/retry_command.h"
#include "schema/migrate/migrate_command.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct noop {
    atomic_llong *seen_us; /* NULL: attempts are not noted */
    long long rows;
};

static enum rc noop_open(void **handler, const struct retry_handler_env *env, struct err *err)
{
    static struct noop noop;
    const char *path = getenv("TALLYBOX_BENCH_SHARE");
    int fd = path ? open(path, O_RDWR) : -1;

    (void)env;
    *handler = &noop;
    if (!path)
        return RC_OK;
    if (fd < 0)
        return err_fail(err, RC_FATAL, 0, "%s cannot be opened", path);
    noop.rows = (long long)lseek(fd, 0, SEEK_END) / (long long)sizeof(*noop.seen_us);
    noop.seen_us = mmap(NULL, (size_t)noop.rows * sizeof(*noop.seen_us), PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
    close(fd);
    if (noop.seen_us == MAP_FAILED)
        return err_fail(err, RC_FATAL, 0, "%s cannot be mapped", path);
    return RC_OK;
}

static void note_attempt(const struct noop *noop, const struct retry_job *job)
{
    char text[24];
    long long none = 0;
    long long row;
    struct timespec now;

    if (job->params_len >= sizeof(text))
        return;
    memcpy(text, job->params, job->params_len);
    text[job->params_len] = '\0';
    row = strtoll(text, NULL, 10);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (row >= 0 && row < noop->rows)
        atomic_compare_exchange_strong(&noop->seen_us[row], &none,
                                       (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

static void noop_run(void *handler, size_t worker, const struct retry_job *job,
                     struct attempt_result *attempt)
{
    const struct noop *noop = handler;

    (void)worker;
    if (noop->seen_us)
        note_attempt(noop, job);
    attempt->end = ATTEMPT_DONE;
}

static void noop_close(void *handler)
{
    (void)handler;
}

static const struct retry_handler noop = {
    .name = "noop",
    .about = "Does nothing.",
    .open = noop_open,
    .run = noop_run,
    .close = noop_close,
};

static const struct retry_handler *const handlers[] = {&noop};

int main(int argc, char **argv)
{
    const struct role *const role = &retry_role;
    const struct retry_handlers noop_alone = {handlers, 1, NULL, NULL, NULL};
    const struct role_process process = {role->name,  role->about, &role, 1,   schema_gate,
                                         &noop_alone, NULL,        0,     NULL};

    return role_main(&process, argc - 1, argv + 1);
}
