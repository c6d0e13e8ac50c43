/* SPDX-License-Identifier: MIT */
#include "schema/migrate/migrate_command.h"

#include "common/log.h"
#include "schema/migrate/migrate.h"
#include "schema/migrate/migrate_mysql.h"
#include "schema/migrate/target.h"

/* Another process of ours may be migrating. The gate is called again, so a short wait is enough. */
#define LOCK_WAIT_MS 5000

static void on_event(void *ctx, enum migrate_event event, const struct migration *migration,
                     size_t done, size_t statements)
{
    static const char *const names[] = {
        [MIGRATE_DATABASE_CREATED] = "database_created", [MIGRATE_STARTED] = "migration_started",
        [MIGRATE_RESUMED] = "migration_resumed",         [MIGRATE_APPLIED] = "migration_applied",
        [MIGRATE_BASELINED] = "migration_baselined",
    };
    const struct migrate_target *target = ctx;

    if (migration)
        log_event(LOG_INFO, names[event], "database=%s migration=%s statement=%zu statements=%zu",
                  target->settings->database, migration->name, done, statements);
    else
        log_event(LOG_INFO, names[event], "database=%s", target->settings->database);
}

/* *behind: migrating would help. */
static enum rc check_schema(const struct migrate *migrate, bool *behind, struct err *err)
{
    struct migrate_state state = {0};
    enum rc rc = migrate_state_read(migrate, &state, err);

    if (rc == RC_OK) {
        *behind = migrate_state_check(migrate, &state, NULL) == RC_OK;
        rc = migrate_state_judge(migrate, &state, err);
    }
    migrate_state_done(&state);
    return rc;
}

static enum rc run_with_store(struct migrate_target *target, bool up, bool *behind, struct err *err)
{
    struct migrate migrate = {
        .set = &migration_set_ours,
        .sides = target->sides,
        .place = target->place,
        .lock_wait_ms = LOCK_WAIT_MS,
        .on_event = on_event,
    };
    struct migrate_mysql *mysql = NULL;
    enum rc rc =
        migrate_mysql_open(&mysql, target->settings,
                           up ? MIGRATE_MYSQL_WAIT_MS : target->settings->query_timeout_ms, err);

    if (rc == RC_OK) {
        migrate.event_ctx = target;
        migrate.store = migrate_mysql_store(mysql);
        rc = up ? migrate_up(&migrate, MIGRATION_NEWEST, err) : check_schema(&migrate, behind, err);
    }
    migrate_mysql_close(mysql);
    return rc;
}

enum rc schema_gate(const struct settings *settings, bool migrate, struct err *err)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];
    size_t count = migrate_targets(settings, targets);
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        bool behind = false;

        rc = run_with_store(&targets[i], false, &behind, err);
        if (rc == RC_RETRY && behind && migrate)
            rc = run_with_store(&targets[i], true, &behind, err);
    }
    return rc;
}
