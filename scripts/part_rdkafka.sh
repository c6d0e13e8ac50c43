# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Which librdkafka we build against. Debian 12 packages 2.0.2, whose idempotent producer and
# cooperative consumer have faults that touch us; then a newer one is built once into the cache.

RDKAFKA_MIN=2.5

rdkafka_fetch() {
    local work=$1
    debian_sid "$work/apt" deb-src || return 1
    mkdir "$work/src"
    # The upstream files as they are: Debian's patches want generators for what is already there.
    (cd "$work" && quietly debian_apt "$work/apt" source --download-only librdkafka &&
        quietly tar -x --strip-components=1 -C src -f ./librdkafka_*.orig.tar.*) || {
        say "cannot fetch the source of librdkafka from Debian sid: is the network up?"
        return 1
    }
}

# ThreadSanitizer has to see both sides of a hand-over, so its presets get a librdkafka that is
# built with it; and it does not know C11 threads, which only a failing probe turns off.
rdkafka_prepare_tsan() {
    echo '#error not under ThreadSanitizer' \
        >"$1/src/packaging/cmake/try_compile/c11threads_test.c"
}

# rdkafka_compile WORK PREFIX C-FLAGS
rdkafka_compile() {
    local work=$1 prefix=$2 flags=$3
    quietly cmake -S "$work/src" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DRDKAFKA_BUILD_STATIC=ON -DRDKAFKA_BUILD_TESTS=OFF -DRDKAFKA_BUILD_EXAMPLES=OFF \
        -DWITH_SSL=ON -DWITH_SASL=ON -DWITH_ZLIB=ON -DWITH_ZSTD=ON -DENABLE_LZ4_EXT=ON \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DWITH_CURL=OFF &&
        quietly cmake --build "$work/build" && quietly cmake --install "$work/build" || {
        say "librdkafka does not build here; the end of the build's output is above"
        return 1
    }
}

# rdkafka_make plain|tsan OUT
rdkafka_make() {
    local kind=$1 out=$2 work=$2/.work
    # Its log lines name files: not in the folder of this run, or every cache would have other bytes.
    local flags=-ffile-prefix-map=$2/.work/=
    mkdir "$work"
    step "fetching and building librdkafka ($kind), about a minute (once)"
    rdkafka_fetch "$work" || return 1
    if [[ $kind == tsan ]]; then
        flags='-fsanitize=thread -g -O1'
        rdkafka_prepare_tsan "$work"
    fi
    rdkafka_compile "$work" "$out" "$flags" || return 1
    rdkafka_describe "$out" || return 1
    rm -rf "$work"
}

# The part is built in one folder and used in another: pkg-config finds its own place. Upstream's
# file forgets the libraries the static one stands on, and CMake puts a library that is named by its
# path before the objects that need it. Both names answer, so that `rdkafka` means
# the newer one wherever this folder is on PKG_CONFIG_PATH.
rdkafka_describe() {
    local out=$1 pc=$1/lib/pkgconfig
    [[ -f $pc/rdkafka-static.pc ]] || {
        say "librdkafka's build installed no rdkafka-static.pc"
        return 1
    }
    # shellcheck disable=SC2016 # pkg-config's own variables
    sed -i -e 's|^prefix=.*|prefix=${pcfiledir}/../..|' -e "s|$out|\${prefix}|g" \
        -e 's|^Requires.private:.*|Requires: libssl libcrypto libsasl2 libzstd liblz4 zlib|' \
        -e 's|[^ ]*/librdkafka\.a|-lrdkafka|' "$pc/rdkafka-static.pc"
    cp "$pc/rdkafka-static.pc" "$pc/rdkafka.pc"
    rm -f "$out"/lib/*++* "$pc"/*++*
}

rdkafka_packaged() { pkg-config --atleast-version="$RDKAFKA_MIN" rdkafka 2>/dev/null; }

# rdkafka_use [PRESET]: puts the librdkafka of this preset first on PKG_CONFIG_PATH.
rdkafka_use() {
    local prefix name=librdkafka-2 kind=plain
    if [[ ${1:-} == tsan ]]; then
        name=librdkafka-tsan-1 kind=tsan
    elif rdkafka_packaged; then
        say "librdkafka $(pkg-config --modversion rdkafka) (this machine's)"
        return 0
    fi
    packages_need fetch
    prefix=$(cache_part "$name" rdkafka_make "$kind") || fail "no librdkafka: see above"
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    say "librdkafka $(pkg-config --modversion rdkafka) (in $prefix)"
}
