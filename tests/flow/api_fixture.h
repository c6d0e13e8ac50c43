/* SPDX-License-Identifier: MIT */
/* The API on a fake database, with its threads, and a client that sends requests over a socket. */
#ifndef TESTS_FLOW_API_FIXTURE_H
#define TESTS_FLOW_API_FIXTURE_H

#include "common/loop.h"
#include "common/os.h"
#include "producer/http/api.h"
#include "producer/remark/totals_reader.h"
#include "producer/vote/committer.h"
#include "tests/flow/votes_fixture.h"

#define GOOD "{\"voterId\":1,\"contentId\":2,\"voting\":1}"
#define JSON "Content-Type: application/json\r\n"
#define ANSWER_BYTES_MAX 262144
#define TIMEOUT_MS 60000 /* longer than anything takes here */

/* The API on a fake database, with its threads. */
struct api_fixture {
    struct settings settings;
    struct votes_db fake;
    struct totals_store totals_store;
    struct stop stop;
    struct queue *votes;
    struct queue *reads;
    struct queue *removals; /* without a worker */
    struct committer *committer;
    struct totals_reader *totals_reader;
    struct loop commit_loop;
    struct loop totals_loop;
    struct api *api;
    char answer[ANSWER_BYTES_MAX];
    char *body; /* in answer */
    int status;
};

/* For cmocka: *state is a fixture whose workers do not run yet. */
int set_up(void **state);
int tear_down(void **state);
/* Opens the API again, with a file of tokens. */
void reopen_with_tokens(struct api_fixture *fixture, const char *tokens);
/* Returns when votes and reads have a database. */
void workers_start(struct api_fixture *fixture);
/* One request over a connection of its own; read_answer() closes it and fills answer, body,
 * status. */
int connect_to(const struct api_fixture *fixture);
/* headers: whole lines; a Host of our own is added where there is none. */
void send_request(int fd, const char *method, const char *path, const char *headers,
                  const char *body);
void read_answer(struct api_fixture *fixture, int fd);
/* Both of them. */
void ask(struct api_fixture *fixture, const char *method, const char *path, const char *headers,
         const char *body);
/* The last answer has this line. */
void expect_header(const struct api_fixture *fixture, const char *line);
/* The last answer is a fault with this status, code and place (NULL: none). */
void expect_fault(const struct api_fixture *fixture, int status, const char *code, const char *at);

#endif
