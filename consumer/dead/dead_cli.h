/* SPDX-License-Identifier: MIT */
/* What an operator writes and reads of `tallybox dead`: the request of a command line, with a check
 * whether its options fit the action, and records as text and as JSON. Bytes that a terminal cannot
 * print are shown as hexadecimal digits in text and as base64 in JSON. Pure; any thread. */
#ifndef CONSUMER_DEAD_DEAD_CLI_H
#define CONSUMER_DEAD_DEAD_CLI_H

#include "common/buf.h"
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
struct dead_options {
    const char *topic;
    int64_t partition;
    const char *reason_class;
    const char *key;
    const char *since;
    const char *until;
    int64_t limit;
    int64_t after;
    const char *value_path;
    const char *reason; /* why, for the audit */
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
    struct dead_options options;
    struct dead_filter filter; /* dead_request_times() fills in since_ms and until_ms */
    int64_t ids[DEAD_IDS_MAX];
};

/* arguments are the action and its ids. The request points into options, arguments and itself.
 * RC_FATAL: err tells what is wrong with them. */
enum rc dead_request_read(struct dead_request *request, const struct dead_options *options,
                          const char *const *arguments, size_t count, struct err *err);

/* Fills in the times of the filter. now_ms is the reference of relative times. */
void dead_request_times(struct dead_request *request, int64_t now_ms);

/* Whether the records are selected by options instead of ids. */
bool dead_request_is_bulk(const struct dead_request *request);

/* The list: a heading and one line for each record. now_ms must come from the same clock as
 * died_ms. */
void dead_list_head(struct buf *out, bool decided);
void dead_list_row(struct buf *out, const struct dead_view *view, int64_t now_ms);

/* One record with payload and headers. */
void dead_show_text(struct buf *out, const struct dead_view *view, int64_t now_ms);

/* One record as a JSON object; whole: with payload and headers. If memory runs out, out becomes
 * failed. */
void dead_json(struct buf *out, const struct dead_view *view, bool whole);

#endif
