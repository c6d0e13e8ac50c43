# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Packages of Debian's sid suite without touching the machine: apt gets a state of its own.

# The mirror this machine already uses for Debian itself, not one of its other sources.
debian_mirror() {
    local site
    site=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(SITE)' 2>/dev/null |
        awk -F'|' '$1 == "Debian" && $2 == "Debian" {print $3; exit}')
    # Lists that were never fetched name no origin yet; then the address has to do.
    [[ -n $site ]] || site=$(apt-get indextargets --format '$(SITE)' 2>/dev/null |
        awk '/\/debian\/?$/ {print; exit}')
    [[ -n $site ]] || return 1
    echo "$site"
}

# debian_apt STATE ARG...: apt-get that knows only sid and believes nothing is installed. Signatures
# are checked as always; only the age of the lists is not, because mirrors of sid may lag for days.
debian_apt() {
    local state=$1
    shift
    apt-get -q \
        -o Dir::State="$state/state" -o Dir::State::status="$state/status" \
        -o Dir::Cache="$state/cache" -o Dir::Etc::SourceList="$state/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Check-Valid-Until=false -o APT::Install-Recommends=false -o Acquire::Languages=none \
        -o Acquire::Retries=3 -o APT::Update::Post-Invoke::= -o APT::Keep-Downloaded-Packages=true \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# debian_sid STATE deb|deb-src: fetches sid's lists into STATE.
debian_sid() {
    local state=$1 kind=$2 mirror
    mirror=$(debian_mirror) || {
        say "cannot tell which Debian mirror this machine uses (apt-get indextargets names none)"
        return 1
    }
    mkdir -p "$state"/state/lists/partial "$state"/cache/archives/partial
    : >"$state/status"
    echo "$kind $mirror sid main" >"$state/sources.list"
    quietly debian_apt "$state" update --error-on=any || {
        say "cannot fetch the package lists of Debian sid from $mirror: is the network up?"
        return 1
    }
}
