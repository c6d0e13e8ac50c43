/* SPDX-License-Identifier: MIT */
#include "consumer/singleton_mysql.h"

#include <inttypes.h>
#include <string.h>

enum rc singleton_mysql_run(const struct singleton_mysql *row, uint64_t *affected, struct err *err)
{
    return db_exec_buf(row->db, row->sql, affected, err);
}

void singleton_mysql_put_lease(const struct singleton_mysql *row,
                               const struct singleton_lease *lease)
{
    buf_print(row->sql, "lease_until = UTC_TIMESTAMP(3) + INTERVAL %" PRId64 " MICROSECOND",
              lease->lease_ms * 1000);
}

static void put_update(const struct singleton_mysql *row)
{
    buf_print(row->sql, "UPDATE %s SET owner = ", row->table);
}

static void put_row(const struct singleton_mysql *row)
{
    buf_print(row->sql, " WHERE name = '%s' AND ", row->name);
}

enum rc singleton_mysql_take(const struct singleton_mysql *row, const struct singleton_lease *lease,
                             bool *taken, struct err *err)
{
    struct buf *sql = row->sql;
    uint64_t affected = 0;
    enum rc rc;

    buf_reset(sql);
    put_update(row);
    db_put_text(row->db, sql, lease->owner, strlen(lease->owner));
    buf_print(sql, ", epoch = %" PRId64 ", ", lease->epoch);
    singleton_mysql_put_lease(row, lease);
    put_row(row);
    buf_print(sql, "epoch = %" PRId64, lease->epoch - 1);
    buf_print(sql,
              " AND (owner = '' OR lease_until <= UTC_TIMESTAMP(3) OR "
              "lease_until > UTC_TIMESTAMP(3) + INTERVAL %" PRId64 " MICROSECOND OR owner = ",
              lease->lease_ms * SINGLETON_LEASE_LENGTHS_MAX * 1000);
    db_put_text(row->db, sql, lease->owner, strlen(lease->owner));
    buf_char(sql, ')');
    rc = singleton_mysql_run(row, &affected, err);
    *taken = rc == RC_OK && affected > 0;
    return rc;
}

enum rc singleton_mysql_begin(struct singleton_mysql *row, struct err *err)
{
    enum rc rc = db_set_up_session(row->db, &row->session, "SET SESSION wait_timeout = 15", err);

    return rc == RC_OK ? db_begin(row->db, err) : rc;
}

static void put_owner(const struct singleton_mysql *row, const struct singleton_lease *lease)
{
    buf_text_put(row->sql, "owner = ");
    db_put_text(row->db, row->sql, lease->owner, strlen(lease->owner));
}

static enum rc lock_row(const struct singleton_mysql *row, const struct singleton_lease *lease,
                        bool or_released, bool *held, struct err *err)
{
    int64_t holds = 0;
    bool found = false;
    enum rc rc;

    buf_reset(row->sql);
    buf_print(row->sql, "SELECT epoch = %" PRId64 " AND (", lease->epoch);
    put_owner(row, lease);
    if (or_released)
        buf_text_put(row->sql, " OR owner = ''");
    buf_print(row->sql, ") FROM %s", row->table);
    put_row(row);
    buf_text_put(row->sql, "TRUE FOR UPDATE");
    if (row->sql->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(row->db, buf_text(row->sql), &holds, &found, err);
    *held = rc == RC_OK && found && holds;
    return rc;
}

enum rc singleton_mysql_check(const struct singleton_mysql *row,
                              const struct singleton_lease *lease, bool *held, struct err *err)
{
    return lock_row(row, lease, false, held, err);
}

enum rc singleton_mysql_check_end(const struct singleton_mysql *row,
                                  const struct singleton_lease *lease, bool *held, struct err *err)
{
    return lock_row(row, lease, true, held, err);
}

void singleton_mysql_put_where(const struct singleton_mysql *row,
                               const struct singleton_lease *lease)
{
    put_row(row);
    put_owner(row, lease);
}

void singleton_mysql_release(const struct singleton_mysql *row, const struct singleton_lease *lease)
{
    buf_reset(row->sql);
    put_update(row);
    buf_text_put(row->sql, "'', lease_until = UTC_TIMESTAMP(3)");
    singleton_mysql_put_where(row, lease);
    buf_print(row->sql, " AND epoch = %" PRId64, lease->epoch);
    (void)singleton_mysql_run(row, NULL, NULL);
}
