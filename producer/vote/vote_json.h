/* SPDX-License-Identifier: MIT */
/* Votes as JSON, requests and answers. A body is one vote or an array of 1..1000:
 *
 *     {"voterId":1,"contentId":2,"voting":1}
 *
 * with exactly these fields, all integers; the ids are 1..2^63-1, voting is 0 or 1. The answer has
 * the same form: an object for an object, an array for an array, in the same order:
 *
 *     {"voterId":1,"contentId":2,"voting":1,"changed":true,"votes":3,"eventId":"0197..."}
 *
 * eventId is the event of the last change of this vote, so a repeat has the id of the first
 * request; null if there never was one. In an array a bad item fails alone, and an error
 * (producer/http/request_json.h) stands in its place. Pure; any thread. */
#ifndef PRODUCER_VOTE_VOTE_JSON_H
#define PRODUCER_VOTE_VOTE_JSON_H

#include "common/buf.h"
#include "common/err.h"
#include "producer/http/request_json.h"
#include "producer/producer_ops.h"

#include <stdbool.h>
#include <stddef.h>

#define VOTE_JSON_ITEMS_MAX 1000

/* The source of an item's answer: its fault as JSON, or the next element of items. */
struct vote_json_slot {
    bool bad;
    size_t fault_at;
    size_t fault_len;
};

struct vote_json {
    bool array;
    size_t count; /* of slots */
    struct vote_json_slot *slots;
    size_t item_count;
    struct vote_item *items; /* the good ones, in their order */
    struct buf faults;
};

/* Sets up `votes`, which the caller frees with vote_json_done() after any result. RC_REJECT: the
 * whole body is refused for the reason in *fault. RC_FATAL: no memory. The memory for parsing is
 * bounded by the longest item, not by the whole body. */
enum rc vote_json_parse(struct vote_json *votes, const char *body, size_t len,
                        struct request_fault *fault);
void vote_json_done(struct vote_json *votes);

/* Appends the answer when every item has its outcome. False: the body was one vote, which was
 * refused for the reason in *fault; nothing was appended. */
bool vote_json_answer(const struct vote_json *votes, struct buf *out, struct request_fault *fault);

/* Appends the answer of one vote. */
void vote_json_put(struct buf *out, const struct vote_item *item);

#endif
