/* SPDX-License-Identifier: MIT */
/* The vote event on the wire, version 1: how the producer writes it into the outbox and what every
 * reader may rely on. Pure; any thread.
 *
 *     {"eventId":"0197...","voterId":1,"contentId":2,"voting":1,"votes":3,
 *      "occurredAt":1700000000000}
 *
 * The fields may stand in any order, and unknown ones beside them are ignored, so that later
 * versions may add some. A name that stands there twice is an error.
 *
 * The key of the record is the contentId as decimal digits. A record with such a key and no value
 * (NULL) is a tombstone: it ends the tally of the content, and later votes on it are stale. */
#ifndef SCHEMA_VOTE_EVENT_H
#define SCHEMA_VOTE_EVENT_H

#include "common/buf.h"
#include "common/err.h"
#include "common/id.h"

#include <stddef.h>
#include <stdint.h>

struct vote_event {
    struct id event_id;
    int64_t voter_id;   /* 1..2^63-1, as content_id */
    int64_t content_id; /* also the record's key */
    int voting;         /* 1 votes for it, 0 took the vote back */
    int64_t votes; /* exact total at commit, >= 0; VOTE_EVENT_VOTES_UNKNOWN: not in the event */
    int64_t occurred_ms; /* ms since 1970, UTC: when the vote was committed */
};

#define VOTE_EVENT_VOTES_UNKNOWN (-1) /* the field is left out, as foreign producers may */

/* occurredAt lies in [MIN, MAX): 2000-01-01 and 2100-01-01. Seconds sent as milliseconds, and the
 * other way round, fall outside. */
#define VOTE_EVENT_OCCURRED_MS_MIN INT64_C(946684800000)
#define VOTE_EVENT_OCCURRED_MS_MAX INT64_C(4102444800000)

/* Longer values are refused unread: what a value costs to parse stays bounded. */
#define VOTE_EVENT_BYTES_MAX 65536

/* err->code after RC_REJECT: the class of the reason. */
enum vote_event_fault {
    VOTE_EVENT_FAULT_DECODE =
        1,                     /* not a vote event: no JSON object, a field missing, a wrong type */
    VOTE_EVENT_FAULT_RULE = 2, /* a vote event with a value that may not be */
};

/* Appends the JSON in the form above, without blanks. The values must keep the rules. */
void vote_event_encode(const struct vote_event *event, struct buf *out);

/* Decodes one value. The form that vote_event_encode() writes is decoded without allocation.
 * RC_REJECT: err names the field and the fault, err->code is an enum vote_event_fault, *event is
 * unchanged. RC_FATAL: no memory. */
enum rc vote_event_decode(struct vote_event *event, const void *bytes, size_t len, struct err *err);

/* "decode" or "rule", for dead_record.reason_class and metrics; static. */
const char *vote_event_fault_name(int fault);

#endif
