#!/bin/sh
# SPDX-License-Identifier: MIT
# grants.sh ROLE...: writes the SQL that makes the account of each role, with the password of its
# secret, to /var/lib/tallybox/ROLE.sql. Needs no server.
set -eu
umask 077
for role in "$@"; do
    TALLYBOX_MYSQL_USER=tallybox_$role TALLYBOX_MYSQL_PASSWORD_FILE=/run/secrets/mysql_$role \
        tallybox migrate grants --role "$role" --create-user >"/var/lib/tallybox/$role.sql"
    # A lane with `source = binlog` reads the server's binary log.
    [ "$role" != relay ] ||
        tallybox migrate grants --role relay_wakeup --account 'tallybox_relay@%' >>/var/lib/tallybox/relay.sql
done
