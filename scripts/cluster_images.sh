# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The images of ./dev cluster: ours, and those of the servers, official ones or stand-ins.

IMAGES_BASE=debian:bookworm-slim
IMAGES_PULL_SECONDS=120
IMAGES_OURS=tallybox:local IMAGES_RUNTIME=tallybox-runtime:local
STANDINS=(kafka mysql haproxy prometheus)
# What our program may be linked with, because the image has it.
IMAGES_LIBRARIES='libcurl.so.4 libinih.so.1 libjansson.so.4 liblz4.so.1 libmariadb.so.3
    libmicrohttpd.so.12 libsasl2.so.2 libssl.so.3 libcrypto.so.3 libzstd.so.1 libz.so.1 libm.so.6
    libc.so.6 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1'

# image_label IMAGE LABEL: its value, or nothing.
image_label() {
    docker image inspect --format "{{index .Config.Labels \"$2\"}}" "$1" 2>/dev/null || true
}

# Debian's sources of this machine, so that a build reaches what the machine reaches. The images of
# Debian cannot check certificates before ca-certificates is installed; ours of debootstrap can.
images_apt_sources() {
    local lines
    lines=$(apt-get indextargets --format '$(CREATED_BY)|$(ORIGIN)|$(SITE)|$(RELEASE)|$(COMPONENT)' |
        awk -F'|' '$1 == "Packages" && $2 == "Debian" && $4 ~ /^bookworm/ {print "deb", $3, $4, $5}')
    [[ $lines != *https://* || $TALLYBOX_CLUSTER_IMAGES == standin ]] || lines=''
    echo "$lines"
}

# Proxies and the like; what names a file of this machine means nothing in a container.
images_apt_conf() {
    apt-config dump |
        grep -E '^Acquire::(http|https|ftp|Check-Valid-Until|Check-Date|Retries|ForceIPv[46])' |
        grep -vE 'Proxy-Auto-Detect|"/' || true
}

images_build_words() {
    local name
    IMAGES_WORDS=(
        --network host --build-arg "BASE=$IMAGES_BASE"
        --build-arg "APT_SOURCES=$(images_apt_sources)" --build-arg "APT_CONF=$(images_apt_conf)"
    )
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [[ -z ${!name:-} ]] || IMAGES_WORDS+=(--build-arg "$name")
    done
}

# Official images where a registry answers, else stand-ins on a base that debootstrap makes. Sets
# TALLYBOX_CLUSTER_IMAGES to official or standin.
images_choose() {
    local archive kind=${TALLYBOX_CLUSTER_IMAGES:-auto}
    case $kind in
    official | standin) ;;
    auto)
        kind=standin
        if [[ $(image_label "$IMAGES_BASE" tallybox.base) != debootstrap ]]; then
            step 'asking the image registry'
            ! timeout "$IMAGES_PULL_SECONDS" docker pull --quiet "$IMAGES_BASE" >/dev/null 2>&1 ||
                kind=official
        fi
        [[ $kind == official ]] || say '    No image registry answers.'
        ;;
    *) usage_error "TALLYBOX_CLUSTER_IMAGES=$kind: expected auto, official or standin" ;;
    esac
    export TALLYBOX_CLUSTER_IMAGES=$kind
    [[ $kind == standin ]] || return 0
    say '    The images of the servers are stand-ins from Debian packages and Maven jars (docker/standin),'
    say '    and there is no Grafana.'
    if ! docker image inspect "$IMAGES_BASE" >/dev/null 2>&1; then
        packages_need base
        archive=$(base_archive) || fail 'no base image: see above'
        quietly docker import --change 'LABEL tallybox.base=debootstrap' --change 'CMD ["bash"]' \
            "$archive" "$IMAGES_BASE" || fail 'the base image cannot be imported (see above)'
    fi
}

# images_key FILE...: of what an image is made from.
images_key() {
    {
        docker image inspect --format '{{.Id}}' "$IMAGES_BASE" 2>/dev/null || true
        find "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    } | sha256sum | cut -c 1-32
}

# image_build TAG KEY CONTEXT DOCKERFILE [WORD...]: unless TAG is made of the same already.
image_build() {
    local tag=$1 key=$2 context=$3 file=$4
    shift 4
    [[ $(image_label "$tag" tallybox.key) != "$key" ]] || return 0
    step "building the image $tag"
    quietly docker build --force-rm "${IMAGES_WORDS[@]}" "$@" --label "tallybox.key=$key" --tag "$tag" \
        --file "$file" "$context" || {
        say "FAILED: the image $tag cannot be built (the end of its build is above)"
        return 1
    }
}

# context_copy FROM... TO: hard links where the file system can.
context_copy() { cp -rl "$@" 2>/dev/null || cp -r "$@"; }

# The jars stay one name per file; the image takes them as they are.
standin_context_kafka() {
    local home
    home=$(kafka_home) || return 1
    context_copy "$home/libs" "$1/"
}

standin_context_mysql() {
    local root library
    root=$(mysql_root) || return 1
    mkdir -p "$1"/root/usr/{sbin,lib/mysql,share}
    context_copy "$root/usr/sbin/mysqld" "$1/root/usr/sbin/"
    context_copy "$root/usr/lib/mysql/plugin" "$1/root/usr/lib/mysql/"
    context_copy "$root/usr/share/mysql" "$1/root/usr/share/"
    library=$(mysql_lib "$root")
    mkdir -p "$1/root/usr/lib/${library##*/}"
    context_copy "$library"/*.so* "$1/root/usr/lib/${library##*/}/"
    [[ ! -d $library/mysql ]] || context_copy "$library/mysql" "$1/root/usr/lib/${library##*/}/"
}

standin_context_haproxy() { :; }
standin_context_prometheus() { :; }

standin_image() { echo "tallybox-standin-$1:local"; }

# standin_build NAME
standin_build() {
    local name=$1 context=build/cluster/context/$1
    rm -rf "$context"
    mkdir -p "$context"
    cp docker/standin/apt-install docker/standin/"$name"/* "$context/"
    "standin_context_$name" "$context" || return 1
    image_build "$(standin_image "$name")" "$(images_key "$context")" "$context" \
        "$context/Dockerfile"
}

# Whether the program of this machine runs in the image: the same Debian, and no other library.
program_fits() {
    local library
    grep -qs '^VERSION_CODENAME=bookworm$' /etc/os-release || return 1
    for library in $(objdump -p "$1" | awk '$1 == "NEEDED" {print $2}'); do
        [[ " $(tr -s ' \n' ' ' <<<"$IMAGES_LIBRARIES") " == *" $library "* ]] || return 1
    done
}

# The program is built outside, where ./dev build finds most objects done, and is added to the stage
# `runtime` of docker/Dockerfile. Where it would not run there, the Dockerfile builds it.
ours_build() {
    local context=build/cluster/context/tallybox version revision
    local -a words
    build_prepare release
    build_preset release
    revision=$(git rev-parse HEAD 2>/dev/null || true)
    version=$(build/release/tallybox version | head -n 1 | cut -d ' ' -f 2)
    words=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
    if ! program_fits build/release/tallybox; then
        say '    The program of this machine does not run in an image of Debian 12: it is built again there.'
        image_build "$IMAGES_OURS" "$(images_key docker/Dockerfile build/release/tallybox)" . \
            docker/Dockerfile "${words[@]}"
        return
    fi
    mkdir -p "$context/empty"
    install --strip build/release/tallybox "$context/tallybox"
    cat >"$context/Dockerfile" <<END
FROM $IMAGES_RUNTIME
COPY tallybox /usr/local/bin/tallybox
LABEL org.opencontainers.image.version="$version" org.opencontainers.image.revision="$revision"
END
    image_build "$IMAGES_RUNTIME" "$(images_key docker/Dockerfile)" "$context/empty" docker/Dockerfile \
        --target runtime &&
        image_build "$IMAGES_OURS" "$(images_key docker/Dockerfile "$context")" "$context" \
            "$context/Dockerfile"
}

# Ours while the others wait for the network. Sets the variables of compose.yaml that name no image of
# the caller.
images_prepare() {
    local name variable image failed=0
    local -a pids=()
    images_choose
    images_build_words
    if [[ $TALLYBOX_CLUSTER_IMAGES == standin ]]; then
        packages_need fetch
        [[ -d $(cache_root)/$(kafka_part) ]] || packages_need kafka
        for name in "${STANDINS[@]}"; do
            variable=TALLYBOX_${name^^}_IMAGE image=$(standin_image "$name")
            [[ ${!variable:-$image} == "$image" ]] || continue
            export "$variable=$image"
            standin_build "$name" &
            pids+=($!)
        done
    fi
    export TALLYBOX_IMAGE=${TALLYBOX_IMAGE:-$IMAGES_OURS}
    [[ $TALLYBOX_IMAGE != "$IMAGES_OURS" ]] || ours_build || failed=1
    for name in "${pids[@]}"; do
        wait "$name" || failed=1
    done
    rm -rf build/cluster/context
    ((!failed)) || fail 'an image is missing: see above'
}

images_remove() {
    local name
    for name in "${STANDINS[@]}"; do
        docker image rm --force "$(standin_image "$name")" >/dev/null 2>&1 || true
    done
    docker image rm --force "$IMAGES_OURS" "$IMAGES_RUNTIME" >/dev/null 2>&1 || true
}
