# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Debian packages by purpose. The demo needs fewer than the tests, the tests fewer than the lint.

packages_of() {
    case $1 in
    program)
        echo gcc g++ libc6-dev make cmake ninja-build pkg-config \
            libmariadb-dev libjansson-dev libmicrohttpd-dev libinih-dev zlib1g-dev \
            libssl-dev libsasl2-dev libzstd-dev liblz4-dev libcurl4-openssl-dev tzdata
        ;;
    build) echo "$(packages_of program)" libcmocka-dev ;;
    ccache) echo ccache ;;
    fetch) echo ca-certificates tar xz-utils ;;
    galera) echo galera-4 rsync lsof ;;
    mariadb) echo mariadb-server-core mariadb-client-core ;;
    kafka)
        # A java or mvn that is already on PATH stays the one we use.
        command -v java >/dev/null || echo default-jre-headless
        command -v mvn >/dev/null || echo maven
        echo kcat
        ;;
    demo) echo curl jq procps python3 ;;
    test) echo python3 ;;
    # mariadb-client has mariadb-dump.
    e2e) echo curl groff-base jq kcat mariadb-client openssl python3 python3-pymysql procps ;;
    pip) echo python3-pip ;;
    languages)
        # A compiler or npm that is already on PATH stays the one we use.
        command -v javac >/dev/null || echo default-jdk-headless
        command -v mvn >/dev/null || echo maven
        command -v go >/dev/null || echo golang-go
        command -v npm >/dev/null || echo nodejs npm
        echo kcat php-cli php-mysql python3-venv
        ;;
    cluster)
        # A Docker of this machine stays the one we use.
        command -v docker >/dev/null || echo docker.io
        docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || echo docker-compose
        echo binutils openssl python3
        ;;
    # nsenter and unshare are in util-linux, which every Debian has.
    cluster_test) echo iproute2 iptables kcat python3 python3-pymysql ;;
    engine)
        command -v dockerd >/dev/null || echo docker.io
        echo iptables iproute2
        ;;
    base) echo debootstrap debian-archive-keyring ;;
    bench) echo wrk ;;
    package) echo binutils dpkg-dev file git gzip python3 ;;
    package_test) echo debootstrap lintian man-db systemd-container ;;
    stress) echo stress-ng ;;
    mutants) echo patch ;;
    fuzz) echo clang clang-14 libclang-rt-14-dev ;;
    lint) echo clang clang-14 clang-tidy-14 clang-format-14 shellcheck python3 jq git ;;
    *) fail "no list of packages is called '$1'" ;;
    esac
}

packages_missing() {
    local name
    for name in "$@"; do
        [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] ||
            echo "$name"
    done
}

# Root needs no prefix, a password-less sudo will do, and anybody else is told what to type.
packages_install_as() {
    if [[ $(id -u) == 0 ]]; then
        echo env
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        echo sudo -n env
    else
        return 1
    fi
}

# Makes sure that every package of the named lists is installed; asks apt only when one is not.
packages_need() {
    local purpose as
    local -a wanted=() missing=()
    command -v dpkg-query >/dev/null ||
        fail "this machine has no dpkg: install the equivalents of these by hand: $(
            for purpose in "$@"; do packages_of "$purpose"; done | tr '\n' ' '
        )"
    for purpose in "$@"; do
        mapfile -t -O "${#wanted[@]}" wanted < <(packages_of "$purpose" | tr ' ' '\n')
    done
    mapfile -t missing < <(packages_missing "${wanted[@]}" | sort -u)
    ((${#missing[@]})) || return 0

    if ! as=$(packages_install_as); then
        say "These packages are missing. Install them and start again:"
        say "    sudo apt-get install -y --no-install-recommends ${missing[*]}"
        exit 1
    fi
    step "installing ${#missing[@]} Debian packages: ${missing[*]}"
    # Words of $as are a command prefix. A second run of ours may hold apt's lock for a while.
    # shellcheck disable=SC2086
    quietly $as DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update ||
        say "apt-get update had errors; trying with the lists that are there"
    # shellcheck disable=SC2086
    quietly $as DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
        install -y --no-install-recommends "${missing[@]}" ||
        fail "apt-get could not install: ${missing[*]} (its words are above; is the network up?)"
}
