# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev bench: how fast each role is, against a ceiling measured in the same run.

# shellcheck source=scripts/test.sh
. "$ROOT/scripts/test.sh"

bench_help() {
    cat <<'END'
./dev bench [--db mariadb|mysql] [--runs N] [--scale PERCENT] [--json FILE] [CASE...]
./dev bench --table FILE...

Starts real servers and measures each case several times, in turns with a ceiling: a small program
of ours that does only the work that cannot be avoided (tests/bench). Medians are printed, and how
long each case took. Without a CASE, these:

  relay           drains 1 M rows into 8 partitions, with 1, 2 and 4 lanes, and without CloudEvents
                  headers; ceiling: librdkafka alone
  relay_scale     backlogs of 10 k, 1 M and 5 M rows
  relay_writers   a backlog drains while 8 connections write, and what that costs them
  consume         1 M votes into vote_document: uniform, by Zipf's law, with duplicates; ceilings: the
                  same transactions, and the bulk insert alone
  pipeline        from HTTP to vote_document, all roles in one process
  latency         from COMMIT until seen in Kafka and in vote_document, at 100, 1 k and 10 k rows/s
  idle            CPU and memory of each role while nothing happens
  serve           votes over HTTP: 1 to 256 connections, single and in arrays of 100, one hot content;
                  ceilings: one connection that commits one vote, or 100, at a time
  lists           pages of 20 of 1 M remarks in 10 k items, both by Zipf's law, to 64 connections, while
                  1,000 votes a second arrive: totals up to 5 s old, read for each page, and with the
                  votes of a voter; as many pages as there can be, and at a fixed rate; ceiling: the
                  two queries of each page on two connections
  rollup          1 M remarks of which 1, 10 and 100 % changed

Measured only when they are named:

  relay_binlog    drains 1 M rows by a lane with source = binlog, with CloudEvents headers and
                  without; ceiling: librdkafka alone
  relay_binlog_single
                  the same with 250 k rows, each in a transaction of its own
  relay_exactly_once
                  drains 1 M rows in Kafka transactions (exactly_once = yes), compared with the same
                  lane at least once; from COMMIT until seen by a reader of committed records,
                  1 k rows/s
  relay_binlog_writers
                  as relay_writers, by such a lane
  latency_binlog  from COMMIT until seen in Kafka and in vote_document, 1 k rows/s, by such a lane
  memory_binlog   memory of a relay with such a lane: 1 M rows in one transaction, a row of 16 MiB, and
                  one that is too large to be published
  idle_binlog     CPU and memory of a relay with such a lane while nothing happens
  retry           tasks of the retry queue that do nothing: 1, 2 and 4 processes, 10 k and 2 M
                  waiting; and how long after its INSERT a task is tried first
  rebalance       how long a partition stands still while its group becomes 1, 3, 6, 12 and 3
                  consumers: eager, cooperative, KIP-848; compared with a time without a change
  disk            what a row of each large table takes on disk, with its indexes
  peers           Debezium's outbox router and JDBC sink (fetched first) beside our relay and
                  consumer: cold and warm, with their defaults and tuned
  peers_binlog    Debezium's outbox router beside a lane with source = binlog: large transactions,
                  and one row in each

  --db D          mariadb (default) or mysql
  --runs N        measurements of each case (default 3)
  --scale P       of the usual number of rows and seconds, in percent (default 100)
  --json FILE     one JSON line per case, after one about the machine
  --table FILE... prints what such files say as the tables of docs/performance.md

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
    local debezium='' work code=0
    if [[ ${1:-} == --table ]]; then
        packages_need test
        /usr/bin/python3 -B tests/bench/table.py "${@:2}"
        return
    fi
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
    if [[ " ${words[*]} " == *" peers"* ]]; then
        debezium=$(debezium_home) || fail "no Debezium: see above"
    fi
    mkdir -p build/bench
    work=$(mktemp -d "$ROOT/build/bench/run.XXXXXX")
    TALLYBOX_DEBEZIUM=$debezium TALLYBOX_DB=$BENCH_DB TALLYBOX_BIN=$BENCH_PROGRAM TALLYBOX_WORK=$work \
        TALLYBOX_BENCH=$ROOT/build/dev/tests/bench TALLYBOX_SERVER=$ROOT/scripts/server \
        /usr/bin/python3 tests/bench/bench.py "${words[@]}" || code=$?
    scripts/server stop-all "$work"
    # Gigabytes of data tell nothing afterwards; logs do.
    find "$work" -depth \( -name data -o -name tmp \) -type d -exec rm -rf {} +
    if ((code == 0)); then rm -rf "$work"; else say "logs: $work"; fi
    return "$code"
}
