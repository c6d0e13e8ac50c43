/* SPDX-License-Identifier: MIT */
#include "common/db/cluster.h"

#include "common/db/error.h"

#include <string.h>
#include <strings.h>

/* A server has the first three only when it is built for Galera, the others with their plugin. */
#define WSREP_ON "wsrep_on"
#define WSREP_PROVIDER "wsrep_provider"
#define WSREP_ADDRESS "wsrep_cluster_address"
#define SINGLE_PRIMARY "group_replication_single_primary_mode"
#define GROUP_NAME "group_replication_group_name"

static bool is_off(const char *value)
{
    return strcasecmp(value, "OFF") == 0 || strcmp(value, "0") == 0;
}

/* A server without Galera's library has 'none'. */
static bool is_provider(const char *value)
{
    return value[0] != '\0' && strcasecmp(value, "none") != 0;
}

void db_cluster_take_variable(struct db_cluster *cluster, const char *name, const char *value)
{
    if (strcasecmp(name, WSREP_ON) == 0)
        cluster->wsrep_on = !is_off(value);
    else if (strcasecmp(name, WSREP_PROVIDER) == 0)
        cluster->wsrep_provider = is_provider(value);
    else if (strcasecmp(name, WSREP_ADDRESS) == 0)
        cluster->wsrep_address = value[0] != '\0';
    else if (strcasecmp(name, SINGLE_PRIMARY) == 0)
        cluster->several_primaries = is_off(value);
    else if (strcasecmp(name, GROUP_NAME) == 0)
        cluster->group_named = value[0] != '\0';
}

const char *db_cluster_text(const struct db_cluster *cluster)
{
    if (cluster->wsrep_on)
        return "Galera (wsrep_on = ON)";
    /* Only MariaDB has a global wsrep_on. In Percona XtraDB Cluster it is a session variable, and
     * SHOW GLOBAL VARIABLES has no row for it. A node on which it is OFF still applies the writes
     * of the other nodes. */
    if (cluster->wsrep_provider && cluster->wsrep_address)
        return "Galera (" WSREP_PROVIDER " and " WSREP_ADDRESS " are set)";
    /* The plugin may be loaded without a group. */
    if (cluster->several_primaries && cluster->group_named)
        return "group replication with several primaries (" SINGLE_PRIMARY " = OFF)";
    return "";
}

static enum rc on_variable(void *ctx, const struct db_row *row, struct err *err)
{
    (void)err;
    if (row->columns[0] && row->columns[1])
        db_cluster_take_variable(ctx, row->columns[0], row->columns[1]);
    return RC_OK;
}

enum rc db_cluster_ask(struct db *db, struct db_cluster *cluster, struct err *err)
{
    static const char sql[] =
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('" WSREP_ON "', '" WSREP_PROVIDER
        "', '" WSREP_ADDRESS "', '" SINGLE_PRIMARY "', '" GROUP_NAME "')";

    memset(cluster, 0, sizeof(*cluster));
    return db_query(db, sql, sizeof(sql) - 1, on_variable, cluster, err);
}

static enum rc on_any_row(void *ctx, const struct db_row *row, struct err *err)
{
    bool *found = ctx;

    (void)row;
    (void)err;
    *found = true;
    return RC_OK;
}

/* Replica_SQL_Running in the answer to SHOW REPLICA STATUS. */
#define SQL_RUNNING_COLUMN 11

static enum rc on_channel(void *ctx, const struct db_row *row, struct err *err)
{
    bool *is_running = ctx;

    (void)err;
    if (row->count > SQL_RUNNING_COLUMN && row->columns[SQL_RUNNING_COLUMN] &&
        strcmp(row->columns[SQL_RUNNING_COLUMN], "Yes") == 0)
        *is_running = true;
    return RC_OK;
}

/* MariaDB shows the number of its replication threads to every account. */
static enum rc find_running_replication(struct db *db, bool *is_running, struct err *err)
{
    static const char threads_sql[] =
        "SHOW GLOBAL STATUS WHERE Variable_name = 'Slaves_running' AND Value > 0";
    static const char channels_sql[] = "SHOW REPLICA STATUS";
    struct err own = {0};
    enum rc rc;

    if (db_server_kind(db) == DB_MARIADB)
        return db_query(db, threads_sql, sizeof(threads_sql) - 1, on_any_row, is_running, err);
    rc = db_query(db, channels_sql, sizeof(channels_sql) - 1, on_channel, is_running, &own);
    if (rc != RC_OK && db_error_lacks_privilege((unsigned)own.code))
        return RC_OK;
    if (rc != RC_OK && err)
        *err = own;
    return rc;
}

enum rc db_cluster_bypasses_log(struct db *db, bool *bypasses, struct err *err)
{
    static const char variables_sql[] =
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_replica_updates', "
        "'log_slave_updates') AND Value IN ('OFF', '0')";
    struct db_cluster cluster;
    bool unlogged = false;
    enum rc rc;

    *bypasses = false;
    rc = db_query(db, variables_sql, sizeof(variables_sql) - 1, on_any_row, &unlogged, err);
    if (rc == RC_OK && unlogged)
        rc = db_cluster_ask(db, &cluster, err);
    if (rc != RC_OK || !unlogged)
        return rc;
    if (!db_cluster_text(&cluster)[0])
        return find_running_replication(db, bypasses, err);
    *bypasses = true;
    return RC_OK;
}
