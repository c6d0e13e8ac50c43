/* SPDX-License-Identifier: MIT */
/* What the dispatcher knows of the groups of tasks, and what it therefore decides: the tasks of a
 * kind run, or wait because their group is unknown or disabled, or are refused because their group
 * does not allow what they do. What a group allows is in outbox/retry/group.h. The dispatcher's
 * thread. */
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

/* A reading of retry_group: begin, each row, end. What was known before holds until the end, and if
 * there is none. groups_take(): RC_FATAL: no memory. groups_end(): true when a group was
 * added, removed or changed. */
void groups_begin(struct groups *groups);
enum rc groups_take(struct groups *groups, const struct retry_group *group, struct err *err);
bool groups_end(struct groups *groups);

/* NULL: there is none of this name. */
const struct retry_group *groups_find(const struct groups *groups, const char *name);

/* Brings kind->group_decision up to date, and says in the log when it changes. */
void groups_update_kind(const struct groups *groups, struct kind *kind);

/* Do the tasks of this class wait for their group? */
bool groups_are_closed(const struct groups *groups, const struct task_class *class);

/* May this task of the kind, which is claimed, be run? RC_REJECT: err says what its group does not
 * allow, as the reason of an attempt that failed. RC_RETRY: its group was closed since the claim.
 * RC_FATAL: no memory. */
enum rc groups_check(const struct groups *groups, const struct kind *kind,
                     const struct retry_handlers *all, const struct retry_job *job,
                     struct err *err);

#endif
