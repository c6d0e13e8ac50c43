#!/bin/bash
# SPDX-License-Identifier: MIT
# What the official image's entry point does, as far as the cluster needs it: a data folder that is
# empty gets the accounts of root, MYSQL_DATABASE and the scripts of /docker-entrypoint-initdb.d, from
# a server that only a socket reaches; then the server itself starts with the same arguments.
# shellcheck disable=SC2119,SC2120 # scripts may pass words to docker_process_sql
set -Eeuo pipefail

DATA=/var/lib/mysql SOCKET=/var/run/mysqld/mysqld.sock READY_SECONDS=120

say() { printf '[Entrypoint]: %s\n' "$*" >&2; }

fail() {
    say "error: $*"
    exit 1
}

# secret NAME: the variable NAME, or the file that NAME_FILE names.
secret() {
    local file=${1}_FILE
    if [[ -n ${!file:-} ]]; then
        printf '%s' "$(<"${!file}")"
    else
        printf '%s' "${!1:-}"
    fi
}

# Scripts call it, as in the official image: SQL from stdin, as root. They may pass words for the client.
docker_process_sql() {
    MYSQL_PWD=$root_password mysql --no-defaults --protocol=socket --socket="$SOCKET" --user=root \
        --comments ${MYSQL_DATABASE:+--database="$MYSQL_DATABASE"} "$@"
}

server_wait() {
    local deadline=$((SECONDS + READY_SECONDS))
    until mysql --no-defaults --protocol=socket --socket="$SOCKET" --user=root -e 'DO 0' 2>/dev/null; do
        kill -0 "$1" 2>/dev/null || fail 'the server that initialises the data folder ended'
        ((SECONDS < deadline)) || fail "no server after $READY_SECONDS s"
        sleep 0.1
    done
}

# Nothing of this is in the binary log but the database of MYSQL_DATABASE, as in the official image.
accounts_make() {
    mysql --no-defaults --protocol=socket --socket="$SOCKET" --user=root --comments <<SQL
SET SESSION sql_log_bin = 0;
ALTER USER 'root'@'localhost' IDENTIFIED BY '$root_password';
CREATE USER 'root'@'${MYSQL_ROOT_HOST:-%}' IDENTIFIED BY '$root_password';
GRANT ALL ON *.* TO 'root'@'${MYSQL_ROOT_HOST:-%}' WITH GRANT OPTION;
SQL
    [[ -z ${MYSQL_DATABASE:-} ]] ||
        MYSQL_DATABASE='' docker_process_sql <<<"CREATE DATABASE IF NOT EXISTS \`$MYSQL_DATABASE\`;"
}

scripts_run() {
    local file
    for file in /docker-entrypoint-initdb.d/*; do
        say "running $file"
        case $file in
        *.sh)
            if [[ -x $file ]]; then
                "$file"
            else
                # shellcheck source=/dev/null
                . "$file"
            fi
            ;;
        *.sql) docker_process_sql <"$file" ;;
        *) say "ignoring $file" ;;
        esac
    done
}

data_initialise() {
    local pid root_password
    root_password=$(secret MYSQL_ROOT_PASSWORD)
    [[ -n $root_password ]] || fail 'MYSQL_ROOT_PASSWORD_FILE or MYSQL_ROOT_PASSWORD is not set'
    say 'initialising the data folder'
    # A run that was killed half-way left a folder without the mark; it begins again.
    find "$DATA" -mindepth 1 -delete
    cp -r /opt/template/. "$DATA/"
    "$@" --skip-networking &
    pid=$!
    server_wait "$pid"
    accounts_make
    shopt -s nullglob
    scripts_run
    kill -TERM "$pid"
    wait "$pid" || fail 'the server that initialises the data folder did not stop cleanly'
    touch "$DATA/.initialised"
    say 'the data folder is initialised'
}

[[ ${1:-} != -* ]] || set -- mysqld "$@"
if [[ ${1:-} == mysqld ]]; then
    [[ -f $DATA/.initialised ]] || data_initialise "$@"
fi
exec "$@"
