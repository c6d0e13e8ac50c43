/* SPDX-License-Identifier: MIT */
/* The request of a `tallybox dead` command line: the action and the records. Checks whether the
 * options fit the action. Pure; one thread. */
#ifndef CONSUMER_DEAD_DEAD_REQUEST_H
#define CONSUMER_DEAD_DEAD_REQUEST_H

#include "common/err.h"
#include "consumer/dead/dead.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEAD_IDS_MAX 1000
#define DEAD_LIST_ROWS 50
#define DEAD_LIST_ROWS_MAX 10000

enum dead_action { DEAD_LIST, DEAD_SHOW, DEAD_REPLAY, DEAD_DROP };

/* The options of the command line. NULL, false or DEAD_NUMBER_ANY: not given. */
struct dead_words {
    const char *topic;
    int64_t partition;
    const char *reason_class;
    const char *key;
    const char *since;
    const char *until;
    int64_t limit;
    int64_t after;
    const char *value_path;
    bool all;
    bool yes;
    bool json;
    bool payload;
    bool decided;
    bool ignore_key;
    bool queue;
};

struct dead_request {
    enum dead_action action;
    struct dead_words words;
    struct dead_filter filter; /* without the times until dead_request_times() */
    int64_t ids[DEAD_IDS_MAX];
};

/* arguments are the action and its ids. The request points into words, arguments and itself.
 * RC_FATAL: err tells what is wrong with them. */
enum rc dead_request_read(struct dead_request *request, const struct dead_words *words,
                          const char *const *arguments, size_t count, struct err *err);

/* Fills in the times of the filter. now_ms is the reference of relative times. */
void dead_request_times(struct dead_request *request, int64_t now_ms);

/* Whether the records are selected by options instead of ids. */
bool dead_request_is_bulk(const struct dead_request *request);

#endif
