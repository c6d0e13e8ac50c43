/* SPDX-License-Identifier: MIT */
/* The interface of the retry queue for other components. An application appends a task inside its
 * own transaction: if it commits, the queue runs the task, now or at its time, and again by the
 * rules of its scene; if it does not commit, there is no task. Applications in other languages run
 * one INSERT into retry_task. Below are also the groups, which say who may append what, and the
 * tasks as the API and the commands show them.
 *
 * Tasks of one group and ordering key run one at a time, in the order of their ids. One task is
 * active per group, scene and idempotency key. The functions without a db are pure, and any thread
 * may call them; the others are called by one thread at a time per db. */
#ifndef OUTBOX_RETRY_RETRY_H
#define OUTBOX_RETRY_RETRY_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETRY_NAME_BYTES_MAX 64 /* group and scene: 1..64 of [A-Za-z0-9_.:-] */
#define RETRY_HANDLER_BYTES_MAX 32
#define RETRY_ORDERING_KEY_CHARS_MAX 512
#define RETRY_IDEMPOTENCY_KEY_CHARS_MAX 255
#define RETRY_BIZ_NO_CHARS_MAX 64
#define RETRY_OPTIONS_BYTES_MAX 65535
#define RETRY_PARAMS_BYTES_MAX ((size_t)16 << 20)
#define RETRY_GROUP_DEFAULT "default"

/* Flags of json_dumps() for the options of a task. With all 17 digits 0.1 would be
 * 0.10000000000000001. */
#define RETRY_OPTIONS_JSON (JSON_COMPACT | JSON_REAL_PRECISION(15))

/* The owner of a group and of a task (retry_task.origin). */
enum retry_owner {
    OWNER_CLIENT, /* an application, or a client of our API */
    OWNER_RELAY,
    OWNER_CONSUMER,
    OWNER_UNKNOWN, /* another word in the table: no known owner */
};

#define RETRY_OWNERS 3
const char *retry_owner_name(enum retry_owner owner); /* static: "client" */
bool retry_owner_read(const char *name, size_t len, enum retry_owner *owner);

struct db;

struct retry_new_task {
    const char *group; /* NULL: RETRY_GROUP_DEFAULT */
    const char *scene;
    const char *handler;
    const char *ordering_key;    /* NULL: no order */
    const char *idempotency_key; /* NULL: the SHA-256 of what the task does */
    const char *biz_no;          /* NULL: none */
    const char *options;         /* a JSON object for the handler, or NULL */
    const void *params;          /* NULL: none */
    size_t params_len;
    const char *params_type; /* NULL: application/json */
    const char *traceparent; /* NULL: none; else a valid one, as common/trace.h reads it */
    int64_t delay_ms;        /* not before so long from now; 0: at once */
    int64_t parent_id;       /* 0: none */
};

#define RETRY_OUTCOME_SIZE 17

/* The active task for the appended one. */
struct retry_ticket {
    int64_t id;
    bool existed; /* one with this group, scene and idempotency key was active before, */
    char
        outcome[RETRY_OUTCOME_SIZE]; /* or has ended so, and the key is still refused; "": active */
};

/* Appends the tasks of an application in their order; tickets (count of them, or NULL) get their
 * ids. Borrows all pointers for the call. RC_REJECT: err names the task and its fault, such as a
 * group of the relay or the consumer. If the fault is in the tasks, nothing was written; if the
 * server refused a task, some may have been: roll back. RC_RETRY, RC_FATAL: as db_exec(); the
 * transaction is over. */
enum rc retry_append(struct db *db, const struct retry_new_task *tasks, size_t count,
                     struct retry_ticket *tickets, struct err *err);

/* The same for an account that may read the history: a task whose idempotency key is still refused
 * (dedup of its scene) is not appended, and its ticket is the ended task. */
enum rc retry_append_once(struct db *db, const struct retry_new_task *tasks, size_t count,
                          struct retry_ticket *tickets, struct err *err);

/* The same as retry_append() for a role's own tasks, in its own groups: the role's account may
 * write retry_task.origin, an application's account may not. */
enum rc retry_append_own(struct db *db, enum retry_owner origin, const struct retry_new_task *tasks,
                         size_t count, struct retry_ticket *tickets, struct err *err);

/* retry_task.state; an ended task has an outcome instead. */
enum task_state {
    TASK_WAITING, /* for next_at */
    TASK_RUNNING, /* claimed: owner, epoch, lease_until */
    TASK_QUEUED,  /* waits for another task of its key, whose end wakes it */
    TASK_BLOCKED, /* exhausted; the task and its key wait for an operator */
    TASK_PARKED,  /* its exhausted task is in the history; the key waits for an operator */
};

#define TASK_STATES 5
const char *task_state_name(enum task_state state); /* static: "waiting" */

/* Which tasks are meant; all conditions must hold. Borrowed; NULL and 0: any. */
struct retry_filter {
    const int64_t *ids;
    size_t id_count;
    const char *group;
    const char *const *groups; /* one of these; group_count 0: any */
    size_t group_count;
    const char *scene;
    const char *handler;
    const char *ordering_key;
    const char *biz_no;
    const char *biz_no_prefix; /* with which the number begins */
    const char *reason_class;
    const char *origin;  /* retry_owner_name() */
    unsigned states;     /* bits 1 << task_state */
    const char *outcome; /* of the history */
    int64_t since_ms;    /* made, or ended, at or after it, since 1970 */
    int64_t until_ms;    /* and before it; INT64_MAX: any */
    int64_t after;       /* ids greater than this one */
    int64_t id_max;      /* and up to this one; 0: any */
};

/* A task as the API and the commands show it; the db owns the texts, which are valid during the
 * call. */
struct retry_view {
    int64_t id;
    const char *group;
    const char *scene;
    const char *handler;
    const char *ordering_key;    /* NULL: none, as the next ones */
    const char *idempotency_key; /* NULL: the hash of what the task does */
    const char *biz_no;
    const char *options; /* NULL also if not requested, as params and step_result */
    const void *params;
    size_t params_len; /* as it is; has_params */
    bool has_params;
    const char *params_type;
    const char *origin;
    enum task_state state;
    int64_t attempts;
    int64_t next_ms;     /* since 1970, as all times here */
    int64_t exhausts_ms; /* when it will be exhausted if no attempt succeeds; 0: not foreseen */
    const char *reason_class;
    const char *reason;
    const char *owner;
    int64_t epoch;
    int64_t lease_ms; /* 0: none */
    int64_t parent_id;
    int64_t step;
    const void *step_result;
    size_t step_result_len;
    int64_t made_ms;
    int64_t changed_ms;
    const char *outcome; /* NULL: it is active */
    int64_t ended_ms;
    int64_t requeued_as; /* 0: it was not */
};

typedef enum rc (*retry_on_view)(void *ctx, const struct retry_view *view, struct err *err);

/* Where a page ends: tasks with ids greater than `after` may follow, also after an empty page. */
struct retry_page {
    bool more;
    int64_t after;
};

#define RETRY_PAGE_ROWS_MAX 1000

/* Reads one page of the active tasks or of the history, in the order of their ids; it reads a
 * bounded number of rows. whole: with options, params and step_result. rows_max: up to
 * RETRY_PAGE_ROWS_MAX. RC_RETRY, RC_FATAL: as db_query(). */
enum rc retry_find(struct db *db, bool ended, const struct retry_filter *filter, bool whole,
                   size_t rows_max, retry_on_view on_view, void *ctx, struct retry_page *page,
                   struct err *err);

/* One attempt, by rows of retry_attempt. */
struct retry_attempt_view {
    int64_t at_ms;
    int64_t took_ms;
    const char *owner;
    int64_t step;
    const char *outcome;
    const char *reason_class;
    const char *reason;
};

#define RETRY_ATTEMPTS_MAX 1000 /* that are shown: the newest ones */

/* The attempts at a task that are kept, oldest first. */
enum rc retry_attempts(struct db *db, int64_t task_id,
                       enum rc (*on_attempt)(void *ctx, const struct retry_attempt_view *attempt,
                                             struct err *err),
                       void *ctx, struct err *err);

/* What clients need to know of a scene before they append a task. */
struct retry_room {
    int64_t limit;   /* tasks that may wait, by its policy; 0: any number */
    int64_t pending; /* tasks of it, counted no further than the limit, where there is one */
    bool configured; /* the scene has a row */
    bool paused;
};

/* Counts the tasks of these handlers. options: the scene's are appended, when there are some. A
 * scene without a row has the limit of its group's init_scene. */
enum rc retry_room(struct db *db, const char *group, const char *scene, const char *const *handlers,
                   size_t handler_count, struct retry_room *room, struct buf *options,
                   struct err *err);

/* A group of tasks (a row of retry_group) has an owner, and its lists say which handlers, scenes
 * and topics its tasks may use. Only a group that clients own takes tasks from an application or
 * from the API; the groups of the relay and the consumer hold only the tasks of these roles.
 *
 * A list is words separated by commas: a name, a prefix followed by '*', or '*' for all; the empty
 * list allows nothing. */
#define RETRY_GROUPS_MAX 1024
#define RETRY_GROUP_HANDLERS_SIZE 256 /* with the zero byte, as the columns are long */
#define RETRY_GROUP_LIST_SIZE 1001
#define RETRY_GROUP_INIT_SIZE 4001
#define RETRY_GROUP_ROUTE_SIZE 17
#define RETRY_GROUP_SHARDS_SIZE 65
#define RETRY_GROUP_DESCRIPTION_CHARS_MAX 255
#define RETRY_GROUP_DESCRIPTION_SIZE (4 * RETRY_GROUP_DESCRIPTION_CHARS_MAX + 1)

/* Words of init_scene; any other text is a policy. */
#define RETRY_INIT_STANDARD "standard"
#define RETRY_INIT_REFUSE "refuse"

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
    /* What a scene without a row has: "standard" or "", the default policy; "refuse", no task; or a
     * policy. */
    char init_scene[RETRY_GROUP_INIT_SIZE];
    char route[RETRY_GROUP_ROUTE_SIZE];   /* which client gets a task: clients/client_choice.h */
    char shards[RETRY_GROUP_SHARDS_SIZE]; /* that its tasks run in; "": all */
    char description[RETRY_GROUP_DESCRIPTION_SIZE];
    int64_t version;
};

/* The policy of the group's scenes that have no row; NULL: the default policy, also for the group
 * of a role and for group NULL. */
const char *retry_group_init_policy(const struct retry_group *group);

/* Returns whether tasks of a scene without a row do not run. */
bool retry_group_refuses_unknown(const struct retry_group *group);

bool retry_list_allows(const char *list, const char *name);

/* Tasks are spread over so many shards, by the hash of their ordering key (retry_task.shard). */
#define RETRY_SHARDS 16

/* Reads a list of shards, as "0-3,7"; a bit for each of them. False: text is no list. */
bool retry_shards_read(unsigned *bits, const char *text);

/* Checks that the text is a list of less than size bytes. RC_REJECT: err gives the reason after
 * `what`. */
enum rc retry_list_check(const char *list, size_t size, const char *what, struct err *err);

enum group_decision {
    GROUP_OPEN,    /* the task may run */
    GROUP_CLOSED,  /* it waits: the group is unknown or disabled, or refuses unknown scenes */
    GROUP_REFUSES, /* the group's tasks may not do this */
};

/* err->code of a task whose group, or whose scene in a group that refuses unknown ones, has no
 * row. */
#define RETRY_NOT_CONFIGURED 422

/* A scene of a task, and whether it has a row. */
struct retry_scene_name {
    const char *name;
    bool configured;
};

/* Decides whether tasks of this origin, scene and handler may run. group NULL: the group has no
 * row. Tasks of the relay and the consumer need no row: only their accounts may write such an
 * origin. A client's task whose group or scene is not a name is refused. Unless the result is
 * GROUP_OPEN, err gives the reason, with the code RETRY_NOT_CONFIGURED if a row is missing. */
enum group_decision retry_group_decide(const struct retry_group *group, const char *name,
                                       enum retry_owner origin,
                                       const struct retry_scene_name *scene, const char *handler,
                                       struct err *err);

/* Checks that the group allows each handler and topic that this client's task would use, also in
 * its steps. handler: the job's handler; NULL: it does not run here, and only its name is checked.
 * RC_REJECT: err names what the group does not allow. RC_FATAL: no memory. */
enum rc retry_group_check(const struct retry_group *group, const struct retry_handlers *all,
                          const struct retry_handler *handler, const struct retry_job *job,
                          struct err *err);

/* NULL: there is no handler of this name. handlers may be NULL. */
const struct retry_handler *retry_find_handler(const struct retry_handlers *handlers,
                                               const char *name);

/* Returns whether there is a handler of this name. False: err says that there is none, and which
 * one may be meant; its tasks wait, because no process can claim them. handlers NULL: any name is
 * that of one. */
bool retry_handler_exists(const struct retry_handlers *handlers, const char *name, struct err *err);

/* err->code of retry_check() if the group exists and does not allow the task. */
#define RETRY_NOT_ALLOWED 403

/* What retry_check() must know of a task's scene. */
struct retry_check_scene {
    const struct retry_group *group; /* NULL: it has no row */
    const char *options;             /* a JSON object or "" */
    bool configured;                 /* the scene has a row */
};

/* Checks whether a task could run as it is: whether its handler accepts its options and parameters
 * and, for a client's task, whether its group allows its effects. The task's own options override
 * those of its scene. A handler that is not in handlers checks nothing. RC_REJECT: err names the
 * fault; its code is RETRY_NOT_ALLOWED or RETRY_NOT_CONFIGURED if the group does not take it.
 * RC_FATAL: no memory. */
enum rc retry_check(const struct retry_handlers *handlers, const struct retry_new_task *task,
                    enum retry_owner origin, const struct retry_check_scene *scene,
                    struct err *err);

typedef enum rc (*retry_on_group)(void *ctx, const struct retry_group *group, struct err *err);

/* Every group by name, RETRY_GROUPS_MAX at most; name: this one alone, or NULL. RC_RETRY, RC_FATAL:
 * as db_query(). */
enum rc retry_group_each(struct db *db, const char *name, retry_on_group on_group, void *ctx,
                         struct err *err);

/* New values of a group; NULL leaves a value as it is. */
struct retry_group_values {
    const char *handlers;
    const char *scenes;
    const char *topics;
    const char *init_scene; /* the caller has checked it, as route and shards */
    const char *route;
    const char *shards;
    const char *description;
};

/* Makes a group of clients, or changes one; in a new group a list that is not given is empty, but
 * for scenes, which are all there. Doing it twice is harmless. *changed: it was otherwise before.
 * RC_REJECT: the group is not the clients'. */
enum rc retry_group_set(struct db *db, const char *name, const struct retry_group_values *values,
                        bool *changed, struct err *err);

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
