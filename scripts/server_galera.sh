# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Nodes of a MariaDB Galera cluster, for scripts/server.

# The rsync daemon that hands data over gives root's files to nobody, and fails.
galera_user() { [[ $(id -u) != 0 ]] || echo nobody; }

galera_prepare() {
    local scripts
    packages_need mariadb galera
    scripts=$(galera_scripts) || return 1
    mariadb_prepare || return 1
    # The cache may be in a home that others cannot enter.
    rm -rf "${DIR:?}/bin"
    cp -r "$scripts" "$DIR/bin"
    [[ -z $(galera_user) ]] || chown -R "$(galera_user)" "$DIR"
}

# A node's own ports: of the group, of what it missed, and of a whole copy.
galera_ports_choose() {
    GALERA_PORT=$(port_free)
    GALERA_IST_PORT=$(port_free)
    GALERA_SST_PORT=$(port_free)
    echo "$GALERA_PORT" >"$DIR/galera_port"
}

galera_command() {
    local user cluster=''
    user=$(galera_user)
    galera_ports_choose
    [[ -z $JOIN ]] || cluster=127.0.0.1:$(<"$JOIN/galera_port")
    # Its scripts call programs by their bare names.
    COMMAND=(env PATH="$DIR/bin:$PATH" mariadbd --no-defaults ${user:+"--user=$user"})
    COMMAND+=(
        --datadir="$DIR/data" --tmpdir="$DIR/tmp" --socket="$SOCKET" --port="$PORT"
        --bind-address="$HOST" --pid-file="$DIR/pid" --server-id="$PORT" --log-bin=b
        --binlog-format=ROW --log-slave-updates --innodb-autoinc-lock-mode=2
        --innodb-log-file-size=32M --skip-name-resolve --wsrep-on=ON
        --wsrep-provider=/usr/lib/galera/libgalera_smm.so --wsrep-cluster-name=tallybox
        --wsrep-cluster-address="gcomm://$cluster" --wsrep-node-address="$HOST"
        --wsrep-node-name="node-$PORT" --wsrep-sst-method=rsync
        --wsrep-sst-receive-address="$HOST:$GALERA_SST_PORT"
        --wsrep-provider-options="gmcast.listen_addr=tcp://$HOST:$GALERA_PORT;ist.recv_addr=$HOST:$GALERA_IST_PORT;base_port=$GALERA_PORT;gcache.size=16M"
        "${ARGS[@]}"
    )
}

galera_ready() {
    database_ready || return 1
    [[ $(mariadb --no-defaults -h "$HOST" -P "$PORT" -u root --connect-timeout=2 -N -e \
        "SHOW STATUS LIKE 'wsrep_local_state_comment'" 2>/dev/null) == *Synced ]]
}
