# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev test.

# shellcheck source=scripts/process.sh
. "$ROOT/scripts/process.sh"
# shellcheck source=scripts/test_e2e.sh
. "$ROOT/scripts/test_e2e.sh"
# shellcheck source=scripts/package.sh
. "$ROOT/scripts/package.sh"
# shellcheck source=scripts/test_package.sh
. "$ROOT/scripts/test_package.sh"
# shellcheck source=scripts/test_long.sh
. "$ROOT/scripts/test_long.sh"

test_help() {
    cat <<'END'
./dev test [--preset PRESET] [--part K/N] [--program FILE] [unit|flow|e2e|chaos|package|long]... [NAME]

Builds and runs the tests; without a tier unit, flow and e2e.

  unit   pure modules, no I/O
  flow   engines on fakes of their ops and on librdkafka's in-process broker
  e2e    the program on real Kafka, once with MariaDB and once with MySQL
  package  the Debian packages: built twice with the same bytes, installed in a container under systemd,
         upgraded and removed; needs root
  chaos  a minute of ./dev chaos on each database, and the tests of that instrument
  long   what takes minutes, about an hour and a half in all: new seeds of the simulation, also under
         sanitizers, five minutes of chaos on each database and of fuzzing, the e2e classes that are
         marked as long, the tests of memory, the docker cluster's long tests, and a quarter of the
         e2e classes on a machine that is busy otherwise. Seeds and the quarter follow from the commit.

NAME narrows: to C test programs whose name matches it, to e2e and chaos tests whose name contains it,
and to jobs of long whose name contains it. --part K/N runs the Kth of N parts of long, which take
about as long; CI runs one part of eight, by the commit's hash.
--preset asan or tsan runs unit and flow under sanitizers (no e2e, no chaos).
--program FILE runs e2e alone, on MariaDB, with this program and without a build: as
`./dev test --program build/release/tallybox FirstHour`. Tests that use build/dev's other programs
do not work with it.
TALLYBOX_DB=mariadb or mysql runs e2e and chaos with that server only. e2e runs both side by side,
and TALLYBOX_TEST_WORKERS (3) classes of tests at a time on each, with servers of their own (about
0.6 GB of memory). At its end it names the classes that took longest.

A real part that cannot be had is skipped, loudly; with CI=true it is a failure. A test may be skipped
only if tests/skips.txt lists it with its reason; a difference is a failure. The last line is
"N passed, N failed". Exit code 1 when anything failed or nothing ran. What a failed e2e run left
(data folders, logs) stays in build/work until the next run.
END
}

TEST_PASSED=0 TEST_FAILED=0 TEST_SKIPPED=0 TEST_PRESET=dev TEST_NAME='' TEST_WORK='' TEST_PROGRAM=''
TEST_TIERS=()

test_parse() {
    while (($#)); do
        case $1 in
        --preset)
            TEST_PRESET=${2:-}
            [[ $TEST_PRESET =~ ^(dev|asan|tsan|clang)$ ]] ||
                usage_error "--preset takes dev, asan, tsan or clang"
            shift
            ;;
        --program)
            [[ -f ${2:-} && -x $2 ]] || usage_error "--program takes a program, not '${2:-}'"
            TEST_PROGRAM=$(realpath "$2")
            shift
            ;;
        --part)
            long_part_set "${2:-}"
            shift
            ;;
        -*) usage_error "test does not know '$1'; see ./dev test --help" ;;
        unit | flow | e2e | chaos | package | long) TEST_TIERS+=("$1") ;;
        *)
            [[ -z $TEST_NAME ]] ||
                usage_error "one NAME only, not '$TEST_NAME' and '$1'; see ./dev test --help"
            TEST_NAME=$1
            ;;
        esac
        shift
    done
    if [[ -n $TEST_PROGRAM ]]; then
        [[ ${TEST_TIERS[*]:-e2e} == e2e && ${TALLYBOX_DB:-mariadb} == mariadb ]] ||
            usage_error "--program is for e2e on MariaDB alone"
        TEST_TIERS=(e2e)
    elif ((${#TEST_TIERS[@]} == 0)); then
        TEST_TIERS=(unit flow)
        [[ $TEST_PRESET != dev ]] || TEST_TIERS+=(e2e)
    fi
}

test_add() {
    TEST_PASSED=$((TEST_PASSED + $1))
    TEST_FAILED=$((TEST_FAILED + $2))
    TEST_SKIPPED=$((TEST_SKIPPED + $3))
}

# A part that is missing: a failure where it has to be there, else loud but harmless.
test_missing() {
    if [[ ${CI:-} == true ]]; then
        say "FAILED: $*"
        test_add 0 1 0
    else
        say "SKIPPED: $*"
        test_add 0 0 1
    fi
}

# Ends the session of tests that a killed run of ours left behind.
test_kill_session() {
    local pid born
    [[ -f $1/session ]] || return 0
    read -r pid born <"$1/session" || true
    ! process_is "$pid" "$born" || kill -KILL -- "-$pid" 2>/dev/null || true
}

# What killed runs of ours left behind: processes first, then files.
test_clean_up() {
    local work pid born
    for work in build/work/*/; do
        [[ -f $work/owner ]] || continue
        read -r pid born <"$work/owner" || true
        ! process_is "$pid" "$born" || continue
        test_kill_session "$work"
        scripts/server stop-all "$work" || true
        rm -rf "$work"
    done
}

test_work_make() {
    test_clean_up
    TEST_WORK=$ROOT/build/work/test.$$
    mkdir -p "$TEST_WORK"
    echo "$$ $(process_born $$)" >"$TEST_WORK/owner"
}

test_exit() {
    local code=$?
    trap - EXIT INT TERM HUP
    e2e_end
    long_stress_end
    if [[ -n $TEST_WORK ]]; then
        scripts/server stop-all "$TEST_WORK" || true
        ((code)) || rm -rf "$TEST_WORK"
    fi
    exit "$code"
}

# Sanitizers say what they know, and what they find ends the test.
test_sanitizers() {
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    export TSAN_OPTIONS=second_deadlock_stack=1:suppressions=$ROOT/scripts/tsan.supp
    export LSAN_OPTIONS=suppressions=$ROOT/scripts/lsan.supp:print_suppressions=0
}

# test_c TIER...: runs them through ctest and counts the tests inside the programs.
test_c() {
    local labels junit=$TEST_WORK/ctest.xml extent=whole
    local -a command=() counts
    labels=$(IFS='|' && echo "$*")
    build_preset "$TEST_PRESET"
    test_sanitizers
    # TSan of GCC 12 cannot place its shadow under the wide address randomisation of newer kernels.
    [[ $TEST_PRESET != tsan ]] || ! setarch -R true 2>/dev/null || command=(setarch -R)
    command+=(
        ctest --test-dir "build/$TEST_PRESET" -L "^($labels)$" --output-on-failure
        --output-junit "$junit" --test-output-size-passed 1000000
        --test-output-size-failed 1000000 --no-tests=ignore
        # The longest tests wait for most of their time.
        -j "$((2 * $(nproc)))"
    )
    [[ -z $TEST_NAME ]] || command+=(-R "$TEST_NAME")
    [[ -z $TEST_NAME && $* == 'unit flow' ]] || extent=part
    step "running ${labels//|/ and } tests (build/$TEST_PRESET)"
    "${command[@]}" </dev/null || true
    [[ -f $junit ]] || fail "ctest ended without its report"
    read -ra counts < <(/usr/bin/python3 -B scripts/count_ctest.py "$junit" "$TEST_PRESET" "$extent")
    test_add "${counts[@]}"
}

test_main() {
    local tier
    local -a c_tiers=()
    test_parse "$@"
    for tier in "${TEST_TIERS[@]}"; do
        [[ $tier =~ ^(e2e|chaos|package|long)$ ]] || c_tiers+=("$tier")
    done
    build_prepare "$TEST_PRESET"
    packages_need test
    trap test_exit EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    test_work_make
    ((${#c_tiers[@]} == 0)) || test_c "${c_tiers[@]}"
    [[ " ${TEST_TIERS[*]} " != *" e2e "* ]] || e2e_all e2e
    [[ " ${TEST_TIERS[*]} " != *" chaos "* ]] || e2e_all chaos
    [[ " ${TEST_TIERS[*]} " != *" package "* ]] || package_all
    [[ " ${TEST_TIERS[*]} " != *" long "* ]] || long_all
    test_report
}

test_report() {
    local line="$TEST_PASSED passed, $TEST_FAILED failed"
    ((!TEST_SKIPPED)) || line+=", $TEST_SKIPPED skipped"
    ((TEST_PASSED + TEST_FAILED)) || say "error: nothing ran${TEST_NAME:+ (no test matches '$TEST_NAME')}"
    echo "$line"
    ((TEST_FAILED == 0 && TEST_PASSED > 0)) || exit 1
}
