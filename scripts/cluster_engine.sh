# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The Docker engine of ./dev cluster: the machine's own, or a private one that exists only while the
# cluster does. Its images stay in the cache, all else of it is removed when it stops.

ENGINE=$ROOT/build/cluster/engine
ENGINE_START_SECONDS=90 ENGINE_STOP_SECONDS=120
# A socket's path is bounded by the kernel; containerd appends to this folder.
ENGINE_RUN_PATH_MAX=60
# What it writes beside its folders, whatever its options are.
ENGINE_PATHS=(/etc/docker/key.json /etc/docker /run/containerd /run/docker)

# The state of the private engine, from $ENGINE/env.
ENGINE_PID='' ENGINE_BORN='' ENGINE_RUN='' ENGINE_FORWARD='' ENGINE_IP_FORWARD=''

engine_data() { echo "$(cache_root)/docker-1"; }

engine_load() {
    local key value
    [[ -f $ENGINE/env ]] || return 1
    while IFS='=' read -r key value; do
        case $key in
        PID | BORN | RUN | FORWARD | IP_FORWARD) printf -v "ENGINE_$key" '%s' "$value" ;;
        esac
    done <"$ENGINE/env"
    export DOCKER_HOST=unix://$ENGINE_RUN/docker.sock DOCKER_CONFIG=$ENGINE/client
}

engine_save() {
    local key name
    for key in PID BORN RUN FORWARD IP_FORWARD; do
        name=ENGINE_$key
        echo "$key=${!name}"
    done >"$ENGINE/env.new"
    mv "$ENGINE/env.new" "$ENGINE/env"
}

engine_answers() { docker info >/dev/null 2>&1; }

# Sets DOCKER_HOST when this clone has a private engine. False when no engine answers.
engine_find() {
    engine_load || true
    command -v docker >/dev/null && engine_answers
}

# The pid of an engine that is not the one of this clone, or nothing.
engine_other() {
    local folder name pid
    for folder in /proc/[0-9]*; do
        name=$(cat "$folder/comm" 2>/dev/null) || continue
        pid=${folder#/proc/}
        [[ $name == dockerd && $pid != "$ENGINE_PID" ]] && process_born "$pid" >/dev/null || continue
        echo "$pid"
    done
}

# Two engines would remove each other's rules of iptables, and cannot share a folder of images.
engine_refuse_other() {
    local pid
    pid=$(engine_other)
    [[ -z $pid ]] ||
        fail "another Docker engine runs (pid $pid) and does not answer to this shell: let DOCKER_HOST name" \
            "it, or end the cluster of another clone with its own ./dev cluster down"
}

# What starting an engine changes on the machine and stopping it does not change back.
engine_remember() {
    local path
    ENGINE_FORWARD=$(iptables -S FORWARD 2>/dev/null | awk '$1 == "-P" {print $3}')
    ENGINE_IP_FORWARD=$(cat /proc/sys/net/ipv4/ip_forward)
    for path in "${ENGINE_PATHS[@]}"; do
        [[ -e $path ]] || echo "$path"
    done >"$ENGINE/absent"
    ip -o link 2>/dev/null | awk -F': ' '{print $2}' >"$ENGINE/links"
}

engine_run_choose() {
    ENGINE_RUN=$ENGINE/run
    ((${#ENGINE_RUN} <= ENGINE_RUN_PATH_MAX)) || ENGINE_RUN=$(mktemp -d /tmp/tallybox.XXXXXX)
    mkdir -p "$ENGINE_RUN" "$ENGINE/client"
}

engine_start() {
    local deadline=$((SECONDS + ENGINE_START_SECONDS)) data
    packages_need engine
    data=$(engine_data)
    mkdir -p "$ENGINE" "$data"
    engine_refuse_other
    # A start after a crash keeps what the first one has remembered.
    if [[ ! -f $ENGINE/env ]]; then
        engine_remember
        engine_run_choose
    fi
    rm -f "$ENGINE_RUN/docker.pid"
    step "starting a private Docker engine in ${ENGINE#"$ROOT/"}"
    # A session of its own: the Ctrl-C of a terminal is for the script.
    (exec setsid dockerd --data-root "$data" --exec-root "$ENGINE_RUN" \
        --pidfile "$ENGINE_RUN/docker.pid" --host "unix://$ENGINE_RUN/docker.sock" --bridge none \
        --ip6tables=false --log-level warn --log-opt max-size=20m --log-opt max-file=2 \
        >>"$ENGINE/log" 2>&1 </dev/null) &
    ENGINE_PID=$!
    ENGINE_BORN=$(process_born "$ENGINE_PID") || ENGINE_BORN=0
    engine_save
    engine_load
    until engine_answers; do
        process_is "$ENGINE_PID" "$ENGINE_BORN" && ((SECONDS < deadline)) || {
            tail -n 20 "$ENGINE/log" >&2
            fail "the Docker engine did not start (its log is above); ./dev cluster down removes its rest"
        }
        sleep 0.2
    done
}

# An engine that answers: the machine's, the private one that runs, or a new private one.
engine_need() {
    packages_need cluster
    ! engine_find || return 0
    [[ $(id -u) == 0 ]] ||
        fail "no Docker engine answers: start one and let this account use it (docker info must work)," \
            "or run ./dev cluster as root, which starts a private one"
    engine_start
}

# What a killed engine leaves: processes of its own that name the run folder, as a container's shim
# does. The children of a shim come first: the first process of a container, whose end ends all of it.
engine_kill_rest() {
    local folder pid name words children
    for folder in /proc/[0-9]*; do
        pid=${folder#/proc/}
        name=$(cat "$folder/comm" 2>/dev/null) || continue
        [[ $name == containerd* || $name == runc* || $name == docker* ]] || continue
        words=$(tr '\0' ' ' 2>/dev/null <"$folder/cmdline") || continue
        [[ $words == *"$ENGINE_RUN/"* ]] || continue
        children=$(awk -v parent="$pid" '{sub(/.*\) /, ""); if ($2 == parent) print FILENAME}' \
            /proc/[0-9]*/stat 2>/dev/null | sed 's|/proc/\([0-9]*\)/stat|\1|') || true
        # shellcheck disable=SC2086 # pids
        kill -KILL $children "$pid" 2>/dev/null || true
    done
}

# An engine mounts its folder of data on itself.
engine_unmount() {
    local place data
    data=$(engine_data)
    # Inner mounts first.
    awk '{print $2}' /proc/self/mounts | sort -r | while IFS= read -r place; do
        case $place in
        "$ENGINE_RUN"/* | "$data"/* | "$ENGINE_RUN" | "$data") umount -l "$place" ;;
        esac
    done
}

# engine_rules_of TABLE: rules that an engine makes.
engine_rules_of() {
    iptables -t "$1" -S 2>/dev/null |
        grep -E '^-A .*(DOCKER|br-[0-9a-f]{12})|^-A POSTROUTING -s ([0-9.]+)/32 -d \2/32 .*MASQUERADE' || true
}

engine_remove_rules() {
    local table chain
    command -v iptables >/dev/null || return 0
    for table in nat filter; do
        engine_rules_of "$table" | sed 's/^-A/-D/' | xargs -r -L 1 iptables -t "$table" || true
        iptables -t "$table" -S 2>/dev/null | awk '$1 == "-N" && $2 ~ /^DOCKER/ {print $2}' |
            while IFS= read -r chain; do
                iptables -t "$table" -F "$chain" && iptables -t "$table" -X "$chain" || true
            done
    done
    [[ -z $ENGINE_FORWARD ]] || iptables -P FORWARD "$ENGINE_FORWARD"
    [[ -z $ENGINE_IP_FORWARD ]] || echo "$ENGINE_IP_FORWARD" >/proc/sys/net/ipv4/ip_forward
}

engine_remove_links() {
    local link
    [[ -f $ENGINE/links ]] || return 0
    ip -o link 2>/dev/null | awk -F': ' '{print $2}' | grep -E '^(br-[0-9a-f]{12}$|docker0$|veth)' |
        sed 's/@.*//' | while IFS= read -r link; do
        grep -q "^$link\(@\|$\)" "$ENGINE/links" || ip link delete "$link" 2>/dev/null || true
    done || true
}

# Those that were not there before. None is worth keeping: sockets, and a key of this engine alone.
engine_remove_paths() {
    local path
    while IFS= read -r path; do
        [[ " ${ENGINE_PATHS[*]} " != *" $path "* ]] || rm -rf "$path"
    done <"$ENGINE/absent"
}

# What the engine has left on the machine beside its folders. Not while another one runs, whose rules
# and mounts look the same.
engine_clean() {
    local data=$1 keep_data=$2
    engine_unmount
    engine_remove_rules
    engine_remove_links
    engine_remove_paths
    rm -rf "$data"/{containers,network,volumes,tmp,plugins,swarm,trust}
    # Layers of containers that nothing knows any more cannot be told from those of images.
    ((keep_data)) || rm -rf "$data"
}

# engine_stop: the private engine and everything that it left on the machine but images.
engine_stop() {
    local ended=1 number
    engine_load || return 0
    step 'stopping the private Docker engine'
    process_end "$ENGINE_PID" "$ENGINE_BORN" TERM "$ENGINE_STOP_SECONDS" || ended=0
    process_end "$ENGINE_PID" "$ENGINE_BORN" KILL 10 || fail "pid $ENGINE_PID does not die"
    for number in 1 2 3; do
        engine_kill_rest 2>/dev/null
        sleep "0.$number"
    done
    if [[ -z $(engine_other) ]]; then
        engine_clean "$(engine_data)" "$ended"
    else
        say 'Another Docker engine runs by now: rules and mounts are left to it.'
    fi
    rm -rf "$ENGINE_RUN" "$ENGINE"
    unset DOCKER_HOST DOCKER_CONFIG
}

engine_remove_data() {
    [[ -z $(engine_other) ]] || fail 'the images are in use by another Docker engine'
    rm -rf "$(engine_data)"
}
