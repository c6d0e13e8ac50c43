# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The scripts with which a Galera node hands its data to a new one. They are in mariadb-server, which
# would start a service: they are taken out of it, and nothing is installed.

galera_scripts_make() {
    local out=$1 work=$1/.work
    mkdir "$work" "$work/root"
    step "fetching Galera's scripts (once)"
    (cd "$work" && quietly apt-get -o APT::Sandbox::User="$(id -un)" download mariadb-server) || {
        say "cannot fetch the package mariadb-server: is the network up?"
        return 1
    }
    dpkg -x "$work"/mariadb-server_*.deb "$work/root" || return 1
    cp "$work"/root/usr/bin/wsrep_sst_* "$out/" || return 1
    rm -rf "$work"
}

galera_scripts() { cache_part galera-scripts-1 galera_scripts_make; }
