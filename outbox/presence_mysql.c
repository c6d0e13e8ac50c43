/* SPDX-License-Identifier: MIT */
#include "outbox/presence_mysql.h"

#include <string.h>

#define INSERT_ROWS \
    "INSERT INTO instance (name, role, started_at, seen_at, lease_ms, admin) VALUES "

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

/* Appends ", (...)" with the columns of instance. first: without the comma. */
static void put_row(struct presence_mysql *mysql, const struct role_env *env,
                    const struct role *role, int64_t lease_ms, bool first)
{
    buf_text_put(&mysql->sql, first ? "(" : ", (");
    put_text(mysql, env->instance);
    buf_text_put(&mysql->sql, ", ");
    put_text(mysql, role->name);
    buf_print(&mysql->sql, ", UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), %lld, ", (long long)lease_ms);
    put_text(mysql, env->admin_url);
    buf_char(&mysql->sql, ')');
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
    enum rc rc = begin_statement(mysql, INSERT_ROWS, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < env->part_count; i++) {
        if (env->parts[i].role->beats)
            continue;
        put_row(mysql, env, env->parts[i].role, lease_ms, count++ == 0);
    }
    buf_print(&mysql->sql, " ON DUPLICATE KEY UPDATE seen_at = UTC_TIMESTAMP(3), lease_ms = %lld",
              (long long)lease_ms);
    if (count > 0)
        rc = db_exec_buf(mysql->db, &mysql->sql, NULL, err);
    return rc == RC_OK ? write_address(mysql, env, err) : rc;
}

/* The length of "host-" in "host-pid-random". */
static size_t find_host_len(const char *instance)
{
    size_t len = strlen(instance);

    for (int dashes = 0; len > 0; len--)
        if (instance[len - 1] == '-' && ++dashes == 2)
            break;
    return len;
}

static enum rc delete_failed(struct presence_mysql *mysql, const struct role_env *env,
                             struct err *err)
{
    size_t len = find_host_len(env->instance);
    enum rc rc =
        begin_statement(mysql, "DELETE FROM instance WHERE lease_ms = 0 AND LEFT(name, ", err);

    if (rc != RC_OK)
        return rc;
    buf_print(&mysql->sql, "%zu) = ", len);
    db_put_text(mysql->db, &mysql->sql, env->instance, len);
    for (size_t i = 0; i < env->part_count; i++) {
        buf_text_put(&mysql->sql, i == 0 ? " AND role IN (" : ", ");
        put_text(mysql, env->parts[i].role->name);
    }
    buf_char(&mysql->sql, ')');
    return db_exec_buf(mysql->db, &mysql->sql, NULL, err);
}

enum rc presence_mysql_fail(struct presence_mysql *mysql, const struct role_env *env,
                            struct err *err)
{
    enum rc rc = delete_failed(mysql, env, err);

    if (rc == RC_OK)
        rc = begin_statement(mysql, INSERT_ROWS, err);
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < env->part_count; i++)
        put_row(mysql, env, env->parts[i].role, 0, i == 0);
    buf_text_put(&mysql->sql, " ON DUPLICATE KEY UPDATE seen_at = UTC_TIMESTAMP(3), lease_ms = 0");
    return db_exec_buf(mysql->db, &mysql->sql, NULL, err);
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
