# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# promtool, which checks rules files, from Debian's package of Prometheus, whose server is not
# installed.

promtool_fetch() { (cd "$1" && apt-get -q -o Acquire::Retries=3 download prometheus); }

promtool_make() {
    local out=$1 work=$1/.work as
    mkdir "$work"
    step "fetching promtool, about 20 MB (once)"
    # Lists of a machine may be older than what the mirror has.
    if ! promtool_fetch "$work" >/dev/null 2>&1; then
        # shellcheck disable=SC2086 # a command prefix
        ! as=$(packages_install_as) || quietly $as apt-get -q update || true
        quietly promtool_fetch "$work" || {
            say "cannot fetch Debian's package prometheus: is the network up?"
            return 1
        }
    fi
    dpkg -x "$work"/prometheus_*.deb "$work/root" && mv "$work/root/usr/bin/promtool" "$out" || {
        say "Debian's package prometheus has no promtool"
        return 1
    }
    rm -rf "$work"
}

# Prints the path of the program.
promtool_program() {
    local folder
    folder=$(cache_part promtool-1 promtool_make) || return 1
    echo "$folder/promtool"
}
