/* SPDX-License-Identifier: MIT */
#include "schema/migrate/target.h"

#include "schema/migrate/migration.h"

#include <stdio.h>
#include <string.h>

/* By what the settings say. The same database named in two ways makes two targets, which do each
 * other no harm: they take turns at the lock and leave each other's history alone. */
static bool is_same(const struct mysql_settings *a, const struct mysql_settings *b)
{
    if (strcmp(a->database, b->database) != 0 || strcmp(a->socket, b->socket) != 0)
        return false;
    return a->socket[0] || (strcmp(a->host, b->host) == 0 && a->port == b->port);
}

static void init_target(struct migrate_target *target, const struct mysql_settings *settings,
                        unsigned sides)
{
    target->settings = settings;
    target->sides = sides;
    if (settings->socket[0])
        snprintf(target->place, sizeof(target->place), "database %s at %s", settings->database,
                 settings->socket);
    else
        snprintf(target->place, sizeof(target->place), "database %s at %s:%lld", settings->database,
                 settings->host, (long long)settings->port);
}

size_t migrate_targets(const struct settings *settings,
                       struct migrate_target targets[MIGRATE_TARGETS_MAX])
{
    if (is_same(&settings->mysql, &settings->sink)) {
        init_target(&targets[0], &settings->mysql, MIGRATION_OUTBOX | MIGRATION_SINK);
        return 1;
    }
    init_target(&targets[0], &settings->mysql, MIGRATION_OUTBOX);
    init_target(&targets[1], &settings->sink, MIGRATION_SINK);
    return 2;
}
