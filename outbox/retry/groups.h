/* SPDX-License-Identifier: MIT */
/* What the dispatcher knows of the groups of tasks, and the decision for each kind: its tasks run,
 * wait because their group is unknown or disabled, or are refused because their group does not
 * allow them. outbox/retry/group.h has the rules. Only the dispatcher's thread calls these
 * functions. */
#ifndef OUTBOX_RETRY_GROUPS_H
#define OUTBOX_RETRY_GROUPS_H

#include "common/err.h"
#include "outbox/retry/group.h"
#include "outbox/retry/scenes.h"

#include <stdbool.h>
#include <stddef.h>

struct groups {
    struct retry_group *list; /* by name */
    size_t count;
    size_t room;
    struct retry_group *coming; /* of the reading that is under way */
    size_t coming_count;
    size_t coming_room;
};

void groups_done(struct groups *groups);

/* A reading of retry_group: begin, take each row, end. The previous rows apply until groups_end(),
 * also if it is never called. groups_take(): RC_FATAL: no memory. groups_end(): true when a group
 * was added, removed or changed. */
void groups_begin(struct groups *groups);
enum rc groups_take(struct groups *groups, const struct retry_group *group, struct err *err);
bool groups_end(struct groups *groups);

/* Returns NULL if there is no group of this name. */
const struct retry_group *groups_find(const struct groups *groups, const char *name);

/* Updates kind->group_decision and logs a change. */
void groups_update_kind(const struct groups *groups, struct kind *kind);

/* Returns whether the tasks of this class wait for their group. */
bool groups_are_closed(const struct groups *groups, const struct task_class *class);

/* Checks whether a claimed task of the kind may run. RC_REJECT: err names what its group does not
 * allow, as the reason of a failed attempt. RC_RETRY: its group was closed since the claim.
 * RC_FATAL: no memory. */
enum rc groups_check(const struct groups *groups, const struct kind *kind,
                     const struct retry_handlers *all, const struct retry_job *job,
                     struct err *err);

#endif
