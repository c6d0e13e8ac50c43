/* SPDX-License-Identifier: MIT */
#include "tests/flow/api_bench.h"

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
        .store = &bench->fake.ops,
        .batch_votes_max = 100,
        .lane_count = 1,
        .rng_bytes = os_random,
        .rng = os_random_u64,
        .clock_us = os_now_us,
        .stop = &bench->stop,
    };
    struct lookup_config lookup = {
        .queue = bench->reads,
        .store = &bench->lookups,
        .rng = os_random_u64,
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

void workers_start(struct bench *bench)
{
    struct err err;

    assert_int_equal(loop_start(&bench->commit_loop, &err), RC_OK);
    assert_int_equal(loop_start(&bench->lookup_loop, &err), RC_OK);
    while (queue_is_away(bench->votes) || queue_is_away(bench->reads))
        stop_wait(&bench->stop, 1);
}

int set_up(void **state)
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

int tear_down(void **state)
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

int connect_to(const struct bench *bench)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)api_port(bench->api)),
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

void read_answer(struct bench *bench, int fd)
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

void ask(struct bench *bench, const char *method, const char *path, const char *headers,
         const char *body)
{
    int fd = connect_to(bench);

    send_request(fd, method, path, headers, body);
    read_answer(bench, fd);
}

void expect_header(const struct bench *bench, const char *line)
{
    if (!strstr(bench->answer, line))
        fail_msg("no %s in %s", line, bench->answer);
}

void expect_fault(const struct bench *bench, int status, const char *code, const char *at)
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
