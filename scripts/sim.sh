# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev sim.

sim_help() {
    cat <<'END'
./dev sim [--seeds N] [--from S] [--jobs N] [--preset dev|asan]
./dev sim --seed S
./dev sim --mutant NAME|all [--seeds N]

Runs the engines of producer, relay, retry queue, consumer and roll-up on fakes of the databases and
of Kafka: many processes in one thread and in virtual time, decided by a seed. Processes are killed
and frozen, answers are lost, leaders and clocks move; then the faults end, and the promises are
checked. See tests/sim/README.md.

--seeds N      the number of seeds (default: 10000; with --mutant the most that are tried, default 60000)
--from S       the first seed (default: 1)
               An interrupted run (SIGINT, SIGTERM) prints the command for the rest
--preset P     the build: dev (default), or asan, with sanitizers
--jobs N       processes at the same time (default: one for each core)
--seed S       one seed, which always gives the same run; prints its story if it breaks a promise
--mutant NAME  breaks the code as tests/sim/mutants/NAME.* says; a promise must catch it. The seed in
               tests/sim/mutants/seeds is tried first, then all from the first

A seed that breaks a promise prints its story. The last line is "N passed, N failed": of seeds, or of
mutants, where passed means caught.
END
}

SIM_SEEDS='' SIM_SEED='' SIM_FROM=1 SIM_JOBS='' SIM_MUTANT='' SIM_PRESET=dev
SIM_MUTANT_SEEDS=60000
SIM_SEEDS_FILE=tests/sim/mutants/seeds

sim_number() {
    [[ ${2:-} =~ ^[0-9]{1,12}$ ]] || usage_error "$1 takes a number; see ./dev sim --help"
}

sim_parse() {
    while (($#)); do
        case $1 in
        --seeds) sim_number "$@" && SIM_SEEDS=$2 ;;
        --seed) sim_number "$@" && SIM_SEED=$2 ;;
        --from) sim_number "$@" && SIM_FROM=$2 ;;
        --jobs) sim_number "$@" && SIM_JOBS=$2 ;;
        --preset)
            SIM_PRESET=${2:-}
            [[ $SIM_PRESET =~ ^(dev|asan)$ ]] || usage_error "--preset takes dev or asan"
            ;;
        --mutant)
            SIM_MUTANT=${2:-}
            [[ -n $SIM_MUTANT ]] || usage_error "--mutant takes a name or all"
            ;;
        *) usage_error "sim does not know '$1'; see ./dev sim --help" ;;
        esac
        shift 2
    done
}

sim_mutants() {
    local file
    for file in tests/sim/mutants/*.patch tests/sim/mutants/*.fault; do
        file=${file##*/}
        echo "${file%.*}"
    done
}

# Applies the patch to a copy of the files that it touches.
sim_copy() {
    local patch=$1 folder=$2 file
    rm -rf "$folder"
    mkdir -p "$folder"
    while IFS= read -r file; do
        [[ $file == *.c ]] || fail "$patch may change .c files only, not $file"
        [[ -f $file ]] || fail "$patch changes $file, which is not there any more"
        mkdir -p "$folder/${file%/*}"
        cp "$file" "$folder/$file"
        echo "$file"
    done < <(sed -n 's|^+++ b/||p' "$patch")
    patch -d "$folder" -p1 -s -F 2 --no-backup-if-mismatch -i "$ROOT/$patch" >&2 ||
        fail "$patch does not apply any more: write it anew for the code of today"
}

# The commands of the build once more, for the changed files, and the link with them in front. A mutant
# may have a warning, as of a variable that it leaves unused.
sim_compile() {
    local folder=$1 file command
    local -a objects=()
    shift
    for file in "$@"; do
        command=$(grep -F -- "-c $ROOT/$file" <<<"$SIM_COMMANDS" | head -n 1)
        [[ -n $command ]] || fail "tallybox-sim is not built from $file: a mutant of it shows nothing"
        command=$(sed -E "s| -MF [^ ]+| -MF $folder/$file.d|; s| -o [^ ]+| -o $folder/$file.o|; s| -Werror | |
            s| -c [^ ]+| -c $folder/$file|" <<<"$command")
        (cd "$ROOT/build/dev" && eval "$command") >&2 || fail "the mutant of $file does not compile"
        objects+=("$folder/$file.o")
    done
    command=$(tail -n 1 <<<"$SIM_COMMANDS")
    command=${command/ -o tallybox-sim / ${objects[*]} -o $folder/tallybox-sim }
    (cd "$ROOT/build/dev" && eval "$command") >&2 || fail "the mutant does not link"
}

# sim_build NAME: the program of a mutant that is a patch; without it, what was said tells why.
sim_build() {
    local patch=tests/sim/mutants/$1.patch folder=$ROOT/build/mutants/$1 files
    local -a changed
    files=$(sim_copy "$patch" "$folder") || return 1
    mapfile -t changed <<<"$files"
    sim_compile "$folder" "${changed[@]}"
}

# sim_build_all NAME...: a compiler and a linker keep one core busy, so several are built at a time.
sim_build_all() {
    local name running=0
    for name in "$@"; do
        [[ -f tests/sim/mutants/$name.patch ]] || continue
        rm -rf "build/mutants/$name"
        if ((running == $(nproc))); then
            wait -n || true
            running=$((running - 1))
        fi
        (sim_build "$name") &
        running=$((running + 1))
    done
    wait
}

# sim_search PROGRAM FROM SEEDS WORD...: the failure of the first seed that was seen to fail.
# Returns 1 where none fails.
sim_search() {
    local program=$1 from=$2 seeds=$3 said
    shift 3
    if said=$("$program" --until-failure --from "$from" --jobs "$SIM_JOBS" --seeds "$seeds" "$@" \
        2>/dev/null); then
        return 1
    fi
    # A program that cannot start has caught nothing.
    grep -a -m 1 -E '^seed [0-9]+: ' <<<"$said" ||
        echo "the simulation ended without a seed: $(tail -n 1 <<<"$said")"
}

# sim_known_seed NAME: the seed that is tried first, or nothing.
sim_known_seed() { awk -v name="$1" '$1 == name { print $2 }' "$SIM_SEEDS_FILE"; }

# sim_mutant NAME: 0 when it was caught.
sim_mutant() {
    local name=$1 program=$ROOT/build/dev/tallybox-sim known='' found=''
    local -a words=()
    if [[ -f tests/sim/mutants/$name.patch ]]; then
        program=$ROOT/build/mutants/$name/tallybox-sim
        [[ -x $program ]] || {
            say "FAILED: $name was not built (see above)"
            return 1
        }
    elif [[ -f tests/sim/mutants/$name.fault ]]; then
        words=(--fault "$name")
    else
        fail "there is no mutant '$name'; there are $(sim_mutants | tr '\n' ' ')"
    fi
    # Who asks for seeds gets those.
    [[ $SIM_FROM != 1 || -n $SIM_SEEDS ]] || known=$(sim_known_seed "$name")
    if [[ -n $known ]] && found=$(sim_search "$program" "$known" 1 "${words[@]}"); then
        known=''
    elif ! found=$(sim_search "$program" "$SIM_FROM" "${SIM_SEEDS:-$SIM_MUTANT_SEEDS}" "${words[@]}"); then
        say "SURVIVED: $name: the simulation does not see it"
        return 1
    fi
    [[ $found =~ ^seed\ ([0-9]+):\  ]] || {
        say "$name: $found"
        return 1
    }
    echo "caught: $name: $found"
    [[ -z $known ]] ||
        say "seed $known does not catch it any more: write '$name ${BASH_REMATCH[1]}' into $SIM_SEEDS_FILE"
}

sim_mutant_all() {
    local name passed=0 failed=0
    local -a names=("$SIM_MUTANT")
    [[ $SIM_MUTANT != all ]] || mapfile -t names < <(sim_mutants)
    SIM_COMMANDS=$(ninja -C build/dev -t commands tallybox-sim)
    sim_build_all "${names[@]}"
    for name in "${names[@]}"; do
        if sim_mutant "$name"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
    done
    echo "$passed passed, $failed failed"
    ((failed == 0))
}

sim_main() {
    sim_parse "$@"
    SIM_JOBS=${SIM_JOBS:-$(nproc)}
    [[ -z $SIM_MUTANT || $SIM_PRESET == dev ]] || usage_error "mutants are of the preset dev"
    build_prepare
    [[ -z $SIM_MUTANT ]] || packages_need mutants
    step "building the simulation in build/$SIM_PRESET"
    build_configure "build/$SIM_PRESET" "$SIM_PRESET"
    cmake --build "build/$SIM_PRESET" --target tallybox-sim >&2 ||
        fail "the simulation does not build (see above)"
    export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    if [[ -n $SIM_MUTANT ]]; then
        sim_mutant_all || exit 1
    elif [[ -n $SIM_SEED ]]; then
        "build/$SIM_PRESET/tallybox-sim" --seed "$SIM_SEED"
    else
        "build/$SIM_PRESET/tallybox-sim" --seeds "${SIM_SEEDS:-10000}" --from "$SIM_FROM" --jobs "$SIM_JOBS"
    fi
}
