# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What the programs of docs/{python,go,java,node}.md need: each page shows the manifest of its
# language, and the language's own tool fetches what it lists, with the machine's settings and
# sources. A part's name has the hash of its manifest, so another version is another part. PHP's
# programs need Debian's packages alone. Python's is fetched by the commands of the page, into a
# virtual environment.

LANGUAGES_MADE=2

# The network of a test machine may fail for a moment. A tool keeps what it has fetched.
languages_try() {
    local wait
    for wait in 2 10 30 0; do
        ! quietly "$@" || return 0
        ((!wait)) || sleep "$wait"
    done
    return 1
}

languages_files() { /usr/bin/python3 -B "$ROOT/scripts/page_files.py" "$ROOT/docs/$1.md" "${@:2}"; }

# languages_make NAME MANIFEST FETCHER OUT
languages_make() {
    local name=$1 manifest=$2 fetcher=$3 out=$4
    step "fetching what docs/$name.md uses (once)"
    languages_files "$name" "$out" "$manifest" && "$fetcher" "$out" || {
        say "cannot fetch what $manifest of docs/$name.md lists: is the network up?"
        return 1
    }
}

languages_python() {
    languages_files python "$1" venv.sh
    (cd "$1" && export PIP_RETRIES=5 PIP_NO_COMPILE=1 PATH="/usr/bin:$PATH" &&
        languages_try sh -e venv.sh)
}

# The build cache makes the tests' builds short. Its files must be removable, and must not name the
# folder, which is moved afterwards (-trimpath).
languages_go() {
    languages_files go "$1"
    (cd "$1" && export GOMODCACHE=$1/modules GOCACHE=$1/build GOTOOLCHAIN=local \
        GOFLAGS='-modcacherw -trimpath' && languages_try go mod tidy &&
        languages_try go build -o "$1/tried" read_orders.go && rm "$1/tried")
}

languages_java() {
    languages_try mvn -B -q -f "$1/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1/libs"
}

languages_node() {
    languages_try npm install --prefix "$1" --no-audit --no-fund --ignore-scripts --omit=dev
}

# languages_part NAME MANIFEST
languages_part() {
    local name=$1 manifest=$2 hash work
    work=$(mktemp -d)
    languages_files "$name" "$work" "$manifest" &&
        hash=$(sha256sum <"$work/$manifest" | cut -c1-12) || hash=''
    rm -rf "$work"
    [[ -n $hash ]] || return 1
    cache_part "language-$name-$hash-$LANGUAGES_MADE" languages_make "$name" "$manifest" \
        "languages_$name"
}

# Prints LANGUAGE=FOLDER for each, separated by blanks.
languages_parts() {
    local name words=''
    local -A manifests=([python]=requirements.txt [go]=go.mod [java]=pom.xml [node]=package.json)
    local folder
    for name in python go java node; do
        folder=$(languages_part "$name" "${manifests[$name]}") || return 1
        words+="$name=$folder "
    done
    echo "${words% }"
}
