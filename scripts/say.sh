# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# How the scripts talk: progress and errors go to stderr, results to stdout.

say() { printf '%s\n' "$*" >&2; }

# Prints a step of long work, as a sign of progress.
step() { printf '==> %s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

usage_error() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

# Runs a command quietly; shows the end of what it said only when it fails.
quietly() {
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -n 30 "$log" >&2
    rm -f "$log"
    return 1
}
