/* SPDX-License-Identifier: MIT */
/* Each test runs a daemon of made-up roles in a child process, reads its log as it comes and asks
 * its admin pages. Nobody waits for a time: every step waits for a line. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "common/role.h"

#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HANG_S 60 /* a test that waits this long for a line is killed */

/* What the test and its child both see. */
struct shared {
    atomic_int gate; /* an enum rc */
    atomic_bool migrate;
    atomic_bool sick;
    atomic_bool fail;
    atomic_bool join_waits;
};

static struct shared *shared;

/* The child's own: how its roles behave. */
static enum rc open_rc;
static enum rc start_rc;
static bool join_hangs;

struct dummy {
    const struct role_env *env;
    const char *name;
    struct loop loop;
};

static int64_t dummy_step(void *arg, int64_t now_ms)
{
    struct dummy *dummy = arg;

    (void)now_ms;
    if (!atomic_load(&shared->fail))
        return 10;
    stop_fail(dummy->env->stop);
    return LOOP_END;
}

static enum rc dummy_open(struct dummy *dummy, void **role, const struct role_env *env,
                          const char *name)
{
    struct err err;

    *role = dummy;
    dummy->env = env;
    dummy->name = name;
    fprintf(stderr, "open %s\n", name);
    return loop_init(&dummy->loop, name, dummy_step, dummy, env->stop, &err);
}

static enum rc one_open(void **role, const struct role_env *env, struct err *err)
{
    static struct dummy dummy;

    (void)err;
    return dummy_open(&dummy, role, env, "one");
}

static enum rc two_open(void **role, const struct role_env *env, struct err *err)
{
    static struct dummy dummy;

    if (open_rc != RC_OK)
        return err_fail(err, open_rc, 0, "cannot open");
    return dummy_open(&dummy, role, env, "two");
}

static enum rc one_start(void *role, struct err *err)
{
    struct dummy *dummy = role;

    fprintf(stderr, "start %s\n", dummy->name);
    return loop_start(&dummy->loop, err);
}

static enum rc two_start(void *role, struct err *err)
{
    if (start_rc != RC_OK)
        return err_fail(err, start_rc, 0, "cannot start");
    return one_start(role, err);
}

static void dummy_health(void *role, struct health *health)
{
    (void)role;
    if (atomic_load(&shared->sick))
        health_bad(health, "kafka", "no broker,\nno luck");
    else
        health_good(health, "kafka");
    health_good(health, "mysql");
}

static void dummy_join(void *role)
{
    struct dummy *dummy = role;

    fprintf(stderr, "join %s\n", dummy->name);
    while (join_hangs)
        pause();
    while (atomic_load(&shared->join_waits))
        sched_yield();
    loop_join(&dummy->loop);
}

static void dummy_close(void *role)
{
    struct dummy *dummy = role;

    fprintf(stderr, "close %s\n", dummy->name);
    loop_done(&dummy->loop);
}

static const struct role one = {.name = "one",
                                .about = "The first.",
                                .open = one_open,
                                .start = one_start,
                                .health = dummy_health,
                                .join = dummy_join,
                                .close = dummy_close,
                                .sections = "rollup"};
static const struct role two = {.name = "two",
                                .about = "The second.",
                                .open = two_open,
                                .start = two_start,
                                .join = dummy_join,
                                .close = dummy_close};

static enum rc shared_gate(const struct settings *settings, bool migrate, struct err *err)
{
    enum rc rc = (enum rc)atomic_load(&shared->gate);

    (void)settings;
    atomic_store(&shared->migrate, migrate);
    return rc == RC_OK ? RC_OK : err_fail(err, rc, 0, "the schema is version 1; expected 2");
}

struct child {
    pid_t pid;
    FILE *log;
    char line[1024]; /* the last one read */
    int port;
};

#define ARGUMENTS_MAX 16

/* arguments: NULL-ended, after the command's name. */
static void child_start(struct child *child, const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX] = {strdup("pair"), strdup("--config=/dev/null"),
                                 strdup("--set=admin.listen=127.0.0.1:0")};
    const struct role *const roles[] = {&one, &two};
    int argc = 3;
    int ends[2];

    while (arguments && *arguments)
        argv[argc++] = strdup(*arguments++);
    assert_int_equal(pipe(ends), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        alarm(HANG_S);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(role_main("pair", "A pair.", roles, 2, shared_gate, argc, argv));
    }
    close(ends[1]);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    child->log = fdopen(ends[0], "r");
    assert_non_null(child->log);
}

/* Reads the log up to a line with text in it. */
static void child_says(struct child *child, const char *text)
{
    while (fgets(child->line, sizeof(child->line), child->log))
        if (strstr(child->line, text))
            return;
    fail_msg("the log ended without \"%s\"", text);
}

/* Reads the lines that follow, which must be these. */
static void child_says_next(struct child *child, const char *const *texts)
{
    for (; *texts; texts++) {
        assert_non_null(fgets(child->line, sizeof(child->line), child->log));
        if (!strstr(child->line, *texts))
            fail_msg("expected \"%s\" in: %s", *texts, child->line);
    }
}

#define NEXT(...) ((const char *const[]){__VA_ARGS__, NULL})

static void child_listens(struct child *child)
{
    child_says(child, "event=admin_listening url=http://127.0.0.1:");
    child->port = atoi(strstr(child->line, "127.0.0.1:") + strlen("127.0.0.1:"));
    assert_in_range(child->port, 1, 65535);
}

static void child_works(struct child *child, const char *const *arguments)
{
    child_start(child, arguments);
    child_listens(child);
    child_says(child, "event=working");
}

static int child_end(struct child *child)
{
    int status = 0;

    while (fgets(child->line, sizeof(child->line), child->log)) {
    }
    fclose(child->log);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static char answer[65536];

/* Returns the status; the whole answer is in answer. */
static int ask(const struct child *child, const char *method, const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)child->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char request[256];
    size_t len = 0;
    ssize_t n;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             method, path);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    while ((n = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    close(fd);
    assert_int_equal(strncmp(answer, "HTTP/1.1 ", 9), 0);
    return atoi(answer + 9);
}

static int reset(void **state)
{
    (void)state;
    atomic_store(&shared->gate, RC_OK);
    atomic_store(&shared->migrate, false);
    atomic_store(&shared->sick, false);
    atomic_store(&shared->fail, false);
    atomic_store(&shared->join_waits, false);
    open_rc = RC_OK;
    start_rc = RC_OK;
    join_hangs = false;
    return 0;
}

static void a_term_stops_cleanly_and_in_order(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, NULL);
    child_says(&child, "event=starting role=pair version=");
    child_says_next(&child, NEXT("open one", "open two", "event=admin_listening", "start one",
                                 "start two", "event=working"));
    kill(child.pid, SIGTERM);
    child_says_next(&child, NEXT("event=stopping signal=SIGTERM stop_timeout_ms=10000", "join one",
                                 "join two", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void an_interrupt_stops_cleanly_and_a_hangup_does_nothing(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    kill(child.pid, SIGHUP);
    child_says(&child, "event=signal_ignored signal=SIGHUP");
    assert_int_equal(ask(&child, "GET", "/healthz"), 200);
    kill(child.pid, SIGINT);
    child_says(&child, "event=stopping signal=SIGINT");
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_second_signal_ends_at_once(void **state)
{
    struct child child;

    (void)state;
    join_hangs = true;
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    kill(child.pid, SIGINT);
    child_says(&child, "event=stop_forced signal=SIGINT");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void an_echo_of_the_signal_is_no_second_one(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->join_waits, true);
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    kill(child.pid, SIGTERM);
    atomic_store(&shared->join_waits, false);
    child_says(&child, "event=stopped");
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_stop_that_takes_too_long_is_cut(void **state)
{
    struct child child;

    (void)state;
    join_hangs = true;
    child_works(&child, NEXT("--set", "admin.stop_timeout_ms=100"));
    kill(child.pid, SIGTERM);
    child_says(&child, "event=stop_timed_out stop_timeout_ms=100");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_role_that_fails_stops_the_process(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    atomic_store(&shared->fail, true);
    child_says(&child, "join one");
    child_says(&child, "event=stopped");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_failed_role_does_not_outlive_the_stop_timeout_either(void **state)
{
    struct child child;

    (void)state;
    join_hangs = true;
    child_works(&child, NEXT("--set=admin.stop_timeout_ms=100"));
    atomic_store(&shared->fail, true);
    child_says(&child, "event=stop_timed_out");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_gate_keeps_the_process_alive_and_unready(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_RETRY);
    child_start(&child, NEXT("--migrate"));
    child_listens(&child);
    child_says(&child, "event=start_waits role=pair err=\"the schema is version 1; expected 2\"");
    assert_int_equal(ask(&child, "GET", "/healthz"), 200);
    assert_int_equal(ask(&child, "GET", "/readyz"), 503);
    assert_non_null(strstr(answer, "\r\n\r\nnot ready\n"
                                   "start: the schema is version 1; expected 2\n"));
    assert_true(atomic_load(&shared->migrate));
    atomic_store(&shared->gate, RC_OK);
    child_says(&child, "event=working");
    assert_int_equal(ask(&child, "GET", "/readyz"), 200);
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_process_that_waits_at_the_gate_can_be_stopped(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_RETRY);
    child_start(&child, NULL);
    child_says(&child, "event=start_waits");
    kill(child.pid, SIGTERM);
    child_says_next(&child, NEXT("event=stopping", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_DONE);
    assert_false(atomic_load(&shared->migrate));
}

static void a_gate_that_says_never_ends_the_process(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_FATAL);
    child_start(&child, NULL);
    child_says(&child, "event=start_failed role=pair rc=fatal err=\"the schema is version 1");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void readiness_names_every_dependency_on_a_line(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    assert_int_equal(ask(&child, "GET", "/readyz"), 200);
    assert_non_null(strstr(answer, "\r\n\r\nready\none kafka: ok\none mysql: ok\n"));
    atomic_store(&shared->sick, true);
    assert_int_equal(ask(&child, "GET", "/readyz"), 503);
    assert_non_null(
        strstr(answer, "\r\n\r\nnot ready\none kafka: no broker, no luck\none mysql: ok\n"));
    assert_int_equal(ask(&child, "GET", "/healthz"), 200);
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void readiness_ends_with_the_stop(void **state)
{
    struct child child;

    (void)state;
    join_hangs = true;
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    assert_int_equal(ask(&child, "GET", "/healthz"), 200);
    assert_int_equal(ask(&child, "GET", "/readyz"), 503);
    assert_non_null(strstr(answer, "not ready\nstop: the process is stopping\n"));
    kill(child.pid, SIGINT);
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void metrics_of_the_process_are_served(void **state)
{
    static const char *const lines[] = {
        "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
        "\ntallybox_build_info{version=\"",
        "\nprocess_resident_memory_bytes ",
        "\nprocess_cpu_seconds_total ",
        "\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1",
    };
    struct child child;

    (void)state;
    child_works(&child, NULL);
    assert_int_equal(ask(&child, "GET", "/metrics"), 200);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_non_null(strstr(answer, lines[i]));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void other_pages_and_methods_are_refused(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    assert_int_equal(ask(&child, "GET", "/"), 200);
    assert_non_null(strstr(answer, "<a href=\"/readyz\">"));
    assert_int_equal(ask(&child, "GET", "/nothing"), 404);
    assert_int_equal(ask(&child, "POST", "/healthz"), 405);
    assert_non_null(strstr(answer, "\r\nAllow: GET, HEAD\r\n"));
    assert_int_equal(ask(&child, "HEAD", "/readyz"), 200);
    assert_null(strstr(answer, "kafka"));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_port_in_use_is_named(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct child child;
    char set[64];
    char place[64];

    (void)state;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    snprintf(set, sizeof(set), "--set=admin.listen=127.0.0.1:%d", ntohs(address.sin_port));
    snprintf(place, sizeof(place), "127.0.0.1:%d", ntohs(address.sin_port));
    child_start(&child, NEXT(set));
    child_says(&child, "event=start_failed role=pair rc=fatal err=\"admin.listen: ");
    assert_non_null(strstr(child.line, place));
    child_says_next(&child, NEXT("close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_FAILED);
    close(fd);
}

static void a_role_that_cannot_open_closes_the_others(void **state)
{
    struct child child;

    (void)state;
    open_rc = RC_FATAL;
    child_start(&child, NULL);
    child_says(&child, "event=starting");
    child_says_next(&child, NEXT("open one",
                                 "event=start_failed role=pair rc=fatal err=\"two: cannot open\"",
                                 "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_role_that_cannot_start_ends_the_others(void **state)
{
    struct child child;

    (void)state;
    start_rc = RC_RETRY;
    child_start(&child, NULL);
    child_says(&child, "start one");
    child_says_next(&child, NEXT("event=start_failed role=pair rc=retry err=\"two: cannot start\"",
                                 "join one", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_UNAVAILABLE);
}

static void the_pages_can_be_off(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, NEXT("--set=admin.listen=off"));
    child_says(&child, "start two");
    child_says_next(&child, NEXT("event=working"));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_wrong_command_line_starts_nothing(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, NEXT("--migrat"));
    child_says_next(&child, NEXT("tallybox pair: unknown option --migrat; did you mean --migrate?",
                                 "Try `tallybox pair --help`."));
    assert_int_equal(child_end(&child), EXIT_USAGE);
    child_start(&child, NEXT("--set=relay.lease_ms=1"));
    child_says_next(&child, NEXT("tallybox: --set relay.lease_ms: 1 is out of range"));
    assert_int_equal(child_end(&child), EXIT_USAGE);
    child_start(&child, NEXT("--set=kafka.no.such.property=1"));
    child_says(&child, "no.such.property");
    assert_int_equal(child_end(&child), EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_term_stops_cleanly_and_in_order, reset),
        cmocka_unit_test_setup(an_interrupt_stops_cleanly_and_a_hangup_does_nothing, reset),
        cmocka_unit_test_setup(a_second_signal_ends_at_once, reset),
        cmocka_unit_test_setup(an_echo_of_the_signal_is_no_second_one, reset),
        cmocka_unit_test_setup(a_stop_that_takes_too_long_is_cut, reset),
        cmocka_unit_test_setup(a_role_that_fails_stops_the_process, reset),
        cmocka_unit_test_setup(a_failed_role_does_not_outlive_the_stop_timeout_either, reset),
        cmocka_unit_test_setup(a_gate_keeps_the_process_alive_and_unready, reset),
        cmocka_unit_test_setup(a_process_that_waits_at_the_gate_can_be_stopped, reset),
        cmocka_unit_test_setup(a_gate_that_says_never_ends_the_process, reset),
        cmocka_unit_test_setup(readiness_names_every_dependency_on_a_line, reset),
        cmocka_unit_test_setup(readiness_ends_with_the_stop, reset),
        cmocka_unit_test_setup(metrics_of_the_process_are_served, reset),
        cmocka_unit_test_setup(other_pages_and_methods_are_refused, reset),
        cmocka_unit_test_setup(a_port_in_use_is_named, reset),
        cmocka_unit_test_setup(a_role_that_cannot_open_closes_the_others, reset),
        cmocka_unit_test_setup(a_role_that_cannot_start_ends_the_others, reset),
        cmocka_unit_test_setup(the_pages_can_be_off, reset),
        cmocka_unit_test_setup(a_wrong_command_line_starts_nothing, reset),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
