/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/flow/daemon_fixture.h"

#include "common/condition.h"
#include "common/daemon/role.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HANG_S 60 /* a test that waits this long for a line is killed */

struct shared *shared;

struct behaviour behaviour;

/* Never read. */
#define FIXTURE_HANDLERS ((const struct retry_handlers *)(const void *)&behaviour)

struct dummy {
    const struct role_env *env;
    const char *name;
    struct loop loop;
};

static int64_t dummy_step(void *arg, int64_t now_ms)
{
    struct dummy *dummy = arg;

    (void)now_ms;
    if (atomic_load(&shared->raise) != 0)
        raise(atomic_load(&shared->raise));
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

    if (env->handlers != FIXTURE_HANDLERS)
        return err_fail(err, RC_FATAL, 0, "the handlers of the process did not arrive");
    return dummy_open(&dummy, role, env, "one");
}

/* Lives as long as the child. */
static void wait_for_a_minute(void)
{
    static struct condition condition;
    struct err err = {0};

    err_set(&err, "no answer");
    condition_init(&condition, CONDITION_DEPENDENCY, "dep=kafka role=one reason=test");
    condition_fail(&condition, os_now_ms() - 60000, &err);
}

static enum rc two_open(void **role, const struct role_env *env, struct err *err)
{
    static struct dummy dummy;

    if (behaviour.open != RC_OK)
        return err_fail(err, behaviour.open, 0, "cannot open");
    return dummy_open(&dummy, role, env, "two");
}

static enum rc one_start(void *role, struct err *err)
{
    struct dummy *dummy = role;

    fprintf(stderr, "start %s\n", dummy->name);
    snprintf(shared->admin_url, sizeof(shared->admin_url), "%s", dummy->env->admin_url);
    if (behaviour.waits && strcmp(dummy->name, "one") == 0)
        wait_for_a_minute();
    return loop_start(&dummy->loop, err);
}

static enum rc two_start(void *role, struct err *err)
{
    if (behaviour.start != RC_OK)
        return err_fail(err, behaviour.start, 0, "cannot start");
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
    while (behaviour.join_hangs)
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
                                .close = dummy_close,
                                .sections = "mysql"};

static enum rc shared_gate(const struct settings *settings, bool migrate, struct err *err)
{
    enum rc rc = (enum rc)atomic_load(&shared->gate);

    (void)settings;
    atomic_store(&shared->migrate, migrate);
    return rc == RC_OK ? RC_OK : err_fail(err, rc, 0, "the schema is version 1; expected 2");
}

#define ARGUMENTS_MAX 16

/* Those of cmocka and of sanitizers: the program itself has none. */
static void reset_handlers(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], SIG_DFL);
}

void child_start(struct child *child, const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX] = {strdup("pair"), strdup("--config=/dev/null"),
                                 strdup("--set=admin.listen=127.0.0.1:0")};
    const struct role *const roles[] = {&one, &two};
    const struct role_process process = {"pair",           "A pair.", roles, 2,   shared_gate,
                                         FIXTURE_HANDLERS, NULL,      0,     NULL};
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
        reset_handlers();
        _exit(role_main(&process, argc, argv));
    }
    close(ends[1]);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    child->log = fdopen(ends[0], "r");
    assert_non_null(child->log);
}

void child_says(struct child *child, const char *text)
{
    while (fgets(child->line, sizeof(child->line), child->log))
        if (strstr(child->line, text))
            return;
    fail_msg("the log ended without \"%s\"", text);
}

void child_says_next(struct child *child, const char *const *texts)
{
    for (; *texts; texts++) {
        do
            assert_non_null(fgets(child->line, sizeof(child->line), child->log));
        /* The environment of the test may set it. */
        while (strstr(child->line, "event=runs_as_root"));
        if (!strstr(child->line, *texts))
            fail_msg("expected \"%s\" in: %s", *texts, child->line);
    }
}

void child_listens(struct child *child)
{
    child_says(child, "event=admin_listening url=http://127.0.0.1:");
    child->port = atoi(strstr(child->line, "127.0.0.1:") + strlen("127.0.0.1:"));
    assert_in_range(child->port, 1, 65535);
}

void child_works(struct child *child, const char *const *arguments)
{
    child_start(child, arguments);
    child_listens(child);
    child_says(child, "event=started");
}

static int wait_for_child(struct child *child)
{
    int status = 0;

    while (fgets(child->line, sizeof(child->line), child->log)) {
    }
    fclose(child->log);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    return status;
}

int child_end(struct child *child)
{
    int status = wait_for_child(child);

    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int child_crash(struct child *child)
{
    int status = wait_for_child(child);

    assert_true(WIFSIGNALED(status));
    return WTERMSIG(status);
}

static char answer[65536];

int child_ask_as(const struct child *child, const char *host, const char *method, const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)child->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char request[256];
    size_t len = 0;
    ssize_t n;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
             method, path, host);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    while ((n = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    close(fd);
    assert_int_equal(strncmp(answer, "HTTP/1.1 ", 9), 0);
    return atoi(answer + 9);
}

int child_ask(const struct child *child, const char *method, const char *path)
{
    return child_ask_as(child, "localhost", method, path);
}

const char *child_answer(void)
{
    return answer;
}

int daemon_group_setup(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

int daemon_setup(void **state)
{
    (void)state;
    atomic_store(&shared->gate, RC_OK);
    atomic_store(&shared->migrate, false);
    atomic_store(&shared->sick, false);
    atomic_store(&shared->fail, false);
    atomic_store(&shared->raise, 0);
    atomic_store(&shared->join_waits, false);
    behaviour = (struct behaviour){0};
    return 0;
}
