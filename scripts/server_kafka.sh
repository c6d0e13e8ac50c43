# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Apache Kafka (one node, KRaft) and librdkafka's in-process broker, for scripts/server.

# Sets listeners, advertised and protocols. listener.NAME=PORT:TOLD in ARGS is one more listener, on
# PORT, whose clients are told to come to TOLD (where a proxy of theirs listens).
kafka_listeners() {
    local word
    listeners=PLAINTEXT://$HOST:$PORT,CONTROLLER://$HOST:$CONTROLLER_PORT
    advertised=PLAINTEXT://$HOST:$PORT
    protocols=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
    for word in "${ARGS[@]}"; do
        [[ $word =~ ^listener\.([A-Z0-9]+)=([0-9]+):([0-9]+)$ ]] || continue
        listeners+=,${BASH_REMATCH[1]}://$HOST:${BASH_REMATCH[2]}
        advertised+=,${BASH_REMATCH[1]}://$HOST:${BASH_REMATCH[3]}
        protocols+=,${BASH_REMATCH[1]}:PLAINTEXT
    done
}

kafka_properties() {
    local word listeners advertised protocols
    kafka_listeners
    cat <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@$HOST:$CONTROLLER_PORT
listeners=$listeners
advertised.listeners=$advertised
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=$protocols
log.dirs=$DIR/data
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
END
    for word in "${ARGS[@]}"; do
        [[ $word == -X* || $word == listener.[A-Z]*=*:* ]] || echo "$word"
    done
}

kafka_log_settings() {
    cat <<'END'
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
END
}

# The formatted folder names no port, so one serves every server of this version.
kafka_template_make() {
    local home=$1 out=$2
    step "formatting a Kafka data folder (once)"
    HOST=127.0.0.1 PORT=1 CONTROLLER_PORT=2 DIR=$out kafka_properties >"$out.properties"
    quietly java -Xmx256m -cp "$home/libs/*" kafka.tools.StorageTool format \
        -t dGFsbHlib3h0YWxseWJveA -c "$out.properties" || {
        rm -f "$out.properties"
        return 1
    }
    rm -f "$out.properties"
}

# What every broker is started with.
KAFKA_JAVA=(-Xms256m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1)

# kafka_classes_run HOME OUT: starts a broker in OUT/run and ends it, which writes OUT/kafka.jsa.
kafka_classes_run() {
    local home=$1 out=$2 deadline=$((SECONDS + READY_SECONDS)) pid
    local DIR=$out/run LOG=$out/run/log HOST=127.0.0.1 PORT CONTROLLER_PORT
    local -a ARGS=()
    PORT=$(port_free) CONTROLLER_PORT=$(port_free)
    mkdir -p "$DIR/tmp"
    cp -r "$(kafka_template "$home")/data" "$DIR/data" || return 1
    kafka_log_settings >"$DIR/log4j2.properties"
    kafka_properties >"$DIR/server.properties"
    (cd "$DIR" && exec java "${KAFKA_JAVA[@]}" -XX:ArchiveClassesAtExit="$out/kafka.jsa" \
        -Dlog4j2.configurationFile="$DIR/log4j2.properties" -Djava.io.tmpdir="$DIR/tmp" \
        -cp "$home/libs/*" kafka.Kafka "$DIR/server.properties" >"$LOG" 2>&1 </dev/null) &
    pid=$!
    while ! grep -q 'Kafka Server started' "$LOG" 2>/dev/null; do
        kill -0 "$pid" 2>/dev/null && ((SECONDS < deadline)) || break
        sleep 0.1
    done
    kill "$pid" 2>/dev/null || true
    deadline=$((SECONDS + READY_SECONDS))
    while kill -0 "$pid" 2>/dev/null && ((SECONDS < deadline)); do sleep 0.1; done
    # One that does not end by itself may have written a part of the file.
    ! kill -KILL "$pid" 2>/dev/null || rm -f "$out/kafka.jsa"
    wait "$pid" || true
}

# The classes of a broker, read and verified: a JVM that maps them starts in half of the time. Without
# this file, or when Java has changed, it starts as usual.
kafka_classes_make() {
    local home=$1 out=$2
    step "writing the classes of Kafka in the form in which Java maps them (once)"
    kafka_classes_run "$home" "$out"
    rm -rf "$out/run"
    [[ -s $out/kafka.jsa ]] || say "Java wrote no such file; brokers start without it"
}

# Another Java gets a file of its own. One that does not fit otherwise is not used by Java.
kafka_classes() {
    local java
    java=$(readlink -f "$(command -v java)")
    java=$(stat -c '%n %s %Y' "$java" "${java%/bin/java}/lib/modules" 2>/dev/null | cksum)
    cache_part "classes-kafka-$KAFKA_VERSION-${java%% *}-1" kafka_classes_make "$1"
}

kafka_template() { cache_part "data-kafka-$KAFKA_VERSION-1" kafka_template_make "$1"; }

kafka_prepare() {
    local home template
    packages_need kafka
    home=$(kafka_home) || return 1
    template=$(kafka_template "$home") || return 1
    kafka_classes "$home" >/dev/null || return 1
    database_copy "$template/data"
    mkdir -p "$DIR/tmp"
    kafka_log_settings >"$DIR/log4j2.properties"
}

kafka_command() {
    local home classes word
    home=$(kafka_home)
    classes=$(kafka_classes "$home")/kafka.jsa
    [[ -n $CONTROLLER_PORT ]] && ! port_taken "$CONTROLLER_PORT" || CONTROLLER_PORT=$(port_free)
    BOOTSTRAP=$HOST:$PORT
    kafka_properties >"$DIR/server.properties"
    COMMAND=(
        java "${KAFKA_JAVA[@]}"
        -Dlog4j2.configurationFile="$DIR/log4j2.properties"
        # What it unpacks and maps would stay where it is ended.
        -Djava.io.tmpdir="$DIR/tmp" -XX:-UsePerfData
    )
    for word in "${ARGS[@]}"; do
        [[ $word != -X* ]] || COMMAND+=("$word")
    done
    [[ ! -s $classes ]] || COMMAND+=("-XX:SharedArchiveFile=$classes")
    COMMAND+=(-cp "$home/libs/*" kafka.Kafka "$DIR/server.properties")
}

kafka_ready() {
    grep -q 'Kafka Server started' "$LOG" &&
        kcat -b "$BOOTSTRAP" -L -m 3 -t __none 2>/dev/null | grep -q '^ 1 brokers'
}

# The newest program of an ordinary build; those of sanitizer builds are slower.
broker_program() {
    local build=$SUPPORT/../build program
    if [[ -n ${TALLYBOX_BROKER:-} ]]; then
        echo "$TALLYBOX_BROKER"
        return 0
    fi
    for program in "$build"/{dev,release,clang,asan,tsan}/tallybox-broker; do
        [[ ! -x $program ]] || { echo "$program" && return 0; }
    done
    return 1
}

broker_prepare() {
    broker_program >/dev/null || {
        say "the in-process broker is not built yet: run ./dev build (or set TALLYBOX_BROKER)"
        return 1
    }
}

broker_command() {
    BOOTSTRAP=$HOST:$PORT
    rm -f "$DIR/ready"
    COMMAND=("$(broker_program)" --port "$PORT" --port-file "$DIR/ready" "${ARGS[@]}")
}

broker_ready() { [[ -s $DIR/ready ]]; }
