# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# MySQL's server and Oracle's client library from Debian sid, unpacked into one folder, nothing
# installed. Its libc is newer than the machine's, so all of it runs through its own loader.

mysql_root_make() {
    local out=$1 work=$1/.work package
    mkdir "$work"
    step "fetching MySQL's server and client library, about 100 MB (once)"
    debian_sid "$work/apt" deb || return 1
    quietly debian_apt "$work/apt" install -y --download-only \
        mysql-server-core libmysqlclient-dev || {
        say "cannot fetch mysql-server-core from Debian sid: is the network up?"
        return 1
    }
    step "unpacking MySQL (once)"
    for package in "$work"/apt/cache/archives/*.deb; do
        dpkg -x "$package" "$out" || return 1
    done
    rm -rf "$work" "$out"/usr/share/{doc,man,locale}
    [[ -x $out/usr/sbin/mysqld && -n $(mysql_loader "$out") ]] || {
        say "the packages of MySQL from Debian sid are not laid out as expected"
        return 1
    }
    mysql_describe "$out"
}

# What a compiler may see of it: the client's own headers and library. Those of the newer libc
# beside them break the machine's compiler and linker.
mysql_describe() {
    local out=$1 library
    mkdir -p "$out/include" "$out/lib/pkgconfig"
    ln -sfn ../usr/include/mysql "$out/include/mysql"
    library=$(compgen -G "$(mysql_lib "$out")/libmysqlclient.so" | head -n 1)
    ln -sfn "../${library#"$out/"}" "$out/lib/libmysqlclient.so"
    cat >"$out/lib/pkgconfig/mysqlclient.pc" <<'END'
prefix=${pcfiledir}/../..
Name: mysqlclient
Description: Oracle's MySQL client library, unpacked beside the machine's libraries
Version: @VERSION@
Cflags: -I${prefix}/include/mysql -I${prefix}/include
Libs: -L${prefix}/lib -lmysqlclient -Wl,--allow-shlib-undefined
END
    sed -i "s/@VERSION@/$(mysql_version "$out")/" "$out/lib/pkgconfig/mysqlclient.pc"
}

mysql_root() { cache_part mysql-1 mysql_root_make; }

mysql_lib() { echo "$1"/usr/lib/*-linux-gnu; }

mysql_loader() {
    local file
    for file in "$1"/usr/lib/*-linux-gnu/ld-linux*.so.*; do
        [[ ! -x $file ]] || echo "$file"
    done
}

mysql_version() { mysql_run "$1" "$1/usr/sbin/mysqld" --version | sed 's/.* Ver \([0-9.]*\).*/\1/'; }

# mysql_run ROOT PROGRAM ARG...: replaces the shell when it is called in a subshell with exec.
mysql_run() {
    local root=$1
    shift
    "$(mysql_loader "$root")" --library-path "$(mysql_lib "$root")" "$@"
}
