/* SPDX-License-Identifier: MIT */
#include "producer/remark/remover.h"
#include "tests/flow/api_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_vote_is_answered_after_its_commit(void **state)
{
    static const char expected[] =
        "{\"voterId\":1,\"contentId\":2,\"voting\":1,\"changed\":true,\"votes\":1,"
        "\"eventId\":\"";
    struct api_fixture *fixture = *state;

    workers_start(fixture);
    ask(fixture, "POST", "/v1/votes", "content-type: Application/JSON; charset=utf-8\r\n", GOOD);
    assert_int_equal(fixture->status, 200);
    assert_memory_equal(fixture->body, expected, sizeof(expected) - 1);
    assert_int_equal(votes_db_total(&fixture->fake, 2), 1);
}

static void an_array_is_answered_in_place(void **state)
{
    struct api_fixture *fixture = *state;

    workers_start(fixture);
    ask(fixture, "POST", "/v1/votes", JSON, "[" GOOD ",{\"voterId\":1}," GOOD "]");
    assert_int_equal(fixture->status, 200);
    assert_int_equal(fixture->body[0], '[');
    assert_non_null(strstr(fixture->body, "\"at\":\"/1/contentId\"}}"));
    assert_non_null(strstr(fixture->body, "\"changed\":false,\"votes\":1"));
}

static void an_array_of_bad_items_needs_no_database(void **state)
{
    struct api_fixture *fixture = *state;

    ask(fixture, "POST", "/v1/votes", JSON, "[1,2]");
    assert_int_equal(fixture->status, 200);
    assert_non_null(strstr(fixture->body, "\"at\":\"/0\""));
    assert_non_null(strstr(fixture->body, "\"at\":\"/1\""));
}

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static void a_trace_goes_with_the_event_if_it_is_one(void **state)
{
    struct api_fixture *fixture = *state;

    workers_start(fixture);
    ask(fixture, "POST", "/v1/votes", JSON "traceparent: " TRACE "\r\n", GOOD);
    assert_string_equal(fixture->fake.tables->events[0].headers, "{\"traceparent\":\"" TRACE "\"}");
    ask(fixture, "POST", "/v1/votes", JSON "traceparent: 00-\",\"x\":\"\r\n",
        "{\"voterId\":2,\"contentId\":2,\"voting\":1}");
    assert_string_equal(fixture->fake.tables->events[1].headers, "");
}

struct fault_case {
    const char *method;
    const char *path;
    const char *headers;
    const char *body;
    int status;
    const char *code;
    const char *at;
};

static void every_fault_has_its_status_code_and_place(void **state)
{
    static const struct fault_case cases[] = {
        {"POST", "/v1/votes", JSON, "{", 400, "not_json", NULL},
        {"POST", "/v1/votes", JSON, "", 400, "not_json", NULL},
        {"POST", "/v1/votes", JSON, "{}", 400, "missing", "/voterId"},
        {"POST", "/v1/votes?x=1", JSON, GOOD, 400, "unknown_field", "x"},
        {"POST", "/v1/votes", "", GOOD, 415, "unsupported_media_type", NULL},
        {"POST", "/v1/votes", "Content-Type: application/jsonp\r\n", GOOD, 415,
         "unsupported_media_type", NULL},
        {"GET", "/", "", NULL, 404, "not_found", NULL},
        {"GET", "/v1/votes/", "", NULL, 404, "not_found", NULL},
        {"GET", "/v1/contents//votes", "", NULL, 404, "not_found", NULL},
        {"GET", "/v1/contents/1/votes/", "", NULL, 404, "not_found", NULL},
        {"POST", "/v1/contents/1", JSON, GOOD, 404, "not_found", NULL},
        {"DELETE", "/v1/votes", "", NULL, 405, "method_not_allowed", NULL},
        {"POST", "/v1/contents/1/votes", JSON, GOOD, 405, "method_not_allowed", NULL},
        {"GET", "/v1/contents/x/votes", "", NULL, 400, "out_of_range", NULL},
        {"GET", "/v1/contents/0/votes", "", NULL, 400, "out_of_range", NULL},
        {"GET", "/v1/contents/-1/votes", "", NULL, 400, "out_of_range", NULL},
        {"GET", "/v1/contents/9223372036854775808/votes", "", NULL, 400, "out_of_range", NULL},
        {"GET", "/v1/contents/00000000000000000000000000000000000000000001/votes", "", NULL, 400,
         "out_of_range", NULL},
        {"GET", "/v1/contents/1/votes?voterId=", "", NULL, 400, "out_of_range", "voterId"},
        {"GET", "/v1/contents/1/votes?voterId", "", NULL, 400, "out_of_range", "voterId"},
        {"GET", "/v1/contents/1/votes?voterId=1&voterId=1", "", NULL, 400, "duplicate", "voterId"},
        {"GET", "/v1/contents/1/votes?contentIds=1", "", NULL, 400, "unknown_field", "contentIds"},
        {"GET", "/v1/votes", "", NULL, 400, "missing", "contentIds"},
        {"GET", "/v1/votes?voterId=1", "", NULL, 400, "missing", "contentIds"},
        {"GET", "/v1/votes?voterId=&contentIds=1", "", NULL, 400, "out_of_range", "voterId"},
        {"GET", "/v1/votes?voterId=1&contentIds=", "", NULL, 400, "missing", "contentIds"},
        {"GET", "/v1/votes?voterId=1&contentIds=1,", "", NULL, 400, "out_of_range", "contentIds"},
        {"GET", "/v1/votes?voterId=1&contentIds=1;2", "", NULL, 400, "out_of_range", "contentIds"},
        {"GET", "/v1/votes?voterId=0&contentIds=1", "", NULL, 400, "out_of_range", "voterId"},
    };
    struct api_fixture *fixture = *state;

    workers_start(fixture);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask(fixture, cases[i].method, cases[i].path, cases[i].headers, cases[i].body);
        expect_fault(fixture, cases[i].status, cases[i].code, cases[i].at);
    }
    assert_int_equal(fixture->fake.commits, 0);
}

static void a_refused_method_names_those_that_work(void **state)
{
    struct api_fixture *fixture = *state;

    ask(fixture, "PUT", "/v1/votes", JSON, GOOD);
    expect_header(fixture, "Allow: GET, HEAD, POST, OPTIONS\r\n");
    ask(fixture, "PUT", "/v1/contents/1/votes", JSON, GOOD);
    expect_header(fixture, "Allow: GET, HEAD, OPTIONS\r\n");
    ask(fixture, "OPTIONS", "/v1/votes", "", NULL);
    assert_int_equal(fixture->status, 204);
    expect_header(fixture, "Allow: GET, HEAD, POST, OPTIONS\r\n");
}

/* A web page whose name suddenly resolves to 127.0.0.1 cannot vote (DNS rebinding). */
static void a_request_for_another_host_is_421(void **state)
{
    struct api_fixture *fixture = *state;

    workers_start(fixture);
    ask(fixture, "POST", "/v1/votes", JSON "Host: localhost\r\nHost: rebound.example\r\n", GOOD);
    expect_fault(fixture, 400, "bad_request", NULL);
    ask(fixture, "POST", "/v1/votes", JSON "Host: rebound.example:8080\r\n", GOOD);
    expect_fault(fixture, 421, "misdirected_request", NULL);
    assert_non_null(strstr(fixture->body, "rebound.example:8080"));
    assert_non_null(strstr(fixture->body, "api.hosts"));
    ask(fixture, "POST", "/v1/votes", JSON "Host: \"\xff\r\n", GOOD);
    expect_fault(fixture, 421, "misdirected_request", NULL);
    assert_int_equal(fixture->fake.commits, 0);
    ask(fixture, "POST", "/v1/votes", JSON "Host: 127.0.0.1:8080\r\n", GOOD);
    assert_int_equal(fixture->status, 200);
}

static void a_body_too_large_is_413(void **state)
{
    struct api_fixture *fixture = *state;
    char *body = malloc(70000);

    assert_non_null(body);
    memset(body, ' ', 69999);
    body[69999] = '\0';
    ask(fixture, "POST", "/v1/votes", JSON, body);
    expect_fault(fixture, 413, "too_large", NULL);
    free(body);
}

static void totals_are_read_one_by_one_and_as_a_list(void **state)
{
    struct api_fixture *fixture = *state;

    workers_start(fixture);
    ask(fixture, "GET", "/v1/contents/7/votes", "", NULL);
    assert_int_equal(fixture->status, 200);
    assert_string_equal(fixture->body, "{\"contentId\":7,\"votes\":70}");
    ask(fixture, "GET", "/v1/contents/8/votes?voterId=3", "", NULL);
    assert_string_equal(fixture->body, "{\"contentId\":8,\"votes\":80,\"voterId\":3,\"voting\":1}");
    ask(fixture, "GET", "/v1/votes?contentIds=9,8,9&voterId=3", "", NULL);
    assert_string_equal(fixture->body,
                        "[{\"contentId\":9,\"votes\":90,\"voterId\":3,\"voting\":0},"
                        "{\"contentId\":8,\"votes\":80,\"voterId\":3,\"voting\":1},"
                        "{\"contentId\":9,\"votes\":90,\"voterId\":3,\"voting\":0}]");
    ask(fixture, "HEAD", "/v1/contents/7/votes", "", NULL);
    assert_int_equal(fixture->status, 200);
    assert_string_equal(fixture->body, "");
}

static void a_list_without_a_voter_answers_totals_only(void **state)
{
    struct api_fixture *fixture = *state;

    workers_start(fixture);
    ask(fixture, "GET", "/v1/votes?contentIds=7,8", "", NULL);
    assert_int_equal(fixture->status, 200);
    assert_string_equal(fixture->body, "[{\"contentId\":7,\"votes\":70},"
                                       "{\"contentId\":8,\"votes\":80}]");
}

static void two_hundred_contents_are_enough(void **state)
{
    struct api_fixture *fixture = *state;
    struct buf path = {0};

    workers_start(fixture);
    buf_text_put(&path, "/v1/votes?voterId=1&contentIds=1");
    for (int i = 2; i <= 200; i++)
        buf_print(&path, ",%d", i);
    ask(fixture, "GET", buf_text(&path), "", NULL);
    assert_int_equal(fixture->status, 200);
    buf_text_put(&path, ",201");
    ask(fixture, "GET", buf_text(&path), "", NULL);
    expect_fault(fixture, 400, "out_of_range", "contentIds");
    buf_done(&path);
}

static void without_a_database_it_is_503_at_once(void **state)
{
    struct api_fixture *fixture = *state;

    ask(fixture, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(fixture, 503, "unavailable", NULL);
    expect_header(fixture, "Retry-After: 1\r\n");
    ask(fixture, "GET", "/v1/contents/1/votes", "", NULL);
    expect_fault(fixture, 503, "unavailable", NULL);
}

/* Requests that wait for a committer which does not come. */
static void a_waiting_request_is_answered_at_its_deadline_or_when_the_server_stops(void **state)
{
    struct api_fixture *fixture = *state;
    int late = connect_to(fixture);
    int dropped;

    queue_worked(fixture->votes, 0); /* the database was seen */
    send_request(late, "POST", "/v1/votes", JSON, GOOD);
    while (queue_waiting(fixture->votes) == 0)
        stop_wait(&fixture->stop, 1);
    queue_expire(fixture->votes, os_now_ms() + TIMEOUT_MS + 1000);
    read_answer(fixture, late);
    expect_fault(fixture, 503, "timeout", NULL);
    expect_header(fixture, "Retry-After: 1\r\n");
    assert_non_null(strstr(fixture->body, "nothing was changed"));

    dropped = connect_to(fixture);
    send_request(dropped, "POST", "/v1/votes", JSON, GOOD);
    while (queue_waiting(fixture->votes) == 0)
        stop_wait(&fixture->stop, 1);
    queue_close(fixture->votes);
    queue_drop(fixture->votes);
    read_answer(fixture, dropped);
    expect_fault(fixture, 503, "unavailable", NULL);
    ask(fixture, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(fixture, 503, "unavailable", NULL);
}

static void a_full_queue_is_429(void **state)
{
    struct api_fixture *fixture = *state;
    struct buf body = {0};
    int waiting = connect_to(fixture);

    queue_worked(fixture->votes, 0);
    buf_text_put(&body, "[" GOOD);
    for (int i = 1; i < 1000; i++)
        buf_text_put(&body, "," GOOD);
    buf_char(&body, ']');
    send_request(waiting, "POST", "/v1/votes", JSON, buf_text(&body));
    while (queue_waiting(fixture->votes) == 0)
        stop_wait(&fixture->stop, 1);
    ask(fixture, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(fixture, 429, "too_many_requests", NULL);
    expect_header(fixture, "Retry-After: 1\r\n");
    workers_start(fixture);
    read_answer(fixture, waiting);
    assert_int_equal(fixture->status, 200);
    buf_done(&body);
}

static void a_refused_single_vote_is_422(void **state)
{
    struct api_fixture *fixture = *state;

    fixture->fake.refused_voter = 1;
    workers_start(fixture);
    ask(fixture, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(fixture, 422, "refused", "");
}

#define REMARKS_TOKEN "remarks-token-01234567"
#define READ_TOKEN "read-token-01234567890"
#define BEARER(token) "Authorization: Bearer " token "\r\n"

/* The API with lists, and two tokens of which one may write remarks. */
static void reopen_with_remarks(struct api_fixture *fixture)
{
    snprintf(fixture->settings.api.lists, sizeof(fixture->settings.api.lists), "on");
    reopen_with_tokens(fixture, REMARKS_TOKEN " remarks\n" READ_TOKEN " votes read\n");
}

static int send_deletion(struct api_fixture *fixture, const char *path)
{
    int fd = connect_to(fixture);

    send_request(fd, "DELETE", path, BEARER(REMARKS_TOKEN), NULL);
    while (queue_waiting(fixture->removals) == 0)
        stop_wait(&fixture->stop, 1);
    return fd;
}

/* The test does the worker's part: the removal of remark 7 ends in this way. */
static void expect_removal(struct api_fixture *fixture, enum removal_end end, enum queue_end how)
{
    int fd = send_deletion(fixture, "/v1/remarks/7");
    struct queue_entry *entry = queue_take(fixture->removals, 0, 1, os_now_ms());
    struct removal_request *request = (struct removal_request *)entry;

    assert_non_null(entry);
    assert_int_equal(request->id, 7);
    request->end = end;
    err_fail(&request->err, RC_REJECT, 0, "a foreign key of the application");
    queue_finish(fixture->removals, 0, entry, how);
    read_answer(fixture, fd);
}

static void a_deletion_is_answered_as_it_ended(void **state)
{
    struct api_fixture *fixture = *state;

    reopen_with_remarks(fixture);
    queue_worked(fixture->removals, os_now_ms());
    expect_removal(fixture, REMOVAL_DONE, QUEUE_DONE);
    assert_int_equal(fixture->status, 200);
    assert_string_equal(fixture->body, "{\"id\":7}");
    expect_removal(fixture, REMOVAL_NOT_FOUND, QUEUE_DONE);
    expect_fault(fixture, 404, "not_found", NULL);
    expect_removal(fixture, REMOVAL_REFUSED, QUEUE_DONE);
    expect_fault(fixture, 422, "refused", NULL);
    assert_non_null(strstr(fixture->body, "refuses the deletion: a foreign key"));
    expect_removal(fixture, REMOVAL_DONE, QUEUE_UNKNOWN);
    expect_fault(fixture, 503, "timeout", NULL);
    expect_header(fixture, "Retry-After: 1\r\n");
    assert_non_null(strstr(fixture->body, "may have been deleted, and sending the request again"));
    expect_removal(fixture, REMOVAL_DONE, QUEUE_LATE);
    expect_fault(fixture, 503, "timeout", NULL);
    assert_non_null(strstr(fixture->body, "nothing was changed"));
    expect_removal(fixture, REMOVAL_DONE, QUEUE_CLOSED);
    expect_fault(fixture, 503, "unavailable", NULL);
}

static void a_deletion_without_an_id_or_a_scope_reaches_no_queue(void **state)
{
    static const struct fault_case cases[] = {
        {"DELETE", "/v1/remarks/0", BEARER(REMARKS_TOKEN), NULL, 400, "out_of_range", NULL},
        {"DELETE", "/v1/remarks/-1", BEARER(REMARKS_TOKEN), NULL, 400, "out_of_range", NULL},
        {"DELETE", "/v1/remarks/07x", BEARER(REMARKS_TOKEN), NULL, 400, "out_of_range", NULL},
        {"DELETE", "/v1/remarks/9223372036854775808", BEARER(REMARKS_TOKEN), NULL, 400,
         "out_of_range", NULL},
        {"DELETE", "/v1/remarks/7?force=1", BEARER(REMARKS_TOKEN), NULL, 400, "unknown_field",
         "force"},
        {"DELETE", "/v1/remarks/", BEARER(REMARKS_TOKEN), NULL, 404, "not_found", NULL},
        {"DELETE", "/v1/remarks/7/", BEARER(REMARKS_TOKEN), NULL, 404, "not_found", NULL},
        {"DELETE", "/v1/remarks", BEARER(REMARKS_TOKEN), NULL, 405, "method_not_allowed", NULL},
        {"DELETE", "/v1/remarks/7", BEARER(READ_TOKEN), NULL, 403, "forbidden", NULL},
        {"DELETE", "/v1/remarks/7", "", NULL, 401, "unauthorized", NULL},
    };
    struct api_fixture *fixture = *state;

    reopen_with_remarks(fixture);
    queue_worked(fixture->removals, os_now_ms());
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask(fixture, cases[i].method, cases[i].path, cases[i].headers, cases[i].body);
        expect_fault(fixture, cases[i].status, cases[i].code, cases[i].at);
    }
    assert_true(queue_idle(fixture->removals));
}

static void a_deletion_waits_for_no_database_and_no_place(void **state)
{
    struct api_fixture *fixture = *state;
    int waiting;

    reopen_with_remarks(fixture);
    ask(fixture, "DELETE", "/v1/remarks/7", BEARER(REMARKS_TOKEN), NULL);
    expect_fault(fixture, 503, "unavailable", NULL);
    expect_header(fixture, "Retry-After: 1\r\n");
    queue_worked(fixture->removals, os_now_ms());
    waiting = send_deletion(fixture, "/v1/remarks/9223372036854775807");
    ask(fixture, "DELETE", "/v1/remarks/7", BEARER(REMARKS_TOKEN), NULL);
    expect_fault(fixture, 429, "too_many_requests", NULL);
    expect_header(fixture, "Retry-After: 1\r\n");
    queue_drop(fixture->removals);
    read_answer(fixture, waiting);
    expect_fault(fixture, 503, "unavailable", NULL);
}

static void without_lists_there_is_no_deletion(void **state)
{
    struct api_fixture *fixture = *state;

    reopen_with_tokens(fixture, REMARKS_TOKEN " remarks\n");
    ask(fixture, "DELETE", "/v1/remarks/7", BEARER(REMARKS_TOKEN), NULL);
    expect_fault(fixture, 403, "forbidden", NULL);
    assert_non_null(strstr(fixture->body, "api.lists = on"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_vote_is_answered_after_its_commit),
        TEST(an_array_is_answered_in_place),
        TEST(an_array_of_bad_items_needs_no_database),
        TEST(a_trace_goes_with_the_event_if_it_is_one),
        TEST(every_fault_has_its_status_code_and_place),
        TEST(a_refused_method_names_those_that_work),
        TEST(a_request_for_another_host_is_421),
        TEST(a_body_too_large_is_413),
        TEST(totals_are_read_one_by_one_and_as_a_list),
        TEST(a_list_without_a_voter_answers_totals_only),
        TEST(two_hundred_contents_are_enough),
        TEST(without_a_database_it_is_503_at_once),
        TEST(a_waiting_request_is_answered_at_its_deadline_or_when_the_server_stops),
        TEST(a_full_queue_is_429),
        TEST(a_refused_single_vote_is_422),
        TEST(a_deletion_is_answered_as_it_ended),
        TEST(a_deletion_without_an_id_or_a_scope_reaches_no_queue),
        TEST(a_deletion_waits_for_no_database_and_no_place),
        TEST(without_lists_there_is_no_deletion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
