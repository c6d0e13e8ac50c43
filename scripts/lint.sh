# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev lint: every rule that a machine can check.

# shellcheck source=scripts/format.sh
. "$ROOT/scripts/format.sh"

LINT_RULES=(layout layers sql events words skips scripts python gcc clang headers tidy)

lint_help() {
    cat <<'END'
./dev lint [RULE...]

Without a RULE all of them:

  layout    clang-format 14 would change nothing           (./dev format does it for you)
  layers    which file may include which, sizes of files and functions, and the check's own test
  sql       no text is put into a statement as it is; and the check's own test
  events    log events are those of common/daemon/reference_command.c; and the check's own test
  words     no word that the glossary replaces; and the check's own test
  skips     tests/skips.txt can be read; and the check's own test
  scripts   shellcheck of all bash; and the tests of scripts/failures.py
  python    all Python compiles
  gcc       the build has no warning under GCC
  clang     the build has no warning under Clang
  headers   each header compiles alone
  tidy      clang-tidy 14 with .clang-tidy

The last line counts the rules: "N passed, N failed".
END
}

lint_layout() {
    local -a files
    mapfile -t files < <(ours_files '*.c' '*.h')
    ((${#files[@]} == 0)) || clang-format-14 --dry-run -Werror "${files[@]}" || {
        say "run ./dev format"
        return 1
    }
}

lint_layers() {
    tests/lint/layers && quietly /usr/bin/python3 -B tests/lint/test_layers.py
}

lint_sql() {
    tests/lint/sql && quietly /usr/bin/python3 -B tests/lint/test_sql.py
}

lint_events() {
    tests/lint/log_events && quietly /usr/bin/python3 -B tests/lint/test_log_events.py
}

lint_words() {
    tests/lint/words && quietly /usr/bin/python3 -B tests/lint/test_words.py
}

lint_skips() { quietly /usr/bin/python3 -B tests/lint/test_skips.py; }

lint_scripts() {
    local file first
    local -a files=()
    while IFS= read -r file; do
        case $file in
        *.sh) files+=("$file") ;;
        *.*) ;;
        *)
            IFS= read -r first <"$file" || true
            [[ $first != '#!'*bash* ]] || files+=("$file")
            ;;
        esac
    done < <(ours_files)
    # Hidden folders have a dot in their path.
    [[ ! -f .ci/run ]] || files+=(.ci/run)
    shellcheck "${files[@]}" && quietly /usr/bin/python3 -B tests/lint/test_failures.py
}

# Compiled in memory: py_compile would leave its output in the tree.
lint_python() {
    local file
    local -a files
    mapfile -t files < <(
        ours_files '*.py'
        printf "%s\n" tests/lint/layers tests/lint/log_events tests/lint/sql tests/lint/words
    )
    for file in "${files[@]}"; do
        /usr/bin/python3 -c 'import sys
compile(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1], "exec")' "$file" || return 1
    done
}

lint_build() {
    local preset=$1 build=$ROOT/build/$2
    quietly cmake --preset "$preset" -B "$build" -DTALLYBOX_WERROR=ON &&
        quietly cmake --build "$build" -- -k 0
}

lint_gcc() { lint_build dev lint-gcc; }

lint_clang() { lint_build clang lint-clang; }

# Under the flags of the build, taken from what the build compiles main.c with.
lint_headers() {
    local header failed=0
    local -a flags files
    lint_commands || return 1
    mapfile -t flags < <(lint_flags)
    flags+=(-Ioutbox/client) # where <tallybox/...> of applications is
    mapfile -t files < <(ours_files '*.h')
    for header in "${files[@]}"; do
        printf '#include "%s"\nextern int lint_nothing_else;\n' "$header" |
            gcc "${flags[@]}" -Werror -fsyntax-only -x c - || {
            say "$header does not compile alone: it has to include what it uses"
            failed=1
        }
    done
    return "$failed"
}

# The -D, -I, -W and -std words of all compile commands together, each once.
lint_flags() {
    jq -r '.[].command' build/lint-clang/compile_commands.json | tr ' ' '\n' |
        awk '/^-isystem$/ { getline; $0 = "-isystem" $0 }
            /^-(D|I|W[^l]|std=|isystem|f)/ && !seen[$0]++' | sed 's/\\"/"/g' | grep -v '^-fsanitize'
}

# Configuring is enough for the commands, when the rule is run alone.
lint_commands() {
    [[ -f build/lint-clang/compile_commands.json ]] ||
        quietly cmake --preset clang -B "$ROOT/build/lint-clang" -DTALLYBOX_WERROR=ON
}

lint_tidy() {
    lint_commands || return 1
    jq -r '.[].file' build/lint-clang/compile_commands.json | grep -v "^$ROOT/build/" | sort -u |
        xargs -r -n 4 -P "$(nproc)" clang-tidy-14 --quiet -p build/lint-clang \
            2> >(grep -vE 'warnings?( and [0-9]+ errors?)? generated' >&2)
}

lint_main() {
    local rule passed=0 failed=0
    local -a rules=("$@")
    ((${#rules[@]})) || rules=("${LINT_RULES[@]}")
    for rule in "${rules[@]}"; do
        [[ " ${LINT_RULES[*]} " == *" $rule "* ]] ||
            usage_error "there is no rule '$rule'; there are ${LINT_RULES[*]}"
    done
    packages_need build lint
    rdkafka_use
    for rule in "${rules[@]}"; do
        step "lint: $rule"
        if "lint_$rule"; then
            passed=$((passed + 1))
        else
            say "FAILED: lint $rule"
            failed=$((failed + 1))
        fi
    done
    echo "$passed passed, $failed failed"
    ((failed == 0)) || exit 1
}
