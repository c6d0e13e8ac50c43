/* SPDX-License-Identifier: MIT */
/* The options of a task for the handler `vote`:
 *     {"dead": {"group": "tallybox", "topic": "vote-events", "partition": 3, "key": "42"}}
 *     {"dead": {"group": "tallybox", "ids": [17, 18]}}
 * Without "dead" the parameters are the vote event to apply. Pure; any thread. */
#ifndef CONSUMER_HELD_VOTE_OPTIONS_H
#define CONSUMER_HELD_VOTE_OPTIONS_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "consumer/dead/dead.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOTE_OPTIONS_IDS_MAX 500
#define VOTE_OPTIONS_GROUP_SIZE 129
#define VOTE_OPTIONS_TOPIC_SIZE 250

struct vote_options {
    bool has_dead;
    char group[VOTE_OPTIONS_GROUP_SIZE];
    /* Either these three: the held records of a key (held.h) ... */
    char topic[VOTE_OPTIONS_TOPIC_SIZE];
    int32_t partition;
    char key[VOTE_KEY_SIZE];
    /* ... or these: single dead records of any class. */
    int64_t ids[VOTE_OPTIONS_IDS_MAX];
    size_t id_count;
};

/* Parses the options; text may be NULL. RC_REJECT: err tells what is wrong. RC_FATAL: no memory. */
enum rc vote_options_read(struct vote_options *options, const char *text, struct err *err);

/* Appends the options as JSON. If memory runs out, out becomes failed. */
void vote_options_put(struct buf *out, const struct vote_options *options);

/* Returns the filter for these dead records; it borrows options. */
struct dead_filter vote_options_filter(const struct vote_options *options);

#endif
