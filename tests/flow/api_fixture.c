/* SPDX-License-Identifier: MIT */
#include "tests/flow/api_fixture.h"

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

static enum rc ping_totals(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

/* Content n has n * 10 votes, and every voter votes for the even ones. */
static enum rc read_totals(void *ctx, struct totals_row **rows, size_t count, struct err *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        rows[i]->votes = rows[i]->content_id * 10;
        rows[i]->voting = rows[i]->voter_id > 0 && rows[i]->content_id % 2 == 0;
    }
    return RC_OK;
}

static void wake_committer(void *ctx, size_t shard)
{
    (void)shard;
    loop_wake(&((struct api_fixture *)ctx)->commit_loop);
}

static void wake_totals_reader(void *ctx, size_t shard)
{
    (void)shard;
    loop_wake(&((struct api_fixture *)ctx)->totals_loop);
}

static void queues_open(struct api_fixture *fixture)
{
    struct queue_config config = {
        .name = "votes",
        .dep = "mysql",
        .shards = 1,
        .weight_max = 1000,
        .timeout_ms = TIMEOUT_MS,
        .breaker_base_ms = 1,
        .breaker_cap_ms = 5,
        .wake = wake_committer,
        .wake_ctx = fixture,
    };
    struct err err;

    assert_int_equal(queue_open(&fixture->votes, &config, &err), RC_OK);
    config.wake = wake_totals_reader;
    assert_int_equal(queue_open(&fixture->reads, &config, &err), RC_OK);
    config.wake = NULL;
    config.weight_max = 1;
    assert_int_equal(queue_open(&fixture->removals, &config, &err), RC_OK);
}

static void workers_open(struct api_fixture *fixture)
{
    struct committer_config commit = {
        .queue = fixture->votes,
        .store = &fixture->fake.ops,
        .batch_votes_max = 100,
        .lane_count = 1,
        .rng_bytes = os_random,
        .rng = os_random_u64,
        .clock_us = os_now_us,
        .stop = &fixture->stop,
    };
    struct totals_reader_config totals = {
        .queue = fixture->reads,
        .store = &fixture->totals_store,
        .clock_ms = os_now_ms,
        .rng = os_random_u64,
        .stop = &fixture->stop,
    };
    struct err err;

    assert_int_equal(committer_open(&fixture->committer, &commit, &err), RC_OK);
    assert_int_equal(totals_reader_open(&fixture->totals_reader, &totals, &err), RC_OK);
    assert_int_equal(loop_init(&fixture->commit_loop, "commit", committer_step, fixture->committer,
                               &fixture->stop, &err),
                     RC_OK);
    assert_int_equal(loop_init(&fixture->totals_loop, "totals", totals_reader_step,
                               fixture->totals_reader, &fixture->stop, &err),
                     RC_OK);
}

void workers_start(struct api_fixture *fixture)
{
    struct err err;

    assert_int_equal(loop_start(&fixture->commit_loop, &err), RC_OK);
    assert_int_equal(loop_start(&fixture->totals_loop, &err), RC_OK);
    while (queue_is_unavailable(fixture->votes) || queue_is_unavailable(fixture->reads))
        stop_wait(&fixture->stop, 1);
}

static void open_api(struct api_fixture *fixture)
{
    const struct api_config config = {
        .settings = &fixture->settings,
        .votes = fixture->votes,
        .reads = fixture->reads,
        .removals = fixture->removals,
        .shards = 1,
    };
    struct err err;

    if (api_open(&fixture->api, &config, &err) != RC_OK)
        fail_msg("%s", err.text);
}

void reopen_with_tokens(struct api_fixture *fixture, const char *tokens)
{
    char path[] = "/tmp/tallybox-api-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, tokens, strlen(tokens)), strlen(tokens));
    close(fd);
    snprintf(fixture->settings.api.token_file, sizeof(fixture->settings.api.token_file), "%s",
             path);
    api_close(fixture->api);
    open_api(fixture);
    unlink(path);
}

int set_up(void **state)
{
    struct api_fixture *fixture = calloc(1, sizeof(*fixture));
    struct err err;

    assert_non_null(fixture);
    snprintf(fixture->settings.api.listen, sizeof(fixture->settings.api.listen), "127.0.0.1:0");
    fixture->settings.api.body_bytes_max = 65536;
    fixture->settings.api.header_bytes_max = 16384;
    fixture->settings.api.connections_max = 10;
    fixture->settings.api.request_timeout_ms = TIMEOUT_MS;
    votes_db_init(&fixture->fake);
    fixture->totals_store = (struct totals_store){.ping = ping_totals, .read = read_totals};
    assert_int_equal(stop_init(&fixture->stop, &err), RC_OK);
    queues_open(fixture);
    workers_open(fixture);
    open_api(fixture);
    *state = fixture;
    return 0;
}

int tear_down(void **state)
{
    struct api_fixture *fixture = *state;

    stop_request(&fixture->stop);
    loop_join(&fixture->commit_loop);
    loop_join(&fixture->totals_loop);
    queue_drop(fixture->votes);
    queue_drop(fixture->reads);
    queue_drop(fixture->removals);
    committer_close(fixture->committer);
    totals_reader_close(fixture->totals_reader);
    api_close(fixture->api);
    loop_done(&fixture->commit_loop);
    loop_done(&fixture->totals_loop);
    queue_free(fixture->votes);
    queue_free(fixture->reads);
    queue_free(fixture->removals);
    stop_done(&fixture->stop);
    votes_db_check(&fixture->fake);
    votes_db_done(&fixture->fake);
    free(fixture);
    return 0;
}

int connect_to(const struct api_fixture *fixture)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)api_port(fixture->api)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

void send_request(int fd, const char *method, const char *path, const char *headers,
                  const char *body)
{
    struct buf request = {0};
    const char *host = strstr(headers, "Host: ") ? "" : "Host: localhost\r\n";

    buf_print(&request, "%s %s HTTP/1.1\r\n%sConnection: close\r\n%s", method, path, host, headers);
    if (body)
        buf_print(&request, "Content-Length: %zu\r\n", strlen(body));
    buf_print(&request, "\r\n%s", body ? body : "");
    assert_false(request.failed);
    assert_int_equal(send(fd, request.data, request.len, MSG_NOSIGNAL), request.len);
    buf_done(&request);
}

void read_answer(struct api_fixture *fixture, int fd)
{
    size_t len = 0;
    ssize_t n;

    while ((n = recv(fd, fixture->answer + len, ANSWER_BYTES_MAX - 1 - len, 0)) > 0)
        len += (size_t)n;
    close(fd);
    fixture->answer[len] = '\0';
    assert_memory_equal(fixture->answer, "HTTP/1.1 ", 9);
    fixture->status = atoi(fixture->answer + 9);
    fixture->body = strstr(fixture->answer, "\r\n\r\n");
    assert_non_null(fixture->body);
    fixture->body += 4;
}

void ask(struct api_fixture *fixture, const char *method, const char *path, const char *headers,
         const char *body)
{
    int fd = connect_to(fixture);

    send_request(fd, method, path, headers, body);
    read_answer(fixture, fd);
}

void expect_header(const struct api_fixture *fixture, const char *line)
{
    if (!strstr(fixture->answer, line))
        fail_msg("no %s in %s", line, fixture->answer);
}

void expect_fault(const struct api_fixture *fixture, int status, const char *code, const char *at)
{
    char text[128];

    assert_int_equal(fixture->status, status);
    expect_header(fixture, "Content-Type: application/json\r\n");
    snprintf(text, sizeof(text), "{\"error\":{\"code\":\"%s\",\"message\":\"", code);
    if (strncmp(fixture->body, text, strlen(text)) != 0)
        fail_msg("%s is not %s", fixture->body, text);
    snprintf(text, sizeof(text), "\"at\":\"%s\"}}", at ? at : "");
    if (at)
        assert_non_null(strstr(fixture->body, text));
    else
        assert_null(strstr(fixture->body, "\"at\""));
}
