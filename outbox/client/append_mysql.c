/* SPDX-License-Identifier: MIT */
/* The calls of tallybox/outbox.h and tallybox/task.h that take a connection. */
#include "common/buf.h"
#include "common/db/db.h"
#include "outbox/client/new_item.h"
#include "outbox/client/result.h"
#include "outbox/lanes.h"
#include "outbox/outbox.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A connection whose default database is another one during a call. */
struct visit {
    struct db *db;
    struct buf back; /* the statement that selects the former database; empty: none */
};

/* The name of the application's own database may have any character. */
static void put_any_name(struct buf *sql, const char *name)
{
    buf_char(sql, '`');
    for (; *name != '\0'; name++) {
        if (*name == '`')
            buf_char(sql, '`');
        buf_char(sql, *name);
    }
    buf_char(sql, '`');
}

static enum rc note_database(void *ctx, const struct db_row *row, struct err *err)
{
    struct buf *name = ctx;

    (void)err;
    if (row->columns[0])
        buf_put(name, row->columns[0], row->lengths[0]);
    return RC_OK;
}

/* USE ends no transaction. database NULL: the connection's own. */
static enum rc visit_begin(struct visit *visit, void *mysql, const char *database, struct err *err)
{
    static const char ask[] = "SELECT DATABASE()";
    struct buf name = {0};
    struct buf sql = {0};
    enum rc rc;

    memset(visit, 0, sizeof(*visit));
    if (!mysql)
        return err_fail(err, RC_FATAL, 0, "mysql is NULL: a connection is needed");
    rc = db_borrow(&visit->db, mysql, err);
    if (rc != RC_OK || !database)
        return rc;
    rc = db_query(visit->db, ask, sizeof(ask) - 1, note_database, &name, err);
    if (rc == RC_OK && strcmp(buf_text(&name), database) != 0) {
        buf_text_put(&sql, "USE ");
        put_any_name(&sql, database);
        rc = db_exec_buf(visit->db, &sql, NULL, err);
        if (rc == RC_OK && name.len > 0) {
            buf_text_put(&visit->back, "USE ");
            put_any_name(&visit->back, buf_text(&name));
        }
    }
    buf_done(&name);
    buf_done(&sql);
    return rc;
}

/* Invariant: after a failure too, the application's next statement runs in its own database. The
 * connection is lost if it cannot be selected. */
static enum rc visit_end(struct visit *visit, enum rc rc, struct err *err)
{
    struct err fault = {0};
    enum rc back = RC_OK;

    if (visit->back.len > 0)
        back = db_exec_buf(visit->db, &visit->back, NULL, &fault);
    if (rc == RC_OK && back != RC_OK) {
        *err = fault;
        rc = back;
    }
    buf_done(&visit->back);
    db_close(visit->db);
    return rc;
}

/* NULL: no memory, or a fault in an event, as *rc and err tell. */
static struct outbox_event *read_events(const struct tallybox_event *events, size_t count,
                                        enum rc *rc, struct err *err)
{
    struct outbox_event *list = calloc(count > 0 ? count : 1, sizeof(*list));

    *rc = list ? new_events_read(events, count, list, err)
               : err_fail(err, RC_FATAL, 0, "no memory for %zu events", count);
    if (*rc == RC_OK)
        return list;
    free(list);
    return NULL;
}

enum tallybox_result tallybox_outbox_append(void *mysql, const char *table,
                                            const struct tallybox_event *events, size_t count,
                                            struct tallybox_error *error)
{
    struct err err = {0};
    struct visit visit = {0};
    enum rc rc;
    struct outbox_event *list = read_events(events, count, &rc, &err);

    if (rc == RC_OK) {
        rc = visit_begin(&visit, mysql, NULL, &err);
        if (rc == RC_OK)
            rc = outbox_append(visit.db, table ? table : "outbox", list, count, &err);
        rc = visit_end(&visit, rc, &err);
    }
    free(list);
    return result_give(rc, &err, error);
}

/* Appends the events of each lane in their order. */
static enum rc append_to_lanes(struct db *db, size_t lane_count, const struct outbox_event *events,
                               size_t count, struct outbox_event *of_lane, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t lane = 0; lane < lane_count && rc == RC_OK; lane++) {
        char name[OUTBOX_LANE_NAME_SIZE];
        size_t taken = 0;

        for (size_t i = 0; i < count; i++) {
            if (outbox_lane_of(events[i].aggregate_id, lane_count) == lane)
                of_lane[taken++] = events[i];
        }
        outbox_lane_name(name, lane);
        rc = outbox_append(db, name, of_lane, taken, err);
    }
    return rc;
}

static enum rc check_lanes(struct db *db, size_t lane_count, struct err *err)
{
    struct lanes lanes;
    enum rc rc;

    if (lane_count < 1 || lane_count > TALLYBOX_LANES_MAX)
        return err_fail(err, RC_REJECT, 0, "lane_count is not 1 to %d", TALLYBOX_LANES_MAX);
    rc = lanes_lock(db, &lanes, err);
    return rc == RC_OK ? lanes_check(&lanes, (int64_t)lane_count, err) : rc;
}

_Static_assert(TALLYBOX_LANES_MAX == LANES_MAX, "lanes");

enum tallybox_result tallybox_outbox_append_lanes(void *mysql, const char *database,
                                                  size_t lane_count,
                                                  const struct tallybox_event *events, size_t count,
                                                  struct tallybox_error *error)
{
    struct err err = {0};
    struct visit visit = {0};
    enum rc rc;
    struct outbox_event *list = read_events(events, count, &rc, &err);
    struct outbox_event *of_lane = list ? calloc(count > 0 ? count : 1, sizeof(*list)) : NULL;

    if (list && !of_lane)
        rc = err_fail(&err, RC_FATAL, 0, "no memory for %zu events", count);
    if (rc == RC_OK) {
        rc = visit_begin(&visit, mysql, database, &err);
        if (rc == RC_OK)
            rc = check_lanes(visit.db, lane_count, &err);
        if (rc == RC_OK)
            rc = append_to_lanes(visit.db, lane_count, list, count, of_lane, &err);
        rc = visit_end(&visit, rc, &err);
    }
    free(of_lane);
    free(list);
    return result_give(rc, &err, error);
}

static void give_tickets(const struct retry_ticket *from, size_t count,
                         struct tallybox_ticket *tickets)
{
    for (size_t i = 0; i < count; i++) {
        tickets[i].id = from[i].id;
        tickets[i].existed = from[i].existed;
    }
}

enum tallybox_result tallybox_task_append(void *mysql, const char *database,
                                          const struct tallybox_task *tasks, size_t count,
                                          struct tallybox_ticket *tickets,
                                          struct tallybox_error *error)
{
    struct err err = {0};
    struct visit visit = {0};
    struct retry_new_task *list;
    struct retry_ticket *made;
    enum rc rc = RC_OK;

    if (tallybox_task_check(tasks, count, error) != TALLYBOX_OK)
        return TALLYBOX_REJECT;
    list = calloc(count > 0 ? count : 1, sizeof(*list));
    made = calloc(count > 0 ? count : 1, sizeof(*made));
    if (!list || !made) {
        rc = err_fail(&err, RC_FATAL, 0, "no memory for %zu tasks", count);
        goto out;
    }
    for (size_t i = 0; i < count; i++)
        new_task_read(&tasks[i], &list[i]);
    rc = visit_begin(&visit, mysql, database, &err);
    if (rc == RC_OK)
        rc = retry_append(visit.db, list, count, tickets ? made : NULL, &err);
    rc = visit_end(&visit, rc, &err);
    if (rc == RC_OK && tickets)
        give_tickets(made, count, tickets);
out:
    free(made);
    free(list);
    return result_give(rc, &err, error);
}
