/* SPDX-License-Identifier: MIT */
/* The part of serve that keeps recommended lists: the lists, the thread that watches what changes
 * them, and the thread that builds them. The main thread; any thread may use the lists. */
#ifndef PRODUCER_SERVE_RANKING_H
#define PRODUCER_SERVE_RANKING_H

#include "common/daemon/role.h"
#include "common/err.h"

struct recommended;
struct serve_ranking;

/* Borrows env and the stop of the role's threads until the close. Errors: RC_FATAL: no memory;
 * RC_REJECT: the settings of the connections. */
enum rc serve_ranking_open(struct serve_ranking **out, const struct role_env *env,
                           struct stop *stop, struct err *err);
/* NULL is allowed. */
void serve_ranking_close(struct serve_ranking *ranking);

/* Borrowed until the close. */
struct recommended *serve_ranking_lists(struct serve_ranking *ranking);

/* RC_FATAL: a thread cannot be started; the started one ends after the stop. */
enum rc serve_ranking_start(struct serve_ranking *ranking, struct err *err);

/* Ends the statement of a build, which may take long. NULL is allowed. */
void serve_ranking_interrupt(struct serve_ranking *ranking);

/* After the stop was requested, and when no request writes any more: joins the threads, and
 * announces the last written items. NULL is allowed. */
void serve_ranking_join(struct serve_ranking *ranking);

#endif
