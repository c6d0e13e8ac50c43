/* SPDX-License-Identifier: MIT */
/* The groups of the retry queue (rows of retry_group): who owns a group, and which handlers,
 * scenes and topics its tasks may use. Only a group that clients own takes tasks from an
 * application or from the API; the groups of the relay and the consumer hold only the tasks of
 * these roles.
 *
 * A list is words separated by commas: a name, a prefix followed by '*', or '*' for all; the empty
 * list allows nothing. The functions without a db are pure, and any thread may call them; the
 * others are called by one thread at a time per db. */
#ifndef OUTBOX_RETRY_GROUP_H
#define OUTBOX_RETRY_GROUP_H

#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>

#define RETRY_GROUPS_MAX 1024
#define RETRY_GROUP_HANDLERS_SIZE 256 /* with the zero byte, as the columns are long */
#define RETRY_GROUP_LIST_SIZE 1001

struct retry_handler;
struct retry_handlers;
struct retry_job;

struct retry_group {
    char name[RETRY_NAME_BYTES_MAX + 1];
    enum retry_owner owner;
    bool enabled;
    char handlers[RETRY_GROUP_HANDLERS_SIZE];
    char scenes[RETRY_GROUP_LIST_SIZE];
    char topics[RETRY_GROUP_LIST_SIZE]; /* of the handler kafka */
};

bool retry_list_allows(const char *list, const char *name);

/* Checks that the text is a list of less than size bytes. RC_REJECT: err gives the reason after
 * `what`. */
enum rc retry_list_check(const char *list, size_t size, const char *what, struct err *err);

enum group_decision {
    GROUP_OPEN,    /* the task may run */
    GROUP_CLOSED,  /* it waits: there is no such group, or it is disabled */
    GROUP_REFUSES, /* the group's tasks may not do this */
};

/* Decides whether tasks of this origin, scene and handler may run. group NULL: the group has no
 * row. Tasks of the relay and the consumer need no row: only their accounts may write such an
 * origin. Unless the result is GROUP_OPEN, err gives the reason. */
enum group_decision retry_group_decide(const struct retry_group *group, const char *name,
                                       enum retry_owner origin, const char *scene,
                                       const char *handler, struct err *err);

/* Checks that the group allows each handler and topic that this client's task would use, also in
 * its steps. handler: the job's handler; NULL: it does not run here, and only its name is checked.
 * RC_REJECT: err names what the group does not allow. RC_FATAL: no memory. */
enum rc retry_group_check(const struct retry_group *group, const struct retry_handlers *all,
                          const struct retry_handler *handler, const struct retry_job *job,
                          struct err *err);

struct db;

typedef enum rc (*retry_on_group)(void *ctx, const struct retry_group *group, struct err *err);

/* Every group by name, RETRY_GROUPS_MAX at most; name: this one alone, or NULL. RC_RETRY, RC_FATAL:
 * as db_query(). */
enum rc retry_group_each(struct db *db, const char *name, retry_on_group on_group, void *ctx,
                         struct err *err);

/* Makes a group of clients, or changes one; a list that is NULL stays as it is, and is empty in a
 * new group, but for scenes, which are all there. Doing it twice is harmless. *changed: it was
 * otherwise before. RC_REJECT: the group is not the clients'. */
enum rc retry_group_set(struct db *db, const char *name, const char *handlers, const char *scenes,
                        const char *topics, bool *changed, struct err *err);

/* RC_REJECT: there is no such group. */
enum rc retry_group_enable(struct db *db, const char *name, bool enabled, bool *changed,
                           struct err *err);

/* Makes sure that the group of a role has its row. *owner: the owner in the row, which may differ
 * from wanted. */
enum rc retry_group_own(struct db *db, const char *name, enum retry_owner wanted,
                        enum retry_owner *owner, struct err *err);

/* Checks that clients own the groups of these tasks. RC_REJECT: err names the first task whose
 * group has another owner. */
enum rc retry_group_refuse_owned(struct db *db, const struct retry_new_task *tasks, size_t count,
                                 struct err *err);

#endif
