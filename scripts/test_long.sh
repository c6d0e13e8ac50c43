# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The tier long of ./dev test: jobs that take minutes each, in parts that take about as long.

# Each job and about how many seconds it takes on two cores that are not busy otherwise: by these, jobs
# are shared out among parts (scripts/parts.py). A job ends with the seconds that it took; correct a
# number here that is far from it.
LONG_JOBS=(
    fuzz=310 sim=200 sim_asan=200 chaos_mariadb=350 chaos_mysql=350
    classes_mariadb=580 classes_mysql=720 memory_mariadb=70 memory_mysql=70
    stress_mariadb_1=480 stress_mariadb_2=480 stress_mysql_1=480 stress_mysql_2=480
    cluster_network=250 cluster_disk=200 cluster_rest=100 cluster_scale=200 cluster_upgrade=250
    cluster_asynchronous=75
)
LONG_PART=1/1

# long_part_set K/N
long_part_set() {
    [[ ${1:-} =~ ^([1-9][0-9]?)/([1-9][0-9]?)$ ]] &&
        ((BASH_REMATCH[1] <= BASH_REMATCH[2] && BASH_REMATCH[2] <= ${#LONG_JOBS[@]})) ||
        usage_error "--part takes K/N, such as 3/8, with N up to ${#LONG_JOBS[@]}"
    LONG_PART=$1
}

# The jobs of this part, one a line, the longest first.
long_part_jobs() { /usr/bin/python3 -B scripts/parts.py "$LONG_PART" "${LONG_JOBS[@]}"; }

# A number that is another one for each commit, below the argument: new seeds and other shares of the
# tests for each, and the same ones when a commit is tried again. Not of the digits by which .ci/run
# chooses a part: a job that is always in the same part would always get the same share.
long_chosen() {
    local commit
    commit=$(git rev-parse HEAD 2>/dev/null) || commit=000000000000000
    echo $((16#${commit:8:7} % $1))
}

# long_run COMMAND...: adds the "N passed, N failed" with which ours end, or one test of its exit.
long_run() {
    local log=$TEST_WORK/long.log line code=0
    say "+ $*"
    # Not in this script's session of tests: each has its own.
    "$@" </dev/null 2>&1 | tee "$log" || code=1
    line=$(tail -n 1 "$log")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        test_add "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[4]:-0}"
        ((code == 0 || BASH_REMATCH[2] > 0)) || test_add 0 1 0
    else
        test_add $((code == 0)) $((code != 0)) 0
    fi
}

long_sim() { long_run ./dev sim --from $((1000000 + $(long_chosen 1000000) * 1000)) --seeds 30000; }

# The same worlds under the sanitizers, where a seed takes several times as long.
long_sim_asan() {
    long_run ./dev sim --preset asan --from $((1000000 + $(long_chosen 1000000) * 1000)) --seeds 3000
}

long_chaos_mariadb() { long_run ./dev chaos --seconds 300 --db mariadb; }
long_chaos_mysql() { long_run ./dev chaos --seconds 300 --db mysql; }
long_fuzz() { long_run ./dev fuzz --seconds 300; }

# Classes of tests/e2e that say of themselves that they are long. One test reads ten million rows,
# for which a busy machine takes several times as long as an idle one.
long_classes() {
    long_run env TALLYBOX_DB="$1" TALLYBOX_TEST_CLASSES=long \
        TALLYBOX_TEST_SECONDS="${TALLYBOX_TEST_SECONDS:-1800}" ./dev test e2e
}

long_classes_mariadb() { long_classes mariadb; }
long_classes_mysql() { long_classes mysql; }

# Memory must stay bounded every time: once more, without other tests beside it.
long_memory_mariadb() { long_run env TALLYBOX_DB=mariadb ./dev test e2e test_memory.Memory; }
long_memory_mysql() { long_run env TALLYBOX_DB=mysql ./dev test e2e test_memory.Memory; }

# What the short form of the tests on the docker cluster leaves out.
long_cluster_network() {
    long_cluster crash_relay 'loses its network' lose_packets limit_rate delay_database
}

long_cluster_disk() { long_cluster reassign fill_disk add_partitions; }

long_cluster_scale() { long_cluster scale_by_protocol measure_consumers; }
long_cluster_upgrade() { long_cluster upgrade fail_over; }

# What docker/README says of the cluster, and that nothing is left behind.
long_cluster_rest() {
    if [[ $(id -u) == 0 ]]; then
        packages_need cluster_test
        long_run /usr/bin/python3 -B tests/cluster/test_cluster.py -v
    else
        test_missing 'the docker cluster needs root'
    fi
}

long_cluster_asynchronous() { long_cluster --asynchronous; }

long_cluster() {
    if [[ $(id -u) == 0 ]]; then
        long_run ./dev cluster test "$@"
    else
        test_missing 'the docker cluster needs root'
    fi
}

# A quarter of the e2e classes in two halves, another one for each commit, while every core and the disk
# are busy with something else. What a test expects within a time has to hold there, too.
# long_stress DB HALF
long_stress() {
    local db=$1 half=$2 pid
    packages_need stress
    mkdir -p "$TEST_WORK/stress"
    stress-ng --quiet --cpu "$(nproc)" --hdd 1 --hdd-bytes 64m --temp-path "$TEST_WORK/stress" &
    pid=$!
    # Its end, also when this script is ended.
    LONG_STRESS_PID=$pid
    long_run env TALLYBOX_DB="$db" TALLYBOX_TEST_CLASSES="$((4 * (half - 1) + 1 + $(long_chosen 4)))/8" \
        ./dev test e2e
    long_stress_end
}

LONG_STRESS_PID=''

long_stress_end() {
    [[ -n $LONG_STRESS_PID ]] || return 0
    kill -TERM "$LONG_STRESS_PID" 2>/dev/null || true
    wait "$LONG_STRESS_PID" 2>/dev/null || true
    LONG_STRESS_PID=''
}

long_stress_mariadb_1() { long_stress mariadb 1; }
long_stress_mariadb_2() { long_stress mariadb 2; }
long_stress_mysql_1() { long_stress mysql 1; }
long_stress_mysql_2() { long_stress mysql 2; }

# Every job of this part, or those of it whose name contains NAME.
long_all() {
    local job began name=$TEST_NAME
    local -a jobs
    mapfile -t jobs < <(long_part_jobs)
    TEST_NAME=''
    for job in "${jobs[@]}"; do
        [[ $job == *"$name"* ]] || continue
        began=$SECONDS
        step "long: $job"
        "long_$job"
        step "long: $job took $((SECONDS - began)) s"
    done
    TEST_NAME=$name
}
