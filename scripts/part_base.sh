# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Debian 12 as an archive, from which the Docker engine makes its base image where no registry
# answers: what debootstrap installs, without manuals and lists.

base_make() {
    local out=$1 mirror root=$1/root
    mirror=$(debian_mirror) || {
        say "cannot tell which Debian mirror this machine uses (apt-get indextargets names none)"
        return 1
    }
    step "making the base image of Debian 12 by debootstrap, about a minute (once)"
    quietly unshare --mount debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" || {
        say "debootstrap cannot install Debian 12 from $mirror: is the network up?"
        return 1
    }
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/* \
        "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/locale/*
    find "$root/usr/share/doc" -type f ! -name copyright -delete
    tar -C "$root" --numeric-owner -cf "$out/base.tar" . || return 1
    rm -rf "$root"
}

# Prints the path of the archive.
base_archive() {
    local folder
    folder=$(cache_part base-bookworm-1 base_make) || return 1
    echo "$folder/base.tar"
}
