# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The tiers of ./dev test on real servers, e2e and chaos: once for each client library.

E2E_PID='' E2E_TIER=e2e E2E_WITHOUT=''

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

# e2e_run DB=PROGRAM...
e2e_run() {
    local work=$TEST_WORK/$E2E_TIER
    local -a counts
    # One test of chaos is a whole run, which may wait for minutes for what does not recover.
    [[ $E2E_TIER != chaos ]] || local -x TALLYBOX_TEST_SECONDS=${TALLYBOX_TEST_SECONDS:-900}
    mkdir -p "$work"
    TALLYBOX_WORK=$work TALLYBOX_SERVER=$ROOT/scripts/server PYTHONDONTWRITEBYTECODE=1 \
        TALLYBOX_TEST_WITHOUT=$E2E_WITHOUT \
        setsid /usr/bin/python3 scripts/run_e2e.py "$E2E_TIER" "$work/counts" "$@" \
        ${TEST_NAME:+"$TEST_NAME"} </dev/null &
    E2E_PID=$!
    echo "$E2E_PID $(process_born "$E2E_PID")" >"$TEST_WORK/session"
    wait "$E2E_PID" || true
    e2e_end
    scripts/server stop-all "$work"
    if [[ ! -s $work/counts ]]; then
        say "FAILED: the $E2E_TIER tests ended without a result"
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
# build/mysql/tallybox, or the program that \$TALLYBOX_BESIDE names, beside it or by its whole path,
# under the libc and the client library of MySQL's own root.
case \${TALLYBOX_BESIDE:-tallybox} in
/*) program=\$TALLYBOX_BESIDE ;;
*) program=$build/\${TALLYBOX_BESIDE:-tallybox} ;;
esac
exec "$(mysql_loader "$root")" \\
    --library-path "$(mysql_lib "$root"):$(echo /usr/lib/*-linux-gnu)" \\
    "\$program" "\$@"
END
    chmod +x "$build/tallybox-run.new"
    mv "$build/tallybox-run.new" "$build/tallybox-run"
}

# Each takes one more word for e2e_run into the caller's programs.
e2e_mariadb() {
    build_preset dev
    programs+=("mariadb=$ROOT/build/dev/tallybox")
}

e2e_mysql() {
    local root
    packages_need fetch
    if ! root=$(mysql_root); then
        test_missing "$E2E_TIER with MySQL: its server cannot be fetched (see above)"
        return
    fi
    e2e_build_mysql "$root"
    programs+=("mysql=$ROOT/build/mysql/tallybox-run")
}

# Without its scripts no cluster can be started: the classes that need one are left out, and so are those
# that need a plugin of the same package.
e2e_galera() {
    local scripts
    if scripts=$(galera_scripts); then
        export TALLYBOX_MARIADB_PLUGINS=$scripts/plugin
        return
    fi
    test_missing "$E2E_TIER with Galera: its scripts cannot be fetched (see above)"
    E2E_WITHOUT+=' galera'
}

# The client that is generated from docs/openapi.yaml.
e2e_schemathesis() {
    packages_need pip
    if TALLYBOX_SCHEMATHESIS=$(schemathesis_packages); then
        export TALLYBOX_SCHEMATHESIS
        return
    fi
    test_missing "$E2E_TIER of docs/openapi.yaml: schemathesis cannot be fetched (see above)"
    E2E_WITHOUT+=' schemathesis'
}

# The clients that the programs of docs/ use, each language's from its own registry.
e2e_languages() {
    packages_need languages
    if TALLYBOX_LANGUAGES=$(languages_parts); then
        export TALLYBOX_LANGUAGES
        return
    fi
    test_missing "$E2E_TIER of the programs in docs/: their clients cannot be fetched (see above)"
    E2E_WITHOUT+=' languages'
}

# Runs the queries of docs/alerts.yml and of the dashboard.
e2e_prometheus() {
    if TALLYBOX_PROMETHEUS=$(prometheus_programs); then
        export TALLYBOX_PROMETHEUS
        return
    fi
    test_missing "$E2E_TIER of alerts and dashboard: Prometheus cannot be fetched (see above)"
    E2E_WITHOUT+=' prometheus'
}

# What makes and judges the objects of docker/kubernetes.
e2e_kubernetes() {
    packages_need pip
    if TALLYBOX_KUBERNETES=$(kubernetes_tools); then
        export TALLYBOX_KUBERNETES
        return
    fi
    test_missing "$E2E_TIER of docker/kubernetes: kubectl or its schemas cannot be fetched (see above)"
    E2E_WITHOUT+=' kubernetes'
}

# What a lane takes the place of.
e2e_debezium() {
    if TALLYBOX_DEBEZIUM=$(debezium_home); then
        export TALLYBOX_DEBEZIUM
        return
    fi
    test_missing "$E2E_TIER of taking over from Debezium: its jars cannot be fetched (see above)"
    E2E_WITHOUT+=' debezium'
}

# The programs of the bench, which is tried, too, among the long classes.
e2e_bench() {
    packages_need bench
    build_preset dev
    quietly cmake --build build/dev --target bench || fail "the bench does not build (see above)"
}

# e2e_all TIER: the tests in tests/TIER.
e2e_all() {
    local -a programs=() purposes=(e2e mariadb kafka)
    E2E_TIER=$1 E2E_WITHOUT=''
    [[ $E2E_TIER != e2e ]] || purposes+=(galera)
    packages_need "${purposes[@]}"
    if ! kafka_home >/dev/null; then
        test_missing "$E2E_TIER: Kafka cannot be fetched (see above)"
        return
    fi
    if [[ $E2E_TIER == e2e ]]; then
        e2e_galera
        e2e_schemathesis
        e2e_languages
        e2e_prometheus
        e2e_kubernetes
        e2e_debezium
    fi
    if [[ -n $TEST_PROGRAM ]]; then
        programs=("mariadb=$TEST_PROGRAM")
    else
        [[ ${TALLYBOX_DB:-mariadb} != mariadb ]] || e2e_mariadb
        [[ ${TALLYBOX_DB:-mysql} != mysql ]] || e2e_mysql
    fi
    ((${#programs[@]})) || return 0
    [[ -n $TEST_PROGRAM || $E2E_TIER != e2e ||
        -z $TEST_NAME && ${TALLYBOX_TEST_CLASSES:-} != long ]] || e2e_bench
    step "running $E2E_TIER tests with ${programs[*]%%=*}"
    e2e_run "${programs[@]}"
}
