/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_runner.h"

#include "common/backoff.h"
#include "common/options.h"
#include "common/os.h"
#include "outbox/lanes.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define AWAY_MS_MAX 30000
#define REPORT_MS 1000 /* a shorter interruption is not reported */
#define WAIT_BASE_MS 50
#define WAIT_CAP_MS 2000

enum rc vote_runner_open(struct vote_runner *runner, const struct settings *settings,
                         struct err *err)
{
    struct vote_engine_config config = {
        .items_max = VOTE_RUNNER_ITEMS_MAX,
        .lane_count = (size_t)settings->api.lane_count,
        .rng_bytes = os_random,
    };
    enum rc rc;

    memset(runner, 0, sizeof(*runner));
    rc = stop_init(&runner->stop, err);
    if (rc == RC_OK)
        rc = producer_mysql_open(&runner->store, &settings->mysql, AWAY_MS_MAX,
                                 settings->api.lane_count, err);
    if (rc != RC_OK)
        return rc;
    config.store = producer_mysql_votes(runner->store);
    return vote_engine_open(&runner->engine, &config, err);
}

void vote_runner_close(struct vote_runner *runner)
{
    vote_engine_close(runner->engine);
    producer_mysql_close(runner->store);
    stop_done(&runner->stop);
}

enum rc vote_runner_run(struct vote_runner *runner, struct vote_item *items, size_t count,
                        struct err *err)
{
    struct vote_item *pointers[VOTE_RUNNER_ITEMS_MAX];
    struct backoff backoff = {.base_ms = WAIT_BASE_MS, .cap_ms = WAIT_CAP_MS};
    int64_t worked_ms = os_now_ms();
    struct vote_batch batch;
    bool reported = false;

    assert(count <= VOTE_RUNNER_ITEMS_MAX);
    for (size_t i = 0; i < count; i++)
        pointers[i] = &items[i];
    vote_batch_start(&batch, pointers, count);
    while (!vote_batch_finished(&batch)) {
        enum rc rc = vote_engine_step(runner->engine, &batch, err);

        if (rc == RC_OK) {
            worked_ms = os_now_ms();
            backoff_reset(&backoff);
            continue;
        }
        if (rc == RC_RETRY && err->code == LANES_OTHER_COUNT)
            return RC_REJECT;
        if (rc != RC_RETRY || os_now_ms() - worked_ms > AWAY_MS_MAX)
            return rc;
        if (!reported && os_now_ms() - worked_ms > REPORT_MS) {
            reported = true;
            fprintf(stderr, "tallybox: %s; trying again for up to %d s\n", err->text,
                    AWAY_MS_MAX / 1000);
        }
        stop_wait(&runner->stop, backoff_next_ms(&backoff, os_random_u64()));
    }
    return RC_OK;
}

int vote_runner_fail(enum rc rc, const struct err *err)
{
    int code = options_fail(rc, err);

    return rc == RC_REJECT ? EXIT_USAGE : code;
}
