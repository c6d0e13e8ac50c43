# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev build, env, fetch and clean.

build_help() {
    cat <<'END'
./dev build [PRESET]

Configures and builds with cmake into build/PRESET. Presets: dev (default), asan, tsan, release,
clang. The program is then build/PRESET/tallybox.
END
}

# build_prepare [PRESET]
build_prepare() {
    packages_need build
    rdkafka_use "${1:-dev}"
}

# What pkg-config will answer. CMake remembers the answers for ever, also those it got when the
# folder was configured by hand with other libraries.
build_libraries() {
    local folder
    echo "${PKG_CONFIG_PATH:-}"
    for folder in ${PKG_CONFIG_PATH//:/ }; do
        cat "$folder"/*.pc 2>/dev/null | cksum
    done
}

# build_configure FOLDER PRESET [CMAKE-ARG...]
build_configure() {
    local folder=$1 preset=$2
    shift 2
    [[ $(build_libraries) == "$(cat "$folder/libraries.txt" 2>/dev/null)" ]] || set -- --fresh "$@"
    quietly cmake --preset "$preset" -B "$ROOT/$folder" "$@" ||
        fail "configuring $folder failed (see above)"
    build_libraries >"$folder/libraries.txt"
}

# build_in FOLDER PRESET [CMAKE-ARG...]
build_in() {
    step "building $1"
    build_configure "$@"
    cmake --build "$1" >&2 || fail "the build of $1 failed (see above)"
}

# build_programs NAME...: these programs alone, in the folder and with the flags of ./dev build, which
# finds their objects done. The tests are not even configured, unless they are already.
build_programs() {
    local -a words=()
    step "building $*, about a minute on two cores the first time"
    grep -qs '^TALLYBOX_TESTS:BOOL=ON' build/dev/CMakeCache.txt || words=(-DTALLYBOX_TESTS=OFF)
    build_configure build/dev dev "${words[@]}"
    quietly cmake --build build/dev --target "$@" || fail "the build of $* failed (see above)"
}

build_preset() { build_in "build/$1" "$1"; }

build_main() {
    local preset=${1:-dev}
    (($# <= 1)) || usage_error "build takes one preset; see ./dev build --help"
    case $preset in
    dev | asan | tsan | release | clang) ;;
    *) usage_error "there is no preset '$preset'; there are dev, asan, tsan, release, clang" ;;
    esac
    build_prepare "$preset"
    [[ $preset != clang ]] || packages_need lint
    build_preset "$preset"
}

env_help() {
    cat <<'END'
eval "$(./dev env)"

Prints the settings under which `cmake --preset dev` finds the same libraries as ./dev build.
END
}

env_main() {
    (($# == 0)) || usage_error "env takes no argument"
    build_prepare
    printf 'export PKG_CONFIG_PATH=%q\n' "${PKG_CONFIG_PATH:-}"
}

fetch_help() {
    cat <<'END'
./dev fetch

Installs the packages of build, tests, bench and lint and fills the cache (librdkafka, MySQL,
Kafka, Debezium, the scripts of Galera, schemathesis, Prometheus, kubectl, a validator of SPDX, what the pages of docs/
use, and as root the container of the package tests), so that everything later works without the network.
END
}

fetch_main() {
    (($# == 0)) || usage_error "fetch takes no argument"
    packages_need build ccache fetch mariadb galera kafka demo e2e pip languages bench stress mutants lint fuzz \
        package package_test
    rdkafka_use
    mysql_root >/dev/null || fail "no MySQL: see above"
    kafka_home >/dev/null || fail "no Kafka: see above"
    debezium_home >/dev/null || fail "no Debezium: see above"
    galera_scripts >/dev/null || fail "no Galera: see above"
    schemathesis_packages >/dev/null || fail "no schemathesis: see above"
    prometheus_programs >/dev/null || fail "no Prometheus: see above"
    kubernetes_tools >/dev/null || fail "no kubectl: see above"
    spdx_packages >/dev/null || fail "no validator of SPDX: see above"
    [[ $(id -u) != 0 ]] || container_root >/dev/null || fail "no Debian 12 for containers: see above"
    languages_parts >/dev/null || fail "no clients for the programs of docs/: see above"
}

clean_help() { echo "./dev clean: removes build/. The cache ($(cache_root)) stays."; }

clean_main() {
    (($# == 0)) || usage_error "clean takes no argument"
    [[ ! -d build/cluster ]] || fail "there is a cluster in build/cluster: ./dev cluster down removes it"
    rm -rf build
}
