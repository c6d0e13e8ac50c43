# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# prometheus and promtool from Debian's package, which is not installed: that would start a service.

prometheus_fetch() { (cd "$1" && apt-get -q -o Acquire::Retries=3 download prometheus); }

prometheus_make() {
    local out=$1 work=$1/.work as
    mkdir "$work"
    step "fetching Prometheus, about 20 MB (once)"
    # Lists of a machine may be older than what the mirror has.
    if ! prometheus_fetch "$work" >/dev/null 2>&1; then
        # shellcheck disable=SC2086 # a command prefix
        ! as=$(packages_install_as) || quietly $as apt-get -q update || true
        quietly prometheus_fetch "$work" || {
            say "cannot fetch Debian's package prometheus: is the network up?"
            return 1
        }
    fi
    dpkg -x "$work"/prometheus_*.deb "$work/root" &&
        mv "$work/root/usr/bin/prometheus" "$work/root/usr/bin/promtool" "$out" || {
        say "Debian's package prometheus has no prometheus or no promtool"
        return 1
    }
    rm -rf "$work"
}

# Prints the folder of the two programs.
prometheus_programs() { cache_part prometheus-1 prometheus_make; }
