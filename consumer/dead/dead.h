/* SPDX-License-Identifier: MIT */
/* Replays and drops dead records. Decides which may be applied now and in which order, and is a
 * step: one page, one transaction.
 *
 * A replay applies the records itself, in the sink's database, with the code and the rules that
 * apply them when Kafka hands them out. Nothing goes to the topic a second time, so its other
 * readers are not bothered, and there is no moment in which a record is neither dead nor applied:
 * the vote, the total and the record's move to dead_history are one COMMIT. Whoever is killed
 * anywhere leaves all of a page done or none of it; whoever comes second (an operator, a retry)
 * waits for the record's lock and then finds it gone, or its event in the log.
 *
 * Order: by topic, partition and offset. A record that stays dead holds back the later ones of its
 * key, and so does an older one of that key which was not selected. A replay of what is held
 * (filter.held; see held.h) looks at nothing else, and only what is refused holds back the rest.
 *
 * A late vote counts like any other: it is the newest row of its content. Every event is a change
 * of one voter's mind, so the total is their sum, whatever the order they are applied in; between
 * the death of a vote and its replay the total lacks it, and may even be below 0. Who asks for a
 * voter's last vote asks by gmt_create, which is the event's own time. Where events need not be changes
 * (consumer.votes_from = anyone) a late vote that is older than its voter's newest is put aside, as
 * the consumer would.
 *
 * One thread at a time. */
#ifndef CONSUMER_DEAD_DEAD_H
#define CONSUMER_DEAD_DEAD_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply.h"
#include "consumer/apply/sink_seam.h"
#include "consumer/dead/dead_keys.h"
#include "consumer/dead/dead_row.h"
#include "consumer/dead/dead_seam.h"
#include "consumer/ingest/judge.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dead_outcome {
    DEAD_IS_APPLIED,
    DEAD_IS_DUPLICATE, /* its event was in the log before */
    DEAD_IS_ASIDE,     /* it repeats its voter's last vote or is older; see apply_keep_lasts() */
    DEAD_IS_DROPPED,
    DEAD_STAYS, /* it cannot be applied: see the reason */
    DEAD_WAITS, /* an older record of its key stays dead: see behind */
};

/* What became of one selected record. */
struct dead_result {
    enum dead_outcome outcome;
    int64_t id;
    struct dead_cursor place;
    const char *reason_class; /* of DEAD_STAYS; "refused": the database does not take it */
    const char *reason;
    int64_t behind; /* of DEAD_WAITS: the id of the older record */
};

/* Called once for each selected record, after its COMMIT; result is borrowed for the call. */
typedef void (*dead_on_result)(void *ctx, const struct dead_result *result);

struct dead_config {
    const struct sink *sink;
    const struct dead_store *store;
    const struct dead_filter *filter; /* with `held` it names a topic and a partition */
    bool drop;                        /* not replay */
    enum judge_rule rule;
    bool keep_lasts;   /* replay: put aside what changes nothing */
    const void *value; /* replay: bytes instead of the payload, for a filter of one id; or NULL */
    size_t value_len;
    uint64_t records_max; /* 0: all that the filter selects */
    dead_on_result on_result;
    void *ctx;
};

/* A record of the page in hand. */
struct dead_entry {
    struct dead_result result;
    bool selected;
    uint64_t key;
    size_t vote; /* of DEAD_IS_APPLIED: its place in votes */
    bool news;   /* of DEAD_STAYS: the reason is not the one it has */
    size_t class_at;
    size_t reason_at; /* in bytes, ended by a zero byte, as the class */
};

struct dead {
    struct dead_config config;
    struct apply apply;
    struct dead_keys keys; /* that wait, of the pages before */
    struct dead_cursor cursor;
    struct dead_entry *entries; /* DEAD_PAGE_ROWS of them, as the others */
    struct vote_row *votes;
    int64_t *ids;
    int64_t begin_day; /* of the log, while a page is in hand */
    size_t entry_count;
    size_t vote_count;
    size_t value_bytes; /* of the page's records */
    struct buf bytes;   /* reasons */
    bool full;          /* the rest of what was read is for the next page */
    bool unsure;        /* the page's COMMIT may have worked */
    size_t singly;      /* so many pages take one record: the database refused one of them */
    int64_t refused_id; /* this one; 0: none */
    struct err refused;
    uint64_t handled; /* selected records of the pages before */
};

/* The config's pointers are borrowed for the life of dead. RC_FATAL: no memory. */
enum rc dead_init(struct dead *dead, const struct dead_config *config, struct err *err);
void dead_done(struct dead *dead);

/* One page. *more is false when nothing is left to do. RC_RETRY: nothing of the page was done, or
 * nobody knows; call again. RC_REJECT: the database refuses to write what became of it. */
enum rc dead_step(struct dead *dead, bool *more, struct err *err);

#endif
