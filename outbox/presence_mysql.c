/* SPDX-License-Identifier: MIT */
#include "outbox/presence_mysql.h"

#include <string.h>

static void put_text(struct presence_mysql *mysql, const char *text)
{
    db_put_text(mysql->db, &mysql->sql, text, strlen(text));
}

static enum rc begin_statement(struct presence_mysql *mysql, const char *sql, struct err *err)
{
    enum rc rc = db_connect(mysql->db, err);

    buf_reset(&mysql->sql);
    buf_text_put(&mysql->sql, sql);
    return rc;
}

/* Appends " AND role IN (...)" with the roles that beat themselves or that do not. False: none. */
static bool put_roles(struct presence_mysql *mysql, const struct role_env *env, bool beats)
{
    size_t count = 0;

    for (size_t i = 0; i < env->part_count; i++) {
        if (env->parts[i].role->beats != beats)
            continue;
        buf_text_put(&mysql->sql, count++ == 0 ? " AND role IN (" : ", ");
        put_text(mysql, env->parts[i].role->name);
    }
    buf_text_put(&mysql->sql, count > 0 ? ")" : "");
    return count > 0;
}

/* Roles that beat themselves insert their rows a little later or earlier. */
static enum rc write_address(struct presence_mysql *mysql, const struct role_env *env,
                             struct err *err)
{
    enum rc rc = begin_statement(mysql, "UPDATE instance SET admin = ", err);

    if (rc != RC_OK)
        return rc;
    put_text(mysql, env->admin_url);
    buf_text_put(&mysql->sql, " WHERE name = ");
    put_text(mysql, env->instance);
    return put_roles(mysql, env, true) ? db_exec_buf(mysql->db, &mysql->sql, NULL, err) : RC_OK;
}

enum rc presence_mysql_beat(struct presence_mysql *mysql, const struct role_env *env,
                            struct err *err)
{
    int64_t lease_ms = env->settings->relay.lease_ms;
    size_t count = 0;
    enum rc rc = begin_statement(
        mysql, "INSERT INTO instance (name, role, started_at, seen_at, lease_ms, admin) VALUES ",
        err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < env->part_count; i++) {
        if (env->parts[i].role->beats)
            continue;
        buf_text_put(&mysql->sql, count++ == 0 ? "(" : ", (");
        put_text(mysql, env->instance);
        buf_text_put(&mysql->sql, ", ");
        put_text(mysql, env->parts[i].role->name);
        buf_print(&mysql->sql, ", UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), %lld, ", (long long)lease_ms);
        put_text(mysql, env->admin_url);
        buf_char(&mysql->sql, ')');
    }
    buf_print(&mysql->sql, " ON DUPLICATE KEY UPDATE seen_at = UTC_TIMESTAMP(3), lease_ms = %lld",
              (long long)lease_ms);
    if (count > 0)
        rc = db_exec_buf(mysql->db, &mysql->sql, NULL, err);
    return rc == RC_OK ? write_address(mysql, env, err) : rc;
}

enum rc presence_mysql_remove(struct presence_mysql *mysql, const struct role_env *env,
                              struct err *err)
{
    enum rc rc = begin_statement(mysql, "DELETE FROM instance WHERE name = ", err);

    if (rc != RC_OK)
        return rc;
    put_text(mysql, env->instance);
    return put_roles(mysql, env, false) ? db_exec_buf(mysql->db, &mysql->sql, NULL, err) : RC_OK;
}
