#!/bin/bash
# SPDX-License-Identifier: MIT
# The replica, once, while its data folder is initialised: it follows the primary by GTID from the
# first transaction on, beginning when the server itself starts. Nothing here may be in its own
# binary log, because a transaction that only the replica has is in the way of a fail-over.
docker_process_sql <<SQL
SET SESSION sql_log_bin = 0;
CHANGE REPLICATION SOURCE TO
    SOURCE_HOST = 'mysql', SOURCE_PORT = 3306, SOURCE_USER = 'replication',
    SOURCE_PASSWORD = '$(</run/secrets/mysql_replication)', SOURCE_AUTO_POSITION = 1,
    SOURCE_SSL = 1, SOURCE_SSL_CA = '/run/secrets/mysql_ca', SOURCE_SSL_VERIFY_SERVER_CERT = 1,
    SOURCE_CONNECT_RETRY = 2, SOURCE_RETRY_COUNT = 100000;
SET PERSIST super_read_only = ON;
SQL
