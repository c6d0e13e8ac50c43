/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/look_mysql.h"

#include "outbox/lease/lease_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Neither server reads distinct classes quickly: each class is found as the first one after
 * another class. One statement searches after each class that was known the last time, which also
 * returns when the first task of the next class is due; a class that turns out to be new is
 * searched after again. */

#define SEARCHES_AT_ONCE 32
#define CLASS_BYTES_MAX 175
#define DEPTH_MAX 10000

struct place {
    char name[CLASS_BYTES_MAX]; /* retry_task.class */
    size_t len;
    int64_t due_ms; /* until its first task is due */
};

struct walk {
    enum task_state state;
    struct place from; /* the search starts after it */
    struct place known[RETRY_CLASSES_MAX];
    size_t known_count;
    struct place found[RETRY_CLASSES_MAX + SEARCHES_AT_ONCE];
    size_t found_count;
};

void walk_close(struct walk *walk)
{
    free(walk);
}

static enum rc walk_open(struct store *store, enum task_state state, struct walk **walk,
                         struct err *err)
{
    *walk = store->walks[state];
    if (*walk)
        return RC_OK;
    *walk = store->walks[state] = calloc(1, sizeof(**walk));
    if (!*walk)
        return err_fail(err, RC_FATAL, 0, "no memory for the classes of tasks");
    (*walk)->state = state;
    return RC_OK;
}

static int compare_places(const void *one, const void *other)
{
    const struct place *a = one;
    const struct place *b = other;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static enum rc place_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct walk *walk = ctx;
    struct place *place = &walk->found[walk->found_count];

    (void)err;
    if (row->lengths[0] > sizeof(place->name) || walk->found_count == RETRY_CLASSES_MAX)
        return RC_OK;
    memcpy(place->name, row->columns[0], row->lengths[0]);
    place->len = row->lengths[0];
    place->due_ms = db_column_i64(row, 1) / 1000;
    walk->found_count++;
    return RC_OK;
}

static void put_search(struct store *store, const struct walk *walk, const struct place *behind)
{
    buf_print(&store->sql,
              "(SELECT class, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), next_at) "
              "FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE state = %d AND class > ",
              (int)walk->state);
    db_put_bytes(store->db, &store->sql, behind->name, behind->len);
    store_put(store, " ORDER BY class, next_at LIMIT 1)");
}

/* Searches for the class after each of these. */
static enum rc find_next_classes(struct store *store, struct walk *walk, const struct place *behind,
                                 size_t count, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t done = 0; done < count && rc == RC_OK;) {
        for (size_t i = 0; i < SEARCHES_AT_ONCE && done < count; i++, done++) {
            if (i > 0)
                store_put(store, " UNION ALL ");
            put_search(store, walk, &behind[done]);
        }
        rc = store_query(store, place_on_row, walk, err);
    }
    return rc;
}

/* Sorts the found classes and removes duplicates. */
static void sort_found(struct walk *walk)
{
    size_t kept = 0;

    qsort(walk->found, walk->found_count, sizeof(walk->found[0]), compare_places);
    for (size_t i = 0; i < walk->found_count; i++) {
        if (kept == 0 || compare_places(&walk->found[kept - 1], &walk->found[i]) != 0)
            walk->found[kept++] = walk->found[i];
    }
    walk->found_count = kept;
}

static bool was_known(const struct walk *walk, const struct place *place)
{
    return bsearch(place, walk->known, walk->known_count, sizeof(walk->known[0]), compare_places) !=
           NULL;
}

static bool was_found(const struct walk *walk, const struct place *place)
{
    for (size_t i = 0; i < walk->found_count; i++) {
        if (compare_places(&walk->found[i], place) == 0)
            return true;
    }
    return false;
}

/* Follows a class that was not known until one that was. */
static enum rc follow_class(struct store *store, struct walk *walk, struct place place,
                            struct err *err)
{
    enum rc rc = RC_OK;

    while (rc == RC_OK && walk->found_count < RETRY_CLASSES_MAX) {
        size_t count = walk->found_count;

        rc = find_next_classes(store, walk, &place, 1, err);
        if (rc != RC_OK || walk->found_count == count)
            break;
        place = walk->found[count];
        walk->found_count = count;
        if (was_found(walk, &place))
            break;
        walk->found[walk->found_count++] = place;
        if (was_known(walk, &place))
            break;
    }
    return rc;
}

static enum rc follow_new_classes(struct store *store, struct walk *walk, struct err *err)
{
    size_t count = walk->found_count;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        if (!was_known(walk, &walk->found[i]))
            rc = follow_class(store, walk, walk->found[i], err);
    }
    return rc;
}

/* All classes that have tasks in the state, in walk->found. */
static enum rc walk_classes(struct store *store, struct walk *walk, struct err *err)
{
    enum rc rc = store_ready(store, err);

    walk->found_count = 0;
    if (rc == RC_OK)
        rc = find_next_classes(store, walk, &walk->from, 1, err);
    if (rc == RC_OK)
        rc = find_next_classes(store, walk, walk->known, walk->known_count, err);
    sort_found(walk);
    if (rc == RC_OK)
        rc = follow_new_classes(store, walk, err);
    sort_found(walk);
    if (rc != RC_OK)
        return rc;
    memcpy(walk->known, walk->found, walk->found_count * sizeof(walk->found[0]));
    walk->known_count = walk->found_count;
    /* The next search continues where the list was full. */
    if (walk->found_count < RETRY_CLASSES_MAX)
        walk->from.len = 0;
    else
        walk->from = walk->found[walk->found_count - 1];
    if (walk->from.len > 0)
        walk->known_count = 0;
    return RC_OK;
}

static bool take_part(char *out, size_t size, const char **at, const char *end)
{
    const char *stop = memchr(*at, '\0', (size_t)(end - *at));

    if (!stop || (size_t)(stop - *at) >= size)
        return false;
    memcpy(out, *at, (size_t)(stop - *at) + 1);
    *at = stop + 1;
    return true;
}

/* "relay\0" */
static bool take_origin(enum retry_owner *origin, const char **at, const char *end)
{
    const char *stop = memchr(*at, '\0', (size_t)(end - *at));

    if (!stop || !retry_owner_read(*at, (size_t)(stop - *at), origin))
        return false;
    *at = stop + 1;
    return true;
}

/* Returns false for a name with a zero byte or an unknown origin, which only a plain INSERT can
 * write; no process runs such a task. */
static bool read_class(const struct place *place, struct task_class *class)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *at = place->name;
    const char *end = place->name + place->len;
    const char *digit;

    if (!take_part(class->handler, sizeof(class->handler), &at, end) ||
        !take_part(class->group, sizeof(class->group), &at, end) ||
        !take_part(class->scene, sizeof(class->scene), &at, end) ||
        !take_origin(&class->origin, &at, end) || end - at != 1 || *at == '\0')
        return false;
    digit = strchr(digits, *at);
    class->shard = digit ? (unsigned)(digit - digits) : 0;
    return digit != NULL;
}

enum rc look_classes(struct store *store, retry_on_class on_class, void *on_class_ctx,
                     struct err *err)
{
    struct walk *walk;
    enum rc rc = walk_open(store, TASK_WAITING, &walk, err);

    if (rc == RC_OK)
        rc = walk_classes(store, walk, err);
    for (size_t i = 0; rc == RC_OK && i < walk->found_count; i++) {
        struct task_class class;

        if (read_class(&walk->found[i], &class))
            on_class(on_class_ctx, &class, walk->found[i].due_ms);
    }
    return rc;
}

struct scenes {
    retry_on_scene on_scene;
    void *ctx;
    struct scene_change *change;
};

/* The numbers are in every row, also in the one of a table without scenes. */
static enum rc scene_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct scenes *scenes = ctx;
    struct scene_row scene = {
        .group = row->columns[2],
        .scene = row->columns[3],
        .policy = row->columns[4],
        .options = row->columns[5],
        .paused = db_column_i64(row, 6) != 0,
        .version = db_column_i64(row, 7),
    };

    (void)err;
    scenes->change->number = db_column_i64(row, 0);
    scenes->change->recorded = db_column_i64(row, 1);
    if (scene.group)
        scenes->on_scene(scenes->ctx, &scene);
    return RC_OK;
}

enum rc look_scenes(struct store *store, retry_on_scene on_scene, void *on_scene_ctx,
                    struct scene_change *change, struct err *err)
{
    struct scenes scenes = {on_scene, on_scene_ctx, change};
    enum rc rc = store_ready(store, err);

    if (rc != RC_OK)
        return rc;
    store_put(store, "SELECT COALESCE(c.number, 0), COALESCE(i.scene_change, 0), "
                     "RTRIM(s.task_group), RTRIM(s.scene), s.policy, s.options, s.paused, "
                     "s.version FROM (SELECT 1) AS one "
                     "LEFT JOIN retry_scene_change c ON c.name = 'retry_scene' "
                     "LEFT JOIN instance i ON i.role = '" RETRY_ROLE "' AND i.name = ");
    store_put_text(store, store->owner);
    buf_print(&store->sql, " LEFT JOIN retry_scene s ON 1 ORDER BY s.task_group, s.scene LIMIT %d",
              RETRY_SCENES_MAX + 1);
    return store_query(store, scene_on_row, &scenes, err);
}

/* The first heartbeat may not have been written yet. */
enum rc look_record(struct store *store, int64_t change, struct err *err)
{
    enum rc rc = store_ready(store, err);

    if (rc != RC_OK)
        return rc;
    store_put(store,
              "INSERT INTO instance (name, role, started_at, seen_at, scene_change) VALUES (");
    store_put_text(store, store->owner);
    buf_print(&store->sql,
              ", '" RETRY_ROLE "', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), %lld) "
              "ON DUPLICATE KEY UPDATE scene_change = %lld",
              (long long)change, (long long)change);
    return store_exec(store, NULL, err);
}

struct running {
    retry_on_handler on_handler;
    void *ctx;
};

/* "retry:HANDLER" or "retry-fixed:HANDLER", followed by "*WEIGHT" if the weight is not 1. */
static enum rc role_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct running *running = ctx;
    const char *name = strchr(row->columns[0], ':');
    char handler[TASK_HANDLER_SIZE];

    (void)err;
    if (!name)
        return RC_OK;
    snprintf(handler, sizeof(handler), "%.*s", (int)strcspn(name + 1, "*"), name + 1);
    running->on_handler(running->ctx, handler);
    return RC_OK;
}

enum rc look_handlers(struct store *store, int64_t lease_ms, retry_on_handler on_handler,
                      void *on_handler_ctx, struct err *err)
{
    struct running running = {on_handler, on_handler_ctx};
    enum rc rc = store_ready(store, err);

    if (rc != RC_OK)
        return rc;
    buf_print(
        &store->sql,
        "SELECT DISTINCT role FROM instance WHERE (role LIKE '" RETRY_ROLE
        ":%%' OR role LIKE '" RETRY_ROLE "-fixed:%%') AND seen_at > UTC_TIMESTAMP(3) - "
        "INTERVAL %lld MICROSECOND AND seen_at < UTC_TIMESTAMP(3) + INTERVAL %lld MICROSECOND "
        "LIMIT 1000",
        (long long)lease_ms * 1000, (long long)lease_ms * LEASE_LENGTHS_MAX * 1000);
    return store_query(store, role_on_row, &running, err);
}

struct depths {
    retry_on_depth on_depth;
    void *ctx;
    const struct walk *walk;
};

static enum rc depth_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct depths *depths = ctx;
    const struct place *place = &depths->walk->found[db_column_u64(row, 0)];
    struct task_class class;
    struct task_depth depth = {
        .class = &class,
        .state = depths->walk->state,
        .count = db_column_i64(row, 1),
        .oldest_ms = place->due_ms < 0 ? -place->due_ms : 0,
    };

    (void)err;
    if (read_class(place, &class))
        depths->on_depth(depths->ctx, &depth);
    return RC_OK;
}

static enum rc count_classes(struct store *store, const struct walk *walk, struct depths *depths,
                             struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t done = 0; done < walk->found_count && rc == RC_OK;) {
        for (size_t i = 0; i < SEARCHES_AT_ONCE && done < walk->found_count; i++, done++) {
            buf_print(&store->sql,
                      "%s(SELECT %zu, COUNT(*) FROM (SELECT 1 FROM retry_task "
                      "FORCE INDEX (ix_retry_task_due) WHERE state = %d AND class = ",
                      i > 0 ? " UNION ALL " : "", done, (int)walk->state);
            db_put_bytes(store->db, &store->sql, walk->found[done].name, walk->found[done].len);
            buf_print(&store->sql, " LIMIT %d) AS some)", DEPTH_MAX);
        }
        rc = store_query(store, depth_on_row, depths, err);
    }
    return rc;
}

enum rc look_depths(struct store *store, retry_on_depth on_depth, void *on_depth_ctx,
                    struct err *err)
{
    struct depths depths = {on_depth, on_depth_ctx, NULL};
    enum rc rc = RC_OK;

    for (int state = 0; state < TASK_STATES && rc == RC_OK; state++) {
        struct walk *walk;

        rc = walk_open(store, (enum task_state)state, &walk, err);
        if (rc == RC_OK)
            rc = walk_classes(store, walk, err);
        depths.walk = walk;
        if (rc == RC_OK)
            rc = count_classes(store, walk, &depths, err);
    }
    return rc;
}
