/* SPDX-License-Identifier: MIT */
#include "common/db/db.h"
#include "consumer/dead/dead.h"
#include "consumer/dead/dead_admin.h"
#include "consumer/dead/dead_audit_mysql.h"
#include "consumer/dead/dead_mysql.h"
#include "consumer/installation_mysql.h"

#include <stdlib.h>
#include <string.h>

struct dead_admin {
    const struct settings *settings;
    struct dead_admin_ops ops;
    char group[INSTALLATION_GROUP_SIZE]; /* "": not known yet */
    struct dead_mysql *mysql;
    struct db *audit;
    bool audit_failed;
    /* The action that is being done. */
    struct dead_operation *operation; /* NULL: none */
    struct dead dead;
    uint64_t decided;
};

/* The name of the consumer group follows from the id in the sink's database. */
static enum rc find_group(struct dead_admin *admin, struct err *err)
{
    char id[INSTALLATION_ID_SIZE] = "";
    enum rc rc = RC_OK;

    admin->audit_failed = false;
    if (admin->group[0])
        return RC_OK;
    if (!admin->settings->consumer.group[0])
        rc = installation_read(dead_mysql_db(admin->mysql), id, err);
    if (rc == RC_OK)
        installation_name_group(admin->group, admin->settings, id);
    return rc;
}

static enum rc admin_ping(void *ctx, struct err *err)
{
    struct dead_admin *admin = ctx;

    enum rc rc = db_run(dead_mysql_db(admin->mysql), "DO 0", err);

    admin->audit_failed = rc == RC_OK;
    if (rc == RC_OK)
        rc = db_run(admin->audit, "DO 0", err);
    return rc;
}

static enum rc admin_list(void *ctx, const struct dead_filter *filter, bool decided, int64_t after,
                          size_t rows_max, dead_on_view on_view, void *view_ctx, struct err *err)
{
    struct dead_admin *admin = ctx;
    enum rc rc = find_group(admin, err);

    if (rc != RC_OK)
        return rc;
    return dead_mysql_list(admin->mysql, filter, decided, after, rows_max, on_view, view_ctx, err);
}

static enum rc admin_show(void *ctx, int64_t id, dead_on_view on_view, void *view_ctx,
                          struct err *err)
{
    struct dead_admin *admin = ctx;
    enum rc rc = find_group(admin, err);

    return rc == RC_OK ? dead_mysql_show(admin->mysql, id, on_view, view_ctx, err) : rc;
}

static enum rc admin_count(void *ctx, const struct dead_filter *filter, uint64_t *count,
                           int64_t *id_max, struct err *err)
{
    struct dead_admin *admin = ctx;
    enum rc rc = find_group(admin, err);

    return rc == RC_OK ? dead_mysql_count(admin->mysql, filter, count, id_max, err) : rc;
}

static void on_result(void *ctx, const struct dead_result *result)
{
    struct dead_admin *admin = ctx;

    admin->decided +=
        result->outcome != DEAD_OUTCOME_STAYS && result->outcome != DEAD_OUTCOME_WAITS;
    admin->operation->on_result(admin->operation->ctx, result);
}

static enum rc write_audit(struct dead_admin *admin, struct dead_operation *operation,
                           struct err *err)
{
    const struct dead_audit_entry entry = {
        .drop = operation->drop,
        .group = admin->group,
        .by = operation->by,
        .via = operation->via,
        .why = operation->why,
        .filter = &operation->filter,
        .all = operation->all,
        .records_max = operation->records_max,
        .has_value = operation->value != NULL,
        .ignore_key = operation->ignore_key,
    };
    enum rc rc;

    if (operation->audit_id != 0)
        return RC_OK;
    rc = dead_audit_begin(admin->audit, &entry, &operation->audit_id, err);
    admin->audit_failed = rc != RC_OK;
    return rc;
}

/* Invariant Q13: the row of the audit is there before the first record is changed. */
static enum rc begin_operation(struct dead_admin *admin, struct dead_operation *operation,
                               struct err *err)
{
    const struct dead_config config = {
        .sink = dead_mysql_sink(admin->mysql),
        .store = dead_mysql_store(admin->mysql),
        .filter = &operation->filter,
        .drop = operation->drop,
        .rule = operation->ignore_key ? RECORD_ANY_KEY : RECORD_KEY,
        .keep_lasts = strcmp(admin->settings->consumer.votes_from, "anyone") == 0,
        .value = operation->value,
        .value_len = operation->value_len,
        .records_max = operation->records_max,
        .on_result = on_result,
        .ctx = admin,
    };
    enum rc rc = find_group(admin, err);

    if (rc == RC_OK)
        rc = write_audit(admin, operation, err);
    if (rc == RC_OK)
        rc = dead_init(&admin->dead, &config, err);
    if (rc != RC_OK)
        return rc;
    dead_mysql_set_by(admin->mysql, operation->by);
    admin->decided = 0;
    admin->operation = operation;
    return RC_OK;
}

static void end_operation(struct dead_admin *admin)
{
    if (!admin->operation)
        return;
    dead_done(&admin->dead);
    dead_mysql_set_by(admin->mysql, "");
    admin->operation = NULL;
}

/* What was left has no number in the audit: a part of it may have been done. */
static void admin_leave(void *ctx)
{
    end_operation(ctx);
}

static enum rc admin_step(void *ctx, struct dead_operation *operation, bool *more, struct err *err)
{
    struct dead_admin *admin = ctx;
    enum rc rc = RC_OK;

    *more = true;
    admin->audit_failed = false;
    if (admin->operation != operation) {
        end_operation(admin);
        rc = begin_operation(admin, operation, err);
    }
    if (rc == RC_OK)
        rc = dead_step(&admin->dead, more, err);
    if (rc == RC_OK && !*more) {
        dead_audit_end(admin->audit, operation->audit_id, admin->decided);
        end_operation(admin);
    }
    return rc;
}

static bool admin_audit_failed(void *ctx)
{
    return ((struct dead_admin *)ctx)->audit_failed;
}

static bool admin_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DB_DEADLOCK || err->code == DB_LOCK_TIMEOUT;
}

enum rc dead_admin_open(struct dead_admin **out, const struct settings *settings, struct err *err)
{
    struct dead_admin *admin = calloc(1, sizeof(*admin));
    enum rc rc;

    *out = NULL;
    if (!admin)
        return err_fail(err, RC_FATAL, 0, "no memory for dead records");
    admin->settings = settings;
    admin->ops = (struct dead_admin_ops){
        .ctx = admin,
        .ping = admin_ping,
        .list = admin_list,
        .show = admin_show,
        .count = admin_count,
        .step = admin_step,
        .leave = admin_leave,
        .audit_failed = admin_audit_failed,
        .collided = admin_collided,
    };
    rc = dead_mysql_open(&admin->mysql, settings, admin->group, "", err);
    if (rc == RC_OK)
        rc = db_open(&admin->audit, &settings->mysql, err);
    if (rc != RC_OK)
        dead_admin_close(admin);
    else
        *out = admin;
    return rc;
}

void dead_admin_close(struct dead_admin *admin)
{
    if (!admin)
        return;
    end_operation(admin);
    dead_mysql_close(admin->mysql);
    db_close(admin->audit);
    free(admin);
}

const struct dead_admin_ops *dead_admin_ops(const struct dead_admin *admin)
{
    return &admin->ops;
}

void dead_admin_interrupt(struct dead_admin *admin)
{
    db_interrupt(dead_mysql_db(admin->mysql));
    db_interrupt(admin->audit);
}
