/* SPDX-License-Identifier: MIT */
#include "schema/migrate/compare_command.h"

#include "schema/migrate/migrate.h"
#include "schema/migrate/migrate_mysql.h"
#include "schema/migrate/report.h"

#include <string.h>

struct comparison {
    schema_on_drift on_drift;
    void *ctx;
    struct buf text;
};

static void pass_drift(void *ctx, const struct shape_drift *drift)
{
    struct comparison *comparison = ctx;

    buf_reset(&comparison->text);
    migrate_report_put_drift(&comparison->text, drift);
    comparison->on_drift(comparison->ctx, drift->table, drift->kind == SHAPE_TABLE, !drift->actual,
                         buf_text(&comparison->text));
}

static enum rc compare_target(const struct migrate_target *target, struct comparison *comparison,
                              struct err *err)
{
    struct migrate migrate = {
        .set = &migration_set_ours, .sides = target->sides, .place = target->place};
    struct migrate_state state = {0};
    struct migrate_mysql *mysql = NULL;
    size_t drifts = 0;
    enum rc rc =
        migrate_mysql_open(&mysql, target->settings, target->settings->query_timeout_ms, err);

    if (rc == RC_OK) {
        migrate.store = migrate_mysql_store(mysql);
        rc = migrate_state_read(&migrate, &state, err);
    }
    if (rc == RC_OK && state.has_database)
        rc = migrate_verify(&migrate, &state, pass_drift, comparison, &drifts, err);
    migrate_state_done(&state);
    migrate_mysql_close(mysql);
    return rc;
}

enum rc schema_compare(const struct settings *settings, const char *section,
                       schema_on_drift on_drift, void *ctx, struct err *err)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];
    struct comparison comparison = {.on_drift = on_drift, .ctx = ctx};
    size_t count = migrate_targets(settings, targets);
    size_t at = strcmp(section, "sink") == 0 ? 1 : 0;
    enum rc rc = RC_OK;

    if (at < count)
        rc = compare_target(&targets[at], &comparison, err);
    buf_done(&comparison.text);
    return rc;
}
