#!/bin/bash
# SPDX-License-Identifier: MIT
# The primary, once, while its data folder is initialised: the account with which a replica reads
# the binary log. The image's entry point runs this and has docker_process_sql.
docker_process_sql <<SQL
CREATE USER 'replication'@'%' IDENTIFIED BY '$(</run/secrets/mysql_replication)' REQUIRE SSL;
GRANT REPLICATION SLAVE ON *.* TO 'replication'@'%';
SQL
