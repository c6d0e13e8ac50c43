/* SPDX-License-Identifier: MIT */
/* Finds out whether other nodes of a cluster write to the tables of a server: Galera, or group
 * replication with several primaries. The open transactions of those nodes are in no list of this
 * server and hold no lock on it, so this server cannot show that one of their rows is uncommitted.
 * Also whether the binary log of a server lacks what it takes from others.
 * Any thread, with its own db. */
#ifndef COMMON_DB_CLUSTER_H
#define COMMON_DB_CLUSTER_H

#include "common/db/db.h"

#include <stdbool.h>

#define DB_CLUSTER_SIZE 80

/* The cluster variables of a server. Zeroed: the server is in no cluster. */
struct db_cluster {
    bool wsrep_on;          /* MariaDB alone has it globally */
    bool wsrep_provider;    /* one is named, and is not 'none' */
    bool wsrep_address;     /* wsrep_cluster_address is set */
    bool several_primaries; /* group_replication_single_primary_mode = OFF */
    bool group_named;       /* group_replication_group_name is set */
};

/* Takes one variable of SHOW VARIABLES; others than these are passed over. */
void db_cluster_take_variable(struct db_cluster *cluster, const char *name, const char *value);

/* The kind of cluster as text, "" if no other node writes. A server that is configured as a cluster
 * counts even while it is the only node. */
const char *db_cluster_text(const struct db_cluster *cluster);

/* Asks the server; needs no privilege. */
enum rc db_cluster_ask(struct db *db, struct db_cluster *cluster, struct err *err);

/* Whether the server takes transactions of other servers that its own binary log lacks: as a
 * running replica, or as a node of a cluster, without log_replica_updates (log_slave_updates). Of a
 * replica of MySQL false, too, if the account lacks REPLICATION CLIENT: it cannot be known then. */
enum rc db_cluster_bypasses_log(struct db *db, bool *bypasses, struct err *err);

#endif
