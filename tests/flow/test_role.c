/* SPDX-License-Identifier: MIT */
#include "common/options.h"
#include "tests/flow/daemon_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define ECHOES_MAX 10

static void a_term_stops_cleanly_and_in_order(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, NULL);
    child_says(&child, "event=starting role=pair version=");
    child_says_next(&child, TEXTS("open one", "open two", "event=admin_listening", "start one",
                                  "start two", "event=started"));
    kill(child.pid, SIGTERM);
    child_says_next(&child, TEXTS("event=stopping signal=SIGTERM stop_timeout_ms=10000", "join one",
                                  "join two", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_DONE);
}

/* The gate, which waits for a server, is not asked. */
static void a_missing_file_of_certificates_ends_the_start(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_RETRY);
    child_start(&child, TEXTS("--set=mysql.host=db.example", "--set=mysql.tls_ca=/nonexistent"));
    child_says(&child, "event=start_failed role=pair rc=reject err=\"two: mysql.tls_ca: cannot "
                       "read /nonexistent: No such file or directory\"");
    assert_int_equal(child_end(&child), EXIT_USAGE);
    /* It is not used without TLS, so its role does not need it. */
    atomic_store(&shared->gate, RC_OK);
    child_works(&child, TEXTS("--set=mysql.host=127.0.0.1", "--set=mysql.tls_ca=/nonexistent"));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void an_interrupt_stops_cleanly(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    kill(child.pid, SIGINT);
    child_says(&child, "event=stopping signal=SIGINT");
    assert_int_equal(child_end(&child), EXIT_DONE);
}

/* A settings file of the test's own. */
static char ini[64];

static void write_ini(const char *text)
{
    FILE *file;

    snprintf(ini, sizeof(ini), "/tmp/tallybox-role-%ld.ini", (long)getpid());
    file = fopen(ini, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void a_hangup_reloads_the_live_settings(void **state)
{
    static const char need_restart[] =
        "level=warn event=settings_need_restart role=pair "
        "settings=mysql.password,sink.password,relay.lease_ms,kafka.*\n";
    char config[80];
    struct child child;

    (void)state;
    write_ini("[relay]\npoll_ms = 3\nlease_ms = 20000\n");
    snprintf(config, sizeof(config), "--config=%s", ini);
    child_works(&child, TEXTS(config));
    write_ini("[relay]\npoll_ms = 4\nlease_ms = 30000\n[mysql]\npassword = hush\n"
              "[kafka]\nlinger.ms = 7\n[log]\nlevel = debug\n[admin]\nstop_timeout_ms = 9000\n");
    kill(child.pid, SIGHUP);
    child_says_next(&child,
                    TEXTS("event=setting_changed setting=relay.poll_ms from=3 to=4",
                          "event=setting_changed setting=admin.stop_timeout_ms from=10000 to=9000",
                          "event=setting_changed setting=log.level from=info to=debug",
                          need_restart, "event=reloaded role=pair changed=3"));
    kill(child.pid, SIGHUP);
    child_says_next(&child,
                    TEXTS("event=settings_need_restart", "event=reloaded role=pair changed=0"));
    kill(child.pid, SIGTERM);
    child_says(&child, "event=stopping signal=SIGTERM stop_timeout_ms=9000");
    assert_int_equal(child_end(&child), EXIT_DONE);
    unlink(ini);
}

static void write_password(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Both sections have it from the same file. Each change is reported once, and none of it shown. */
static void a_hangup_reads_the_password_file(void **state)
{
    char password[64];
    char text[160];
    char config[80];
    struct child child;

    (void)state;
    snprintf(password, sizeof(password), "/tmp/tallybox-role-%ld.password", (long)getpid());
    snprintf(text, sizeof(text), "[mysql]\npassword_file = %s\n", password);
    write_password(password, "first\n");
    write_ini(text);
    snprintf(config, sizeof(config), "--config=%s", ini);
    child_works(&child, TEXTS(config));
    write_password(password, "second\n");
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("event=setting_changed setting=mysql.password from=*** to=***",
                                  "event=setting_changed setting=sink.password from=*** to=***",
                                  "event=reloaded role=pair changed=2"));
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("event=reloaded role=pair changed=0"));
    write_password(password, "first\n");
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("setting=mysql.password", "setting=sink.password",
                                  "event=reloaded role=pair changed=2"));
    unlink(password);
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("level=error event=reload_failed role=pair "
                                  "hint=\"no setting has changed\" err="));
    assert_non_null(strstr(child.line, "mysql.password_file: cannot open"));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
    unlink(ini);
}

static void a_broken_file_changes_nothing(void **state)
{
    char config[80];
    struct child child;

    (void)state;
    write_ini("[relay]\npoll_ms = 3\n");
    snprintf(config, sizeof(config), "--config=%s", ini);
    child_works(&child, TEXTS(config));
    write_ini("[relay]\npoll_ms = 4\npoll_idle_ms = 0\n");
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("level=error event=reload_failed role=pair "
                                  "hint=\"no setting has changed\" err="));
    assert_non_null(strstr(child.line, ".ini:3: relay.poll_idle_ms: 0 is out of range"));
    write_ini("[kafka]\nno.such.property = 4\n");
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("event=reload_failed"));
    unlink(ini);
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("event=reload_failed"));
    write_ini("[relay]\npoll_ms = 3\n");
    kill(child.pid, SIGHUP);
    child_says_next(&child, TEXTS("event=reloaded role=pair changed=0"));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
    unlink(ini);
}

static void what_lasts_is_logged_again(void **state)
{
    struct child child;

    (void)state;
    behaviour.waits = true;
    child_start(&child, NULL);
    child_says(&child, "event=dependency_down dep=kafka role=one reason=test err=\"no answer\"");
    child_says(&child, "event=still_waiting dep=kafka role=one reason=test lasts_ms=6");
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

/* A service manager of the test's own. */
struct manager {
    int fd;
    char path[64];
    char heard[512];
};

static void manager_open(struct manager *manager)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(manager->path, sizeof(manager->path), "/tmp/tallybox-role-%ld", (long)getpid());
    unlink(manager->path);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", manager->path);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", manager->path, 1);
    setenv("WATCHDOG_USEC", "200000000", 1);
}

static void manager_close(struct manager *manager)
{
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(manager->fd);
    unlink(manager->path);
}

/* Waits for a message that begins so; those before it must not begin like `early`. */
static void manager_hears(struct manager *manager, const char *text, const char *early)
{
    do {
        ssize_t n = recv(manager->fd, manager->heard, sizeof(manager->heard) - 1, 0);

        assert_true(n > 0);
        manager->heard[n] = '\0';
        assert_true(!early || strncmp(manager->heard, early, strlen(early)) != 0);
    } while (strncmp(manager->heard, text, strlen(text)) != 0);
}

/* READY=1 and the status come of two threads, either of them first. */
static void manager_hears_of_work(struct manager *manager)
{
    static const char *const texts[] = {"READY=1", "STATUS=ready"};
    bool heard[2] = {false, false};

    while (!heard[0] || !heard[1]) {
        manager_hears(manager, "", "RELOADING=1");
        for (size_t i = 0; i < 2; i++)
            heard[i] = heard[i] || strcmp(manager->heard, texts[i]) == 0;
    }
}

static void the_manager_hears_of_a_whole_life(void **state)
{
    struct manager manager;
    struct child child;

    (void)state;
    manager_open(&manager);
    atomic_store(&shared->gate, RC_RETRY);
    child_start(&child, NULL);
    manager_hears(&manager, "EXTEND_TIMEOUT_USEC=", "READY=1");
    manager_hears(&manager, "STATUS=start: the schema is version 1; expected 2", "READY=1");
    kill(child.pid, SIGHUP);
    child_says(&child, "event=reloaded");
    atomic_store(&shared->gate, RC_OK);
    child_says(&child, "event=work_resumed what=start role=pair after_ms=");
    manager_hears_of_work(&manager);
    manager_hears(&manager, "WATCHDOG=1", NULL);
    kill(child.pid, SIGHUP);
    manager_hears(&manager, "RELOADING=1\nMONOTONIC_USEC=", "READY=1");
    manager_hears(&manager, "READY=1", NULL);
    kill(child.pid, SIGTERM);
    manager_hears(&manager, "STOPPING=1", NULL);
    assert_int_equal(child_end(&child), EXIT_DONE);
    manager_close(&manager);
}

static void a_second_signal_ends_at_once(void **state)
{
    struct child child;

    (void)state;
    behaviour.join_hangs = true;
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    kill(child.pid, SIGINT);
    child_says(&child, "event=stop_forced signal=SIGINT");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

/* The end of a process that gets the same signal again. */
static int echo_end(void)
{
    struct child child;

    atomic_store(&shared->join_waits, true);
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    kill(child.pid, SIGTERM);
    atomic_store(&shared->join_waits, false);
    return child_end(&child);
}

/* One that is late because the machine has other work is a second one, rightly. */
static void an_echo_of_the_signal_is_no_second_one(void **state)
{
    int code = EXIT_FAILED;

    (void)state;
    for (int i = 0; i < ECHOES_MAX && code != EXIT_DONE; i++)
        code = echo_end();
    assert_int_equal(code, EXIT_DONE);
}

static void a_stop_that_takes_too_long_is_cut(void **state)
{
    struct child child;

    (void)state;
    behaviour.join_hangs = true;
    child_works(&child, TEXTS("--set", "admin.stop_timeout_ms=100"));
    kill(child.pid, SIGTERM);
    child_says(&child, "event=stop_timed_out stop_timeout_ms=100");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

/* The signal ends the process as ever, after a line that says where. */
static void a_crash_is_logged_with_its_stack(void **state)
{
    static const struct {
        int number;
        const char *says;
    } crashes[] = {{SIGSEGV, "level=error event=crashed signal=SIGSEGV address=0x"},
                   {SIGABRT, "level=error event=crashed signal=SIGABRT address=0x"}};
    struct child child;

    (void)state;
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
        child_works(&child, NULL);
        atomic_store(&shared->raise, crashes[i].number);
        child_says(&child, crashes[i].says);
        assert_non_null(strstr(child.line, " thread=\""));
        /* A sanitizer's frames come first. */
        assert_non_null(strstr(child.line, "\" stack="));
        assert_non_null(strstr(child.line, "test_role+0x"));
        assert_int_equal(child_crash(&child), crashes[i].number);
        atomic_store(&shared->raise, 0);
    }
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
    behaviour.join_hangs = true;
    child_works(&child, TEXTS("--set=admin.stop_timeout_ms=100"));
    atomic_store(&shared->fail, true);
    child_says(&child, "event=stop_timed_out");
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_process_that_waits_at_the_gate_can_be_stopped(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_RETRY);
    child_start(&child, NULL);
    child_says(&child, "event=work_paused what=start");
    kill(child.pid, SIGTERM);
    child_says_next(&child, TEXTS("event=stopping", "close two", "close one", "event=stopped"));
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

static void a_role_that_cannot_open_closes_the_others(void **state)
{
    struct child child;

    (void)state;
    behaviour.open = RC_FATAL;
    child_start(&child, NULL);
    child_says(&child, "event=starting");
    child_says_next(&child, TEXTS("open one",
                                  "event=start_failed role=pair rc=fatal err=\"two: cannot open\"",
                                  "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_FAILED);
}

static void a_role_that_cannot_start_ends_the_others(void **state)
{
    struct child child;

    (void)state;
    behaviour.start = RC_RETRY;
    child_start(&child, NULL);
    child_says(&child, "start one");
    child_says_next(&child, TEXTS("event=start_failed role=pair rc=retry err=\"two: cannot start\"",
                                  "join one", "close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_UNAVAILABLE);
}

static void a_wrong_command_line_starts_nothing(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, TEXTS("--migrat"));
    child_says_next(&child, TEXTS("tallybox pair: unknown option --migrat; did you mean --migrate?",
                                  "Try `tallybox pair --help`."));
    assert_int_equal(child_end(&child), EXIT_USAGE);
    child_start(&child, TEXTS("--set=relay.lease_ms=1"));
    child_says_next(&child, TEXTS("tallybox: --set relay.lease_ms: 1 is out of range"));
    assert_int_equal(child_end(&child), EXIT_USAGE);
    child_start(&child, TEXTS("--set=kafka.no.such.property=1"));
    child_says(&child, "no.such.property");
    assert_int_equal(child_end(&child), EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_term_stops_cleanly_and_in_order, daemon_setup),
        cmocka_unit_test_setup(a_missing_file_of_certificates_ends_the_start, daemon_setup),
        cmocka_unit_test_setup(an_interrupt_stops_cleanly, daemon_setup),
        cmocka_unit_test_setup(a_hangup_reloads_the_live_settings, daemon_setup),
        cmocka_unit_test_setup(a_hangup_reads_the_password_file, daemon_setup),
        cmocka_unit_test_setup(what_lasts_is_logged_again, daemon_setup),
        cmocka_unit_test_setup(a_broken_file_changes_nothing, daemon_setup),
        cmocka_unit_test_setup(the_manager_hears_of_a_whole_life, daemon_setup),
        cmocka_unit_test_setup(a_second_signal_ends_at_once, daemon_setup),
        cmocka_unit_test_setup(an_echo_of_the_signal_is_no_second_one, daemon_setup),
        cmocka_unit_test_setup(a_stop_that_takes_too_long_is_cut, daemon_setup),
        cmocka_unit_test_setup(a_crash_is_logged_with_its_stack, daemon_setup),
        cmocka_unit_test_setup(a_role_that_fails_stops_the_process, daemon_setup),
        cmocka_unit_test_setup(a_failed_role_does_not_outlive_the_stop_timeout_either,
                               daemon_setup),
        cmocka_unit_test_setup(a_process_that_waits_at_the_gate_can_be_stopped, daemon_setup),
        cmocka_unit_test_setup(a_gate_that_says_never_ends_the_process, daemon_setup),
        cmocka_unit_test_setup(a_role_that_cannot_open_closes_the_others, daemon_setup),
        cmocka_unit_test_setup(a_role_that_cannot_start_ends_the_others, daemon_setup),
        cmocka_unit_test_setup(a_wrong_command_line_starts_nothing, daemon_setup),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, NULL);
}
