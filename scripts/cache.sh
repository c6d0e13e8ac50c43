# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What is fetched or built once and kept between runs. A part is made in a folder beside its place
# and moved there as the last act, so a part that exists is whole, whatever was killed before.

cache_root() { echo "${TALLYBOX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tallybox}"; }

# cache_part NAME MAKER [ARG...]: prints the folder of a part. When it is not there, MAKER is called
# with an empty folder as its last argument and has to fill it. Raise the number at the end of a
# part's name when its recipe changes.
cache_part() {
    local name=$1 maker=$2 root place
    shift 2
    root=$(cache_root)
    place=$root/$name
    if [[ ! -d $place ]]; then
        mkdir -p "$root" || fail "cannot make the cache folder $root (set TALLYBOX_CACHE)"
        cache_make "$place" "$maker" "$@" >&2 || return 1
    fi
    echo "$place"
}

# One process makes a part at a time; a process that waited finds it made. The lock goes with the process.
cache_make() (
    local place=$1 maker=$2
    shift 2
    exec 9>"$place.lock"
    if ! flock -n 9; then
        step "waiting for another run that prepares ${place##*/}"
        flock 9
    fi
    [[ ! -d $place ]] || exit 0
    rm -rf "$place".tmp.*
    CACHE_TMP=$(mktemp -d "$place.tmp.XXXXXX")
    chmod 755 "$CACHE_TMP"
    trap 'rm -rf "$CACHE_TMP"' EXIT
    trap 'exit 130' INT TERM HUP
    # The lock must not live on in a server or daemon that the maker starts.
    "$maker" "$@" "$CACHE_TMP" 9>&- || exit 1
    mv "$CACHE_TMP" "$place"
)

# In CI, what an earlier stage or run has compiled is not compiled again: ccache finds it by what the
# compiler would read, also for a clone in another folder. ./dev package compiles everything. A ccache
# that the environment has set up stays as it is. Where it cannot be installed, all is compiled.
cache_objects() {
    [[ ${CI:-} == true && -z ${CMAKE_C_COMPILER_LAUNCHER:-} ]] || return 0
    command -v ccache >/dev/null || (packages_need ccache) || return 0
    CCACHE_DIR=${CCACHE_DIR:-$(cache_root)/ccache}
    export CCACHE_DIR CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 \
        CCACHE_MAXSIZE=2G
}
