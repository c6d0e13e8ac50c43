# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev cluster test and chaos: scenarios of tests/cluster on a cluster while votes flow.

CLUSTER_NEXT=$ROOT/build/cluster/next
CLUSTER_TEST_FOLDER=$ROOT/build/cluster-test
CLUSTER_KEEP=0 CLUSTER_SHORT=0 CLUSTER_ASYNCHRONOUS=0
CLUSTER_NAMES=()

# The next version of the program: the same code with one more migration.
cluster_next_source() {
    local source=$CLUSTER_NEXT/source last next
    rm -rf "$CLUSTER_NEXT"
    mkdir -p "$source"
    git ls-files -z | xargs -0 cp --parents -t "$source"
    last=$(find schema/migrate -name '0*.sql' -printf '%f\n' | sort | tail -n 1)
    printf -v next '%04d_next.sql' $((10#${last%%_*} + 1))
    printf -- '-- side: sink\nALTER TABLE remark ADD COLUMN next_note INT NULL;\n' \
        >"$source/schema/migrate/$next"
    sed -i "s|$last|$last $next|" "$source/schema/CMakeLists.txt"
}

cluster_next_image() {
    step 'building the program of the next version'
    cluster_next_source
    packages_need program
    rdkafka_use
    (cd "$CLUSTER_NEXT/source" && quietly cmake --preset release -B "$CLUSTER_NEXT/build" \
        -DTALLYBOX_TESTS=OFF && quietly cmake --build "$CLUSTER_NEXT/build" --target tallybox) ||
        fail 'the program of the next version does not build (see above)'
    mkdir -p "$CLUSTER_NEXT/image"
    cp "$CLUSTER_NEXT/build/tallybox" "$CLUSTER_NEXT/image/"
    # The image of this version with another program.
    printf 'FROM %s\nCOPY tallybox /usr/local/bin/tallybox\n' "$TALLYBOX_IMAGE" >"$CLUSTER_NEXT/image/Dockerfile"
    quietly docker build -t tallybox:next "$CLUSTER_NEXT/image" || fail 'the next image does not build'
    export CLUSTER_NEXT_IMAGE=tallybox:next
}

# Whether one of the chosen scenarios replaces the program.
cluster_test_upgrades() {
    local name
    ((!CLUSTER_SHORT && !CLUSTER_ASYNCHRONOUS)) || return 1
    ((${#CLUSTER_NAMES[@]})) || return 0
    for name in "${CLUSTER_NAMES[@]}"; do
        [[ upgrade != *"$name"* ]] || return 0
    done
    return 1
}

cluster_test_run() {
    # A mount namespace of its own: there /etc/hosts has the names of the brokers.
    unshare --mount --propagation private /usr/bin/python3 -B tests/cluster/run.py \
        --folder "$CLUSTER_TEST_FOLDER" "$@"
}

cluster_test_exit() {
    local code=$?
    trap - EXIT INT TERM HUP
    ((code == 0)) || {
        mkdir -p "$CLUSTER_TEST_FOLDER"
        # An `up` that failed has told why, and there may be nothing to ask.
        (cluster_need && cluster_compose logs --no-color) >"$CLUSTER_TEST_FOLDER/containers.log" 2>&1 || true
        say "ledgers and the logs of all containers are in ${CLUSTER_TEST_FOLDER#"$ROOT/"}"
    }
    if ((!CLUSTER_KEEP)); then (cluster_main down) || code=1; fi
    exit "$code"
}

cluster_test_parse() {
    CLUSTER_WORDS=()
    while (($#)); do
        case $1 in
        --short)
            CLUSTER_SHORT=1
            CLUSTER_WORDS+=("$1")
            ;;
        --asynchronous)
            CLUSTER_ASYNCHRONOUS=1
            CLUSTER_WORDS+=("$1")
            ;;
        --seed | --rate | --seconds)
            [[ ${2:-} =~ ^[0-9]+$ ]] || usage_error "$1 takes a number"
            CLUSTER_WORDS+=("$1" "$2")
            shift
            ;;
        --keep) CLUSTER_KEEP=1 ;;
        -*) usage_error "cluster test does not know '$1'; see ./dev cluster --help" ;;
        *)
            CLUSTER_NAMES+=("$1")
            CLUSTER_WORDS+=("$1")
            ;;
        esac
        shift
    done
}

# From nothing to nothing.
cluster_test() {
    [[ $(id -u) == 0 ]] ||
        fail 'cluster test needs root: it cuts networks of containers and kills their processes'
    cluster_test_parse "$@"
    packages_need cluster_test
    rm -rf "$CLUSTER_TEST_FOLDER"
    [[ ! -f $CLUSTER/variables ]] || fail 'a cluster is up: ./dev cluster down removes it'
    trap cluster_test_exit EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    (cluster_main up)
    cluster_need
    if cluster_test_upgrades; then cluster_next_image; fi
    cluster_test_run "${CLUSTER_WORDS[@]}"
}

# On the cluster that is up, which stays.
cluster_chaos() {
    [[ $(id -u) == 0 ]] ||
        fail 'cluster chaos needs root: it cuts networks of containers and kills their processes'
    cluster_test_parse "$@"
    packages_need cluster_test
    cluster_need
    rm -rf "$CLUSTER_TEST_FOLDER"
    [[ " ${CLUSTER_WORDS[*]} " == *' --seconds '* ]] || CLUSTER_WORDS+=(--seconds 120)
    cluster_test_run "${CLUSTER_WORDS[@]}"
}
