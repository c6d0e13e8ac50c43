/* SPDX-License-Identifier: MIT */
#include "outbox/retry/scenes.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/retry/clients/clients.h"
#include "outbox/retry/retry_ops.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 16

void groups_done(struct groups *groups)
{
    free(groups->list);
    free(groups->coming);
    memset(groups, 0, sizeof(*groups));
}

void groups_begin(struct groups *groups)
{
    groups->coming_count = 0;
}

enum rc groups_take(struct groups *groups, const struct retry_group *group, struct err *err)
{
    if (groups->coming_count == groups->coming_room) {
        size_t room = groups->coming_room > 0 ? 2 * groups->coming_room : ROOM_MIN;
        struct retry_group *coming = realloc(groups->coming, room * sizeof(*coming));

        if (!coming)
            return err_fail(err, RC_FATAL, 0, "no memory for %zu groups of tasks", room);
        groups->coming = coming;
        groups->coming_room = room;
    }
    groups->coming[groups->coming_count++] = *group;
    return RC_OK;
}

static int compare_names(const void *one, const void *other)
{
    const struct retry_group *a = one;
    const struct retry_group *b = other;

    return strcmp(a->name, b->name);
}

static bool group_is_same(const struct retry_group *one, const struct retry_group *other)
{
    return strcmp(one->name, other->name) == 0 && one->owner == other->owner &&
           one->enabled == other->enabled && strcmp(one->handlers, other->handlers) == 0 &&
           strcmp(one->scenes, other->scenes) == 0 && strcmp(one->topics, other->topics) == 0 &&
           strcmp(one->init_scene, other->init_scene) == 0 &&
           strcmp(one->shards, other->shards) == 0;
}

bool groups_end(struct groups *groups)
{
    struct retry_group *list = groups->list;
    size_t count = groups->count;
    size_t room = groups->room;

    groups->list = groups->coming;
    groups->count = groups->coming_count;
    groups->room = groups->coming_room;
    groups->coming = list;
    groups->coming_room = room;
    groups->coming_count = 0;
    if (groups->count > 0)
        qsort(groups->list, groups->count, sizeof(*groups->list), compare_names);
    for (size_t i = 0; i < count && i < groups->count; i++)
        if (!group_is_same(&list[i], &groups->list[i]))
            return true;
    return count != groups->count;
}

static const struct retry_group *find_group(const struct groups *groups, const char *name)
{
    size_t from = 0;

    for (size_t to = groups->count; from < to;) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(groups->list[middle].name, name);

        if (order == 0)
            return &groups->list[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

static enum group_decision decide_kind(const struct groups *groups, const struct kind *kind,
                                       struct err *err)
{
    const char *name = kind->scene->group;
    const struct retry_scene_name scene = {kind->scene->name, kind->scene->has_row};

    return retry_group_decide(find_group(groups, name), name, kind->origin, &scene,
                              kind->handler_name, err);
}

/* Only the groups of clients have shards of their own. */
static unsigned find_group_shards(const struct groups *groups, const struct kind *kind)
{
    const struct retry_group *group = find_group(groups, kind->scene->group);
    unsigned bits = 0;

    if (kind->origin != OWNER_CLIENT || !group || !group->shards[0] ||
        !retry_shards_read(&bits, group->shards))
        return 0;
    return bits;
}

void groups_update_kind(const struct groups *groups, struct kind *kind)
{
    struct err err = {0};
    enum group_decision decision = decide_kind(groups, kind, &err);

    kind->group_shards = find_group_shards(groups, kind);
    /* Nothing is refused: tasks of a handler that does not exist are not claimed. */
    if (decision == GROUP_REFUSES && !kind->handler)
        decision = GROUP_OPEN;
    if (decision == kind->group_decision)
        return;
    kind->group_decision = decision;
    if (decision == GROUP_OPEN)
        log_event(LOG_INFO, "group_opened", "group=%s scene=%s handler=%s", kind->scene->group,
                  kind->scene->name, kind->handler_name);
    else
        log_error(LOG_WARN, decision == GROUP_CLOSED ? "group_closed" : "group_refuses", &err,
                  "group=%s scene=%s handler=%s tasks=%s", kind->scene->group, kind->scene->name,
                  kind->handler_name, decision == GROUP_CLOSED ? "wait" : "refused");
}

bool groups_are_closed(const struct groups *groups, const struct task_class *class,
                       const struct scene *scene, struct err *err)
{
    const struct retry_scene_name name = {class->scene, scene && scene->has_row};

    return retry_group_decide(find_group(groups, class->group), class->group, class->origin, &name,
                              class->handler, err) == GROUP_CLOSED;
}

enum rc groups_check(const struct groups *groups, const struct kind *kind,
                     const struct retry_handlers *all, const struct retry_job *job, struct err *err)
{
    enum group_decision decision = decide_kind(groups, kind, err);

    if (decision != GROUP_OPEN)
        return decision == GROUP_CLOSED ? RC_RETRY : RC_REJECT;
    if (kind->origin != OWNER_CLIENT)
        return RC_OK;
    return retry_group_check(find_group(groups, kind->scene->group), all, kind->handler, job, err);
}

#define TASK_BYTES_GUESS 4096
#define PART_MS 60000

void scenes_init(struct scenes *scenes, const struct pool *pool, const struct groups *groups)
{
    memset(scenes, 0, sizeof(*scenes));
    scenes->pool = pool;
    scenes->groups = groups;
}

static void free_scene(struct scene *scene)
{
    if (scene->known)
        policy_done(&scene->policy);
    json_decref(scene->options);
    buf_done(&scene->options_text);
    free(scene);
}

void scenes_done(struct scenes *scenes)
{
    for (size_t i = 0; i < SCENES_CHAINS; i++) {
        while (scenes->kind_chains[i]) {
            struct kind *kind = scenes->kind_chains[i];

            scenes->kind_chains[i] = kind->next;
            free(kind);
        }
        while (scenes->chains[i]) {
            struct scene *scene = scenes->chains[i];

            scenes->chains[i] = scene->next;
            free_scene(scene);
        }
    }
}

static uint64_t hash_text(uint64_t start, const char *text)
{
    /* With its end, so that no two texts can change places; NULL is not "". */
    return text ? hash_bytes(start, text, strlen(text) + 1) : hash_bytes(start, "\1", 1);
}

static size_t find_scene_chain(const char *group, const char *name)
{
    return hash_text(hash_text(HASH_START, group), name) & (SCENES_CHAINS - 1);
}

static void unlink_kind(struct kind *kind)
{
    struct kind **at = &kind->scene->kinds;

    while (*at != kind)
        at = &(*at)->next_of_scene;
    *at = kind->next_of_scene;
}

/* Any INSERT of a task may name a new kind and scene, so this removes those that no task needs.
 * During a reading of the rows it also removes a scene whose row has not been read yet: when the
 * row follows, scenes_take() makes the scene again, and when the reading fails before that, the
 * dispatcher claims nothing until a later reading succeeds.
 *
 * Invariant: a kind of the last look stays, because the dispatcher points to it. Afterwards there
 * is room for one more scene, as long as there are at most KINDS_MAX kinds and RETRY_SCENES_MAX
 * rows. */
static void make_room(struct scenes *scenes)
{
    for (size_t i = 0; i < SCENES_CHAINS; i++) {
        struct kind **kind_at = &scenes->kind_chains[i];

        while (*kind_at) {
            struct kind *kind = *kind_at;

            if (kind->in_flight > 0 || kind->look + 1 >= scenes->look) {
                kind_at = &kind->next;
                continue;
            }
            *kind_at = kind->next;
            unlink_kind(kind);
            scenes->kind_count--;
            free(kind);
        }
    }
    for (size_t i = 0; i < SCENES_CHAINS; i++) {
        struct scene **at = &scenes->chains[i];

        while (*at) {
            struct scene *scene = *at;

            if (scene->kinds || (scene->has_row && scene->pass == scenes->pass)) {
                at = &scene->next;
                continue;
            }
            *at = scene->next;
            scenes->count--;
            metric_set(&scene->metrics->paused, 0);
            free_scene(scene);
        }
    }
}

static void init_rate(struct scene *scene)
{
    bucket_init(&scene->bucket, scene->policy.rate_per_s,
                scene->policy.rate_burst > 0 ? scene->policy.rate_burst : 1, scene->bucket_ms);
}

static void set_policy(struct scene *scene, struct policy *policy)
{
    bool same_rate = scene->known && policy->rate_per_s == scene->policy.rate_per_s &&
                     policy->rate_burst == scene->policy.rate_burst &&
                     policy->rate_per_client == scene->policy.rate_per_client;

    if (scene->known)
        policy_done(&scene->policy);
    scene->policy = *policy;
    scene->known = true;
    atomic_store(&scene->fair.threads_max, (size_t)policy->threads_max);
    if (!same_rate)
        init_rate(scene);
}

/* Sets the policy of a scene without a row. */
static enum rc set_default_policy(struct scene *scene, struct err *err)
{
    const char *json = strcmp(scene->name, SCENE_PUBLISH) == 0 ? POLICY_PUBLISH : "";
    struct policy policy;
    enum rc rc = policy_parse(&policy, json, strlen(json), err);

    if (rc == RC_OK)
        set_policy(scene, &policy);
    return rc;
}

static void set_fault(struct scene *scene, const struct err *err)
{
    if (err)
        log_error(LOG_ERROR, "scene_invalid", err, "group=%s scene=%s", scene->group, scene->name);
    else if (scene->faulty)
        log_event(LOG_INFO, "scene_valid", "group=%s scene=%s", scene->group, scene->name);
    scene->faulty = err != NULL;
}

/* Gives a scene without a row the policy of its group, unless it has that already. RC_FATAL: no
 * memory. */
static enum rc init_by_group(const struct scenes *scenes, struct scene *scene, struct err *err)
{
    const struct retry_group *group = find_group(scenes->groups, scene->group);
    const char *json = retry_group_init_policy(group);
    uint64_t hash = hash_text(HASH_START, json);
    struct err fault = {0};
    struct policy policy;
    enum rc rc;

    scene->version = group ? -group->version : 0;
    if (scene->has_init && scene->row_hash == hash)
        return RC_OK;
    if (!json) {
        rc = set_default_policy(scene, &fault);
    } else {
        rc = policy_parse(&policy, json, strlen(json), &fault);
        if (rc == RC_OK)
            set_policy(scene, &policy);
    }
    if (rc == RC_FATAL)
        return err_fail(err, rc, 0, "%s", fault.text);
    if (rc != RC_OK)
        err_wrap(&fault, "init_scene of group %s", scene->group);
    if (rc != RC_OK || scene->faulty)
        set_fault(scene, rc == RC_OK ? NULL : &fault);
    scene->has_init = true;
    scene->row_hash = hash;
    return RC_OK;
}

struct scene *scenes_find(const struct scenes *scenes, const char *group, const char *name)
{
    struct scene *scene = scenes->chains[find_scene_chain(group, name)];

    while (scene && (strcmp(scene->name, name) != 0 || strcmp(scene->group, group) != 0))
        scene = scene->next;
    return scene;
}

static struct scene *make_scene(struct scenes *scenes, const char *group, const char *name,
                                int64_t now_ms)
{
    struct scene **chain = &scenes->chains[find_scene_chain(group, name)];
    struct scene *scene;

    if (scenes->count >= SCENES_MAX || strlen(group) >= sizeof(scene->group) ||
        strlen(name) >= sizeof(scene->name))
        return NULL;
    scene = calloc(1, sizeof(*scene));
    if (!scene)
        return NULL;
    memcpy(scene->group, group, strlen(group));
    memcpy(scene->name, name, strlen(name));
    scene->bucket_seen_ms = now_ms;
    fair_scene_init(&scene->fair);
    scene->metrics = retry_metrics_of(group, name);
    if (set_default_policy(scene, NULL) != RC_OK || init_by_group(scenes, scene, NULL) != RC_OK) {
        free_scene(scene);
        return NULL;
    }
    scene->next = *chain;
    *chain = scene;
    scenes->count++;
    return scene;
}

void scenes_begin(struct scenes *scenes)
{
    scenes->pass++;
    scenes->rows = 0;
}

/* The options of a row: nothing, or a JSON object. */
static enum rc parse_options(const char *text, size_t len, json_t **object, struct err *err)
{
    json_error_t fault;

    *object = NULL;
    if (!text || len == 0)
        return RC_OK;
    *object = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);
    if (json_is_object(*object))
        return RC_OK;
    if (!*object)
        return err_fail(err, RC_REJECT, 0, "options are a JSON object: %s (line %d, column %d)",
                        fault.text, fault.line, fault.column);
    json_decref(*object);
    *object = NULL;
    return err_fail(err, RC_REJECT, 0, "options are a JSON object");
}

static enum rc set_options(struct scene *scene, const char *text, struct err *err)
{
    json_t *object;
    enum rc rc = parse_options(text, text ? strlen(text) : 0, &object, err);

    if (rc != RC_OK)
        return rc;
    json_decref(scene->options);
    scene->options = object;
    buf_reset(&scene->options_text);
    if (object)
        buf_text_put(&scene->options_text, text);
    buf_text(&scene->options_text);
    return scene->options_text.failed ? err_fail(err, RC_FATAL, 0, "no memory for options") : RC_OK;
}

static enum rc set_texts(struct scene *scene, const struct scene_row *row, struct err *err)
{
    const char *json = row->policy ? row->policy : "";
    struct policy policy;
    enum rc rc = policy_parse(&policy, json, strlen(json), err);

    if (rc != RC_OK)
        return rc;
    rc = set_options(scene, row->options, err);
    if (rc != RC_OK) {
        policy_done(&policy);
        return rc;
    }
    /* The relay's own scene has a default policy of its own, which a row without a policy
     * keeps. */
    if (!*json && strcmp(scene->name, SCENE_PUBLISH) == 0) {
        policy_done(&policy);
        return set_default_policy(scene, err);
    }
    set_policy(scene, &policy);
    return RC_OK;
}

static uint64_t hash_row(const struct scene_row *row)
{
    uint64_t hash = hash_bytes(HASH_START, &row->version, sizeof(row->version));

    return hash_text(hash_text(hash, row->policy), row->options);
}

static void set_paused(struct scene *scene, bool paused)
{
    if (scene->paused != paused)
        log_event(LOG_INFO, paused ? "scene_paused" : "scene_resumed", "group=%s scene=%s",
                  scene->group, scene->name);
    scene->paused = paused;
}

/* A row that is not read may pause its scene, so a reading that cannot hold all rows fails. */
static enum rc count_row(struct scenes *scenes, struct err *err)
{
    if (++scenes->rows <= RETRY_SCENES_MAX)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "retry_scene has more than %d rows, and all must be read: no task begins until "
                    "rows that are no longer needed are deleted (DELETE FROM retry_scene WHERE "
                    "task_group = GROUP AND scene = SCENE)",
                    RETRY_SCENES_MAX);
}

enum rc scenes_take(struct scenes *scenes, const struct scene_row *row, struct err *err)
{
    struct scene *scene = scenes_find(scenes, row->group, row->scene);
    struct err fault = {0};
    uint64_t hash = hash_row(row);
    enum rc rc = count_row(scenes, err);

    if (rc != RC_OK)
        return rc;
    if (!scene && scenes->count >= SCENES_MAX)
        make_room(scenes);
    if (!scene)
        scene = make_scene(scenes, row->group, row->scene, 0);
    if (!scene)
        return err_fail(err, RC_FATAL, 0, "no memory, or more than %d scenes", SCENES_MAX);
    if (!scene->has_row || scene->row_hash != hash)
        rc = set_texts(scene, row, &fault);
    if (rc == RC_FATAL)
        return err_fail(err, rc, 0, "%s", fault.text);
    if (!scene->has_row || scene->row_hash != hash)
        set_fault(scene, rc == RC_OK ? NULL : &fault);
    set_paused(scene, row->paused);
    scene->has_row = true;
    scene->has_init = false;
    scene->row_hash = hash;
    scene->version = row->version;
    scene->pass = scenes->pass;
    return RC_OK;
}

/* The row was deleted: the policy of the group holds again. */
static enum rc reset_scene(const struct scenes *scenes, struct scene *scene, struct err *err)
{
    enum rc rc = set_options(scene, NULL, err);

    if (rc != RC_OK)
        return rc;
    set_paused(scene, false);
    scene->has_row = false;
    return init_by_group(scenes, scene, err);
}

enum rc scenes_end(struct scenes *scenes, struct err *err)
{
    enum rc rc = RC_OK;

    scenes->faulty = 0;
    for (size_t i = 0; i < SCENES_CHAINS; i++) {
        for (struct scene *scene = scenes->chains[i]; scene && rc == RC_OK; scene = scene->next) {
            if (scene->has_row && scene->pass != scenes->pass)
                rc = reset_scene(scenes, scene, err);
            else if (!scene->has_row)
                rc = init_by_group(scenes, scene, err);
            scene->stale = false;
            scenes->faulty += scene->faulty;
            metric_set(&scene->metrics->paused, scene->paused || scene->faulty);
        }
    }
    metric_set(&retry_invalid_scenes, (int64_t)scenes->faulty);
    return rc;
}

/* Its number among the handlers of the process; their count: it does not run here. */
static size_t find_handler(const struct retry_handlers *all, const char *name)
{
    size_t i = 0;

    while (i < all->count && (!all->opened[i] || strcmp(all->list[i]->name, name) != 0))
        i++;
    return i;
}

bool scenes_run(const struct scenes *scenes, const char *handler)
{
    return find_handler(scenes->pool->handlers, handler) < scenes->pool->handlers->count;
}

static bool is_served(const struct scenes_served *served, const char *handler)
{
    for (size_t i = 0; i < served->count; i++)
        if (strcmp(served->names[i], handler) == 0)
            return true;
    return false;
}

void scenes_served_add(struct scenes_served *served, const char *handler)
{
    size_t len = strlen(handler);

    if (served->count == SCENES_SERVED_MAX || len >= TASK_HANDLER_SIZE ||
        is_served(served, handler))
        return;
    memcpy(served->names[served->count++], handler, len + 1);
}

bool scenes_serve(const struct scenes *scenes, const char *handler)
{
    return is_served(&scenes->served, handler) || scenes_run(scenes, handler);
}

static size_t find_kind_chain(const struct task_class *class)
{
    uint64_t hash = hash_text(hash_text(HASH_START, class->group), class->scene);

    return hash_text(hash, class->handler) & (SCENES_CHAINS - 1);
}

static struct kind *make_kind(struct scenes *scenes, const struct task_class *class, int64_t now_ms)
{
    struct kind **chain = &scenes->kind_chains[find_kind_chain(class)];
    const struct retry_handlers *all = scenes->pool->handlers;
    size_t at = find_handler(all, class->handler);
    struct scene *scene = scenes_find(scenes, class->group, class->scene);
    struct kind *kind;

    if (scenes->kind_count >= KINDS_MAX)
        return NULL;
    if (!scene)
        scene = make_scene(scenes, class->group, class->scene, now_ms);
    kind = scene ? calloc(1, sizeof(*kind)) : NULL;
    if (!kind)
        return NULL;
    memcpy(kind->handler_name, class->handler, sizeof(kind->handler_name));
    kind->scene = scene;
    kind->handler_at = at;
    kind->origin = class->origin;
    if (at < all->count) {
        kind->handler = all->list[at];
        kind->opened = all->opened[at];
    }
    kind->task_bytes = TASK_BYTES_GUESS;
    kind->next = *chain;
    *chain = kind;
    kind->next_of_scene = scene->kinds;
    scene->kinds = kind;
    scenes->kind_count++;
    return kind;
}

void scenes_begin_look(struct scenes *scenes)
{
    scenes->full = scenes->full && scenes->left_out > 0;
    scenes->left_out = 0;
}

struct kind *scenes_kind(struct scenes *scenes, const struct task_class *class, uint64_t look,
                         int64_t now_ms)
{
    struct kind *kind;

    assert(class);
    scenes->look = look;
    kind = scenes->kind_chains[find_kind_chain(class)];
    while (kind &&
           (kind->origin != class->origin || strcmp(kind->handler_name, class->handler) != 0 ||
            strcmp(kind->scene->name, class->scene) != 0 ||
            strcmp(kind->scene->group, class->group) != 0))
        kind = kind->next;
    if (!kind && (scenes->kind_count >= KINDS_MAX || scenes->count >= SCENES_MAX))
        make_room(scenes);
    if (!kind)
        kind = make_kind(scenes, class, now_ms);
    if (kind) {
        kind->look = look;
        kind->seen_ms = now_ms;
        return kind;
    }
    scenes->left_out++;
    if (!scenes->full)
        log_event(LOG_ERROR, "too_many_scenes",
                  "kinds=%zu text=\"tasks of further kinds wait until others are done\"",
                  scenes->kind_count);
    scenes->full = true;
    return NULL;
}

unsigned kind_shard(const struct kind *kind, unsigned shard)
{
    unsigned count = 0;
    unsigned wanted;

    if (kind->group_shards == 0)
        return shard;
    for (unsigned i = 0; i < TASK_SHARDS; i++)
        count += kind->group_shards >> i & 1;
    wanted = shard % count;
    for (unsigned i = 0; i < TASK_SHARDS; i++)
        if ((kind->group_shards >> i & 1) != 0 && wanted-- == 0)
            return i;
    return shard;
}

static int64_t count_held(const struct scenes *scenes, const struct kind *kind, int64_t now_ms)
{
    int64_t held = 0;

    for (unsigned shard = 0; shard < TASK_SHARDS; shard++)
        held += pool_holds(scenes->pool, kind->handler_at, kind_shard(kind, shard), now_ms);
    return held;
}

/* The share of this process in all that the scene's tasks can use: the shards it holds, of each
 * handler that runs anywhere and has tasks of the scene. One process holds each shard, so the
 * shares of all processes add up to one. A handler counts for some time after its last task.
 * Otherwise each process that currently sees tasks of one handler only would give the scene its
 * whole rate. */
static int64_t compute_share(const struct scenes *scenes, const struct scene *scene, int64_t now_ms,
                             int64_t *of)
{
    int64_t held = 0;

    *of = 0;
    for (const struct kind *kind = scene->kinds; kind; kind = kind->next_of_scene) {
        if (now_ms - kind->seen_ms > PART_MS || !scenes_serve(scenes, kind->handler_name))
            continue;
        *of += TASK_SHARDS;
        if (kind->handler)
            held += count_held(scenes, kind, now_ms);
    }
    return held;
}

/* How many times the scene has its rate. A group without a live client has it once, so that its
 * tasks learn what they wait for. */
static int64_t count_rates(const struct scenes *scenes, const struct scene *scene)
{
    size_t count = 0;

    if (scene->policy.rate_per_client && scenes->pool->clients)
        count = clients_count(scenes->pool->clients, scene->group);
    return count > 0 ? (int64_t)count : 1;
}

/* A process that holds half of the shards runs the bucket's clock at half speed and gets half of a
 * burst, so that all processes together keep the rate. */
int64_t scenes_tokens(const struct scenes *scenes, struct scene *scene, int64_t now_ms)
{
    int64_t of;
    int64_t held = compute_share(scenes, scene, now_ms, &of);
    int64_t times = count_rates(scenes, scene);
    int64_t passed;
    int64_t share;
    int64_t tokens;

    if (scene->policy.rate_per_s == 0)
        return INT64_MAX;
    if (of == 0)
        return 0;
    if (of != scene->bucket_of)
        scene->bucket_rest = 0;
    passed = (now_ms - scene->bucket_seen_ms) * held * times + scene->bucket_rest;
    share = scene->policy.rate_burst * times * held / of;
    scene->bucket_of = of;
    scene->bucket_held = held;
    scene->bucket_seen_ms = now_ms;
    scene->bucket_ms += passed / of;
    scene->bucket_rest = passed % of;
    scene->bucket.burst = share > 1 ? share : 1;
    tokens = bucket_count(&scene->bucket, scene->bucket_ms);
    return tokens < scene->bucket.burst ? tokens : scene->bucket.burst;
}

enum rc scene_options(const struct scene *scene, const char *options, size_t len,
                      struct buf *scratch, const char **text, struct err *err)
{
    json_t *own;
    json_t *both;
    char *dump = NULL;
    enum rc rc;

    *text = scene->options ? scene->options_text.data : "{}";
    if (!options || len == 0)
        return RC_OK;
    *text = options;
    if (!scene->options)
        return RC_OK;
    rc = parse_options(options, len, &own, err);
    if (rc != RC_OK)
        return rc;
    both = json_copy(scene->options);
    if (both && json_object_update(both, own) == 0)
        dump = json_dumps(both, RETRY_OPTIONS_JSON);
    json_decref(both);
    json_decref(own);
    if (!dump)
        return err_fail(err, RC_FATAL, 0, "no memory for options");
    buf_reset(scratch);
    buf_text_put(scratch, dump);
    free(dump);
    *text = buf_text(scratch);
    return scratch->failed ? err_fail(err, RC_FATAL, 0, "no memory for options") : RC_OK;
}
