/* SPDX-License-Identifier: MIT */
#include "outbox/retirer_mysql.h"

#include "outbox/range_mysql.h"

#include <string.h>

static void put_fence(struct retirer_mysql *retirer)
{
    struct buf *sql = &retirer->sql;

    buf_text_put(sql, "(SELECT epoch FROM relay_lease WHERE lane = ");
    db_put_text(retirer->db, sql, retirer->lane, strlen(retirer->lane));
    buf_text_put(sql, " AND owner = ");
    db_put_text(retirer->db, sql, retirer->owner, strlen(retirer->owner));
    buf_char(sql, ')');
}

/* Fewer rows than asked for were deleted: by an earlier try whose answer was lost, by a person, or
 * because the lease is somebody else's now. */
static enum rc look_at_lease(struct retirer_mysql *retirer, int64_t epoch, bool *fenced,
                             struct err *err)
{
    int64_t now = 0;
    bool found = false;
    enum rc rc;

    buf_reset(&retirer->sql);
    buf_text_put(&retirer->sql, "SELECT ");
    put_fence(retirer);
    rc = db_number(retirer->db, buf_text(&retirer->sql), &now, &found, err);
    *fenced = rc == RC_OK && (!found || now != epoch);
    return rc;
}

static enum rc retirer_delete(void *ctx, const struct seq_range *ranges, size_t count, size_t rows,
                              int64_t epoch, bool *fenced, struct err *err)
{
    struct retirer_mysql *retirer = ctx;
    struct buf *sql = &retirer->sql;
    uint64_t affected = 0;
    enum rc rc = db_connect(retirer->db, err);

    *fenced = false;
    if (rc == RC_OK) {
        buf_reset(sql);
        buf_text_put(sql, "DELETE FROM ");
        db_put_name(sql, retirer->lane);
        buf_text_put(sql, " WHERE (");
        range_put(sql, ranges, count);
        buf_text_put(sql, ") AND ");
        put_fence(retirer);
        buf_print(sql, " = %lld", (long long)epoch);
        if (sql->failed)
            return err_fail(err, RC_FATAL, 0, "deleting from %s: no memory for the statement",
                            retirer->lane);
        rc = db_exec(retirer->db, sql->data, sql->len, &affected, err);
    }
    if (rc == RC_OK && affected < rows)
        rc = look_at_lease(retirer, epoch, fenced, err);
    if (rc != RC_OK)
        err_wrap(err, "deleting from %s", retirer->lane);
    return rc;
}

enum rc retirer_mysql_open(struct retirer_mysql *retirer, const char *lane, const char *owner,
                           const struct settings *settings, struct err *err)
{
    memset(retirer, 0, sizeof(*retirer));
    retirer->lane = lane;
    retirer->owner = owner;
    return db_open(&retirer->db, &settings->mysql, err);
}

void retirer_mysql_close(struct retirer_mysql *retirer)
{
    db_close(retirer->db);
    retirer->db = NULL;
    buf_done(&retirer->sql);
}

struct retirer_seam retirer_mysql_seam(struct retirer_mysql *retirer)
{
    return (struct retirer_seam){.ctx = retirer, .delete_ranges = retirer_delete};
}
