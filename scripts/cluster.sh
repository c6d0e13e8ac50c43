# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev cluster: tallybox as in production, in containers on this machine.

# shellcheck source=scripts/process.sh
. "$ROOT/scripts/process.sh"
# shellcheck source=scripts/part_base.sh
. "$ROOT/scripts/part_base.sh"
# shellcheck source=scripts/cluster_engine.sh
. "$ROOT/scripts/cluster_engine.sh"
# shellcheck source=scripts/cluster_images.sh
. "$ROOT/scripts/cluster_images.sh"
# shellcheck source=scripts/cluster_test.sh
. "$ROOT/scripts/cluster_test.sh"

cluster_help() {
    cat <<'END'
./dev cluster COMMAND

  up [--scale SERVICE=N]... [--build]
                              builds the images, starts everything and waits until it is ready: three
                              brokers, a database with a replica, 2 serve behind a balancer, 2 relay
                              on 4 lanes, 3 consume on 12 partitions, 2 retry, rollup, housekeep,
                              Prometheus and Grafana. On a cluster that runs it changes the numbers,
                              and builds again only with --build
  status                      `tallybox status` of the cluster, and its addresses
  vote [--count N] [--contents N] [--ledger FILE]
                              sends N votes (1000) on N contents (100) through the balancer, repeats
                              what is answered 429 or 503, and prints what was accepted; FILE gets
                              each accepted vote
  logs [--follow] [SERVICE]   what the containers log
  compose WORD...             docker compose with the files and variables of the cluster, for the rest:
                              `compose ps`, `compose run --rm tools verify`
  test [--short] [--keep] [--seed N] [--rate N] [--asynchronous] [NAME...]
                              from nothing to nothing: starts the cluster, lets votes flow, kills,
                              cuts and scales it meanwhile, and compares all ledgers at the end
                              (tests/cluster). --short: ten minutes; NAMEs: scenarios whose name
                              contains it; --asynchronous: the fail-over that loses votes; --keep
                              leaves the cluster up. Only for root
  chaos [--seconds N] [--seed N] [--rate N]
                              scenarios by chance on the cluster that is up, for N (120) seconds
  down [--images]             removes everything, also after an `up` that failed or was killed: the
                              containers, networks, volumes, secrets, and the private engine. An `up`
                              that runs is ended first. With --images also the images that were made

Without a Docker engine that answers, root gets a private one in build/cluster, with its images in the
cache. Without an image registry the servers come from Debian packages and Maven jars, and Grafana is
left out. docker/README.md describes the services and variables:

  TALLYBOX_API_PORT, TALLYBOX_PROMETHEUS_PORT, TALLYBOX_GRAFANA_PORT   on 127.0.0.1; default 8080, 9090,
                              3000, or another one where these are in use
  TALLYBOX_CLUSTER_NETWORK    first three numbers of the inner network (default: 172.30.64)
  TALLYBOX_CLUSTER_IMAGES     auto (default), official or standin
  TALLYBOX_IMAGE, TALLYBOX_KAFKA_IMAGE, TALLYBOX_MYSQL_IMAGE, TALLYBOX_HAPROXY_IMAGE,
  TALLYBOX_PROMETHEUS_IMAGE, TALLYBOX_GRAFANA_IMAGE                    instead of the pinned ones

The cluster needs 4 GB of memory. Exit codes: 0 done, 1 failed, 2 wrong usage.
END
}

CLUSTER=$ROOT/build/cluster
CLUSTER_PROJECT=tallybox
CLUSTER_READY_SECONDS=${TALLYBOX_CLUSTER_READY_SECONDS:-600}
# Roles may end while their servers start, and are started again.
CLUSTER_RESTARTS_MAX=8
CLUSTER_SERVICES=(serve relay consume retry rollup housekeep) # that may be scaled
CLUSTER_VARIABLES=(
    TALLYBOX_IMAGE TALLYBOX_KAFKA_IMAGE TALLYBOX_MYSQL_IMAGE TALLYBOX_HAPROXY_IMAGE
    TALLYBOX_PROMETHEUS_IMAGE TALLYBOX_GRAFANA_IMAGE TALLYBOX_API_PORT TALLYBOX_PROMETHEUS_PORT
    TALLYBOX_GRAFANA_PORT TALLYBOX_SECRETS TALLYBOX_CLUSTER_IMAGES TALLYBOX_CLUSTER_NETWORK
)
CLUSTER_SCALE=() CLUSTER_UP_PID='' CLUSTER_UP_BORN=''

# The compose that is there: the plugin, or Debian's docker-compose 1.29.
cluster_compose() {
    local -a program=(docker compose)
    docker compose version >/dev/null 2>&1 || program=(docker-compose)
    "${program[@]}" --project-name "$CLUSTER_PROJECT" --file docker/compose.yaml \
        --env-file "$CLUSTER/variables" "$@"
}

# cluster_ids WHAT...: of the project's containers, networks or volumes.
cluster_ids() { docker "$@" --quiet --filter "label=com.docker.compose.project=$CLUSTER_PROJECT"; }

# cluster_id SERVICE NUMBER
cluster_id() {
    cluster_ids ps --all --filter "label=com.docker.compose.service=$1" \
        --filter "label=com.docker.compose.container-number=$2" \
        --filter label=com.docker.compose.oneoff=False | head -n 1
}

# cluster_restarts SERVICE NUMBER: how often the container has ended and was started again.
cluster_restarts() { docker inspect --format '{{.RestartCount}}' "$(cluster_id "$1" "$2")" || echo 0; }

# SERVICE|NUMBER|STATE|STATUS of every container that is no run of tools.
cluster_containers() {
    docker ps --all --filter "label=com.docker.compose.project=$CLUSTER_PROJECT" \
        --filter label=com.docker.compose.oneoff=False --format \
        '{{.Label "com.docker.compose.service"}}|{{.Label "com.docker.compose.container-number"}}|{{.State}}|{{.Status}}' |
        LC_ALL=C sort
}

# The variables under which the cluster was started count for every later command.
cluster_load() {
    local name value
    [[ -f $CLUSTER/variables ]] || return 1
    while IFS='=' read -r name value; do
        [[ -n ${!name:-} ]] || export "$name=$value"
    done <"$CLUSTER/variables"
}

cluster_save() {
    local name
    for name in "${CLUSTER_VARIABLES[@]}"; do
        [[ -z ${!name:-} ]] || echo "$name=${!name}"
    done >"$CLUSTER/variables.new"
    mv "$CLUSTER/variables.new" "$CLUSTER/variables"
}

cluster_need() {
    cluster_load && engine_find || fail 'the cluster does not run: ./dev cluster up starts it'
}

# port_choose VARIABLE DEFAULT: what the caller has set, or the default, or a free one.
port_choose() {
    local port=${!1:-}
    if [[ -n $port ]]; then
        [[ $port =~ ^[0-9]{1,5}$ ]] || usage_error "$1=$port: expected a port"
        ! port_taken "$port" || fail "port $port is in use: set $1 to another one"
    else
        port=$2
        ! port_taken "$port" || port=$(port_free)
    fi
    export "$1=$port"
}

cluster_ports() {
    port_choose TALLYBOX_API_PORT 8080
    port_choose TALLYBOX_PROMETHEUS_PORT 9090
    [[ $TALLYBOX_CLUSTER_IMAGES == standin ]] || port_choose TALLYBOX_GRAFANA_PORT 3000
}

# Stand-ins have no Grafana.
cluster_services() {
    cluster_compose config --services | grep -vx tools |
        if [[ $TALLYBOX_CLUSTER_IMAGES == standin && -z ${TALLYBOX_GRAFANA_IMAGE:-} ]]; then grep -vx grafana; else cat; fi
}

cluster_scale_parse() {
    [[ ${1:-} =~ ^([a-z]+)=([0-9]{1,2})$ ]] && [[ " ${CLUSTER_SERVICES[*]} " == *" ${BASH_REMATCH[1]} "* ]] ||
        usage_error "--scale takes SERVICE=N, such as consume=6, with one of: ${CLUSTER_SERVICES[*]}"
    [[ ${BASH_REMATCH[1]} != serve ]] || ((10#${BASH_REMATCH[2]} <= 8)) ||
        usage_error 'the balancer knows 8 servers at most: --scale serve=N with N up to 8'
    CLUSTER_SCALE+=(--scale "$1")
}

# What an `up` that ends before its time leaves is for `down`; only compose must not go on alone.
cluster_up_exit() {
    local code=$?
    trap - EXIT INT TERM HUP
    [[ -z $CLUSTER_UP_PID ]] || process_end "$CLUSTER_UP_PID" "$CLUSTER_UP_BORN" TERM 20 || true
    ((code == 0)) || say 'What has been started is still there: ./dev cluster logs SERVICE shows more,' \
        './dev cluster down removes it.'
    exit "$code"
}

# up_note NAME PID: so that `down` can end it. Processes of an `up` that was killed may live on.
up_note() { echo "$2 $(process_born "$2" || echo 0)" >"$CLUSTER/$1.pid" || true; }

# Ends an `up` that runs, and what one that was killed has left.
up_end() {
    local name pid born
    for name in up compose; do
        read -r pid born <"$CLUSTER/$name.pid" || continue
        process_end "$pid" "$born" TERM 30 || process_end "$pid" "$born" KILL 10 || true
    done 2>/dev/null
}

# The containers that are neither ready nor done, as SERVICE|NUMBER|STATUS.
cluster_unfinished() {
    awk -F'|' '$4 !~ /\(healthy\)|^Exited \(0\)/ {print $1 "|" $2 "|" $4}' <<<"$1"
}

# Those of them that ended with an error, or again and again.
cluster_failed() {
    local service number state status
    while IFS='|' read -r service number state status; do
        case $state in
        dead) ;;
        exited) [[ $status != "Exited (0)"* ]] || continue ;;
        restarting) (($(cluster_restarts "$service" "$number") > CLUSTER_RESTARTS_MAX)) || continue ;;
        *) continue ;;
        esac
        echo "$service|$number|$status"
    done <<<"$1"
}

# cluster_progress BEFORE NOW: a line for each container that has come further.
cluster_progress() {
    local service number status line
    while IFS='|' read -r service number _ status; do
        case $status in
        *"(healthy)"*) line="$service $number is ready" ;;
        "Exited (0)"*) line="$service is done" ;;
        *) continue ;;
        esac
        [[ $1 == *$'\n'"$line"$'\n'* ]] || {
            printf '    %3d s  %s\n' "$((SECONDS - CLUSTER_BEGAN))" "$line" >&2
            CLUSTER_SEEN+=$line$'\n'
        }
    done <<<"$2"
}

cluster_explain() {
    local service number status id
    while IFS='|' read -r service number status; do
        [[ -n $service ]] || continue
        say "--- $service $number: $status. The end of its log:"
        id=$(cluster_id "$service" "$number")
        docker logs --tail 15 "$id" >&2 2>&1 || true
    done <<<"$1"
}

# compose has ended: with an error, or after it has started everything.
cluster_compose_end() {
    local code=0
    wait "$CLUSTER_UP_PID" || code=$?
    CLUSTER_UP_PID=''
    ((code)) || return 0
    tail -n 15 "$CLUSTER/up.log" >&2
    cluster_explain "$(cluster_failed "$(cluster_containers)")"
    fail "the cluster could not be started (see above and ${CLUSTER#"$ROOT/"}/up.log)"
}

# Until compose has started everything and all of it is ready.
cluster_wait() {
    local deadline=$((SECONDS + CLUSTER_READY_SECONDS)) now failed
    CLUSTER_SEEN=$'\n'
    while true; do
        process_is "$CLUSTER_UP_PID" "$CLUSTER_UP_BORN" || [[ -z $CLUSTER_UP_PID ]] || cluster_compose_end
        now=$(cluster_containers)
        cluster_progress "$CLUSTER_SEEN" "$now"
        [[ -n $CLUSTER_UP_PID || -n $(cluster_unfinished "$now") ]] || return 0
        failed=$(cluster_failed "$now")
        if [[ -n $failed ]]; then
            cluster_explain "$failed"
            fail 'the cluster could not be started: a container fails (see above)'
        fi
        if ((SECONDS > deadline)); then
            cluster_explain "$(cluster_unfinished "$now")"
            fail "the cluster is not ready after $CLUSTER_READY_SECONDS s (see above)"
        fi
        sleep 1
    done
}

cluster_addresses() {
    say "    API         http://127.0.0.1:$TALLYBOX_API_PORT (token: ${TALLYBOX_SECRETS#"$ROOT/"}/api_token)"
    say "    Prometheus  http://127.0.0.1:$TALLYBOX_PROMETHEUS_PORT"
    [[ -z ${TALLYBOX_GRAFANA_PORT:-} ]] || say "    Grafana     http://127.0.0.1:$TALLYBOX_GRAFANA_PORT"
}

cluster_up() {
    local build=0
    local -a services
    while (($#)); do
        case $1 in
        --build) build=1 ;;
        --scale)
            cluster_scale_parse "${2:-}"
            shift
            ;;
        *) usage_error "cluster up does not know '$1'; see ./dev cluster --help" ;;
        esac
        shift
    done
    CLUSTER_BEGAN=$SECONDS
    trap cluster_up_exit EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    mkdir -p "$CLUSTER"
    # Of this subshell, not of the test around it, which calls `down` later.
    up_note up "$BASHPID"
    engine_need
    if ! cluster_load; then
        images_prepare
        cluster_ports
        export TALLYBOX_SECRETS=${TALLYBOX_SECRETS:-$CLUSTER/secrets}
    elif ((build)); then
        images_prepare
    fi
    # A variable that the caller sets now replaces the earlier value.
    cluster_save
    docker/secrets.sh "$TALLYBOX_SECRETS" "$TALLYBOX_IMAGE"
    mapfile -t services < <(cluster_services)
    ((${#services[@]})) || fail 'docker compose cannot read docker/compose.yaml (see above)'
    step "starting the cluster (${#services[@]} services)"
    cluster_compose up --detach "${CLUSTER_SCALE[@]}" "${services[@]}" >"$CLUSTER/up.log" 2>&1 </dev/null &
    CLUSTER_UP_PID=$!
    CLUSTER_UP_BORN=$(process_born "$CLUSTER_UP_PID") || CLUSTER_UP_BORN=0
    up_note compose "$CLUSTER_UP_PID"
    cluster_wait
    step "the cluster is ready after $((SECONDS - CLUSTER_BEGAN)) s"
    cluster_addresses
}

cluster_status() {
    (($# == 0)) || usage_error "cluster status takes no argument"
    cluster_need
    cluster_addresses
    cluster_compose run --rm -T tools status 2> >(grep -vE '^(Creating|Starting) |^ ?Container ' >&2)
}

cluster_vote() {
    cluster_need
    /usr/bin/python3 -B scripts/cluster_votes.py --port "$TALLYBOX_API_PORT" \
        --token-file "$TALLYBOX_SECRETS/api_token" "$@"
}

cluster_logs() {
    local -a words=(--tail 200)
    while (($#)); do
        case $1 in
        --follow) words=(--tail 20 --follow) ;;
        -*) usage_error "cluster logs does not know '$1'; see ./dev cluster --help" ;;
        *) words+=("$1") ;;
        esac
        shift
    done
    cluster_need
    cluster_compose logs "${words[@]}"
}

# networks_remove ID...: a container that was removed while it restarted may have left its endpoint in a
# network (seen with Docker 20.10). Such endpoints are disconnected first.
networks_remove() {
    local try id name left reason=''
    for ((try = 1; try <= 10; try++)); do
        left=0
        for id in "$@"; do
            docker network inspect "$id" >/dev/null 2>&1 || continue
            ! reason=$(docker network rm "$id" 2>&1) || continue
            left=1
            for name in $(docker network inspect --format '{{range .Containers}}{{.Name}} {{end}}' "$id" 2>/dev/null); do
                docker network disconnect --force "$id" "$name" >/dev/null 2>&1 || true
            done
        done
        ((left)) || return 0
        sleep 1
    done
    say "error: a network cannot be removed: $reason"
    return 1
}

# Everything of the project by its label, whatever an `up` had come to.
cluster_remove() {
    local -a ids
    mapfile -t ids < <(cluster_ids ps --all)
    ((${#ids[@]} == 0)) || {
        step "removing ${#ids[@]} containers"
        docker rm --force --volumes "${ids[@]}" >/dev/null
    }
    mapfile -t ids < <(cluster_ids network ls)
    ((${#ids[@]} == 0)) || networks_remove "${ids[@]}"
    mapfile -t ids < <(cluster_ids volume ls)
    ((${#ids[@]} == 0)) || docker volume rm "${ids[@]}" >/dev/null
}

cluster_down() {
    local images=0
    while (($#)); do
        case $1 in
        --images) images=1 ;;
        *) usage_error "cluster down does not know '$1'; see ./dev cluster --help" ;;
        esac
        shift
    done
    up_end
    if engine_find; then
        cluster_remove
        ((!images)) || images_remove
        # Earlier ones of ours, in an engine that has no others.
        ! engine_load || docker image prune --force >/dev/null
    elif engine_load; then
        # It has ended by itself. Started once more, it finds its containers and networks and removes them.
        if (engine_start); then
            engine_load
            cluster_remove
        fi
    fi
    engine_stop
    rm -rf "$CLUSTER"
    ((!images)) || [[ ! -d $(engine_data) ]] || engine_remove_data
}

cluster_main() {
    local command=${1:-}
    (($# == 0)) || shift
    case $command in
    up | status | vote | logs | down | test | chaos) "cluster_$command" "$@" ;;
    compose)
        cluster_need
        cluster_compose "$@"
        ;;
    '') usage_error 'cluster needs a COMMAND; see ./dev cluster --help' ;;
    *) usage_error "cluster does not know '$command'; see ./dev cluster --help" ;;
    esac
}
