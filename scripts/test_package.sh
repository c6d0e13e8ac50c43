# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The tier package of ./dev test: builds the packages twice, in another folder and another environment
# the second time, and once with a higher version; the tests compare and install them.

# package_run FOLDER [ARG...]: ./dev package there.
package_run() {
    local folder=$1
    shift
    (cd "$folder" && ./dev package "$@") >&2
}

# A clone of this commit with the changes that are not committed, in a folder with a longer name.
package_clone() {
    local clone=$1
    git clone --quiet --shared . "$clone"
    git diff --binary HEAD | (cd "$clone" && git apply --allow-empty)
}

package_build() {
    local work=$1 clone=$1/another-folder-with-a-longer-name
    package_run . || return 1
    cp -r build/package/out "$work/first"
    package_clone "$clone" || return 1
    # Another umask, language, time zone and home must not be seen in the packages.
    (umask 077 && export HOME=$work LC_ALL=C TZ=Asia/Kathmandu TALLYBOX_CACHE && package_run "$clone") ||
        return 1
    cp -r "$clone/build/package/out" "$work/second"
    package_run "$clone" --version 999.1 || return 1
    cp -r "$clone/build/package/out" "$work/next"
}

package_all() {
    local work=$TEST_WORK/packages
    if [[ $(id -u) != 0 ]]; then
        test_missing "package: only root can start a container with a systemd of its own"
        return
    fi
    packages_need package package_test pip e2e mariadb kafka
    TALLYBOX_CACHE=$(cache_root)
    if ! TALLYBOX_CONTAINER=$(container_root) || ! TALLYBOX_SPDX=$(spdx_packages) ||
        ! kafka_home >/dev/null; then
        test_missing "package: a part cannot be fetched (see above)"
        return
    fi
    mkdir -p "$work"
    package_build "$work" || fail "the packages cannot be built (see above)"
    export TALLYBOX_SPDX TALLYBOX_CONTAINER TALLYBOX_PACKAGES=$work
    # shellcheck disable=SC2034 # e2e_run reads them
    E2E_TIER=package E2E_WITHOUT=''
    step "running package tests"
    e2e_run "mariadb=$ROOT/build/package/tallybox"
}
