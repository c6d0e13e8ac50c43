/* SPDX-License-Identifier: MIT */
/* What the dispatcher knows of scenes, kinds and groups of tasks: the policy, options and rate of
 * each scene; for each kind (a handler in a scene) whether this process runs it, and whether its
 * tasks run, wait because their group is unknown or disabled, or are refused because their group
 * does not allow them (outbox/retry/retry.h has the rules). A scene without a row has the policy
 * that its group names, or the default one. A scene whose policy cannot be parsed is paused and
 * keeps its previous one for the tasks in flight. Only the dispatcher's thread calls these
 * functions. */
#ifndef OUTBOX_RETRY_SCENES_H
#define OUTBOX_RETRY_SCENES_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/retry/fair_queue.h"
#include "outbox/retry/policy/policy.h"
#include "outbox/retry/pool.h"
#include "outbox/retry/retry.h"
#include "outbox/retry/retry_metrics.h"
#include "outbox/retry/retry_ops.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCENES_MAX 2048
#define KINDS_MAX 1024
#define SCENES_SERVED_MAX 64
#define SCENES_CHAINS 1024 /* a power of two */

/* The relay's refused rows. */
#define SCENE_PUBLISH "publish"

struct scene {
    char group[TASK_NAME_SIZE];
    char name[TASK_NAME_SIZE];
    bool has_row;
    uint64_t row_hash;
    int64_t version; /* of its row; without one that of its group, below 0; 0: neither has one */
    bool has_init;   /* it has no row, and its policy is that of its group */
    bool stale;      /* a claim found another version: nothing is claimed before the next reading */
    uint64_t pass;   /* of scenes_begin() in which its row was seen */
    bool paused;
    bool faulty; /* its row cannot be understood */
    bool known;  /* policy is one */
    struct policy policy;
    json_t *options; /* NULL: none */
    struct buf options_text;
    struct bucket bucket;
    int64_t bucket_ms; /* the bucket's clock, which runs at the speed of the held share of shards */
    int64_t bucket_rest; /* of it, below a ms */
    int64_t bucket_seen_ms;
    int64_t bucket_of;   /* which it is a part of */
    int64_t bucket_held; /* the share of this process: bucket_held of bucket_of */
    struct kind *kinds;
    size_t in_flight; /* its tasks that are claimed and not yet written back */
    int64_t bytes;    /* of them */
    struct fair_scene fair;
    struct retry_scene_metrics *metrics;
    struct scene *next;
};

struct kind {
    char handler_name[TASK_HANDLER_SIZE];
    struct scene *scene;
    size_t handler_at; /* its place among those of the process */
    enum retry_owner origin;
    enum group_decision group_decision;  /* groups_update_kind(), as group_shards */
    unsigned group_shards;               /* bits of the shards that its group runs in; 0: all */
    const struct retry_handler *handler; /* NULL: not here */
    void *opened;
    int64_t seen_ms; /* it had waiting tasks */
    size_t in_flight;
    int64_t task_bytes; /* of an average task */
    int64_t rest_until_ms;
    uint64_t look; /* in which it was seen */
    struct kind *next;
    struct kind *next_of_scene;
};

/* Names of handlers. */
struct scenes_served {
    char names[SCENES_SERVED_MAX][TASK_HANDLER_SIZE];
    size_t count;
};

struct groups;

struct scenes {
    const struct pool *pool;
    const struct groups *groups;
    struct scene *chains[SCENES_CHAINS];
    struct kind *kind_chains[SCENES_CHAINS];
    size_t count;
    size_t kind_count;
    uint64_t pass;
    size_t rows;   /* read in this pass */
    uint64_t look; /* number of the last search for classes, as passed to scenes_kind() */
    size_t faulty;
    size_t left_out;             /* classes of this search that have no kind */
    bool full;                   /* logged, since the last search that left out none */
    struct scenes_served served; /* by live processes */
};

/* Borrows pool and groups. */
void scenes_init(struct scenes *scenes, const struct pool *pool, const struct groups *groups);
void scenes_done(struct scenes *scenes);

/* A reading of retry_scene: begin, each row, end. scenes_end() gives the scenes without a row the
 * policies of their groups, so the groups are read before it. RC_FATAL: no memory, or more than
 * RETRY_SCENES_MAX rows; the caller claims nothing until a reading succeeds. */
void scenes_begin(struct scenes *scenes);
enum rc scenes_take(struct scenes *scenes, const struct scene_row *row, struct err *err);
enum rc scenes_end(struct scenes *scenes, struct err *err);

/* A search for classes begins. */
void scenes_begin_look(struct scenes *scenes);

/* Made when it is new; NULL: there are too many, or no memory. look: counts the looks. */
struct kind *scenes_kind(struct scenes *scenes, const struct task_class *class, uint64_t look,
                         int64_t now_ms);

/* NULL: none is known. */
struct scene *scenes_find(const struct scenes *scenes, const char *group, const char *name);

/* Does this process run tasks of a handler of this name? */
bool scenes_run(const struct scenes *scenes, const char *handler);

/* One that is there already, or too many, is left out. */
void scenes_served_add(struct scenes_served *served, const char *handler);
/* Does any live process, this one included, run tasks of this handler? */
bool scenes_serve(const struct scenes *scenes, const char *handler);

/* The shard whose lease is needed to run tasks of this shard: the group's shards divide all 16. */
unsigned kind_shard(const struct kind *kind, unsigned shard);

/* Attempts that the scene's rate allows this process now; INT64_MAX without a rate. */
int64_t scenes_tokens(const struct scenes *scenes, struct scene *scene, int64_t now_ms);

/* Returns the options that a handler gets: the scene's, overridden by the task's. *text stays
 * valid until the next call and as long as options and the scene do; the caller owns scratch.
 * RC_REJECT: the task's options are no JSON object. RC_FATAL: no memory. */
enum rc scene_options(const struct scene *scene, const char *options, size_t len,
                      struct buf *scratch, const char **text, struct err *err);

/* The groups of tasks. */
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

/* Updates kind->group_decision and logs a change. */
void groups_update_kind(const struct groups *groups, struct kind *kind);

/* Returns whether the tasks of this class wait for their group; err gives the reason then. scene:
 * its scene, or NULL if none is known. */
bool groups_are_closed(const struct groups *groups, const struct task_class *class,
                       const struct scene *scene, struct err *err);

/* Checks whether a claimed task of the kind may run. RC_REJECT: err names what its group does not
 * allow, as the reason of a failed attempt. RC_RETRY: its group was closed since the claim.
 * RC_FATAL: no memory. */
enum rc groups_check(const struct groups *groups, const struct kind *kind,
                     const struct retry_handlers *all, const struct retry_job *job,
                     struct err *err);

#endif
