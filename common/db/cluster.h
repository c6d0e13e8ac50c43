/* SPDX-License-Identifier: MIT */
/* Do other nodes of a cluster write to the tables of a server: Galera, or group replication with
 * several primaries? Their open transactions are in no list of this server and hold no lock on it,
 * so nothing tells that a row of theirs is on its way until it is applied. Any thread, with a db of
 * its own. */
#ifndef COMMON_DB_CLUSTER_H
#define COMMON_DB_CLUSTER_H

#include "common/db/db.h"

#include <stdbool.h>

#define DB_CLUSTER_SIZE 80

/* What the variables of a server say. Zeroed: it stands alone. */
struct db_cluster {
    bool wsrep_on;          /* MariaDB alone has it globally */
    bool wsrep_provider;    /* one is named, and is not 'none' */
    bool wsrep_address;     /* wsrep_cluster_address is set */
    bool several_primaries; /* group_replication_single_primary_mode = OFF */
    bool group_named;       /* group_replication_group_name is set */
};

/* Takes one variable of SHOW VARIABLES; others than these are passed over. */
void db_cluster_set(struct db_cluster *cluster, const char *name, const char *value);

/* The kind of cluster for people, "" when no other node writes. A cluster that is set up so counts,
 * also while it has one node. */
const char *db_cluster_text(const struct db_cluster *cluster);

/* Asks the server; needs no privilege. */
enum rc db_cluster_ask(struct db *db, struct db_cluster *cluster, struct err *err);

#endif
