# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev format, and which files are ours.

format_help() { echo "./dev format: lays out every C file with clang-format 14, in place."; }

# ours_files PATTERN...: what git tracks or would track, and is still there; one path a line.
ours_files() {
    git ls-files --cached --others --exclude-standard --deduplicate -- "$@" |
        while IFS= read -r file; do
            [[ ! -f $file ]] || echo "$file"
        done
}

format_main() {
    local -a files
    (($# == 0)) || usage_error "format takes no argument"
    packages_need lint
    mapfile -t files < <(ours_files '*.c' '*.h')
    ((${#files[@]} == 0)) || clang-format-14 -i "${files[@]}"
}
