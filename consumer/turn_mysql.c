/* SPDX-License-Identifier: MIT */
#include "consumer/turn_mysql.h"

#include <inttypes.h>
#include <string.h>

enum rc turn_mysql_run(const struct turn_mysql *turn, uint64_t *affected, struct err *err)
{
    if (turn->sql->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    return db_exec(turn->db, turn->sql->data, turn->sql->len, affected, err);
}

void turn_mysql_put_lease(const struct turn_mysql *turn, const struct turn_hold *hold)
{
    buf_print(turn->sql, "lease_until = UTC_TIMESTAMP(3) + INTERVAL %" PRId64 " MICROSECOND",
              hold->lease_ms * 1000);
}

/* The table and the row are constants of the program. */
static void put_update(const struct turn_mysql *turn)
{
    buf_print(turn->sql, "UPDATE %s SET owner = ", turn->table);
}

static void put_row(const struct turn_mysql *turn)
{
    buf_print(turn->sql, " WHERE name = '%s' AND ", turn->name);
}

enum rc turn_mysql_take(const struct turn_mysql *turn, const struct turn_hold *hold, bool *taken,
                        struct err *err)
{
    struct buf *sql = turn->sql;
    uint64_t affected = 0;
    enum rc rc;

    buf_reset(sql);
    put_update(turn);
    db_put_text(turn->db, sql, hold->owner, strlen(hold->owner));
    buf_print(sql, ", epoch = %" PRId64 ", ", hold->epoch);
    turn_mysql_put_lease(turn, hold);
    put_row(turn);
    buf_print(sql, "epoch = %" PRId64, hold->epoch - 1);
    buf_print(sql,
              " AND (owner = '' OR lease_until <= UTC_TIMESTAMP(3) OR "
              "lease_until > UTC_TIMESTAMP(3) + INTERVAL %" PRId64 " MICROSECOND OR owner = ",
              hold->lease_ms * TURN_LENGTHS_MAX * 1000);
    db_put_text(turn->db, sql, hold->owner, strlen(hold->owner));
    buf_char(sql, ')');
    rc = turn_mysql_run(turn, &affected, err);
    *taken = rc == RC_OK && affected > 0;
    return rc;
}

enum rc turn_mysql_begin(struct turn_mysql *turn, struct err *err)
{
    enum rc rc = db_connect(turn->db, err);

    if (rc == RC_OK && turn->session != db_session(turn->db)) {
        rc = db_run(turn->db, "SET SESSION wait_timeout = 15", err);
        if (rc == RC_OK)
            turn->session = db_session(turn->db);
    }
    return rc == RC_OK ? db_begin(turn->db, err) : rc;
}

static void put_owner(const struct turn_mysql *turn, const struct turn_hold *hold)
{
    buf_text_put(turn->sql, "owner = ");
    db_put_text(turn->db, turn->sql, hold->owner, strlen(hold->owner));
}

static enum rc row_check(const struct turn_mysql *turn, const struct turn_hold *hold,
                         bool or_released, bool *held, struct err *err)
{
    int64_t holds = 0;
    bool found = false;
    enum rc rc;

    buf_reset(turn->sql);
    buf_print(turn->sql, "SELECT epoch = %" PRId64 " AND (", hold->epoch);
    put_owner(turn, hold);
    if (or_released)
        buf_text_put(turn->sql, " OR owner = ''");
    buf_print(turn->sql, ") FROM %s", turn->table);
    put_row(turn);
    buf_text_put(turn->sql, "TRUE FOR UPDATE");
    if (turn->sql->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a statement");
    rc = db_number(turn->db, buf_text(turn->sql), &holds, &found, err);
    *held = rc == RC_OK && found && holds;
    return rc;
}

enum rc turn_mysql_check(const struct turn_mysql *turn, const struct turn_hold *hold, bool *held,
                         struct err *err)
{
    return row_check(turn, hold, false, held, err);
}

enum rc turn_mysql_check_end(const struct turn_mysql *turn, const struct turn_hold *hold,
                             bool *held, struct err *err)
{
    return row_check(turn, hold, true, held, err);
}

void turn_mysql_put_where(const struct turn_mysql *turn, const struct turn_hold *hold)
{
    put_row(turn);
    put_owner(turn, hold);
}

void turn_mysql_release(const struct turn_mysql *turn, const struct turn_hold *hold)
{
    buf_reset(turn->sql);
    put_update(turn);
    buf_text_put(turn->sql, "'', lease_until = UTC_TIMESTAMP(3)");
    turn_mysql_put_where(turn, hold);
    buf_print(turn->sql, " AND epoch = %" PRId64, hold->epoch);
    (void)turn_mysql_run(turn, NULL, NULL);
}
