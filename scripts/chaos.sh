# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev chaos: one run of tests/chaos on real servers.

# shellcheck source=scripts/test.sh
. "$ROOT/scripts/test.sh"

chaos_help() {
    cat <<'END'
./dev chaos [--seconds N] [--seed S] [--db mariadb|mysql] [--rate R] [--keep] [--plan]

Several writers vote over HTTP and with plain SQL, in transactions that overlap, roll back and hang
open, and keep a ledger of what they were told. Meanwhile relays, consumers, serve, rollup, the
database and Kafka are killed, frozen and restarted, and connections are cut, stalled and slowed.
Then everything drains, and ledger, topics and tables are compared. tests/chaos/README.md says more.

  --seconds N  how long faults last (default 60, at least 10)
  --seed S     of the plan of faults (default: a new one). The same seed and seconds give the same
               plan; what processes are doing at that moment is never quite the same
  --db D       mariadb (default) or mysql
  --rate R     votes a second over HTTP, at most (default 300)
  --keep       keep the run's folder although all is well
  --plan       print the plan and start nothing

The last line is
  chaos: seconds=.. kills=.. stops=.. cuts=.. votes=.. lost=0 twice=0 reordered=0 totals=ok reads=ok
and the exit code 0 only when it reads so and nothing else was wrong; else 1, and the run's folder
in build/chaos, with plan, ledgers, logs and data, is kept and named. ./dev clean removes it.
END
}

CHAOS_SECONDS=60 CHAOS_SEED='' CHAOS_DB=mariadb CHAOS_RATE=300 CHAOS_KEEP=0 CHAOS_PLAN=0
CHAOS_PROGRAM=''

# chaos_number OPTION VALUE
chaos_number() {
    local name=${1#--}
    local min=0 max=999999999
    case $1 in
    --seconds) min=10 max=999999 ;;
    --rate) min=10 max=2000 ;;
    esac
    [[ $2 =~ ^[0-9]{1,9}$ ]] && ((10#$2 >= min && 10#$2 <= max)) ||
        usage_error "$1 takes a number from $min to $max; see ./dev chaos --help"
    printf -v "CHAOS_${name^^}" '%d' $((10#$2))
}

chaos_parse() {
    while (($#)); do
        case $1 in
        --seconds | --seed | --rate)
            chaos_number "$1" "${2:-}"
            shift
            ;;
        --db)
            CHAOS_DB=${2:-}
            [[ $CHAOS_DB =~ ^(mariadb|mysql)$ ]] || usage_error "--db takes mariadb or mysql"
            shift
            ;;
        --keep) CHAOS_KEEP=1 ;;
        --plan) CHAOS_PLAN=1 ;;
        *) usage_error "chaos does not know '$1'; see ./dev chaos --help" ;;
        esac
        shift
    done
    [[ -n $CHAOS_SEED ]] || CHAOS_SEED=$((SRANDOM % 1000000))
}

chaos_build() {
    local root
    build_prepare
    packages_need e2e mariadb kafka
    kafka_home >/dev/null || fail "no Kafka: see above"
    if [[ $CHAOS_DB == mysql ]]; then
        packages_need fetch
        root=$(mysql_root) || fail "no MySQL: see above"
        e2e_build_mysql "$root"
        CHAOS_PROGRAM=$ROOT/build/mysql/tallybox-run
    else
        build_preset dev
        CHAOS_PROGRAM=$ROOT/build/dev/tallybox
    fi
}

# The processes of a run whose own script was killed; its files stay.
chaos_stop_leftover() {
    local work pid born
    for work in build/chaos/*/; do
        [[ -f $work/owner ]] || continue
        read -r pid born <"$work/owner" || true
        ! process_is "$pid" "$born" || continue
        test_kill_session "$work"
        scripts/server stop-all "$work" || true
        rm -f "$work/owner"
    done
}

chaos_exit() {
    local code=$?
    trap - EXIT INT TERM HUP
    e2e_end
    scripts/server stop-all "$TEST_WORK" || true
    rm -f "$TEST_WORK/owner" "$TEST_WORK/session"
    if ((code || CHAOS_KEEP)); then
        say "what is left of the run is in $TEST_WORK"
    else
        rm -rf "$TEST_WORK"
    fi
    exit "$code"
}

chaos_main() {
    local code=0
    local -a words
    chaos_parse "$@"
    words=(
        tests/chaos/chaos.py --seconds "$CHAOS_SECONDS" --seed "$CHAOS_SEED" --rate "$CHAOS_RATE"
    )
    if ((CHAOS_PLAN)); then
        packages_need e2e
        PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "${words[@]}" --plan
        return
    fi
    chaos_build
    chaos_stop_leftover
    TEST_WORK=$ROOT/build/chaos/$CHAOS_DB-$CHAOS_SEED.$$
    mkdir -p "$TEST_WORK"
    echo "$$ $(process_born $$)" >"$TEST_WORK/owner"
    trap chaos_exit EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # A session of its own, so that all it started can be ended with it.
    TALLYBOX_DB=$CHAOS_DB TALLYBOX_BIN=$CHAOS_PROGRAM TALLYBOX_WORK=$TEST_WORK \
        TALLYBOX_SERVER=$ROOT/scripts/server PYTHONDONTWRITEBYTECODE=1 \
        setsid /usr/bin/python3 "${words[@]}" </dev/null &
    E2E_PID=$!
    echo "$E2E_PID $(process_born "$E2E_PID")" >"$TEST_WORK/session"
    wait "$E2E_PID" || code=$?
    E2E_PID=''
    return "$code"
}
