/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/retry/store/new_task.h"

#include <stdio.h>
#include <string.h>

struct group_query {
    retry_on_group on_group;
    void *ctx;
};

/* A list that is longer than its buffer was not written by this program. */
static void take_text(char *out, size_t size, const struct db_row *row, size_t column)
{
    snprintf(out, size, "%s", row->columns[column] ? row->columns[column] : "");
}

static enum rc group_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct group_query *group_query = ctx;
    struct retry_group group = {.enabled = db_column_i64(row, 2) != 0,
                                .version = db_column_i64(row, 10)};

    take_text(group.name, sizeof(group.name), row, 0);
    take_text(group.handlers, sizeof(group.handlers), row, 3);
    take_text(group.scenes, sizeof(group.scenes), row, 4);
    take_text(group.topics, sizeof(group.topics), row, 5);
    take_text(group.init_scene, sizeof(group.init_scene), row, 6);
    take_text(group.route, sizeof(group.route), row, 7);
    take_text(group.shards, sizeof(group.shards), row, 8);
    take_text(group.description, sizeof(group.description), row, 9);
    /* An unknown owner is not the clients. */
    if (!retry_owner_read(row->columns[1], row->lengths[1], &group.owner))
        group.owner = OWNER_UNKNOWN;
    return group_query->on_group(group_query->ctx, &group, err);
}

static void put_text(struct db *db, struct buf *sql, const char *words, const char *text)
{
    buf_text_put(sql, words);
    db_put_text(db, sql, text, strlen(text));
}

static enum rc run_sql(struct db *db, struct buf *sql, bool *changed, struct err *err)
{
    uint64_t affected = 0;
    enum rc rc = db_exec_buf(db, sql, &affected, err);

    *changed = affected > 0;
    buf_reset(sql);
    return rc;
}

enum rc retry_group_each(struct db *db, const char *name, retry_on_group on_group, void *ctx,
                         struct err *err)
{
    struct group_query group_query = {on_group, ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(&sql, "SELECT RTRIM(name), owner, enabled, handlers, scenes, topics, init_scene, "
                       "route, shards, description, version FROM retry_group");
    if (name)
        put_text(db, &sql, " WHERE name = ", name);
    buf_print(&sql, " ORDER BY name LIMIT %d", RETRY_GROUPS_MAX);
    rc = db_query_buf(db, &sql, group_on_row, &group_query, err);
    buf_done(&sql);
    return rc;
}

struct group_search {
    struct retry_group group;
    bool found;
};

static enum rc find_on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct group_search *group_search = ctx;

    (void)err;
    group_search->group = *group;
    group_search->found = true;
    return RC_OK;
}

static enum rc check_owner(struct db *db, const char *name, struct group_search *group_search,
                           struct err *err)
{
    enum rc rc;

    group_search->found = false;
    rc = retry_group_each(db, name, find_on_group, group_search, err);
    if (rc == RC_OK && group_search->found && group_search->group.owner != OWNER_CLIENT)
        rc = err_fail(err, RC_REJECT, 0, "group %.64s belongs to the %s", name,
                      retry_owner_name(group_search->group.owner));
    return rc;
}

static void put_value(struct db *db, struct buf *sql, const char *column, const char *text)
{
    db_put_name(sql, column);
    buf_text_put(sql, " = ");
    if (text)
        db_put_text(db, sql, text, strlen(text));
    else if (strcmp(column, "scenes") == 0)
        buf_text_put(sql, "IF(version = 0, '*', scenes)");
    else
        db_put_name(sql, column);
    buf_text_put(sql, ", ");
}

static void put_difference(struct db *db, struct buf *sql, const char *column, const char *text)
{
    if (!text)
        return;
    buf_text_put(sql, " OR ");
    db_put_name(sql, column);
    buf_text_put(sql, " <> ");
    db_put_text(db, sql, text, strlen(text));
}

enum rc retry_group_set(struct db *db, const char *name, const struct retry_group_values *values,
                        bool *changed, struct err *err)
{
    const char *const columns[] = {"handlers", "scenes", "topics",     "init_scene",
                                   "route",    "shards", "description"};
    const char *const texts[] = {values->handlers,   values->scenes, values->topics,
                                 values->init_scene, values->route,  values->shards,
                                 values->description};
    const size_t count = sizeof(columns) / sizeof(columns[0]);
    struct group_search group_search;
    struct buf sql = {0};
    enum rc rc = check_owner(db, name, &group_search, err);

    *changed = false;
    if (rc != RC_OK)
        return rc;
    /* Version 0 allows nothing, should this be all that is done. */
    put_text(db, &sql, "INSERT IGNORE INTO retry_group (name, version) VALUES (", name);
    buf_text_put(&sql, ", 0)");
    rc = run_sql(db, &sql, changed, err);
    if (rc == RC_OK) {
        buf_text_put(&sql, "UPDATE retry_group SET ");
        for (size_t i = 0; i < count; i++)
            put_value(db, &sql, columns[i], texts[i]);
        /* Last: the server evaluates each assignment with the columns that earlier ones changed. */
        buf_text_put(&sql, "updated_at = UTC_TIMESTAMP(3), version = version + 1");
        put_text(db, &sql, " WHERE owner = 'client' AND name = ", name);
        buf_text_put(&sql, " AND (version = 0");
        for (size_t i = 0; i < count; i++)
            put_difference(db, &sql, columns[i], texts[i]);
        buf_char(&sql, ')');
        rc = run_sql(db, &sql, changed, err);
    }
    buf_done(&sql);
    return rc;
}

enum rc retry_group_enable(struct db *db, const char *name, bool enabled, bool *changed,
                           struct err *err)
{
    struct group_search group_search = {.found = false};
    struct buf sql = {0};
    enum rc rc = retry_group_each(db, name, find_on_group, &group_search, err);

    *changed = false;
    if (rc == RC_OK && !group_search.found)
        rc = err_fail(err, RC_REJECT, 0, "there is no group %.64s", name);
    if (rc != RC_OK)
        return rc;
    buf_print(&sql,
              "UPDATE retry_group SET enabled = %d, version = version + 1, updated_at = "
              "UTC_TIMESTAMP(3)",
              enabled);
    put_text(db, &sql, " WHERE name = ", name);
    buf_print(&sql, " AND enabled <> %d", enabled);
    rc = run_sql(db, &sql, changed, err);
    buf_done(&sql);
    return rc;
}

/* The lists of a role's group inform operators; the origin lets the role's tasks run. */
static const struct {
    const char *handlers;
    const char *scenes;
    const char *topics;
} own[RETRY_OWNERS] = {
    [OWNER_CLIENT] = {"", "", ""},
    [OWNER_RELAY] = {"kafka", "publish", "*"},
    [OWNER_CONSUMER] = {"vote", "dead", ""},
};

enum rc retry_group_own(struct db *db, const char *name, enum retry_owner wanted,
                        enum retry_owner *owner, struct err *err)
{
    struct group_search group_search = {.found = false};
    struct buf sql = {0};
    bool made;
    enum rc rc = retry_group_each(db, name, find_on_group, &group_search, err);

    *owner = group_search.found ? group_search.group.owner : wanted;
    if (rc != RC_OK || group_search.found)
        return rc;
    put_text(db, &sql,
             "INSERT IGNORE INTO retry_group (name, owner, handlers, scenes, topics) VALUES (",
             name);
    put_text(db, &sql, ", ", retry_owner_name(wanted));
    put_text(db, &sql, ", ", own[wanted].handlers);
    put_text(db, &sql, ", ", own[wanted].scenes);
    put_text(db, &sql, ", ", own[wanted].topics);
    buf_char(&sql, ')');
    rc = run_sql(db, &sql, &made, err);
    buf_done(&sql);
    return rc;
}

struct owner_check {
    const struct retry_new_task *tasks;
    size_t count;
};

static enum rc owned_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct owner_check *owner_check = ctx;
    size_t number = 0;

    while (number < owner_check->count &&
           strcmp(new_task_group(&owner_check->tasks[number]), row->columns[0]) != 0)
        number++;
    return err_fail(err, RC_REJECT, 0,
                    "task %zu: group %.64s belongs to the %.8s; applications have groups of their "
                    "own",
                    number, row->columns[0], row->columns[1]);
}

enum rc retry_group_refuse_owned(struct db *db, const struct retry_new_task *tasks, size_t count,
                                 struct err *err)
{
    struct owner_check owner_check = {tasks, count};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(
        &sql, "SELECT RTRIM(name), owner FROM retry_group WHERE owner <> 'client' AND name IN (");
    for (size_t i = 0; i < count; i++) {
        const char *group = new_task_group(&tasks[i]);

        if (i == 0 || strcmp(group, new_task_group(&tasks[i - 1])) != 0)
            put_text(db, &sql, i > 0 ? "," : "", group);
    }
    buf_text_put(&sql, ") LIMIT 1");
    rc = db_query_buf(db, &sql, owned_on_row, &owner_check, err);
    buf_done(&sql);
    return rc;
}
