# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The e2e tier of ./dev test: the program on real servers, once for each client library.

E2E_PID=''

# The tests run in a session of their own, so that whatever they started can be ended with them.
e2e_end() {
    local deadline=$((SECONDS + 30))
    [[ -n $E2E_PID ]] || return 0
    kill -TERM "$E2E_PID" 2>/dev/null || true
    while kill -0 "$E2E_PID" 2>/dev/null && ((SECONDS < deadline)); do
        sleep 0.1
    done
    kill -KILL -- "-$E2E_PID" 2>/dev/null || true
    wait "$E2E_PID" 2>/dev/null || true
    E2E_PID=''
}

# e2e_run DB PROGRAM
e2e_run() {
    local db=$1 program=$2 work=$TEST_WORK/$1
    local -a counts
    mkdir -p "$work"
    step "running e2e tests with $db"
    TALLYBOX_DB=$db TALLYBOX_BIN=$program TALLYBOX_WORK=$work \
        TALLYBOX_SERVER=$ROOT/tests/support/server PYTHONDONTWRITEBYTECODE=1 \
        setsid /usr/bin/python3 tests/support/run_e2e.py "$work/counts" \
        ${TEST_NAME:+"$TEST_NAME"} </dev/null &
    E2E_PID=$!
    echo "$E2E_PID $(process_born "$E2E_PID")" >"$TEST_WORK/session"
    wait "$E2E_PID" || true
    e2e_end
    tests/support/server sweep "$work"
    if [[ ! -s $work/counts ]]; then
        say "FAILED: the e2e tests with $db ended without a result"
        test_add 0 1 0
        return
    fi
    read -ra counts <"$work/counts"
    test_add "${counts[@]}"
}

# Oracle's library comes from the root of MySQL's server, whose libc is newer than the machine's:
# the program is linked against it as it is and run through that root's loader.
e2e_build_mysql() {
    local root=$1 build=$ROOT/build/mysql
    PKG_CONFIG_PATH=$root/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} \
        build_in build/mysql dev -DTALLYBOX_MYSQL_CLIENT=mysqlclient -DTALLYBOX_TESTS=OFF
    cat >"$build/tallybox-run.new" <<END
#!/bin/sh
# build/mysql/tallybox under the libc and the client library of MySQL's own root.
exec "$(mysql_loader "$root")" \\
    --library-path "$(mysql_lib "$root"):$(echo /usr/lib/*-linux-gnu)" \\
    "$build/tallybox" "\$@"
END
    chmod +x "$build/tallybox-run.new"
    mv "$build/tallybox-run.new" "$build/tallybox-run"
}

e2e_mariadb() {
    build_preset dev
    e2e_run mariadb "$ROOT/build/dev/tallybox"
}

e2e_mysql() {
    local root
    packages_need fetch
    if ! root=$(mysql_root); then
        test_missing "e2e with MySQL: its server cannot be fetched (see above)"
        return
    fi
    e2e_build_mysql "$root"
    e2e_run mysql "$ROOT/build/mysql/tallybox-run"
}

e2e_all() {
    if ! compgen -G 'tests/e2e/test_*.py' >/dev/null; then
        say "there are no e2e tests yet"
        return
    fi
    packages_need e2e mariadb kafka
    if ! kafka_home >/dev/null; then
        test_missing "e2e: Kafka cannot be fetched (see above)"
        return
    fi
    [[ ${TALLYBOX_DB:-mariadb} != mariadb ]] || e2e_mariadb
    [[ ${TALLYBOX_DB:-mysql} != mysql ]] || e2e_mysql
}
