# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev bench: how fast each role is, against a ceiling measured in the same run.

# shellcheck source=tests/support/test.sh
. "$ROOT/tests/support/test.sh"
# shellcheck source=tests/support/part_debezium.sh
. "$ROOT/tests/support/part_debezium.sh"

bench_help() {
    cat <<'END'
./dev bench [--db mariadb|mysql] [--runs N] [--scale PERCENT] [--json FILE] [CASE...]

Starts real servers and measures each case several times, in turns with a ceiling: a small program
of ours that does only the work that cannot be avoided (tests/bench). Medians are printed.

  relay           drains 1 M rows into 8 partitions, with 1, 2 and 4 lanes; ceiling: librdkafka alone
  relay_scale     backlogs of 10 k, 1 M and 5 M rows
  relay_writers   a backlog drains while 8 connections write
  latency         from COMMIT until seen in Kafka and in vote_document, at 100, 1 k and 10 k rows/s
  idle            CPU and memory of each role while nothing happens
  consume         1 M votes into vote_document: uniform, by Zipf's law, with duplicates
  serve           votes over HTTP: 1 to 256 connections, arrays, one hot content
  rollup          1 M remarks of which 1, 10 and 100 % changed
  pipeline        from HTTP to vote_document, all roles in one process
  retry           tasks of the retry lane that do nothing: 1, 2 and 4 processes, 10 k and 2 M waiting
  peers           Debezium's outbox router and JDBC sink beside our relay and consumer; only when
                  it is named, because it is fetched first

  --db D       mariadb (default) or mysql
  --runs N     measurements of each case (default 3)
  --scale P    of the usual number of rows and seconds, in percent (default 100)
  --json FILE  one JSON line per case

The machine should do nothing else meanwhile. Exit code 1 when a case could not be measured.
END
}

bench_prepare() {
    build_prepare dev
    packages_need e2e bench mariadb kafka
    build_preset dev
    cmake --build build/dev --target bench >&2 || fail "the bench does not build (see above)"
    kafka_home >/dev/null || fail "Kafka cannot be fetched (see above)"
    BENCH_PROGRAM=$ROOT/build/dev/tallybox
    [[ $BENCH_DB == mysql ]] || return 0
    packages_need fetch
    e2e_build_mysql "$(mysql_root)"
    BENCH_PROGRAM=$ROOT/build/mysql/tallybox-run
}

bench_main() {
    local -a words=()
    local debezium=''
    BENCH_DB=mariadb
    while (($#)); do
        if [[ $1 == --db ]]; then
            BENCH_DB=${2:-}
            [[ $BENCH_DB =~ ^(mariadb|mysql)$ ]] || usage_error "--db takes mariadb or mysql"
            shift
        else
            words+=("$1")
        fi
        shift
    done
    bench_prepare
    if [[ " ${words[*]} " == *" peers "* ]]; then
        debezium=$(debezium_home) || fail "no Debezium: see above"
    fi
    mkdir -p build/bench
    TALLYBOX_DEBEZIUM=$debezium TALLYBOX_DB=$BENCH_DB TALLYBOX_BIN=$BENCH_PROGRAM TALLYBOX_WORK=$ROOT/build/bench \
        TALLYBOX_BENCH=$ROOT/build/dev/tests TALLYBOX_SERVER=$ROOT/tests/support/server \
        /usr/bin/python3 tests/bench/bench.py "${words[@]}" || BENCH_CODE=$?
    tests/support/server sweep build/bench
    return "${BENCH_CODE:-0}"
}
