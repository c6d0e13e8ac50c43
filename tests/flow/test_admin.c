/* SPDX-License-Identifier: MIT */
#include "common/options.h"
#include "common/os.h"
#include "tests/flow/daemon_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void a_gate_keeps_the_process_alive_and_unready(void **state)
{
    struct child child;

    (void)state;
    atomic_store(&shared->gate, RC_RETRY);
    child_start(&child, TEXTS("--migrate"));
    child_listens(&child);
    child_says(
        &child,
        "event=work_paused what=start role=pair err=\"the schema is version 1; expected 2\"");
    assert_int_equal(child_ask(&child, "GET", "/healthz"), 200);
    assert_int_equal(child_ask(&child, "GET", "/readyz"), 503);
    assert_non_null(strstr(child_answer(), "\r\n\r\nnot ready\n"
                                           "start: the schema is version 1; expected 2\n"));
    assert_true(atomic_load(&shared->migrate));
    atomic_store(&shared->gate, RC_OK);
    child_says(&child, "event=started");
    assert_int_equal(child_ask(&child, "GET", "/readyz"), 200);
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void readiness_names_every_dependency_on_a_line(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    assert_int_equal(child_ask(&child, "GET", "/readyz"), 200);
    assert_non_null(strstr(child_answer(), "\r\n\r\nready\none kafka: ok\none mysql: ok\n"));
    atomic_store(&shared->sick, true);
    assert_int_equal(child_ask(&child, "GET", "/readyz"), 503);
    assert_non_null(strstr(child_answer(),
                           "\r\n\r\nnot ready\none kafka: no broker, no luck\none mysql: ok\n"));
    assert_int_equal(child_ask(&child, "GET", "/healthz"), 200);
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void readiness_ends_with_the_stop(void **state)
{
    struct child child;

    (void)state;
    behaviour.join_hangs = true;
    child_works(&child, NULL);
    kill(child.pid, SIGTERM);
    child_says(&child, "join one");
    assert_int_equal(child_ask(&child, "GET", "/healthz"), 200);
    assert_int_equal(child_ask(&child, "GET", "/readyz"), 503);
    assert_non_null(strstr(child_answer(), "not ready\nstop: the process is stopping\n"));
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
    assert_int_equal(child_ask(&child, "GET", "/metrics"), 200);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_non_null(strstr(child_answer(), lines[i]));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

/* Reads the number after this text of the last answer; -1 without the text. */
static double answer_number(const char *text)
{
    const char *at = strstr(child_answer(), text);

    return at ? strtod(at + strlen(text), NULL) : -1;
}

static void metrics_show_readiness_and_failing_dependencies(void **state)
{
    struct child child;

    (void)state;
    behaviour.waits = true; /* for Kafka, since a minute ago */
    child_works(&child, NULL);
    assert_int_equal(child_ask(&child, "GET", "/metrics"), 200);
    assert_true(answer_number("\ntallybox_ready ") == 1);
    assert_true(answer_number("\ntallybox_dependency_down_seconds{dep=\"mysql\"} ") == 0);
    assert_true(answer_number("\ntallybox_dependency_down_seconds{dep=\"sink\"} ") == 0);
    assert_true(answer_number("\ntallybox_dependency_down_seconds{dep=\"kafka\"} ") >= 60);
    atomic_store(&shared->sick, true);
    assert_int_equal(child_ask(&child, "GET", "/metrics"), 200);
    assert_true(answer_number("\ntallybox_ready ") == 0);
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void other_pages_and_methods_are_refused(void **state)
{
    struct child child;

    (void)state;
    child_works(&child, NULL);
    assert_int_equal(child_ask(&child, "GET", "/"), 200);
    assert_non_null(strstr(child_answer(), "<a href=\"/readyz\">"));
    assert_int_equal(child_ask(&child, "GET", "/nothing"), 404);
    assert_int_equal(child_ask(&child, "POST", "/healthz"), 405);
    assert_non_null(strstr(child_answer(), "\r\nAllow: GET, HEAD\r\n"));
    assert_int_equal(child_ask(&child, "HEAD", "/readyz"), 200);
    assert_null(strstr(child_answer(), "kafka"));
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
    child_start(&child, TEXTS(set));
    child_says(&child, "event=start_failed role=pair rc=fatal err=\"admin.listen: ");
    assert_non_null(strstr(child.line, place));
    child_says_next(&child, TEXTS("close two", "close one", "event=stopped"));
    assert_int_equal(child_end(&child), EXIT_FAILED);
    close(fd);
}

/* Only a failure to listen is about admin.listen. */
static void a_wrong_setting_of_the_pages_is_named_itself(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, TEXTS("--set=admin.tls_cert=/nonexistent"));
    child_says(&child, "event=start_failed role=pair rc=reject err=\"admin.tls_key is not set");
    assert_int_equal(child_end(&child), EXIT_USAGE);
    child_start(&child, TEXTS("--set=admin.listen=*:0"));
    child_says(&child, "event=start_failed role=pair rc=reject err=\"admin.listen: other machines "
                       "can reach this address: set admin.token_file");
    assert_int_equal(child_end(&child), EXIT_USAGE);
}

/* Starts the pages at an address and requests them by the URL that the log has, which is the one
 * of `tallybox status`, too. */
static void pages_open_at(const char *listen_set, const char *hosts_set, const char *host)
{
    char want[300];
    char at[280];
    struct child child;

    child_start(&child, TEXTS(listen_set, hosts_set, "--set=admin.without_token=yes"));
    child_says(&child, "event=admin_listening url=");
    snprintf(want, sizeof(want), "url=http://%s:", host);
    if (!strstr(child.line, want))
        fail_msg("expected \"%s\" in: %s", want, child.line);
    child.port = atoi(strstr(child.line, want) + strlen(want));
    child_says(&child, "event=started");
    snprintf(at, sizeof(at), "%s:%d", host, child.port);
    snprintf(want, sizeof(want), "http://%s", at);
    assert_string_equal(shared->admin_url, want);
    assert_int_equal(child_ask_as(&child, at, "GET", "/readyz"), 200);
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

static void a_server_at_all_addresses_is_found_by_a_name_that_it_answers_to(void **state)
{
    static const char *const all[] = {"--set=admin.listen=0.0.0.0:0", "--set=admin.listen=[::]:0",
                                      "--set=admin.listen=*:0"};
    static const char none[] = "--set=admin.hosts=";
    char name[65];
    char hosts[128];

    (void)state;
    os_host_name(name, sizeof(name));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        pages_open_at(all[i], none, name);
    snprintf(hosts, sizeof(hosts), "--set=admin.hosts=pages.example,%s", name);
    pages_open_at(all[2], hosts, name);
    pages_open_at(all[2], "--set=admin.hosts=*.example,proxy.test:1,pages.test,other.test",
                  "pages.test");
    pages_open_at("--set=admin.listen=127.0.0.1:0", none, "127.0.0.1");
}

static void the_pages_can_be_off(void **state)
{
    struct child child;

    (void)state;
    child_start(&child, TEXTS("--set=admin.listen=off"));
    child_says(&child, "start two");
    child_says_next(&child, TEXTS("event=started"));
    kill(child.pid, SIGTERM);
    assert_int_equal(child_end(&child), EXIT_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_gate_keeps_the_process_alive_and_unready, daemon_setup),
        cmocka_unit_test_setup(readiness_names_every_dependency_on_a_line, daemon_setup),
        cmocka_unit_test_setup(readiness_ends_with_the_stop, daemon_setup),
        cmocka_unit_test_setup(metrics_of_the_process_are_served, daemon_setup),
        cmocka_unit_test_setup(metrics_show_readiness_and_failing_dependencies, daemon_setup),
        cmocka_unit_test_setup(other_pages_and_methods_are_refused, daemon_setup),
        cmocka_unit_test_setup(a_port_in_use_is_named, daemon_setup),
        cmocka_unit_test_setup(a_wrong_setting_of_the_pages_is_named_itself, daemon_setup),
        cmocka_unit_test_setup(a_server_at_all_addresses_is_found_by_a_name_that_it_answers_to,
                               daemon_setup),
        cmocka_unit_test_setup(the_pages_can_be_off, daemon_setup),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, NULL);
}
