/* SPDX-License-Identifier: MIT */
#include "producer/api.h"

#include "common/loop.h"
#include "common/os.h"
#include "producer/commit.h"
#include "producer/lookup.h"
#include "tests/flow/fake_votes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GOOD "{\"voterId\":1,\"contentId\":2,\"voting\":1}"
#define JSON "Content-Type: application/json\r\n"
#define ANSWER_BYTES_MAX 262144
#define TIMEOUT_MS 60000 /* longer than anything takes here */

/* The API on a fake database, with its threads. */
struct bench {
    struct settings settings;
    struct fake_votes fake;
    struct lookup_store lookups;
    struct stop stop;
    struct queue *votes;
    struct queue *reads;
    struct committer *committer;
    struct looker *looker;
    struct loop commit_loop;
    struct loop lookup_loop;
    struct api *api;
    char answer[ANSWER_BYTES_MAX];
    char *body; /* in answer */
    int status;
};

static enum rc lookup_ping(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

/* Content n has n * 10 votes, and every voter votes for the even ones. */
static enum rc lookup_read(void *ctx, int64_t voter_id, struct lookup_row *rows, size_t count,
                           struct err *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        rows[i].votes = rows[i].content_id * 10;
        rows[i].voting = voter_id > 0 && rows[i].content_id % 2 == 0;
    }
    return RC_OK;
}

static void wake_committer(void *ctx, size_t shard)
{
    (void)shard;
    loop_wake(&((struct bench *)ctx)->commit_loop);
}

static void wake_looker(void *ctx, size_t shard)
{
    (void)shard;
    loop_wake(&((struct bench *)ctx)->lookup_loop);
}

static void queues_open(struct bench *bench)
{
    struct queue_config config = {
        .shards = 1,
        .weight_max = 1000,
        .timeout_ms = TIMEOUT_MS,
        .breaker_base_ms = 1,
        .breaker_cap_ms = 5,
        .wake = wake_committer,
        .wake_ctx = bench,
    };
    struct err err;

    assert_int_equal(queue_open(&bench->votes, &config, &err), RC_OK);
    config.wake = wake_looker;
    assert_int_equal(queue_open(&bench->reads, &config, &err), RC_OK);
}

static void workers_open(struct bench *bench)
{
    struct commit_config commit = {
        .queue = bench->votes,
        .store = &bench->fake.seam,
        .batch_votes_max = 100,
        .lane_count = 1,
        .dice = os_random,
        .dice_u64 = os_random_u64,
        .clock_us = os_now_us,
        .stop = &bench->stop,
    };
    struct lookup_config lookup = {
        .queue = bench->reads,
        .store = &bench->lookups,
        .dice = os_random_u64,
        .stop = &bench->stop,
    };
    struct err err;

    assert_int_equal(committer_open(&bench->committer, &commit, &err), RC_OK);
    assert_int_equal(looker_open(&bench->looker, &lookup, &err), RC_OK);
    assert_int_equal(loop_init(&bench->commit_loop, "commit", committer_step, bench->committer,
                               &bench->stop, &err),
                     RC_OK);
    assert_int_equal(
        loop_init(&bench->lookup_loop, "lookup", looker_step, bench->looker, &bench->stop, &err),
        RC_OK);
}

static void workers_start(struct bench *bench)
{
    struct err err;

    assert_int_equal(loop_start(&bench->commit_loop, &err), RC_OK);
    assert_int_equal(loop_start(&bench->lookup_loop, &err), RC_OK);
    while (queue_is_away(bench->votes) || queue_is_away(bench->reads))
        stop_wait(&bench->stop, 1);
}

static int set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    struct api_config config = {.settings = &bench->settings, .shards = 1};
    struct err err;

    assert_non_null(bench);
    snprintf(bench->settings.api.listen, sizeof(bench->settings.api.listen), "127.0.0.1:0");
    bench->settings.api.body_bytes_max = 65536;
    bench->settings.api.header_bytes_max = 16384;
    bench->settings.api.connections_max = 10;
    bench->settings.api.request_timeout_ms = TIMEOUT_MS;
    fake_votes_init(&bench->fake);
    bench->lookups = (struct lookup_store){.ping = lookup_ping, .read = lookup_read};
    assert_int_equal(stop_init(&bench->stop, &err), RC_OK);
    queues_open(bench);
    workers_open(bench);
    config.votes = bench->votes;
    config.reads = bench->reads;
    if (api_open(&bench->api, &config, &err) != RC_OK)
        fail_msg("%s", err.text);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;

    stop_request(&bench->stop);
    loop_join(&bench->commit_loop);
    loop_join(&bench->lookup_loop);
    queue_drop(bench->votes);
    queue_drop(bench->reads);
    committer_close(bench->committer);
    looker_close(bench->looker);
    api_close(bench->api);
    loop_done(&bench->commit_loop);
    loop_done(&bench->lookup_loop);
    queue_free(bench->votes);
    queue_free(bench->reads);
    stop_done(&bench->stop);
    fake_votes_check(&bench->fake);
    fake_votes_done(&bench->fake);
    free(bench);
    return 0;
}

static int connect_to(const struct bench *bench)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)api_port(bench->api)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void send_request(int fd, const char *method, const char *path, const char *headers,
                         const char *body)
{
    struct buf request = {0};

    buf_print(&request, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s", method, path,
              headers);
    if (body)
        buf_print(&request, "Content-Length: %zu\r\n", strlen(body));
    buf_print(&request, "\r\n%s", body ? body : "");
    assert_false(request.failed);
    assert_int_equal(send(fd, request.data, request.len, MSG_NOSIGNAL), request.len);
    buf_done(&request);
}

static void read_answer(struct bench *bench, int fd)
{
    size_t len = 0;
    ssize_t n;

    while ((n = recv(fd, bench->answer + len, ANSWER_BYTES_MAX - 1 - len, 0)) > 0)
        len += (size_t)n;
    close(fd);
    bench->answer[len] = '\0';
    assert_memory_equal(bench->answer, "HTTP/1.1 ", 9);
    bench->status = atoi(bench->answer + 9);
    bench->body = strstr(bench->answer, "\r\n\r\n");
    assert_non_null(bench->body);
    bench->body += 4;
}

static void ask(struct bench *bench, const char *method, const char *path, const char *headers,
                const char *body)
{
    int fd = connect_to(bench);

    send_request(fd, method, path, headers, body);
    read_answer(bench, fd);
}

static void expect_header(const struct bench *bench, const char *line)
{
    if (!strstr(bench->answer, line))
        fail_msg("no %s in %s", line, bench->answer);
}

static void expect_fault(const struct bench *bench, int status, const char *code, const char *at)
{
    char text[128];

    assert_int_equal(bench->status, status);
    expect_header(bench, "Content-Type: application/json\r\n");
    snprintf(text, sizeof(text), "{\"error\":{\"code\":\"%s\",\"message\":\"", code);
    if (strncmp(bench->body, text, strlen(text)) != 0)
        fail_msg("%s is not %s", bench->body, text);
    snprintf(text, sizeof(text), "\"at\":\"%s\"}}", at ? at : "");
    if (at)
        assert_non_null(strstr(bench->body, text));
    else
        assert_null(strstr(bench->body, "\"at\""));
}

static void a_vote_is_answered_after_its_commit(void **state)
{
    static const char expected[] =
        "{\"voterId\":1,\"contentId\":2,\"voting\":1,\"changed\":true,\"votes\":1,"
        "\"eventId\":\"";
    struct bench *bench = *state;

    workers_start(bench);
    ask(bench, "POST", "/v1/votes", "content-type: Application/JSON; charset=utf-8\r\n", GOOD);
    assert_int_equal(bench->status, 200);
    assert_memory_equal(bench->body, expected, sizeof(expected) - 1);
    assert_int_equal(fake_votes_total(&bench->fake, 2), 1);
}

static void an_array_is_answered_in_place(void **state)
{
    struct bench *bench = *state;

    workers_start(bench);
    ask(bench, "POST", "/v1/votes", JSON, "[" GOOD ",{\"voterId\":1}," GOOD "]");
    assert_int_equal(bench->status, 200);
    assert_int_equal(bench->body[0], '[');
    assert_non_null(strstr(bench->body, "\"at\":\"/1/contentId\"}}"));
    assert_non_null(strstr(bench->body, "\"changed\":false,\"votes\":1"));
}

static void an_array_of_bad_items_needs_no_database(void **state)
{
    struct bench *bench = *state;

    ask(bench, "POST", "/v1/votes", JSON, "[1,2]");
    assert_int_equal(bench->status, 200);
    assert_non_null(strstr(bench->body, "\"at\":\"/0\""));
    assert_non_null(strstr(bench->body, "\"at\":\"/1\""));
}

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static void a_trace_goes_with_the_event_if_it_is_one(void **state)
{
    struct bench *bench = *state;

    workers_start(bench);
    ask(bench, "POST", "/v1/votes", JSON "traceparent: " TRACE "\r\n", GOOD);
    assert_string_equal(bench->fake.committed->events[0].headers,
                        "{\"traceparent\":\"" TRACE "\"}");
    ask(bench, "POST", "/v1/votes", JSON "traceparent: 00-\",\"x\":\"\r\n",
        "{\"voterId\":2,\"contentId\":2,\"voting\":1}");
    assert_string_equal(bench->fake.committed->events[1].headers, "");
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
    struct bench *bench = *state;

    workers_start(bench);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask(bench, cases[i].method, cases[i].path, cases[i].headers, cases[i].body);
        expect_fault(bench, cases[i].status, cases[i].code, cases[i].at);
    }
    assert_int_equal(bench->fake.commits, 0);
}

static void a_refused_method_names_those_that_work(void **state)
{
    struct bench *bench = *state;

    ask(bench, "PUT", "/v1/votes", JSON, GOOD);
    expect_header(bench, "Allow: GET, HEAD, POST, OPTIONS\r\n");
    ask(bench, "PUT", "/v1/contents/1/votes", JSON, GOOD);
    expect_header(bench, "Allow: GET, HEAD, OPTIONS\r\n");
    ask(bench, "OPTIONS", "/v1/votes", "", NULL);
    assert_int_equal(bench->status, 204);
    expect_header(bench, "Allow: GET, HEAD, POST, OPTIONS\r\n");
}

static void a_body_too_large_is_413(void **state)
{
    struct bench *bench = *state;
    char *body = malloc(70000);

    assert_non_null(body);
    memset(body, ' ', 69999);
    body[69999] = '\0';
    ask(bench, "POST", "/v1/votes", JSON, body);
    expect_fault(bench, 413, "too_large", NULL);
    free(body);
}

static void totals_are_read_one_by_one_and_as_a_list(void **state)
{
    struct bench *bench = *state;

    workers_start(bench);
    ask(bench, "GET", "/v1/contents/7/votes", "", NULL);
    assert_int_equal(bench->status, 200);
    assert_string_equal(bench->body, "{\"contentId\":7,\"votes\":70}");
    ask(bench, "GET", "/v1/contents/8/votes?voterId=3", "", NULL);
    assert_string_equal(bench->body, "{\"contentId\":8,\"votes\":80,\"voterId\":3,\"voting\":1}");
    ask(bench, "GET", "/v1/votes?contentIds=9,8,9&voterId=3", "", NULL);
    assert_string_equal(bench->body, "[{\"contentId\":9,\"votes\":90,\"voterId\":3,\"voting\":0},"
                                     "{\"contentId\":8,\"votes\":80,\"voterId\":3,\"voting\":1},"
                                     "{\"contentId\":9,\"votes\":90,\"voterId\":3,\"voting\":0}]");
    ask(bench, "HEAD", "/v1/contents/7/votes", "", NULL);
    assert_int_equal(bench->status, 200);
    assert_string_equal(bench->body, "");
}

static void a_list_without_a_voter_answers_totals_only(void **state)
{
    struct bench *bench = *state;

    workers_start(bench);
    ask(bench, "GET", "/v1/votes?contentIds=7,8", "", NULL);
    assert_int_equal(bench->status, 200);
    assert_string_equal(bench->body, "[{\"contentId\":7,\"votes\":70},"
                                     "{\"contentId\":8,\"votes\":80}]");
}

static void two_hundred_contents_are_enough(void **state)
{
    struct bench *bench = *state;
    struct buf path = {0};

    workers_start(bench);
    buf_text_put(&path, "/v1/votes?voterId=1&contentIds=1");
    for (int i = 2; i <= 200; i++)
        buf_print(&path, ",%d", i);
    ask(bench, "GET", buf_text(&path), "", NULL);
    assert_int_equal(bench->status, 200);
    buf_text_put(&path, ",201");
    ask(bench, "GET", buf_text(&path), "", NULL);
    expect_fault(bench, 400, "out_of_range", "contentIds");
    buf_done(&path);
}

static void without_a_database_it_is_503_at_once(void **state)
{
    struct bench *bench = *state;

    ask(bench, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(bench, 503, "unavailable", NULL);
    expect_header(bench, "Retry-After: 1\r\n");
    ask(bench, "GET", "/v1/contents/1/votes", "", NULL);
    expect_fault(bench, 503, "unavailable", NULL);
}

/* Requests that wait for a committer which does not come. */
static void what_waits_is_answered_when_its_time_is_up_or_the_server_stops(void **state)
{
    struct bench *bench = *state;
    int late = connect_to(bench);
    int64_t after_ms;
    int dropped;

    queue_worked(bench->votes, 0, &after_ms); /* the database was seen */
    send_request(late, "POST", "/v1/votes", JSON, GOOD);
    while (queue_waiting(bench->votes) == 0)
        stop_wait(&bench->stop, 1);
    queue_expire(bench->votes, os_now_ms() + TIMEOUT_MS + 1000);
    read_answer(bench, late);
    expect_fault(bench, 503, "timeout", NULL);
    expect_header(bench, "Retry-After: 1\r\n");
    assert_non_null(strstr(bench->body, "nothing was changed"));

    dropped = connect_to(bench);
    send_request(dropped, "POST", "/v1/votes", JSON, GOOD);
    while (queue_waiting(bench->votes) == 0)
        stop_wait(&bench->stop, 1);
    queue_close(bench->votes);
    queue_drop(bench->votes);
    read_answer(bench, dropped);
    expect_fault(bench, 503, "unavailable", NULL);
    ask(bench, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(bench, 503, "unavailable", NULL);
}

static void a_full_queue_is_429(void **state)
{
    struct bench *bench = *state;
    struct buf body = {0};
    int waiting = connect_to(bench);
    int64_t after_ms;

    queue_worked(bench->votes, 0, &after_ms);
    buf_text_put(&body, "[" GOOD);
    for (int i = 1; i < 1000; i++)
        buf_text_put(&body, "," GOOD);
    buf_char(&body, ']');
    send_request(waiting, "POST", "/v1/votes", JSON, buf_text(&body));
    while (queue_waiting(bench->votes) == 0)
        stop_wait(&bench->stop, 1);
    ask(bench, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(bench, 429, "too_many_requests", NULL);
    expect_header(bench, "Retry-After: 1\r\n");
    workers_start(bench);
    read_answer(bench, waiting);
    assert_int_equal(bench->status, 200);
    buf_done(&body);
}

static void a_refused_single_vote_is_422(void **state)
{
    struct bench *bench = *state;

    bench->fake.refused_voter = 1;
    workers_start(bench);
    ask(bench, "POST", "/v1/votes", JSON, GOOD);
    expect_fault(bench, 422, "refused", "");
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
        TEST(a_body_too_large_is_413),
        TEST(totals_are_read_one_by_one_and_as_a_list),
        TEST(a_list_without_a_voter_answers_totals_only),
        TEST(two_hundred_contents_are_enough),
        TEST(without_a_database_it_is_503_at_once),
        TEST(what_waits_is_answered_when_its_time_is_up_or_the_server_stops),
        TEST(a_full_queue_is_429),
        TEST(a_refused_single_vote_is_422),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
