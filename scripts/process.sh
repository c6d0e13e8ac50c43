# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Processes by pid and time of birth, because pids come back; and free ports.

# When the process was born, in clock ticks since the machine was; fails when it is gone or dead.
process_born() {
    local stat
    local -a fields tasks
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The name in parentheses may hold anything; what counts comes after it.
    read -ra fields <<<"${stat##*) }"
    if [[ ${fields[0]} == [ZX] ]]; then
        # Its first thread is dead, but others may still be on their way out, with the ports.
        tasks=("/proc/$1/task/"*)
        ((${#tasks[@]} > 1)) || return 1
    fi
    echo "${fields[19]}"
}

process_is() { [[ -n $1 && $(process_born "$1") == "$2" ]]; }

# process_end PID BORN SIGNAL SECONDS: true when the process is gone, also when it was before.
process_end() {
    local pid=$1 born=$2 signal=$3 deadline=$((SECONDS + $4))
    process_is "$pid" "$born" || return 0
    kill -s "$signal" -- "$pid" 2>/dev/null || true
    while process_is "$pid" "$born"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.05
    done
}

# Whether any local socket has the port, in whatever state: a listener could not have it either.
port_taken() {
    local hex
    printf -v hex '%04X' "$1"
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk -v port="$hex" '$4 == "0A" || $4 == "01" {
            split($2, local, ":"); if (local[2] == port) found = 1 } END { exit !found }'
}

# Below the range from which the kernel gives ports to clients.
port_free() {
    local port
    while true; do
        port=$((15000 + SRANDOM % 15000))
        port_taken "$port" || break
    done
    echo "$port"
}
