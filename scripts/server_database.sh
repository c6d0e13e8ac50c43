# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# MariaDB and MySQL, for scripts/server. A data folder is made once per version, kept in the
# cache and copied: seconds become tenths.

# The longest path that fits into a socket's address, less what the server adds (.lock).
SOCKET_PATH_MAX=100

database_user() { [[ $(id -u) != 0 ]] || echo --user=root; }

server_socket_choose() {
    SOCKET=$DIR/s.sock SOCKET_DIR=''
    ((${#SOCKET} > SOCKET_PATH_MAX)) || return 0
    SOCKET_DIR=$(mktemp -d /tmp/tallybox.XXXXXX)
    SOCKET=$SOCKET_DIR/s.sock
}

server_socket_remove() {
    [[ -z $SOCKET_DIR ]] || rm -rf "$SOCKET_DIR"
    SOCKET_DIR='' SOCKET=''
}

# Copied beside its place first: a run killed half-way must not leave half a database.
database_copy() {
    local template=$1
    [[ ! -d $DIR/data ]] || return 0
    rm -rf "$DIR/data.new"
    cp -a --reflink=auto "$template" "$DIR/data.new"
    mv "$DIR/data.new" "$DIR/data"
}

# A server that starts deletes what looks like a temporary table of its last life: of others too,
# where they share a folder.
database_prepare() {
    database_copy "$1"
    mkdir -p "$DIR/tmp"
    # A socket folder that a kill left behind goes with the new choice.
    server_socket_remove
    server_socket_choose
    rm -f "$SOCKET" "$SOCKET.lock"
}

# Its own word comes first: where two took the same port, the other one would answer for it.
database_ready() {
    grep -q 'ready for connections' "$LOG" || return 1
    mariadb --no-defaults -h "$HOST" -P "$PORT" -u root --connect-timeout=2 -e 'SELECT 1' \
        >/dev/null 2>&1
}

mariadb_template_make() {
    local out=$1
    local -a common=(--no-defaults --datadir="$out" --innodb-log-file-size=32M)
    step "making an empty MariaDB data folder (once)"
    # --force: without it a machine that cannot look up its own name, or has no resolveip, is refused.
    # shellcheck disable=SC2046 # none or one word
    quietly mariadb-install-db "${common[@]}" $(database_user) --force --skip-name-resolve \
        --auth-root-authentication-method=normal --skip-test-db || return 1
    # Flushing turns on the grants that --bootstrap starts without.
    # shellcheck disable=SC2046
    quietly mariadbd "${common[@]}" $(database_user) --bootstrap <<'END'
FLUSH PRIVILEGES;
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
END
}

mariadb_prepare() {
    local version template
    packages_need mariadb
    version=$(mariadbd --no-defaults --version | sed 's/.* Ver \([0-9.]*\).*/\1/')
    template=$(cache_part "data-mariadb-$version-1" mariadb_template_make) || return 1
    database_prepare "$template"
}

mariadb_command() {
    mapfile -t COMMAND < <(
        printf '%s\n' mariadbd --no-defaults
        database_user
    )
    COMMAND+=(
        --datadir="$DIR/data" --tmpdir="$DIR/tmp" --socket="$SOCKET" --port="$PORT"
        --bind-address="$HOST" --pid-file="$DIR/pid" --server-id=1 --log-bin=b --binlog-format=ROW
        --sync-binlog=1 --innodb-flush-log-at-trx-commit=1 --innodb-log-file-size=32M
        --skip-name-resolve "${ARGS[@]}"
    )
}

mariadb_ready() { database_ready; }

mysql_template_make() {
    local root=$1 out=$2
    local -a server
    step "making an empty MySQL data folder (once)"
    mapfile -t server < <(mysql_server_words "$root")
    echo "CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;" >"$out.sql"
    quietly "${server[@]}" --datadir="$out" --initialize-insecure --init-file="$out.sql" || {
        rm -f "$out.sql"
        return 1
    }
    rm -f "$out.sql" "$out/auto.cnf"
}

# The words that start mysqld from its own root, one a line.
mysql_server_words() {
    local root=$1
    printf '%s\n' "$(mysql_loader "$root")" --library-path "$(mysql_lib "$root")" \
        "$root/usr/sbin/mysqld" --no-defaults
    database_user
    printf '%s\n' --basedir="$root/usr" --lc-messages-dir="$root/usr/share/mysql" \
        --plugin-dir="$root/usr/lib/mysql/plugin"
}

mysql_prepare() {
    local root template
    # The client that asks whether it answers is MariaDB's.
    packages_need fetch mariadb
    root=$(mysql_root) || return 1
    template=$(cache_part "data-mysql-$(mysql_version "$root")-1" mysql_template_make "$root") ||
        return 1
    database_prepare "$template"
}

mysql_command() {
    mapfile -t COMMAND < <(mysql_server_words "$(mysql_root)")
    COMMAND+=(
        --datadir="$DIR/data" --tmpdir="$DIR/tmp" --socket="$SOCKET" --port="$PORT"
        --bind-address="$HOST" --pid-file="$DIR/pid" --server-id=1 --mysqlx=OFF
        --secure-file-priv=NULL --sync-binlog=1 --innodb-flush-log-at-trx-commit=1
        --skip-name-resolve "${ARGS[@]}"
    )
}

mysql_ready() { database_ready; }
