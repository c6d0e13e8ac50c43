/* SPDX-License-Identifier: MIT */
/* Publishes the tasks of rows that a lane with exactly_once = yes has moved into the retry queue,
 * each once.
 *
 * The move. The lane reads a row again that its position in Kafka has not passed (relay/exact), so
 * a task is published only when the position has passed its row. The task has the number that the
 * row has in the lane's term, and each record of the position has the number of the last row that
 * it passed. So the last record tells (position_record_cover()):
 *   1. not passed: the task waits, and is not counted as tried;
 *   2. passed: the lane does not read the row again, and the task is published;
 *   3. never: the relay was killed between the move and the commit, or the commit was aborted. The
 *      lane has read the row again: it was sent, or moved again into a task of its own. This task
 *      ends without a record.
 *
 * The publication. The tasks of a lane and a shard are published by one transactional id, one after
 * the other. Each transaction has the task's record, and the list of published tasks
 * (published_tasks.h) with this task in it, under the transactional id as key, in the topic of
 * positions. A process that gets a task of a lane and shard
 *   4. makes a producer with that id: this ends the transaction of any other process, or waits
 * until it is committed, and fences that process;
 *   5. reads the list. While its producer is not fenced, the list changes by its own commits only;
 *   6. does not publish a task that is in the list: it was killed, or another process was, between
 *      the commit and the end of the task in the database.
 * A task leaves the list when its end is in the database. After any failure whose outcome is not
 * known the producer is closed, and 4 and 5 find it out.
 *
 * Invariant Q14: a task is published only by a producer that has read the list after it was made,
 * and only when the lane's position has passed its row (test_retry_exact).
 * Any thread; the tasks of a lane and a shard wait for each other. */
#ifndef OUTBOX_RETRY_HANDLERS_EXACT_PUBLISHER_KAFKA_H
#define OUTBOX_RETRY_HANDLERS_EXACT_PUBLISHER_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"
#include "common/loop.h"
#include "outbox/retry/handlers/publisher_kafka.h"

#include <stdint.h>

struct exact_publisher;

/* The option "transaction" of a task (struct row_move), and the task. */
struct exact_task {
    const char *lane_key;
    int64_t epoch;
    uint64_t term;
    uint64_t row;
    unsigned shard;
    int64_t id;
    const char *idempotency_key;
};

/* Connects nowhere yet. RC_FATAL: no memory. Borrows settings and stop. */
enum rc exact_publisher_open(struct exact_publisher **publisher, const struct settings *settings,
                             struct stop *stop, struct err *err);

/* No thread uses it any more. NULL is allowed. */
void exact_publisher_close(struct exact_publisher *publisher);

/* As publisher_send(). PUBLISHED also when the task was published before. PUBLISH_WAITS: the
 * position has not passed the row, or steps 4 and 5 are not done. PUBLISH_LOST also when another
 * process has fenced this one. */
enum publisher_end exact_publisher_send(struct exact_publisher *publisher,
                                        const struct exact_task *task,
                                        const struct publisher_record *record, struct err *err);

/* The end of a published task is in the database. Does not wait. */
void exact_publisher_end(struct exact_publisher *publisher, const struct exact_task *task);

#endif
