# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev package: the Debian packages, with cpack from a release build.

package_help() {
    cat <<'END'
./dev package [--version V]

Builds a release into build/package, and makes of it in build/package/out:

  tallybox_VERSION_ARCH.deb         the program, systemd units, settings, man pages, completion
  libtallybox-dev_VERSION_ARCH.deb  headers and static libraries for C applications
  tallybox_VERSION.spdx.json        the bill of materials, SPDX 2.3; also in the first package

VERSION comes from the newest tag v*, or from --version; cmake/version.cmake explains it.
TALLYBOX_MAINTAINER="NAME <ADDRESS>" is the maintainer of the packages. Two builds of a commit give
the same bytes on machines that have the same compiler and libraries. `./dev test package` checks
that and installs, upgrades and removes the packages under a real systemd.
END
}

# package_configure FOLDER [CMAKE-ARG...]: with the folders that Debian has.
package_configure() {
    local folder=$1
    shift
    build_configure "$folder" release -UTALLYBOX_VERSION -DCMAKE_INSTALL_PREFIX=/usr \
        -DTALLYBOX_MYSQL_CLIENT=libmariadb -DTALLYBOX_UNIT_DIR=/lib/systemd/system \
        -DTALLYBOX_ZSH_DIR=share/zsh/vendor-completions \
        ${TALLYBOX_MAINTAINER:+"-DTALLYBOX_MAINTAINER=$TALLYBOX_MAINTAINER"} "$@"
}

# The time of the commit stands for that of every file. One that is set is kept.
package_epoch() {
    [[ -n ${SOURCE_DATE_EPOCH:-} ]] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) ||
        fail "the packages need the time of the commit: a clone, or SOURCE_DATE_EPOCH"
    export SOURCE_DATE_EPOCH
}

package_main() {
    local folder=build/package version
    local -a words=()
    while (($#)); do
        case $1 in
        --version)
            [[ -n ${2:-} ]] || usage_error "--version takes a version"
            words=("-DTALLYBOX_VERSION=$2")
            shift
            ;;
        *) usage_error "package does not know '$1'; see ./dev package --help" ;;
        esac
        shift
    done
    build_prepare release
    packages_need package
    # Nothing of this shell may be seen in the packages, nor of another clone: ccache may answer with an
    # object in which asserts name that one's files.
    umask 022
    export LC_ALL=C.UTF-8 TZ=UTC CCACHE_DISABLE=1
    package_epoch
    step "building $folder"
    package_configure "$folder" "${words[@]}"
    cmake --build "$folder" >&2 || fail "the build of $folder failed (see above)"
    [[ -s $folder/package/tallybox.spdx.json ]] || fail "the build made no bill of materials"
    step "packing $folder/out"
    rm -rf "$folder/out"
    quietly cpack --config "$folder/CPackConfig.cmake" -B "$ROOT/$folder/out" ||
        fail "cpack failed (see above)"
    rm -rf "$folder/out/_CPack_Packages"
    version=$(dpkg-deb -f "$folder"/out/tallybox_*.deb Version)
    cp "$folder/package/tallybox.spdx.json" "$folder/out/tallybox_$version.spdx.json"
    (cd "$folder/out" && sha256sum -- *)
}
