/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* usleep() */
#include "common/daemon/watch.h"

#include "common/log.h"
#include "common/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A service manager on a socket of our own, a role whose health is set, and a log in a pipe. */
struct fixture {
    char path[64];
    int manager;
    int log;
    int stderr_kept;
    struct notify notify;
    struct readiness readiness;
    struct watch watch;
    char heard[512];
};

static bool sick;

static void role_health(void *role, struct health *health)
{
    (void)role;
    health_good(health, "mysql");
    if (sick)
        health_bad(health, "kafka", "no broker,\nno luck");
    else
        health_good(health, "kafka");
}

static const struct readiness_part parts[] = {{.name = "relay", .health = role_health}};

static void manager_listen(struct fixture *fixture, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (*path == '@')
        address.sun_path[0] = '\0';
    else
        len++;
    fixture->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fixture->manager, (struct sockaddr *)&address, len), 0);
}

/* The next message; "" when there is none. Datagrams of one host are there once they are sent. */
static const char *heard(struct fixture *fixture)
{
    ssize_t n = recv(fixture->manager, fixture->heard, sizeof(fixture->heard) - 1, 0);

    fixture->heard[n > 0 ? n : 0] = '\0';
    return fixture->heard;
}

static void silence(struct fixture *fixture)
{
    while (*heard(fixture)) {
    }
}

/* All lines since the last call. */
static const char *logged(struct fixture *fixture)
{
    static char lines[4096];
    ssize_t n;

    n = write(STDERR_FILENO, ".", 1);
    assert_int_equal(n, 1);
    n = read(fixture->log, lines, sizeof(lines) - 1);
    lines[n > 0 ? n : 0] = '\0';
    return lines;
}

static int setup_at(void **state, const char *path)
{
    static struct fixture fixture;
    struct err err;
    int ends[2];

    fixture = (struct fixture){0};
    *state = &fixture;
    sick = false;
    snprintf(fixture.path, sizeof(fixture.path), "%s", path);
    unlink(path);
    manager_listen(&fixture, path);
    assert_int_equal(pipe(ends), 0);
    fixture.log = ends[0];
    fixture.stderr_kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    readiness_init(&fixture.readiness);
    assert_int_equal(notify_open(&fixture.notify, path, &err), RC_OK);
    watch_init(&fixture.watch, "relay", &fixture.readiness, &fixture.notify, 4000);
    return 0;
}

static int setup(void **state)
{
    char path[64];

    snprintf(path, sizeof(path), "/tmp/tallybox-watch-%ld", (long)getpid());
    return setup_at(state, path);
}

static int setup_abstract(void **state)
{
    char path[64];

    snprintf(path, sizeof(path), "@tallybox-watch-%ld", (long)getpid());
    return setup_at(state, path);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    dup2(fixture->stderr_kept, STDERR_FILENO);
    close(fixture->stderr_kept);
    close(fixture->log);
    close(fixture->manager);
    notify_close(&fixture->notify);
    readiness_done(&fixture->readiness);
    unlink(fixture->path);
    return 0;
}

static void the_manager_hears_whole_messages(void **state)
{
    struct fixture *fixture = *state;

    notify_send(&fixture->notify, "READY=1\nMONOTONIC_USEC=%d", 17);
    assert_string_equal(heard(fixture), "READY=1\nMONOTONIC_USEC=17");
    notify_status(&fixture->notify, "two\nlines");
    assert_string_equal(heard(fixture), "STATUS=two lines");
}

static void without_a_manager_nothing_is_sent(void **state)
{
    struct notify notify;
    struct err err;

    (void)state;
    assert_int_equal(notify_open(&notify, "", &err), RC_OK);
    notify_send(&notify, "READY=1");
    notify_close(&notify);
    assert_int_equal(notify_open(&notify, "relative", &err), RC_FATAL);
    assert_non_null(strstr(err.text, "NOTIFY_SOCKET"));
    notify_close(&notify);
    assert_int_equal(notify_open(&notify, "@", &err), RC_FATAL);
}

static void a_missing_socket_of_the_service_manager_is_ignored(void **state)
{
    struct fixture *fixture = *state;

    unlink(fixture->path);
    notify_send(&fixture->notify, "READY=1");
    assert_string_equal(heard(fixture), "");
}

static void a_start_that_waits_requests_more_time(void **state)
{
    struct fixture *fixture = *state;
    struct err err = {0};

    err_set(&err, "the schema is version 1");
    readiness_set_waiting(&fixture->readiness, &err);
    assert_int_equal(watch_step(&fixture->watch, 1000), 1000);
    assert_string_equal(heard(fixture), "EXTEND_TIMEOUT_USEC=30000000");
    assert_string_equal(heard(fixture), "STATUS=start: the schema is version 1");
    assert_string_equal(heard(fixture), "WATCHDOG=1");
}

static void a_failure_is_logged_once_and_its_end_once(void **state)
{
    struct fixture *fixture = *state;

    readiness_set_running(&fixture->readiness, parts, 1);
    watch_step(&fixture->watch, 1000);
    assert_string_equal(heard(fixture), "STATUS=ready");
    silence(fixture);
    sick = true;
    watch_step(&fixture->watch, 2000);
    assert_string_equal(heard(fixture), "STATUS=relay kafka: no broker, no luck");
    watch_step(&fixture->watch, 4900);
    assert_string_equal(logged(fixture), ".");
    watch_step(&fixture->watch, 5000);
    assert_non_null(strstr(logged(fixture), "level=warn event=not_ready role=relay "
                                            "err=\"relay kafka: no broker, no luck\"\n"));
    watch_step(&fixture->watch, 64999);
    assert_string_equal(logged(fixture), ".");
    /* No line names a condition, so this one tells that it lasts. */
    watch_step(&fixture->watch, 65000);
    assert_non_null(strstr(logged(fixture), "level=warn event=not_ready role=relay lasts_ms=63000 "
                                            "err=\"relay kafka: no broker, no luck\"\n"));
    watch_step(&fixture->watch, 66000);
    assert_string_equal(logged(fixture), ".");
    sick = false;
    watch_step(&fixture->watch, 72000);
    assert_non_null(strstr(logged(fixture), "event=ready_again role=relay after_ms=70000\n"));
    watch_step(&fixture->watch, 73000);
    assert_string_equal(logged(fixture), ".");
}

static void a_short_failure_is_not_logged(void **state)
{
    struct fixture *fixture = *state;

    readiness_set_running(&fixture->readiness, parts, 1);
    sick = true;
    watch_step(&fixture->watch, 1000);
    sick = false;
    watch_step(&fixture->watch, 3900);
    sick = true;
    watch_step(&fixture->watch, 4000);
    assert_string_equal(logged(fixture), ".");
}

static void a_stop_is_no_failure(void **state)
{
    struct fixture *fixture = *state;

    readiness_set_running(&fixture->readiness, parts, 1);
    readiness_set_stopping(&fixture->readiness);
    watch_step(&fixture->watch, 1000);
    watch_step(&fixture->watch, 9000);
    assert_string_equal(logged(fixture), ".");
    assert_string_equal(heard(fixture), "STATUS=stop: the process is stopping");
    assert_string_equal(heard(fixture), "WATCHDOG=1");
}

/* A worker whose step lasts until the test ends it. */
struct hung {
    struct wakeup inside;
    atomic_bool free;
};

static int64_t hung_step(void *arg, int64_t now_ms)
{
    struct hung *hung = arg;

    (void)now_ms;
    wakeup_signal(&hung->inside);
    while (!atomic_load(&hung->free))
        usleep(1000);
    return LOOP_END;
}

static void a_hung_worker_starves_the_watchdog(void **state)
{
    struct fixture *fixture = *state;
    struct hung hung = {0};
    struct stop stop;
    struct loop loop;
    struct err err;
    int64_t begun_ms;

    assert_int_equal(stop_init(&stop, &err), RC_OK);
    assert_int_equal(wakeup_init(&hung.inside, &err), RC_OK);
    assert_int_equal(loop_init(&loop, "relay-send", hung_step, &hung, &stop, &err), RC_OK);
    assert_int_equal(loop_start(&loop, &err), RC_OK);
    wakeup_wait(&hung.inside, &stop, -1);
    begun_ms = atomic_load(&loop.busy_ms);
    readiness_set_running(&fixture->readiness, parts, 1);
    watch_step(&fixture->watch, begun_ms + 4000);
    assert_string_equal(heard(fixture), "STATUS=ready");
    assert_string_equal(heard(fixture), "WATCHDOG=1");
    watch_step(&fixture->watch, begun_ms + 4001);
    watch_step(&fixture->watch, begun_ms + 5001);
    assert_string_equal(heard(fixture), "");
    assert_non_null(strstr(logged(fixture), "level=error event=watchdog_withheld role=relay "
                                            "loop=relay-send watchdog_ms=4000\n."));
    atomic_store(&hung.free, true);
    loop_join(&loop);
    watch_step(&fixture->watch, begun_ms + 6001);
    assert_string_equal(heard(fixture), "WATCHDOG=1");
    loop_done(&loop);
    wakeup_done(&hung.inside);
    stop_done(&stop);
}

static void a_short_period_is_fed_in_time(void **state)
{
    struct fixture *fixture = *state;

    watch_init(&fixture->watch, "relay", &fixture->readiness, &fixture->notify, 400);
    assert_int_equal(watch_step(&fixture->watch, 1000), 100);
    watch_init(&fixture->watch, "relay", &fixture->readiness, &fixture->notify, 0);
    silence(fixture);
    assert_int_equal(watch_step(&fixture->watch, 1000), 1000);
    assert_string_equal(heard(fixture), "EXTEND_TIMEOUT_USEC=30000000");
    assert_string_equal(heard(fixture), "STATUS=start: the process is starting");
    assert_string_equal(heard(fixture), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_manager_hears_whole_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(the_manager_hears_whole_messages, setup_abstract, teardown),
        cmocka_unit_test(without_a_manager_nothing_is_sent),
        cmocka_unit_test_setup_teardown(a_missing_socket_of_the_service_manager_is_ignored, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_start_that_waits_requests_more_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_is_logged_once_and_its_end_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_short_failure_is_not_logged, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_is_no_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hung_worker_starves_the_watchdog, setup, teardown),
        cmocka_unit_test_setup_teardown(a_short_period_is_fed_in_time, setup_abstract, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
