/* SPDX-License-Identifier: MIT */
/* The ops of recommended lists, on the sink's database, and the one place that has the expression
 * of a rank. One thread at a time. */
#ifndef PRODUCER_REMARK_RECOMMENDED_MYSQL_H
#define PRODUCER_REMARK_RECOMMENDED_MYSQL_H

#include "common/config/settings.h"
#include "common/err.h"
#include "producer/remark/recommended_ops.h"

#include <stdbool.h>
#include <stdint.h>

struct recommended_mysql;

/* settings: [sink], and api.rank_votes, api.rank_score and api.rank_age, the weights while none are
 * stored; copied. The server ends a build after build_ms, so the connection waits for longer than
 * sink.query_timeout_ms if it must; 0: there are no builds. RC_FATAL: no memory. */
enum rc recommended_mysql_open(struct recommended_mysql **store, const struct settings *settings,
                               int64_t build_ms, struct err *err);
void recommended_mysql_close(struct recommended_mysql *store);

const struct recommended_store *recommended_mysql_store(const struct recommended_mysql *store);

/* Ends the statement that runs, from another thread. */
void recommended_mysql_interrupt(struct recommended_mysql *store);

#define RANK_POINTS_SIZE 48

/* How the rank of one remark comes about. Points are decimal numbers with 3 places, as text. */
struct rank_explanation {
    struct recommended_state state;
    bool found; /* there is such a remark; the fields below are set */
    int64_t item_id;
    int64_t status;
    bool deleted;
    int64_t votes; /* as of the last finished roll-up, as the list has them */
    int64_t score;
    int64_t age_ms; /* at the end of that roll-up; negative: it was made later */
    char votes_points[RANK_POINTS_SIZE];
    char score_points[RANK_POINTS_SIZE];
    char age_points[RANK_POINTS_SIZE]; /* that are lost */
    char points[RANK_POINTS_SIZE];     /* all of them together: the rank */
    int64_t better;                    /* remarks of the item that stand before it */
    int64_t listed;                    /* remarks of the item with status 1 */
};

/* Results as the ops of a store. */
enum rc rank_mysql_explain(struct recommended_mysql *store, int64_t remark_id,
                           struct rank_explanation *explanation, struct err *err);

/* Stores weights for all processes. NULL: removes them, so that those of the settings hold. */
enum rc rank_mysql_set(struct recommended_mysql *store, const struct rank_weights *weights,
                       struct err *err);

#endif
