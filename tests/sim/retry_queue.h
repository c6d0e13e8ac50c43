/* SPDX-License-Identifier: MIT */
/* The retry queue as the relays see it: refused rows that they have moved into it, and a publisher
 * process, which publishes the first task of each key at some time, or skips it as an operator
 * would. The engine of the retry queue has its own tables, in tasks.h. */
#ifndef TESTS_SIM_RETRY_QUEUE_H
#define TESTS_SIM_RETRY_QUEUE_H

#include "outbox/relay/relay_ops.h"
#include "tests/sim/db.h"
#include "tests/sim/tables.h"

#define LANE_TASKS_MAX 8192

enum lane_task_state { LANE_TASK_NONE, LANE_TASK_WRITTEN, LANE_TASK_WAITING, LANE_TASK_ENDED };

struct lane_task {
    struct fake_row row; /* first */
    enum lane_task_state state;
    size_t lane;
    size_t event;
    bool refused; /* the broker may refuse it again */
    char ordering_key[64];
};

struct retry_tables {
    struct lane_task *tasks; /* in the order of their ids */
    size_t count;
};

void retry_begin_run(struct retry_tables *retry, struct sim *sim);
void retry_done(struct retry_tables *retry);

/* Tasks that have not ended. */
size_t retry_left(const struct sim *sim);

/* For the adapter of a relay. Makes the locked row a task, in the transaction of link. */
void retry_insert(struct link *link, struct outbox_row *row, const char *ordering_key);
bool retry_has_key(const struct sim *sim, size_t lane, const char *ordering_key);
/* Whether the event has a task that has not ended. */
bool retry_has_event(const struct sim *sim, size_t event);

enum rc retry_load_keys(struct lane_adapter *adapter, size_t keys_max, diverter_on_key on_key,
                        void *on_key_ctx, struct err *err);

#endif
