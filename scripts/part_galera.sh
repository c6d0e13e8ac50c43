# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The scripts with which a Galera node hands its data to a new one, and the plugin with which a server
# encrypts its files. They are in mariadb-server, which would start a service: they are taken out of it, and
# nothing is installed.

# galera_download FOLDER: mariadb-server as this machine's sources have it. Where apt's lists are
# empty, they are fetched into the folder: the machine's own are root's.
galera_download() {
    local state=$1/state
    local -a words=(-q -o APT::Sandbox::User="$(id -un)")
    if [[ -z $(apt-cache madison mariadb-server 2>/dev/null) ]]; then
        mkdir -p "$state"/lists/partial "$state"/cache/archives/partial
        words+=(-o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache"
            -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Update::Post-Invoke::=)
        quietly apt-get "${words[@]}" update || return 1
    fi
    (cd "$1" && quietly apt-get "${words[@]}" download mariadb-server)
}

galera_scripts_make() {
    local out=$1 work=$1/.work
    mkdir "$work" "$work/root"
    step "fetching Galera's scripts (once)"
    galera_download "$work" || {
        say "cannot fetch the package mariadb-server: is the network up?"
        return 1
    }
    dpkg -x "$work"/mariadb-server_*.deb "$work/root" || return 1
    cp "$work"/root/usr/bin/wsrep_sst_* "$out/" || return 1
    mkdir "$out/plugin" || return 1
    cp "$work"/root/usr/lib/mysql/plugin/file_key_management.so "$out/plugin/" || return 1
    rm -rf "$work"
}

galera_scripts() { cache_part galera-scripts-2 galera_scripts_make; }
