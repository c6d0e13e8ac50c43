/* SPDX-License-Identifier: MIT */
/* tallybox-sim: runs seeds on all cores and prints the stories of those that break a promise. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "common/log.h"
#include "tests/sim/run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 64
#define FAILURES_MAX 5
/* One seed takes milliseconds; this is for an engine that does not come back. */
#define SEED_SECONDS_MAX 120
#define PROGRESS_SECONDS 5
#define PROGRESS_SECONDS_LONG 60 /* once it has run for ten minutes */
#define LONG_SECONDS 600

static const struct {
    const char *name;
    enum sim_fault fault;
} faults[] = {
    {"delete-unfenced", FAULT_DELETE_UNFENCED},
    {"move-unfenced", FAULT_MOVE_UNFENCED},
    {"origin-ignored", FAULT_ORIGIN_IGNORED},
    {"move-without-task", FAULT_MOVE_WITHOUT_TASK},
    {"read-unfenced", FAULT_READ_UNFENCED},
    {"rollup-unfenced", FAULT_ROLLUP_UNFENCED},
    {"progress-unlocked", FAULT_PROGRESS_UNLOCKED},
    {"no-unique-key", FAULT_NO_UNIQUE_KEY},
    {"task-finish-unfenced", FAULT_TASK_FINISH_UNFENCED},
    {"task-no-wake", FAULT_TASK_NO_WAKE},
    {"task-queue-unlocked", FAULT_TASK_QUEUE_UNLOCKED},
    {"task-blockers-ignored", FAULT_TASK_BLOCKERS_IGNORED},
    {"task-claim-unlocked", FAULT_TASK_CLAIM_UNLOCKED},
    {"task-rescue-counts", FAULT_TASK_RESCUE_COUNTS},
    {"task-head-unlocked", FAULT_TASK_HEAD_UNLOCKED},
    {"task-busy-twice", FAULT_TASK_BUSY_TWICE},
    {"task-claim-uncompared", FAULT_TASK_CLAIM_UNCOMPARED},
    {"task-cancel-silent", FAULT_TASK_CANCEL_SILENT},
    {"task-wait-unmarked", FAULT_TASK_WAIT_UNMARKED},
    {"first-try-unordered", FAULT_FIRST_TRY_UNORDERED},
    {"client-expiry-ignored", FAULT_CLIENT_EXPIRY_IGNORED},
    {"singleton-owner-ignored", FAULT_SINGLETON_OWNER_IGNORED},
    {"housekeep-unfenced", FAULT_HOUSEKEEP_UNFENCED},
    {"begin-unlocked", FAULT_BEGIN_UNLOCKED},
    {"fold-apart", FAULT_FOLD_APART},
    {"fold-goes-on", FAULT_FOLD_GOES_ON},
    {"position-unfenced", FAULT_POSITION_UNFENCED},
};

struct options {
    uint64_t first;
    uint64_t count;
    bool single;
    bool until_failure;
    bool logs;
    size_t jobs;
    enum sim_fault fault;
};

struct failure {
    uint64_t seed;
    bool crashed;
    struct story_focus focus;
    char text[400];
};

static volatile sig_atomic_t interrupted; /* in every process: the terminal signals all of them */

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Shared by all processes. */
struct board {
    atomic_ullong next;
    atomic_ullong passed;
    atomic_ullong failed;
    atomic_ullong steps;
    atomic_bool stopping;
    _Atomic uint64_t running[JOBS_MAX];
    struct failure failures[FAILURES_MAX];
};

static void usage(void)
{
    fputs("tallybox-sim [--seeds N] [--from S] [--seed S] [--jobs N] [--fault NAME] "
          "[--until-failure] [--logs]\n",
          stderr);
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end = NULL;
    uint64_t value = text ? strtoull(text, &end, 10) : 0;

    if (!text || end == text || *end != '\0')
        usage();
    return value;
}

static enum sim_fault fault_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof(faults) / sizeof(faults[0]); i++)
        if (strcmp(faults[i].name, name) == 0)
            return faults[i].fault;
    usage();
    return FAULT_NONE;
}

static void options_read(struct options *options, char **argv)
{
    for (char **arg = argv + 1; *arg; arg++) {
        if (strcmp(*arg, "--until-failure") == 0) {
            options->until_failure = true;
            continue;
        }
        if (strcmp(*arg, "--logs") == 0) {
            options->logs = true;
            continue;
        }
        if (!arg[1])
            usage();
        if (strcmp(*arg, "--seeds") == 0) {
            options->count = number(arg[1]);
        } else if (strcmp(*arg, "--from") == 0) {
            options->first = number(arg[1]);
        } else if (strcmp(*arg, "--seed") == 0) {
            options->first = number(arg[1]);
            options->single = true;
        } else if (strcmp(*arg, "--jobs") == 0) {
            options->jobs = (size_t)number(arg[1]);
        } else if (strcmp(*arg, "--fault") == 0) {
            options->fault = fault_of(arg[1]);
        } else {
            usage();
        }
        arg++;
    }
    if (options->jobs < 1 || options->jobs > JOBS_MAX)
        usage();
}

static void failure_note(struct board *board, uint64_t seed, const struct run_result *result)
{
    unsigned long long at = atomic_fetch_add(&board->failed, 1);

    fprintf(stderr, "seed %" PRIu64 " %s\n", seed, result ? result->failure : "crashes");
    if (at >= FAILURES_MAX)
        return;
    board->failures[at].seed = seed;
    board->failures[at].crashed = !result;
    if (result)
        board->failures[at].focus = result->focus;
    snprintf(board->failures[at].text, sizeof(board->failures[at].text), "%s",
             result ? result->failure : "crash: the process ended in the middle");
}

static bool goes_on(const struct options *options, struct board *board)
{
    return !interrupted && !atomic_load(&board->stopping) &&
           (!options->until_failure || atomic_load(&board->failed) == 0);
}

static void work(const struct options *options, struct board *board, size_t job)
{
    struct run *run = run_open();

    while (goes_on(options, board)) {
        uint64_t seed = options->first + atomic_fetch_add(&board->next, 1);
        struct run_result result;

        if (seed >= options->first + options->count)
            break;
        atomic_store(&board->running[job], seed + 1);
        alarm(SEED_SECONDS_MAX);
        run_seed(run, seed, options->fault, &result);
        atomic_fetch_add(&board->steps, result.steps);
        if (result.failed)
            failure_note(board, seed, &result);
        else
            atomic_fetch_add(&board->passed, 1);
        atomic_store(&board->running[job], 0);
    }
    run_close(run);
}

static pid_t worker(const struct options *options, struct board *board, size_t job)
{
    pid_t pid = fork();

    if (pid < 0) {
        fprintf(stderr, "no process: %s\n", strerror(errno));
        exit(1);
    }
    if (pid > 0)
        return pid;
    work(options, board, job);
    _exit(0);
}

static void progress(const struct options *options, const struct board *board, time_t began)
{
    static time_t said;
    time_t now = time(NULL);
    unsigned long long done = atomic_load(&board->passed) + atomic_load(&board->failed);

    if (now - said < (now - began < LONG_SECONDS ? PROGRESS_SECONDS : PROGRESS_SECONDS_LONG) ||
        now == began)
        return;
    said = now;
    fprintf(stderr, "%llu of %" PRIu64 " seeds, %llu failed, %lld s, from seed %" PRIu64 "\n", done,
            options->count, (unsigned long long)atomic_load(&board->failed),
            (long long)(now - began), options->first);
}

static void run_all(const struct options *options, struct board *board)
{
    const struct timespec nap = {.tv_nsec = 50000000};
    time_t began = time(NULL);
    pid_t pids[JOBS_MAX] = {0};
    size_t alive = options->jobs;

    for (size_t job = 0; job < options->jobs; job++)
        pids[job] = worker(options, board, job);
    while (alive > 0) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        size_t job = 0;

        if (interrupted)
            atomic_store(&board->stopping, true);
        if (pid <= 0) {
            progress(options, board, began);
            nanosleep(&nap, NULL);
            continue;
        }
        while (pids[job] != pid)
            job++;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            alive--;
            continue;
        }
        failure_note(board, atomic_load(&board->running[job]) - 1, NULL);
        pids[job] = worker(options, board, job);
    }
}

/* Every seed that was given out has run. */
static void say_rest(const struct options *options, const struct board *board)
{
    uint64_t given = atomic_load(&board->passed) + atomic_load(&board->failed);

    if (interrupted && given < options->count)
        printf("interrupted; the rest: ./dev sim --from %" PRIu64 " --seeds %" PRIu64 "\n",
               options->first + given, options->count - given);
}

static void tell(const struct options *options, const struct failure *failure)
{
    pid_t pid;

    printf("\nseed %" PRIu64 " breaks a promise. The story:\n", failure->seed);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        struct run *run = run_open();

        run_tell(run, failure->seed, options->fault, &failure->focus);
        fflush(stdout);
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
    printf("seed %" PRIu64 ": %s\nagain: ./dev sim --seed %" PRIu64 "\n", failure->seed,
           failure->text, failure->seed);
}

static int one(const struct options *options)
{
    struct run *run = run_open();
    struct run_result result;

    run_seed(run, options->first, options->fault, &result);
    printf("seed %" PRIu64 ": %zu events, %" PRId64 " virtual ms, %" PRIu64
           " steps, story %016" PRIx64 "\n",
           options->first, result.events, result.ms, result.steps, result.hash);
    if (result.failed) {
        run_tell(run, options->first, options->fault, &result.focus);
        printf("seed %" PRIu64 ": %s\n", options->first, result.failure);
    }
    run_close(run);
    printf("%d passed, %d failed\n", !result.failed, result.failed);
    return result.failed;
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .count = 1000, .jobs = 2};
    struct board *board;
    unsigned long long failed;

    (void)argc;
    options_read(&options, argv);
    log_init(options.logs ? LOG_DEBUG : LOG_ERROR + 1);
    if (options.single)
        return one(&options);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    run_all(&options, board);
    failed = atomic_load(&board->failed);
    for (size_t i = 0; i < FAILURES_MAX && i < failed; i++)
        tell(&options, &board->failures[i]);
    say_rest(&options, board);
    printf("%llu passed, %llu failed\n", (unsigned long long)atomic_load(&board->passed), failed);
    return failed > 0 || interrupted;
}
