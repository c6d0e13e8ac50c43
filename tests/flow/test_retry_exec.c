/* SPDX-License-Identifier: MIT */
/* The retry queue's handler `exec` on real programs. */
#include "common/os.h"
#include "outbox/retry/handlers/exec_handler.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 60000
#define PROGRAMS "/bin/sh,/usr/bin/env,/bin/ls,/bin/cat,/nowhere"
#define STRAY_FD 77

struct fixture {
    struct settings settings;
    struct stop stop;
    void *handler;
    struct buf result;
    struct attempt_result attempt;
    struct retry_job job;
    atomic_llong lease_until_ms;
    int64_t lose_after_ms; /* for renewer_main(): 0: the lease is renewed */
    atomic_bool over;
};

static int setup(void **state)
{
    static struct fixture fixture;
    struct err err = {0};
    struct retry_handler_env env;

    memset(&fixture, 0, sizeof(fixture));
    signal(SIGPIPE, SIG_IGN);
    /* A careless parent process may have done this. */
    signal(SIGCHLD, SIG_IGN);
    snprintf(fixture.settings.retry.exec_programs, sizeof(fixture.settings.retry.exec_programs),
             "%s", PROGRAMS);
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    env = (struct retry_handler_env){
        .settings = &fixture.settings, .stop = &fixture.stop, .instance = "test", .workers = 1};
    assert_int_equal(retry_exec_handler.open(&fixture.handler, &env, &err), RC_OK);
    buf_init(&fixture.result, RETRY_RESULT_BYTES_MAX);
    fixture.job = (struct retry_job){.id = 42,
                                     .group = "default",
                                     .scene = "mail",
                                     .idempotency_key = "key 1",
                                     .params_type = "application/json",
                                     .attempt = 3,
                                     .lease_until_ms = &fixture.lease_until_ms};
    atomic_store(&fixture.lease_until_ms, os_now_ms() + LONG_MS);
    *state = &fixture;
    return 0;
}

/* After any result, no process is left. */
static int teardown(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    retry_exec_handler.close(fixture->handler);
    buf_done(&fixture->result);
    stop_done(&fixture->stop);
    return 0;
}

static const struct attempt_result *run(struct fixture *fixture, const char *options)
{
    buf_reset(&fixture->result);
    fixture->attempt =
        (struct attempt_result){.delay_ms = ATTEMPT_NO_DELAY, .result = &fixture->result};
    fixture->job.options = options;
    retry_exec_handler.run(fixture->handler, 0, &fixture->job, &fixture->attempt);
    return &fixture->attempt;
}

/* The script must hold no quotes of JSON. */
static const struct attempt_result *run_script(struct fixture *fixture, const char *script)
{
    char options[1024];

    snprintf(options, sizeof(options), "{\"program\": \"/bin/sh\", \"args\": [\"-c\", \"%s\"]}",
             script);
    return run(fixture, options);
}

static void assert_done(const struct attempt_result *attempt)
{
    if (attempt->end != ATTEMPT_DONE)
        fail_msg("%s", attempt->err.text);
}

static void the_parameters_are_on_stdin_and_stdout_is_the_result(void **state)
{
    struct fixture *fixture = *state;

    fixture->job.params = "{\"n\": 1}";
    fixture->job.params_len = 8;
    assert_done(run(fixture, "{\"program\": \"/bin/cat\"}"));
    assert_string_equal(buf_text(&fixture->result), "{\"n\": 1}");
    fixture->job.params = NULL;
    fixture->job.params_len = 0;
    assert_done(run(fixture, "{\"program\": \"/bin/cat\", \"args\": [\"-\", \"/dev/null\"]}"));
    assert_int_equal(fixture->result.len, 0);
}

/* So that a program that outlives us does not take a part of them for all. */
static void the_parameters_are_whole_before_it_begins(void **state)
{
    static char params[1000000];
    struct fixture *fixture = *state;

    memset(params, 'x', sizeof(params));
    fixture->job.params = params;
    fixture->job.params_len = sizeof(params);
    assert_done(run_script(fixture, "stat -Lc %s /dev/stdin; wc -c"));
    assert_string_equal(buf_text(&fixture->result), "1000000\n1000000\n");
}

static void its_environment_is_the_task_and_nothing_else(void **state)
{
    struct fixture *fixture = *state;

    fixture->job.biz_no = "B-1";
    assert_done(run(fixture, "{\"program\": \"/usr/bin/env\"}"));
    assert_string_equal(buf_text(&fixture->result), "TALLYBOX_TASK=42\n"
                                                    "TALLYBOX_ATTEMPT=3\n"
                                                    "TALLYBOX_STEP=0\n"
                                                    "TALLYBOX_NO_RETRY=1\n"
                                                    "TALLYBOX_GROUP=default\n"
                                                    "TALLYBOX_SCENE=mail\n"
                                                    "TALLYBOX_IDEMPOTENCY_KEY=key 1\n"
                                                    "TALLYBOX_BIZ_NO=B-1\n"
                                                    "TALLYBOX_PARAMS_TYPE=application/json\n");
}

static void nothing_of_ours_is_open_in_it(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(dup2(STDERR_FILENO, STRAY_FD), STRAY_FD);
    assert_done(run(fixture, "{\"program\": \"/bin/ls\", \"args\": [\"/proc/self/fd\"]}"));
    /* ls itself looks into the folder. */
    assert_string_equal(buf_text(&fixture->result), "0\n1\n2\n3\n");
    close(STRAY_FD);
}

/* A signal that we ignore or block is not so in it. */
static void signals_are_as_usual_in_it(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt = run_script(fixture, "kill -PIPE $$; exit 3");

    assert_int_equal(attempt->source, FAULT_SOURCE_SIGNAL);
    assert_int_equal(attempt->code, SIGPIPE);
}

static void exit_codes_and_signals_are_reported(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt =
        run_script(fixture, "echo first >&2; echo >&2; printf 'it is full' >&2; exit 75");

    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->source, FAULT_SOURCE_EXIT);
    assert_int_equal(attempt->code, 75);
    assert_string_equal(attempt->err.text, "/bin/sh exited with 75: it is full");
    attempt = run_script(fixture, "kill -KILL $$");
    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->source, FAULT_SOURCE_SIGNAL);
    assert_int_equal(attempt->code, SIGKILL);
    attempt = run_script(fixture, "exit 99");
    assert_int_equal(attempt->end, ATTEMPT_SNOOZED);
    assert_int_equal(attempt->delay_ms, EXEC_SNOOZE_MS);
    attempt = run_script(fixture, "echo no such customer >&2; exit 100");
    assert_int_equal(attempt->end, ATTEMPT_REJECTED);
    assert_non_null(strstr(attempt->err.text, "no such customer"));
}

static void a_program_that_must_not_or_cannot_run_is_a_configuration_error(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt = run(fixture, "{\"program\": \"/bin/rm\"}");

    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->fault, FAULT_CLASS_OURS);
    assert_non_null(strstr(attempt->err.text, "\"/bin/rm\" is not in retry.exec_programs"));
    attempt = run(fixture, "{\"program\": \"/nowhere\"}");
    assert_int_equal(attempt->fault, FAULT_CLASS_OURS);
    assert_non_null(strstr(attempt->err.text, "No such file"));
    attempt = run(fixture, "{\"program\": \"bin/sh\"}");
    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->fault, FAULT_CLASS_REFUSED);
}

/* The script gets so much time. */
static const struct attempt_result *run_timed(struct fixture *fixture, const char *script,
                                              int64_t timeout_ms)
{
    char options[1024];

    snprintf(options, sizeof(options),
             "{\"program\": \"/bin/sh\", \"args\": [\"-c\", \"%s\"], \"timeout\": \"%dms\"}",
             script, (int)timeout_ms);
    return run(fixture, options);
}

/* A busy machine may take longer to get a program as far as its trap: it gets more time then. */
static void a_program_that_ignores_sigterm_is_killed_in_time(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt = &fixture->attempt;

    for (int64_t time_ms = 1000; time_ms < LONG_MS / 2 && attempt->code != SIGKILL; time_ms *= 2) {
        int64_t began_ms = os_now_ms();

        attempt = run_timed(fixture, "trap '' TERM; while :; do sleep 60; done", time_ms);
        assert_int_equal(attempt->end, ATTEMPT_FAILED);
        assert_int_equal(attempt->source, FAULT_SOURCE_SIGNAL);
        assert_true(os_now_ms() < began_ms + time_ms + LONG_MS / 4);
    }
    assert_int_equal(attempt->code, SIGKILL);
}

/* Plays the lease renewer: a lease of 5 s that is renewed long before its end, or lost. */
static void *renewer_main(void *arg)
{
    struct fixture *fixture = arg;
    int64_t began_ms = os_now_ms();

    while (!atomic_load(&fixture->over)) {
        int64_t now_ms = os_now_ms();

        if (fixture->lose_after_ms == 0)
            atomic_store(&fixture->lease_until_ms, now_ms + 5000);
        else if (now_ms >= began_ms + fixture->lose_after_ms)
            atomic_store(&fixture->lease_until_ms, 0);
        stop_wait(&fixture->stop, 300);
    }
    return NULL;
}

static const struct attempt_result *run_renewed(struct fixture *fixture, const char *script,
                                                int64_t timeout_ms)
{
    const struct attempt_result *attempt;
    pthread_t thread;

    atomic_store(&fixture->over, false);
    assert_int_equal(pthread_create(&thread, NULL, renewer_main, fixture), 0);
    attempt = run_timed(fixture, script, timeout_ms);
    atomic_store(&fixture->over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return attempt;
}

/* The lease that it has at its begin is over long before. */
static void a_program_runs_as_long_as_its_timeout_while_the_lease_is_renewed(void **state)
{
    struct fixture *fixture = *state;

    atomic_store(&fixture->lease_until_ms, os_now_ms() + 5000);
    assert_done(run_renewed(fixture, "sleep 7; echo done", LONG_MS));
    assert_string_equal(buf_text(&fixture->result), "done\n");
}

static void a_program_ends_before_a_lease_that_is_not_renewed(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;
    bool in_time = false;

    /* An eighth of the lease is left to end it, which a busy machine may not manage. */
    for (int64_t lease_ms = 4000; lease_ms < LONG_MS / 2 && !in_time; lease_ms *= 2) {
        atomic_store(&fixture->lease_until_ms, os_now_ms() + lease_ms);
        attempt = run_timed(fixture, "sleep 60", LONG_MS);
        in_time = os_now_ms() < atomic_load(&fixture->lease_until_ms);
        assert_int_equal(attempt->end, ATTEMPT_CUT);
        assert_non_null(strstr(attempt->err.text, "lease"));
    }
    assert_true(in_time);
    /* It has no time to ignore that. */
    atomic_store(&fixture->lease_until_ms, os_now_ms() + 2000);
    attempt = run_timed(fixture, "trap '' TERM; while :; do sleep 60; done", LONG_MS);
    assert_int_equal(attempt->end, ATTEMPT_CUT);
    assert_true(os_now_ms() < atomic_load(&fixture->lease_until_ms) + LONG_MS / 4);
}

static void a_program_whose_lease_is_lost_is_killed_at_once(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;
    int64_t began_ms = os_now_ms();

    fixture->lose_after_ms = 500;
    attempt = run_renewed(fixture, "trap '' TERM; while :; do sleep 60; done", LONG_MS);
    assert_int_equal(attempt->end, ATTEMPT_CUT);
    assert_true(os_now_ms() - began_ms < LONG_MS / 4);
}

static void the_tasks_own_time_counts_too(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt =
        run(fixture, "{\"program\": \"/bin/sh\", \"args\": [\"-c\", \"sleep 60\"],"
                     " \"timeout\": \"200ms\"}");

    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->source, FAULT_SOURCE_SIGNAL);
    assert_non_null(strstr(attempt->err.text, "did not end in time"));
}

static void a_program_that_uses_the_grace_is_done(void **state)
{
    struct fixture *fixture = *state;

    fixture->attempt.end = ATTEMPT_FAILED;
    for (int64_t time_ms = 1000; time_ms < LONG_MS / 2 && fixture->attempt.end != ATTEMPT_DONE;
         time_ms *= 2) {
        run_timed(fixture, "trap 'exit 0' TERM; sleep 60 & wait", time_ms);
    }
    assert_done(&fixture->attempt);
}

static void a_flood_is_read_to_its_end_and_bounded(void **state)
{
    struct fixture *fixture = *state;
    const struct attempt_result *attempt;

    assert_done(run_script(fixture, "head -c 3000000 /dev/zero"));
    assert_true(fixture->result.failed);
    attempt = run_script(fixture, "head -c 3000000 /dev/zero | tr '\\\\000' x >&2;"
                                  " echo >&2; echo the end >&2; exit 1");
    assert_int_equal(attempt->code, 1);
    assert_non_null(strstr(attempt->err.text, ": the end"));
    attempt = run_timed(fixture, "yes & yes >&2", 1000);
    assert_int_equal(attempt->end, ATTEMPT_FAILED);
    assert_int_equal(attempt->source, FAULT_SOURCE_SIGNAL);
}

static void a_program_need_not_read(void **state)
{
    struct fixture *fixture = *state;
    char *much = calloc(1, 1 << 20);

    assert_non_null(much);
    fixture->job.params = much;
    fixture->job.params_len = 1 << 20;
    assert_done(run_script(fixture, "exec <&-; sleep 0.2; echo done"));
    assert_string_equal(buf_text(&fixture->result), "done\n");
    assert_done(run_script(fixture, "exit 0"));
    /* And one that reads and writes at once does not stop half-way. */
    assert_done(run(fixture, "{\"program\": \"/bin/cat\"}"));
    assert_int_equal(fixture->result.len, 1 << 20);
    free(much);
}

/* Ended, or a zombie of another parent. */
static bool is_gone(long pid)
{
    char path[64];
    char line[256] = "";
    FILE *file;
    const char *mark;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    file = fopen(path, "re");
    if (!file)
        return true;
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    fclose(file);
    mark = strrchr(line, ')');
    return !mark || mark[2] == 'Z' || mark[2] == 'X';
}

static void background_processes_of_a_program_are_ended(void **state)
{
    struct fixture *fixture = *state;
    struct stop never = {0};
    struct err err = {0};
    long pid;

    assert_done(run_script(fixture, "sleep 1000 & echo $!"));
    pid = strtol(buf_text(&fixture->result), NULL, 10);
    assert_true(pid > 1);
    assert_int_equal(stop_init(&never, &err), RC_OK);
    for (int i = 0; i < 1000 && !is_gone(pid); i++)
        stop_wait(&never, 10);
    assert_true(is_gone(pid));
    stop_done(&never);
}

static void *stop_main(void *arg)
{
    struct fixture *fixture = arg;

    stop_wait(&fixture->stop, 200);
    stop_request(&fixture->stop);
    return NULL;
}

static void a_stop_ends_it_and_costs_no_attempt(void **state)
{
    struct fixture *fixture = *state;
    int64_t began_ms = os_now_ms();
    const struct attempt_result *attempt;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, stop_main, fixture), 0);
    attempt = run_script(fixture, "trap '' TERM; while :; do sleep 60; done");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt->end, ATTEMPT_CUT);
    assert_true(os_now_ms() - began_ms < LONG_MS / 2);
    attempt = run_script(fixture, "exit 0");
    assert_int_equal(attempt->end, ATTEMPT_CUT);
}

#define THREADS 4
#define ROUNDS 20

static void *crowd_main(void *arg)
{
    struct fixture *fixture = arg;
    struct retry_job job = fixture->job;
    struct buf result = {0};

    job.options = "{\"program\": \"/bin/cat\"}";
    job.params = "abc";
    job.params_len = 3;
    for (int i = 0; i < ROUNDS; i++) {
        struct attempt_result attempt = {.delay_ms = ATTEMPT_NO_DELAY, .result = &result};

        buf_reset(&result);
        retry_exec_handler.run(fixture->handler, 0, &job, &attempt);
        if (attempt.end != ATTEMPT_DONE || strcmp(buf_text(&result), "abc") != 0)
            fixture->attempt.end = ATTEMPT_FAILED;
    }
    buf_done(&result);
    return NULL;
}

/* A pipe of one that another one inherits would never be at its end. */
static void programs_of_several_threads_do_not_hold_each_other(void **state)
{
    struct fixture *fixture = *state;
    pthread_t threads[THREADS];

    fixture->attempt.end = ATTEMPT_DONE;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, fixture), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(fixture->attempt.end, ATTEMPT_DONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_parameters_are_on_stdin_and_stdout_is_the_result),
        TEST(the_parameters_are_whole_before_it_begins),
        TEST(its_environment_is_the_task_and_nothing_else),
        TEST(nothing_of_ours_is_open_in_it),
        TEST(signals_are_as_usual_in_it),
        TEST(exit_codes_and_signals_are_reported),
        TEST(a_program_that_must_not_or_cannot_run_is_a_configuration_error),
        TEST(a_program_that_ignores_sigterm_is_killed_in_time),
        TEST(a_program_runs_as_long_as_its_timeout_while_the_lease_is_renewed),
        TEST(a_program_ends_before_a_lease_that_is_not_renewed),
        TEST(a_program_whose_lease_is_lost_is_killed_at_once),
        TEST(the_tasks_own_time_counts_too),
        TEST(a_program_that_uses_the_grace_is_done),
        TEST(a_flood_is_read_to_its_end_and_bounded),
        TEST(a_program_need_not_read),
        TEST(background_processes_of_a_program_are_ended),
        TEST(a_stop_ends_it_and_costs_no_attempt),
        TEST(programs_of_several_threads_do_not_hold_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
