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
  scripts   shellcheck of all bash; and the tests of scripts/parts.py and scripts/failures.py
  python    all Python compiles
  gcc       the build has no warning under GCC
  clang     the build has no warning under Clang
  headers   each header compiles alone
  tidy      clang-tidy 14 with .clang-tidy; a file that was clean is checked again when it, what it
            includes, its command or .clang-tidy has changed

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
    shellcheck "${files[@]}" && quietly /usr/bin/python3 -B tests/lint/test_failures.py &&
        quietly /usr/bin/python3 -B tests/lint/test_parts.py
}

# Compiled in memory: py_compile would leave its output in the tree.
lint_python() {
    local -a files
    mapfile -t files < <(
        ours_files '*.py'
        printf "%s\n" tests/lint/layers tests/lint/log_events tests/lint/sql tests/lint/words
    )
    /usr/bin/python3 -c 'import sys
for name in sys.argv[1:]:
    compile(open(name, encoding="utf-8").read(), name, "exec")' "${files[@]}"
}

# lint_build PRESET FOLDER
lint_build() {
    (build_configure "$2" "$1" -DTALLYBOX_WERROR=ON) && quietly cmake --build "$2" -- -k 0
}

# In CI the later stages use what this has built, so it is built in their folder; its warnings stay
# errors.
lint_gcc() {
    local folder=build/lint-gcc
    [[ ${CI:-} != true ]] || folder=build/dev
    lint_build dev "$folder"
}

lint_clang() { lint_build clang build/lint-clang; }

# Under the flags of the build, taken from what the build compiles main.c with.
lint_headers() {
    local -a flags
    lint_commands || return 1
    mapfile -t flags < <(lint_flags)
    flags+=(-Ioutbox/client) # where <tallybox/...> of applications is
    # shellcheck disable=SC2016 # the inner shell expands them
    ours_files '*.h' | xargs -r -d '\n' -n 1 -P "$(nproc)" bash -c '
        header=${*: -1}
        printf "#include \"%s\"\nextern int lint_nothing_else;\n" "$header" |
            gcc "${@:1:$#-1}" -Werror -fsyntax-only -x c - && exit 0
        echo "$header does not compile alone: it has to include what it uses" >&2
        exit 1' lint_header "${flags[@]}"
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
        (build_configure build/lint-clang clang -DTALLYBOX_WERROR=ON)
}

# A file whose result is known from a run before, because nothing that it depends on has changed, is
# not checked again.
lint_tidy() {
    local -a files
    lint_commands || return 1
    mapfile -t files < <(ours_files '*.c')
    /usr/bin/python3 -B scripts/tidy.py build/lint-clang "$(cache_root)/tidy" "${files[@]}"
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
