/* SPDX-License-Identifier: MIT */
/* Reads totals, and the votes of voters, for the API: a worker of the read queue. It reads what is
 * committed, for all requests that wait in its shard at once: on MariaDB 10.11 one statement for 16
 * pages of 20 takes the server a third of the time of 16 statements. A request belongs to the
 * thread that makes it until it is queued. */
#ifndef PRODUCER_REMARK_TOTALS_READER_H
#define PRODUCER_REMARK_TOTALS_READER_H

#include "common/err.h"
#include "common/loop.h"
#include "producer/producer_ops.h"
#include "producer/queue.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Contents in one request. */
#define TOTALS_REQUEST_CONTENTS_MAX 200
static_assert(TOTALS_REQUEST_CONTENTS_MAX <= TOTALS_READ_ROWS_MAX, "one request must fit");

/* entry.weight is count. The rows' voter_id is set by the reader. After QUEUE_DONE the rows and
 * read_ms are filled. */
struct totals_request {
    struct queue_entry entry; /* first */
    int64_t voter_id;         /* 0: totals only */
    size_t count;
    struct totals_row *rows;
    int64_t read_ms; /* when their read began */
};

struct totals_reader_config {
    struct queue *queue;
    size_t shard;
    const struct totals_store *store; /* borrowed until the close */
    int64_t (*clock_ms)(void);        /* os_now_ms() */
    uint64_t (*rng)(void);            /* os_random_u64() */
    struct stop *stop;                /* of the process */
};

struct totals_reader;

/* RC_FATAL: no memory. */
enum rc totals_reader_open(struct totals_reader **reader, const struct totals_reader_config *config,
                           struct err *err);
void totals_reader_close(struct totals_reader *reader);

/* A loop_step. */
int64_t totals_reader_step(void *reader, int64_t now_ms);

#endif
