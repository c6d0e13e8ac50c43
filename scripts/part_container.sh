# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The root of a Debian 12 machine with systemd and the libraries of the packages, for tests that install
# them. Nothing of it is installed on this machine.

# What the packages depend on, so that they can be installed without the network, and what their tests
# look at.
CONTAINER_PACKAGES=(
    systemd systemd-sysv dbus tzdata ca-certificates bash-completion
    libcurl4 libinih1 libjansson4 liblz4-1 libmariadb3 libmicrohttpd12 libsasl2-2 libssl3 libzstd1
    zlib1g
)

container_make() {
    local out=$1 mirror names
    mirror=$(debian_mirror) || {
        say "cannot tell which Debian mirror this machine uses (apt-get indextargets names none)"
        return 1
    }
    step "fetching a Debian 12 with systemd, about 100 MB (once)"
    names=$(IFS=, && echo "${CONTAINER_PACKAGES[*]}")
    # In a namespace of its own: on a busy machine it may leave /proc mounted there.
    quietly unshare --mount debootstrap --variant=minbase --include="$names" bookworm "$out/root" "$mirror" || {
        say "debootstrap cannot make the root of a Debian 12: is the network up?"
        return 1
    }
    rm -rf "$out"/root/var/cache/apt/archives/*.deb "$out"/root/var/lib/apt/lists/*
    # Each machine of the tests gets an identity of its own.
    : >"$out/root/etc/machine-id"
}

# Prints the folder of the root.
container_root() {
    local folder
    folder=$(cache_part container-bookworm-1 container_make) || return 1
    echo "$folder/root"
}
