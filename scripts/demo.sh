# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# ./dev demo: runs 103,689 real votes through the pipeline, kills two processes meanwhile, and
# proves that every total is right.

# shellcheck source=scripts/process.sh
. "$ROOT/scripts/process.sh"

demo_help() {
    cat <<'END'
./dev demo [--kafka] [--keep]

Installs what is missing, builds the program and the broker, starts a private MariaDB and a broker on free loopback ports under build/demo,
and sends the 103,689 votes of tests/data/wiki-vote.csv.gz through HTTP, MySQL, the outbox, the
broker and the consumer into vote_document and remark. Every 10th vote is also taken back and given
again. Meanwhile the relay and the consumer are each killed with SIGKILL and started again. The
totals are compared with ones that awk counts in the file. One more vote shows that its total counts
it at once, and the rank of its content after the next roll-up. Then an event that the broker
refuses comes in front of some votes: the retry queue keeps it and what follows on its key, all else
flows, and an operator lets the key go on. At the end `tallybox verify` checks every promise on the
data itself. The last lines tell how long installing, building and running took.

  --kafka   a real Apache Kafka instead of librdkafka's in-process broker (fetched once)
  --keep    leaves everything running, to look around

Your own servers:  KAFKA=host:port  MYSQL=user@host:port/database  ./dev demo
(MYSQL_PASSWORD_FILE names a file with the password; the database must be empty.)
END
}

demo_votes_file=tests/data/wiki-vote.csv.gz
demo_wait_s=120 # for what takes a second or two on an idle machine

demo_option() {
    demo_keep=0 demo_broker=broker
    while (($#)); do
        case $1 in
        --kafka) demo_broker=kafka ;;
        --keep) demo_keep=1 ;;
        *) usage_error "demo does not know '$1'; see ./dev demo --help" ;;
        esac
        shift
    done
}

# Ends what runs, by pid; also on failure and on Ctrl-C.
demo_end() {
    local code=$? part
    trap - EXIT INT TERM
    if ((demo_keep && code == 0)); then
        return 0
    fi
    for part in votes serve relay retry consume rollup; do
        demo_signal TERM "$part"
    done
    wait 2>/dev/null || true
    for part in "$demo_broker" mariadb; do
        [[ ! -d $demo/$part ]] || scripts/server stop "$demo/$part" >&2 || true
    done
    ((code == 0)) || say "the logs are in $demo"
    exit "$code"
}

demo_signal() {
    local pid=$demo/$2.pid
    [[ -s $pid ]] || return 0
    kill "-$1" "$(<"$pid")" 2>/dev/null || true
}

# demo_value FILE KEY: one line of a server's env file.
demo_value() { sed -n "s/^$2=//p" "$1"; }

# Sets demo_sql (a mariadb client command) and writes the [mysql] section.
demo_database() {
    local user=root password='' host port database=tallybox address
    if [[ -n ${MYSQL:-} ]]; then
        [[ $MYSQL =~ ^([^@:/]+)@([^@:/]+):([0-9]+)/([A-Za-z0-9_]+)$ ]] ||
            usage_error "MYSQL=$MYSQL: expected user@host:port/database"
        user=${BASH_REMATCH[1]} host=${BASH_REMATCH[2]} port=${BASH_REMATCH[3]}
        database=${BASH_REMATCH[4]}
        [[ -z ${MYSQL_PASSWORD_FILE:-} ]] || password=$(<"$MYSQL_PASSWORD_FILE")
    else
        step "starting a private MariaDB"
        scripts/server start mariadb "$demo/mariadb" >/dev/null
        host=$(demo_value "$demo/mariadb/env" HOST) port=$(demo_value "$demo/mariadb/env" PORT)
    fi
    address="host = $host
port = $port
user = $user
database = $database"
    [[ -z ${MYSQL_PASSWORD_FILE:-} ]] || address+="
password_file = $MYSQL_PASSWORD_FILE"
    printf '[mysql]\n%s\n\n' "$address" >"$demo/tallybox.ini"
    # The client reads its password from the environment, where `ps` does not show it.
    export MYSQL_PWD=$password
    demo_sql=(mariadb --no-defaults -h "$host" -P "$port" -u "$user" --batch --skip-column-names)
    demo_name=$database
}

demo_kafka() {
    local bootstrap=${KAFKA:-}
    if [[ -z $bootstrap ]]; then
        if [[ $demo_broker == kafka ]]; then
            step "starting a private Apache Kafka"
        else
            step "starting the in-process broker"
        fi
        scripts/server start "$demo_broker" "$demo/$demo_broker" >/dev/null
        bootstrap=$(demo_value "$demo/$demo_broker/env" BOOTSTRAP)
    fi
    # Short leases and sessions: a demo does not want to wait for a production's fail-over times.
    cat >>"$demo/tallybox.ini" <<END
[kafka]
bootstrap.servers = $bootstrap
consumer.session.timeout.ms = 6000
producer.message.max.bytes = 1000000
reconnect.backoff.max.ms = 500

[relay]
lease_ms = 5000
send_timeout_ms = 3000
END
}

# demo_start PART COMMAND...: one role as a process of its own, on ports of its own.
demo_start() {
    local part=$1 api=127.0.0.1:0
    [[ $part != serve ]] || api=127.0.0.1:$demo_api_port
    "$demo_bin" "$part" --config "$demo/tallybox.ini" --set "api.listen=$api" \
        --set "admin.listen=127.0.0.1:${demo_admin[$part]}" >>"$demo/$part.log" 2>&1 </dev/null &
    echo $! >"$demo/$part.pid"
}

demo_wait_ready() {
    local part=$1 url=http://127.0.0.1:${demo_admin[$1]}/readyz deadline=$((SECONDS + demo_wait_s))
    while ((SECONDS < deadline)); do
        kill -0 "$(<"$demo/$part.pid")" 2>/dev/null ||
            fail "tallybox $part ended: $(tail -n 3 "$demo/$part.log")"
        if curl -fsS -o "$demo/ready" "$url" 2>/dev/null; then
            return 0
        fi
        sleep 0.2
    done
    fail "tallybox $part is not ready after $demo_wait_s s: $(curl -s "$url")"
}

# Kills a role as a power cut would, and starts it again.
demo_kill() {
    local part=$1
    demo_signal KILL "$part"
    wait "$(<"$demo/$part.pid")" 2>/dev/null || true
    say "  killed tallybox $part with SIGKILL, and started it again"
    demo_start "$part"
}

demo_send() {
    local part killed=0 total=124425 done_now
    step "sending the votes over 8 connections, with a kill on the way"
    scripts/demo_votes.py "$demo_votes_file" --port "$demo_api_port" \
        --result "$demo/votes.json" &
    echo $! >"$demo/votes.pid"
    for part in relay consume; do
        killed=$((killed + 1))
        while kill -0 "$(<"$demo/votes.pid")" 2>/dev/null; do
            done_now=$(curl -s "http://127.0.0.1:${demo_admin[serve]}/metrics" |
                awk '/^tallybox_votes_total/ {sum += $NF} END {printf "%d", sum}')
            ((done_now < killed * total / 3)) || break
            sleep 0.2
        done
        demo_kill "$part"
    done
    wait "$(<"$demo/votes.pid")" || fail "the votes could not be sent (see above)"
    rm -f "$demo/votes.pid"
    jq -r '"  \(.votes) votes sent in \(.seconds * 10 | round / 10) s: " +
        "\(.votes / .seconds | round) votes a second, each answered after its COMMIT"' \
        "$demo/votes.json" >&2
}

demo_compare() {
    step "comparing every total with what awk counts in the file"
    zcat "$demo_votes_file" | awk -F, 'NR > 1 {votes[$2]++} END {for (c in votes) print c "\t" votes[c]}' |
        LC_ALL=C sort >"$demo/expected.tsv"
    "${demo_sql[@]}" "$demo_name" -e 'SELECT id, votes FROM remark WHERE votes <> 0' |
        LC_ALL=C sort >"$demo/remark.tsv"
    diff -u "$demo/expected.tsv" "$demo/remark.tsv" >"$demo/totals.diff" ||
        fail "the totals differ: see $demo/totals.diff"
    say "  $(wc -l <"$demo/expected.tsv") contents, $(awk '{sum += $2} END {print sum}' \
        "$demo/remark.tsv") votes: all equal"
}

# demo_number SQL: the one number it gives.
demo_number() { "${demo_sql[@]}" "$demo_name" -e "$1"; }

# demo_wait_number WANTED SQL WHAT
demo_wait_number() {
    local deadline=$((SECONDS + demo_wait_s))
    while ((SECONDS < deadline)); do
        (($(demo_number "$2") != $1)) || return 0
        sleep 0.1
    done
    fail "$3: $(demo_number "$2") instead of $1 after $demo_wait_s s; see $demo/*.log"
}

# Votes of people whom the file does not know, on these contents, in this order.
demo_vote() {
    local content
    for content in "$@"; do
        "$demo_bin" vote --config "$demo/tallybox.ini" $((demo_voter++)) "$content" >/dev/null
    done
}

# A record that is too large for Kafka, in front of votes on the same content.
demo_poison() {
    local poisoned=4037 neighbour=15 key=vote-events/4037
    local late="SELECT COUNT(*) FROM vote_document WHERE voter_id >= $demo_voter AND content_id ="
    step "an event that the broker refuses, and then 3 votes on its content and 3 on another one"
    "$demo_bin" retry scene set publish --group outbox --config "$demo/tallybox.ini" \
        --policy '{"wait": "fixed 1s", "attempts": 2, "stop": []}' --wait "$demo_wait_s" |
        sed 's/^/  /' >&2
    demo_number "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES
        (UUID(), 'vote', '$poisoned', 'VoteCast', REPEAT('x', 2000000))"
    demo_vote $poisoned $neighbour $poisoned $neighbour $poisoned $neighbour
    demo_wait_number 3 "$late $neighbour" "the neighbour's votes"
    demo_wait_number 1 "SELECT COUNT(*) FROM retry_task WHERE state = 3" "blocked tasks"
    demo_wait_number 3 "SELECT COUNT(*) FROM retry_task WHERE state = 2" "tasks behind it"
    say "  the neighbour's 3 votes have arrived; of the poisoned content's $(demo_number \
        "$late $poisoned") have, the others wait in order:"
    "$demo_bin" retry list --config "$demo/tallybox.ini"
    say "  an operator gives the event up: tallybox retry unpark --skip $key"
    "$demo_bin" retry unpark --skip "$key" --yes --config "$demo/tallybox.ini"
    demo_wait_number 3 "$late $poisoned" "the poisoned content's votes"
    say "  its 3 votes have arrived, too; the event is kept in the history:"
    "$demo_bin" retry history --config "$demo/tallybox.ini"
}

demo_top() {
    step "the top ten"
    "${demo_sql[@]}" --table --column-names "$demo_name" -e \
        "SELECT id AS content, votes, votes_seq AS changes, header FROM remark
         ORDER BY votes DESC, id LIMIT 10"
}

# The first request has the list built; the next ones get it.
demo_recommended() {
    local url="http://127.0.0.1:$demo_api_port/v1/items/1/recommended?stop=5"
    local deadline=$((SECONDS + demo_wait_s)) wanted
    step "the recommended list of the item, its first five: GET /v1/items/1/recommended?stop=5"
    until curl -fsS -o "$demo/recommended.json" "$url" &&
        jq -e '.building | not' "$demo/recommended.json" >/dev/null; do
        ((SECONDS < deadline)) || fail "no recommended list after $demo_wait_s s: see $demo/serve.log"
        sleep 0.1
    done
    jq -r '.remarks[] | "  \(.rank). content \(.id), \(.header): \(.votes) votes"' \
        "$demo/recommended.json" >&2
    wanted=$(demo_number "SELECT GROUP_CONCAT(id ORDER BY votes DESC, id DESC) FROM
        (SELECT id, votes FROM remark ORDER BY votes DESC, id DESC LIMIT 5) best")
    [[ $(jq -r '[.remarks[].id] | join(",")' "$demo/recommended.json") == "$wanted" ]] ||
        fail "the order differs from that of the table: $wanted"
}

# demo_show WHEN: prints the live total of $content, and its rank as of the last roll-up.
demo_show() {
    demo_total=$(curl -fsS "http://127.0.0.1:$demo_api_port/v1/contents/$content/votes" | jq .votes)
    demo_rank=$("$demo_bin" rank explain "$content" --config "$demo/tallybox.ini" |
        sed -n 's/^points *//p')
    printf -v line '  %-26s %s votes, rank %s' "$1" "$demo_total" "$demo_rank"
    say "$line"
}

# A total counts a vote at once; the order of a list changes with the next roll-up.
demo_one_vote() {
    local content demo_total demo_rank line total_before rank_before
    content=$(jq '.remarks[1].id' "$demo/recommended.json")
    step "one more vote on content $content: GET /v1/contents/$content/votes, tallybox rank explain $content"
    demo_show "before the vote"
    total_before=$demo_total rank_before=$demo_rank
    demo_vote "$content"
    demo_show "right after the vote"
    ((demo_total == total_before + 1)) ||
        fail "the total is $demo_total instead of $((total_before + 1))"
    demo_wait_number "$demo_total" "SELECT votes FROM vote_tally WHERE content_id = $content" \
        "the vote in the log"
    "$demo_bin" rollup --once --config "$demo/tallybox.ini" >/dev/null
    demo_show "after the next roll-up"
    [[ $demo_rank != "$rank_before" ]] || fail "the rank is still $demo_rank"
}

demo_where_next() {
    if ((!demo_keep)); then
        say ""
        say "Everything is stopped again. ./dev demo --keep leaves it running to look around."
        return
    fi
    cat >&2 <<END

Everything is still running. Where to look next:
  API       curl http://127.0.0.1:$demo_api_port/v1/contents/4037/votes
  metrics   http://127.0.0.1:${demo_admin[relay]}/metrics (relay), ${demo_admin[consume]} (consume), ${demo_admin[serve]} (serve)
  status    $demo_bin status --config $demo/tallybox.ini
  the log   kcat -b $(sed -n 's/^bootstrap.servers = //p' "$demo/tallybox.ini") -C -t vote-events -o beginning -e | head
  tables    mariadb $(printf '%q ' "${demo_sql[@]:1:7}")$demo_name
To end it:  kill \$(cat $demo/*.pid); scripts/server stop $demo/$demo_broker; scripts/server stop $demo/mariadb
END
}

# Everything that the network has to give, in one go.
demo_install() {
    local -a purposes=(program fetch mariadb demo)
    [[ $demo_broker != kafka ]] || purposes+=(kafka)
    packages_need "${purposes[@]}"
    [[ $demo_broker != kafka || -n ${KAFKA:-} ]] || kafka_home >/dev/null ||
        fail "no Kafka: see above"
}

# Nothing but what the demo runs.
demo_build() {
    local -a programs=(tallybox)
    [[ $demo_broker == kafka || -n ${KAFKA:-} ]] || programs+=(tallybox-broker)
    rdkafka_use
    build_programs "${programs[@]}"
}

demo_main() {
    local part port demo_install_s demo_build_s
    local -A demo_admin=()
    local demo_voter=900001
    demo_option "$@"
    SECONDS=0
    demo_install
    demo_install_s=$SECONDS
    demo_build
    demo_build_s=$((SECONDS - demo_install_s))
    demo=build/demo demo_bin=build/dev/tallybox
    [[ ! -s $demo/serve.pid ]] || ! kill -0 "$(<"$demo/serve.pid")" 2>/dev/null ||
        fail "a demo is still running: kill \$(cat $demo/*.pid), then try again"
    rm -rf "$demo"
    mkdir -p "$demo"
    trap demo_end EXIT
    trap 'exit 130' INT TERM

    demo_database
    demo_kafka
    demo_api_port=$(port_free)
    for part in serve relay retry consume rollup; do
        port=$(port_free)
        demo_admin[$part]=$port
    done

    step "creating the tables"
    "$demo_bin" migrate up --config "$demo/tallybox.ini"
    zcat "$demo_votes_file" | awk -F, 'NR > 1 && !seen[$2]++ {
        printf "INSERT INTO remark (id, item_id, status, header) VALUES (%d, 1, 1, \"user %d\");\n", $2, $2}
        BEGIN {print "BEGIN;"} END {print "COMMIT;"}' | "${demo_sql[@]}" "$demo_name"

    step "starting serve, relay, retry, consume and rollup, each as a process of its own"
    for part in serve relay retry consume rollup; do
        demo_start "$part"
    done
    for part in serve relay retry consume rollup; do
        demo_wait_ready "$part"
    done
    demo_send
    step "waiting for the last votes, rolling up, and checking every promise"
    "$demo_bin" verify --config "$demo/tallybox.ini" --wait "$demo_wait_s" >"$demo/drained.txt" ||
        { cat "$demo/drained.txt" >&2 && fail "the votes did not arrive"; }
    "$demo_bin" rollup --once --config "$demo/tallybox.ini"
    demo_top
    demo_recommended
    demo_compare
    demo_one_vote
    demo_poison
    "$demo_bin" verify --config "$demo/tallybox.ini" --wait "$demo_wait_s" >"$demo/drained.txt" ||
        { cat "$demo/drained.txt" >&2 && fail "the last votes did not arrive"; }
    "$demo_bin" rollup --once --config "$demo/tallybox.ini"
    "$demo_bin" verify --config "$demo/tallybox.ini"
    demo_where_next
    say "times: installing $demo_install_s s, building $demo_build_s s, running $((SECONDS -
        demo_install_s - demo_build_s)) s"
}
