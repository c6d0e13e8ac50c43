/* SPDX-License-Identifier: MIT */
#include "outbox/retry/scene_mysql.h"

#include "common/buf.h"

#include <string.h>

struct reading {
    enum rc (*on_scene)(void *ctx, const struct scene_row *row, struct err *err);
    void *ctx;
};

static enum rc scene_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct reading *reading = ctx;
    struct scene_row scene = {
        .group = row->columns[0],
        .scene = row->columns[1],
        .policy = row->columns[2],
        .options = row->columns[3],
        .paused = db_column_i64(row, 4) != 0,
        .version = db_column_i64(row, 5),
    };

    return reading->on_scene(reading->ctx, &scene, err);
}

static void text_put(struct db *db, struct buf *sql, const char *text)
{
    if (text && *text)
        db_put_text(db, sql, text, strlen(text));
    else
        buf_text_put(sql, "NULL");
}

static void name_put(struct db *db, struct buf *sql, const char *words, const char *name)
{
    buf_text_put(sql, words);
    db_put_text(db, sql, name, strlen(name));
}

enum rc scene_mysql_each(struct db *db, const char *group, const char *scene,
                         enum rc (*on_scene)(void *ctx, const struct scene_row *row,
                                             struct err *err),
                         void *ctx, struct err *err)
{
    struct reading reading = {on_scene, ctx};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(&sql, "SELECT task_group, scene, policy, options, paused, version FROM "
                       "retry_scene WHERE 1");
    if (group)
        name_put(db, &sql, " AND task_group = ", group);
    if (scene)
        name_put(db, &sql, " AND scene = ", scene);
    buf_print(&sql, " ORDER BY task_group, scene LIMIT %d", SCENE_ROWS_MAX);
    rc = db_query_buf(db, &sql, scene_on_row, &reading, err);
    buf_done(&sql);
    return rc;
}

static enum rc change(struct db *db, struct buf *sql, bool *changed, struct err *err)
{
    uint64_t affected = 0;
    enum rc rc = db_exec_buf(db, sql, &affected, err);

    *changed = affected > 0;
    buf_done(sql);
    return rc;
}

enum rc scene_mysql_pause(struct db *db, const char *group, const char *scene, bool paused,
                          bool *changed, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    if (paused) {
        /* A scene that never had a policy gets a row to be paused by. */
        name_put(db, &sql, "INSERT IGNORE INTO retry_scene (task_group, scene, version) VALUES (",
                 group);
        name_put(db, &sql, ", ", scene);
        buf_text_put(&sql, ", 0)");
        rc = change(db, &sql, changed, err);
        if (rc != RC_OK)
            return rc;
        sql = (struct buf){0};
    }
    buf_print(&sql,
              "UPDATE retry_scene SET paused = %d, version = version + 1, updated_at = "
              "UTC_TIMESTAMP(3)",
              paused);
    name_put(db, &sql, " WHERE task_group = ", group);
    name_put(db, &sql, " AND scene = ", scene);
    buf_print(&sql, " AND paused <> %d", paused);
    return change(db, &sql, changed, err);
}

enum rc scene_mysql_set(struct db *db, const char *group, const char *scene, const char *policy,
                        const char *options, bool *changed, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    name_put(db, &sql, "INSERT IGNORE INTO retry_scene (task_group, scene, version) VALUES (",
             group);
    name_put(db, &sql, ", ", scene);
    buf_text_put(&sql, ", 0)");
    rc = change(db, &sql, changed, err);
    if (rc != RC_OK)
        return rc;
    sql = (struct buf){0};
    buf_text_put(&sql, "UPDATE retry_scene SET version = version + 1, updated_at = "
                       "UTC_TIMESTAMP(3), policy = ");
    if (policy)
        text_put(db, &sql, policy);
    else
        buf_text_put(&sql, "policy");
    buf_text_put(&sql, ", options = ");
    if (options)
        text_put(db, &sql, options);
    else
        buf_text_put(&sql, "options");
    name_put(db, &sql, " WHERE task_group = ", group);
    name_put(db, &sql, " AND scene = ", scene);
    buf_text_put(&sql, " AND (version = 0");
    if (policy) {
        buf_text_put(&sql, " OR NOT policy <=> ");
        text_put(db, &sql, policy);
    }
    if (options) {
        buf_text_put(&sql, " OR NOT options <=> ");
        text_put(db, &sql, options);
    }
    buf_char(&sql, ')');
    return change(db, &sql, changed, err);
}
