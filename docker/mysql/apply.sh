#!/bin/bash
# SPDX-License-Identifier: MIT
# apply.sh ROLE...: an administrator's client runs what grants.sh has written, and removes it,
# because it has passwords in it.
set -Eeuo pipefail
MYSQL_PWD=$(</run/secrets/mysql_root)
export MYSQL_PWD
for role in "$@"; do
    file=/var/lib/tallybox/$role.sql
    [[ -f $file ]] || continue
    mysql --host=mysql --user=root --ssl-ca=/run/secrets/mysql_ca <"$file"
    rm "$file"
    echo "the account tallybox_$role has its password and its privileges"
done
