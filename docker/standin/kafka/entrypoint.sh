#!/bin/bash
# SPDX-License-Identifier: MIT
# KAFKA_NODE_ID=1 becomes node.id=1 of server.properties: _ is a dot, __ an underscore, ___ a hyphen.
# A data folder that is new is formatted for CLUSTER_ID. Then this process becomes the broker.
set -Eeuo pipefail

CONFIG=/opt/kafka/config/server.properties
# These are for Java or for other images, not settings of the broker.
NO_SETTING=' KAFKA_HEAP_OPTS KAFKA_JVM_PERFORMANCE_OPTS KAFKA_OPTS KAFKA_VERSION KAFKA_LOG4J_OPTS '

property_name() {
    local name=${1#KAFKA_}
    name=${name,,}
    name=${name//___/-}
    # A character that no name has stands for the underscore while dots are made.
    name=${name//__/$'\x01'}
    name=${name//_/.}
    printf '%s' "${name//$'\x01'/_}"
}

properties() {
    local name
    while IFS= read -r name; do
        [[ $NO_SETTING == *" $name "* || $name == KAFKA_LOG4J_* ]] ||
            printf '%s=%s\n' "$(property_name "$name")" "${!name}"
    done < <(compgen -e KAFKA_ | sort)
}

java_run() {
    # shellcheck disable=SC2086 # words for Java
    "$@" java ${KAFKA_HEAP_OPTS:--Xms256m -Xmx512m} \
        ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError} \
        ${KAFKA_OPTS:-} -Dlog4j2.configurationFile=/opt/kafka/log4j2.properties \
        -cp '/opt/kafka/libs/*' "${java_words[@]}"
}

[[ -n ${CLUSTER_ID:-} ]] || {
    echo 'error: CLUSTER_ID is not set' >&2
    exit 1
}
properties >"$CONFIG"
data=${KAFKA_LOG_DIRS:-/var/lib/kafka/data}
if [[ ! -f $data/meta.properties ]]; then
    java_words=(kafka.tools.StorageTool format --ignore-formatted -t "$CLUSTER_ID" -c "$CONFIG")
    java_run env
fi
java_words=(kafka.Kafka "$CONFIG")
java_run exec
