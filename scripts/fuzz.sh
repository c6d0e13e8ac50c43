# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev fuzz.

fuzz_help() {
    cat <<'END'
./dev fuzz [TARGET] [--seconds N] [--replay]
./dev fuzz TARGET --add FILE

Feeds the parsers of outside bytes with bytes that libFuzzer makes up, under the address and
undefined behaviour sanitizers. A target is a file tests/fuzz/TARGET.c. It starts from the files in
tests/fuzz/corpus/TARGET.tar.gz, which the build unpacks; its words are in tests/fuzz/TARGET.dict.
Without a TARGET all of them share the seconds.

--seconds N   so long in all (default: 60)
--replay      only what is in the corpora, each file once
--add FILE    puts FILE into the target's archive, under its name without the folder. A file whose
              name begins with found_ is replayed whole, any other one cut off at every byte, too.

What is found lands in build/fuzz/found: TARGET.crash-... ends the target, and belongs into the
corpus (--add) once its fault is fixed; inputs that reached new code are kept in build/fuzz/grown/TARGET,
and the next run starts from them, too. The last line counts the targets: "N passed, N failed".
END
}

FUZZ_TARGET='' FUZZ_SECONDS=60 FUZZ_REPLAY=false FUZZ_ADD=''
FUZZ_INPUT_BYTES_MAX=8192

fuzz_parse() {
    while (($#)); do
        case $1 in
        --seconds)
            FUZZ_SECONDS=${2:-}
            [[ $FUZZ_SECONDS =~ ^[1-9][0-9]{0,6}$ ]] ||
                usage_error "--seconds takes a number of seconds"
            shift
            ;;
        --replay) FUZZ_REPLAY=true ;;
        --add)
            FUZZ_ADD=${2:-}
            [[ -f $FUZZ_ADD ]] || usage_error "--add takes a file, not '$FUZZ_ADD'"
            shift
            ;;
        -*) usage_error "fuzz does not know '$1'; see ./dev fuzz --help" ;;
        *)
            [[ -z $FUZZ_TARGET ]] || usage_error "one TARGET only; see ./dev fuzz --help"
            FUZZ_TARGET=$1
            ;;
        esac
        shift
    done
    [[ -z $FUZZ_ADD || -n $FUZZ_TARGET ]] || usage_error "--add needs a TARGET; see ./dev fuzz --help"
}

fuzz_targets() {
    local file
    for file in tests/fuzz/corpus/*.tar.gz; do
        basename "$file" .tar.gz
    done
}

# The same files make the same archive, byte by byte, on every machine.
fuzz_add() {
    local archive=tests/fuzz/corpus/$FUZZ_TARGET.tar.gz folder
    local -a names
    folder=$(mktemp -d)
    tar -C "$folder" -xzf "$archive"
    cp "$FUZZ_ADD" "$folder/"
    mapfile -t names < <(cd "$folder" && find . -type f -printf '%P\n' | LC_ALL=C sort)
    tar -C "$folder" --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=a=r,u+w -cf - "${names[@]}" |
        gzip -n -9 >"$archive.new"
    mv "$archive.new" "$archive"
    rm -rf "$folder"
    say "$archive has ${#names[@]} files"
}

# fuzz_one TARGET SECONDS
fuzz_one() {
    local target=$1 seconds=$2
    local grown=build/fuzz/grown/$target log=build/fuzz/found/$target.log
    local -a words
    mkdir -p "$grown" build/fuzz/found
    words=("build/fuzz/tests/fuzz/fuzz_$target" "-artifact_prefix=build/fuzz/found/$target."
        -timeout=20 -rss_limit_mb=1024 "-max_len=$FUZZ_INPUT_BYTES_MAX" -print_final_stats=1)
    [[ ! -f tests/fuzz/$target.dict ]] || words+=("-dict=tests/fuzz/$target.dict")
    if [[ $FUZZ_REPLAY == true ]]; then
        words+=(-runs=0)
    else
        words+=("-max_total_time=$seconds" "$grown")
    fi
    words+=("build/fuzz/tests/fuzz/corpus/$target")
    if ! "${words[@]}" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        say "FAILED: fuzz $target"
        return 1
    fi
    fuzz_report "$target" "$log"
}

# What a run did, in a line.
fuzz_report() {
    awk -v target="$1" '
        / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1) }
        /^stat::number_of_executed_units:/ { runs = $2 }
        /^stat::peak_rss_mb:/ { memory = $2 }
        END { printf "%-14s %10d inputs, %5d edges, %4d MB\n", target, runs, edges, memory }' "$2"
}

fuzz_main() {
    local target passed=0 failed=0 seconds
    local -a targets
    fuzz_parse "$@"
    mapfile -t targets < <(fuzz_targets)
    if [[ -n $FUZZ_TARGET ]]; then
        [[ " ${targets[*]} " == *" $FUZZ_TARGET "* ]] ||
            usage_error "there is no target '$FUZZ_TARGET'; there are ${targets[*]}"
        targets=("$FUZZ_TARGET")
    fi
    if [[ -n $FUZZ_ADD ]]; then
        fuzz_add
        return
    fi
    seconds=$(((FUZZ_SECONDS + ${#targets[@]} - 1) / ${#targets[@]}))
    build_prepare fuzz
    packages_need fuzz
    step "building the fuzzers in build/fuzz"
    quietly cmake --preset fuzz || fail "configuring build/fuzz failed (see above)"
    quietly cmake --build build/fuzz --target fuzz || fail "the fuzzers cannot be built (see above)"
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    for target in "${targets[@]}"; do
        if fuzz_one "$target" "$seconds"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
    done
    echo "$passed passed, $failed failed"
    ((failed == 0)) || exit 1
}
