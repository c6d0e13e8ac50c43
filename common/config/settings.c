/* SPDX-License-Identifier: MIT */
#include "common/config/settings.h"

/* The first six members of an entry. The macros derive the texts and the place from one name. */
#define AT(place) offsetof(struct settings, place), sizeof(((struct settings *)NULL)->place)
#define ENTRY(section, key, kind) #section, #key, kind, false, AT(section.key)
/* Only an atomic number may change while other threads read it. Anything else does not compile. */
#define IS_ATOMIC(place) _Generic(&((struct settings *)NULL)->place, _Atomic int64_t * : true)
#define LIVE_NUMBER(section, key) \
#section, #key, SETTING_NUMBER, IS_ATOMIC(section.key), AT(section.key)
#define LIVE_CHOICE(section, key) #section, #key, SETTING_CHOICE, true, AT(section.key)

#define TEXT(section, key) ENTRY(section, key, SETTING_TEXT)
#define SECRET(section, key) ENTRY(section, key, SETTING_SECRET)
#define NUMBER(section, key) ENTRY(section, key, SETTING_NUMBER)
#define CHOICE(section, key) ENTRY(section, key, SETTING_CHOICE)
#define LISTEN(section, key) ENTRY(section, key, SETTING_LISTEN)
#define LANE(key, kind)                                                    \
    SETTINGS_LANE, #key, kind, false, offsetof(struct lane_settings, key), \
        sizeof(((struct lane_settings *)NULL)->key)

const struct settings_section settings_sections[] = {
    {"mysql", "The database of the writing side: votes, outbox, leases."},
    {"sink",
     "The database of the reading side: vote log, totals, progress, remarks. A setting that "
     "is empty (or -1) has the value of [mysql]."},
    {"kafka", "Every line is a property of librdkafka. The prefix \"producer.\" or \"consumer.\" "
              "limits a property to that side."},
    {"api", "tallybox serve: the HTTP API for votes."},
    {"relay", "tallybox relay: from the outbox to Kafka."},
    {SETTINGS_LANE, "One lane of relay.lanes: an outbox table and its single reader. A lane needs "
                    "this section only where it differs from the defaults."},
    {"retry", "tallybox retry: runs the tasks of the retry queue."},
    {"consumer", "tallybox consume: from Kafka to the vote log."},
    {"rollup", "tallybox rollup: from the totals to remark.votes."},
    {"housekeep", "tallybox housekeep: creates and drops partitions, deletes old rows."},
    {"admin", "Health, readiness and metrics of every long-running command."},
    {"log", "The log on standard error: one line per event."},
};
const size_t settings_sections_count = sizeof(settings_sections) / sizeof(settings_sections[0]);

const struct setting settings_table[] = {
    {TEXT(mysql, host), "127.0.0.1", 1, 0, NULL, "Host name or address of the server."},
    {NUMBER(mysql, port), "3306", 1, 65535, NULL, "TCP port of the server."},
    {TEXT(mysql, socket), "", 0, 0, NULL, "Unix socket, used instead of host and port when set."},
    {TEXT(mysql, user), "tallybox", 1, 0, NULL, "Account to log in with."},
    {SECRET(mysql, password), "", 0, 0, NULL, "Password of the account."},
    {TEXT(mysql, password_file), "", 0, 0, NULL, "File that holds the password in one line."},
    {TEXT(mysql, database), "tallybox", 1, 64, NULL, "Database (schema) that holds the tables."},
    {CHOICE(mysql, tls), "auto", 0, 0, "auto|off|on|verify",
     "Encrypt the connection (on), and check the server's name and certificate (verify); auto: "
     "verify, but off for a socket or a loopback address."},
    {TEXT(mysql, tls_ca), "", 0, 0, NULL,
     "File of trusted certificates for verify; empty: those of the system."},
    {NUMBER(mysql, connect_timeout_ms), "5000", 100, 600000, NULL,
     "Longest wait for a connection, in milliseconds."},
    {NUMBER(mysql, query_timeout_ms), "30000", 100, 3600000, NULL,
     "Longest wait for the answer to one statement, in milliseconds."},

    {TEXT(sink, host), "", 0, 0, NULL, "Host name or address of the server; empty: as in [mysql]."},
    {NUMBER(sink, port), "-1", -1, 65535, NULL, "TCP port of the server; -1: as in [mysql]."},
    {TEXT(sink, socket), "", 0, 0, NULL,
     "Unix socket; empty: as in [mysql], unless host or port is set here."},
    {TEXT(sink, user), "", 0, 0, NULL, "Account to log in with; empty: as in [mysql]."},
    {SECRET(sink, password), "", 0, 0, NULL, "Password of the account; empty: as in [mysql]."},
    {TEXT(sink, password_file), "", 0, 0, NULL,
     "File to read the password from; empty: password, or as in [mysql]."},
    {TEXT(sink, database), "", 0, 64, NULL,
     "Database that holds the tables; empty: as in [mysql]."},
    {CHOICE(sink, tls), "", 0, 0, "|auto|off|on|verify", "Encryption; empty: as in [mysql]."},
    {TEXT(sink, tls_ca), "", 0, 0, NULL, "File of trusted certificates; empty: as in [mysql]."},
    {NUMBER(sink, connect_timeout_ms), "-1", -1, 600000, NULL,
     "Longest wait for a connection, in milliseconds; -1: as in [mysql]."},
    {NUMBER(sink, query_timeout_ms), "-1", -1, 3600000, NULL,
     "Longest wait for one statement, in milliseconds; -1: as in [mysql]."},

    {LISTEN(api, listen), "127.0.0.1:8080", 0, 0, NULL,
     "Address and port of the API; port 0 chooses a free port."},
    {ENTRY(api, hosts, SETTING_HOSTS), "", 0, 0, NULL,
     "Names under which the API is called, separated by commas: name, name:port or *.suffix; "
     "another Host is answered 421. Empty: localhost, 127.0.0.1, [::1] and the address of listen."},
    {TEXT(api, token_file), "", 0, 0, NULL,
     "File of bearer tokens, one per line: TOKEN [SCOPE ...], with the scopes votes, read and "
     "tasks:GROUP; without a scope: votes read. Required if other machines can reach listen, and "
     "for tasks."},
    {CHOICE(api, without_token), "no", 0, 0, "no|yes",
     "Lets other machines vote and read without a token if listen is not a loopback address."},
    {CHOICE(api, tasks), "off", 0, 0, "off|on",
     "Accepts tasks for the retry queue over HTTP from tokens with the scope tasks:GROUP."},
    {TEXT(api, tls_cert), "", 0, 0, NULL,
     "PEM file of the certificate for HTTPS and of its intermediate certificates."},
    {TEXT(api, tls_key), "", 0, 0, NULL, "PEM file of the certificate's private key."},
    {NUMBER(api, body_bytes_max), "1048576", 1024, 67108864, NULL,
     "Longest body of a request, in bytes; a longer one is answered 413."},
    {NUMBER(api, header_bytes_max), "16384", 1024, 1048576, NULL,
     "Longest request line and headers together, in bytes."},
    {NUMBER(api, connections_max), "2000", 1, 100000, NULL,
     "Connections at the same time; more connections wait until one ends."},
    {NUMBER(api, connections_per_address_max), "0", 0, 100000, NULL,
     "Connections from one address at the same time; more are closed at once. 0: no limit, for "
     "example behind a load balancer."},
    {NUMBER(api, header_timeout_ms), "5000", 100, 600000, NULL,
     "Longest time until the header of a request is complete, in milliseconds after the connection "
     "was accepted; then the connection is closed."},
    {NUMBER(api, body_timeout_ms), "10000", 100, 3600000, NULL,
     "Longest time until the body of a request is complete, in milliseconds after its header; then "
     "the connection is closed."},
    {NUMBER(api, request_timeout_ms), "10000", 100, 600000, NULL,
     "Longest time for a request, in milliseconds; then it is answered 503. An idle connection is "
     "closed after the same time."},
    {NUMBER(api, queue_votes_max), "10000", 1, 1000000, NULL,
     "Longest queue of votes that wait for their commit, and of contents that wait to be read; "
     "further requests are answered 429."},
    {NUMBER(api, batch_votes_max), "1000", 1, 10000, NULL, "Most votes in one transaction."},
    {NUMBER(api, committers), "2", 1, 64, NULL,
     "Threads that commit votes, each with its connection. As many threads read totals, and as "
     "many "
     "insert tasks."},
    {NUMBER(api, lane_count), "1", 1, 64, NULL,
     "Number of outbox tables that votes are spread over by key: outbox, outbox_1 ... Must be the "
     "number that `tallybox lanes show` prints."},

    {ENTRY(relay, lanes, SETTING_LANES), "outbox", 0, 0, NULL,
     "Lanes to publish, separated by commas. A lane reads the table with its name, unless "
     "[lane.NAME] names another one."},
    {TEXT(relay, ce_source), "tallybox", 0, 0, NULL,
     "Value of the header ce_source; empty: records carry no CloudEvents headers."},
    {ENTRY(relay, topics, SETTING_TOPIC_MAP), "vote=vote-events", 0, 0, NULL,
     "Topics of aggregate types, as type=topic,type=topic, for lanes without topics of their "
     "own."},
    {ENTRY(relay, topic_prefix, SETTING_TOPIC_PREFIX), "outbox.event.", 0, 0, NULL,
     "Prefix of the topic of an aggregate type that topics does not list; the type follows it."},
    {LIVE_NUMBER(relay, topic_partitions), "12", 1, 10000, NULL,
     "Partitions of a topic that the relay creates."},
    {LIVE_NUMBER(relay, topic_replication), "-1", -1, 100, NULL,
     "Replicas of a topic that the relay creates; -1: the default of the broker."},
    {NUMBER(relay, read_rows_max), "3000", 1, 100000, NULL, "Most rows read with one statement."},
    {NUMBER(relay, read_bytes_max), "4194304", 65536, 268435456, NULL,
     "Most bytes of rows kept from one read; the other rows are read again."},
    {NUMBER(relay, row_bytes_max), "1000000", 1024, 67108864, NULL,
     "Largest row that is published, in bytes; a larger one diverts its key."},
    {NUMBER(relay, window_rows_max), "100000", 1, 10000000, NULL,
     "Most rows of one lane that were read and are not yet acknowledged and deleted."},
    {LIVE_NUMBER(relay, poll_ms), "2", 0, 60000, NULL,
     "Wait before the next read while rows arrive, in milliseconds."},
    {LIVE_NUMBER(relay, poll_idle_ms), "25", 1, 60000, NULL,
     "Wait before the next read while the outbox stays empty, in milliseconds."},
    {NUMBER(relay, delete_rows_max), "40000", 1, 1000000, NULL,
     "Acknowledged rows that begin a round of deletions; a round uses several statements and may "
     "delete some rows more."},
    {LIVE_NUMBER(relay, delete_wait_ms), "200", 0, 60000, NULL,
     "Longest time a published row waits for others to be deleted with it, in milliseconds."},
    {NUMBER(relay, gap_wait_ms), "30000", 1000, 86400000, NULL,
     "How long the relay waits for a missing seq if it cannot see the transactions of other "
     "accounts, in milliseconds. An open transaction keeps a gap open for up to 20 times this."},
    {NUMBER(relay, gap_wait_multi_ms), "600000", 1000, 86400000, NULL,
     "The same if several nodes of a cluster accept writes (Galera, group replication with several "
     "primaries), in milliseconds."},
    {NUMBER(relay, gaps_max), "4096", 16, 1000000, NULL,
     "Most gaps (ranges of missing seqs) watched at the same time. If there are more, the closest "
     "gaps are merged: reading gets slower, no row is lost."},
    {LIVE_NUMBER(relay, full_scan_ms), "60000", 1000, 86400000, NULL,
     "Time between two full scans, which find rows left below the cursor, in milliseconds."},
    {NUMBER(relay, send_timeout_ms), "8000", 1000, 3600000, NULL,
     "Longest wait for the acknowledgement of a record, in milliseconds, below lease_ms; then the "
     "record is sent again."},
    {NUMBER(relay, diverted_keys_max), "10000", 1, 1000000, NULL,
     "Most keys of a lane that are diverted through the retry queue at the same time; with more "
     "the "
     "lane stops."},
    {NUMBER(relay, lease_ms), "15000", 2000, 3600000, NULL,
     "Length of a lane's lease, in milliseconds: if its holder does not renew it in this time, "
     "another relay takes the lane."},

    {LANE(table, SETTING_TABLE), "", 0, 0, NULL,
     "Outbox table that the lane reads; not set: the table with the lane's name. The lease, the "
     "diverted tasks and the record header \"lane\" carry the table's name, so a lane may be "
     "renamed."},
    {LANE(source, SETTING_CHOICE), LANE_SOURCE_TABLE, 0, 0, LANE_SOURCE_TABLE,
     "How the lane reads its rows: by polling the table."},
    {LANE(topics, SETTING_TOPIC_MAP), "", 0, 0, NULL,
     "Topics of aggregate types, as type=topic,type=topic; not set: as relay.topics."},

    {NUMBER(retry, threads), "4", 0, 256, NULL,
     "Threads that run tasks; 0: the thread that claims the tasks runs them, too."},
    {NUMBER(retry, batch_rows_max), "100", 1, 1000, NULL,
     "Most tasks claimed in one transaction, and rescued in one transaction."},
    {NUMBER(retry, in_flight_max), "500", 1, 10000, NULL,
     "Most tasks that one process has claimed and not yet written back."},
    {LIVE_NUMBER(retry, poll_ms), "200", 1, 3600000, NULL,
     "Time between two polls for due tasks, in milliseconds; after a full batch the next poll "
     "follows at once."},
    {CHOICE(retry, poll_pace), "delay", 0, 0, "delay|rate",
     "poll_ms counts from the end of a round (delay) or from its beginning (rate)."},
    {LIVE_NUMBER(retry, poll_jitter_percent), "10", 0, 100, NULL,
     "Largest random extension of poll_ms, in percent."},
    {LIVE_NUMBER(retry, rescue_ms), "5000", 100, 3600000, NULL,
     "Time between two searches for running tasks whose process died, in milliseconds."},
    {CHOICE(retry, claim), "skip_locked", 0, 0, "skip_locked|compare_and_set",
     "How tasks are claimed; servers without SKIP LOCKED need compare_and_set."},
    {TEXT(retry, handlers), "", 0, 0, NULL,
     "Handlers that this process runs, separated by commas; empty: all."},
    {TEXT(retry, shards), "auto", 1, 0, NULL,
     "Which of the shards 0..15 this process works on: auto shares them with the other processes; "
     "a list like 0-7,12 fixes them."},
    {NUMBER(retry, weight), "1", 1, 100, NULL,
     "Weight of this process when the processes share the shards."},
    {NUMBER(retry, lease_ms), "15000", 2000, 3600000, NULL,
     "Length of a shard's lease, in milliseconds: if the process does not renew it in this time, "
     "another one takes the shard."},
    {ENTRY(retry, http_hosts, SETTING_HOSTS), "", 0, 0, NULL,
     "Hosts that the handler http may call, separated by commas: name, name:port or *.suffix; "
     "without a port, the default port of the scheme; empty: none."},
    {TEXT(retry, http_ca), "", 0, 0, NULL,
     "File of trusted certificates for the handler http; empty: those of the system."},
    {ENTRY(retry, exec_programs, SETTING_PATHS), "", 0, 0, NULL,
     "Programs that the handler exec may start, as absolute paths separated by commas; empty: "
     "none."},

    {TEXT(consumer, group), "tallybox", 1, 128, NULL,
     "Kafka consumer group; its progress is stored under this name."},
    {ENTRY(consumer, topics, SETTING_TOPICS), "vote-events", 0, 0, NULL,
     "Topics to read, separated by commas."},
    {CHOICE(consumer, votes_from), "tallybox", 0, 0, "tallybox|anyone",
     "Producers of the votes. tallybox: every event is a change. anyone: a vote that repeats or "
     "precedes the last vote of its voter is stale and changes nothing."},
    {NUMBER(consumer, batch_rows_max), "5000", 1, 100000, NULL,
     "Most records applied in one transaction."},
    {NUMBER(consumer, batch_bytes_max), "1048576", 65536, 268435456, NULL,
     "Most bytes of records applied in one transaction."},
    {LIVE_NUMBER(consumer, batch_wait_ms), "5", 0, 60000, NULL,
     "Longest wait for a batch to fill, in milliseconds."},
    {NUMBER(consumer, memory_max), "67108864", 33554432, 17179869184, NULL,
     "Most memory of a consumer, in bytes; limits how much it fetches in advance."},
    {NUMBER(consumer, appliers), "1", 1, 64, NULL,
     "Threads that apply batches, each with its connection."},
    {LIVE_NUMBER(consumer, dead_max), "10000", 0, 1000000000, NULL,
     "Most undecided dead records of one partition; the next one stops the partition. 0: no "
     "limit."},

    {LIVE_NUMBER(rollup, interval_ms), "3600000", 1000, 86400000, NULL,
     "Time between two roll-ups, in milliseconds."},
    {NUMBER(rollup, batch_rows_max), "1000", 1, 100000, NULL,
     "Contents rolled up in one transaction."},
    {NUMBER(rollup, overlap_ms), "600000", 0, 86400000, NULL,
     "Overlap of a roll-up with the one before it, in milliseconds."},

    {LIVE_NUMBER(housekeep, interval_ms), "3600000", 1000, 86400000, NULL,
     "Time between two rounds, in milliseconds."},
    {LIVE_NUMBER(housekeep, months_ahead), "12", 1, 120, NULL,
     "Months for which vote_document has partitions in advance."},
    {LIVE_NUMBER(housekeep, keep_months), "0", 0, 1200, NULL,
     "Months of vote_document that are kept before the month of the newest vote; older ones are "
     "dropped. 0: all are kept."},
    {LIVE_NUMBER(housekeep, move_rows_max), "10000", 0, 1000000000, NULL,
     "Most rows after the last month that are moved to create a partition, while consumers wait."},
    {LIVE_NUMBER(housekeep, batch_rows_max), "5000", 1, 100000, NULL,
     "Most rows summed up or deleted in one transaction."},
    {LIVE_NUMBER(housekeep, pause_ms), "20", 0, 60000, NULL,
     "Pause between two such transactions, in milliseconds."},
    {LIVE_NUMBER(housekeep, instance_days), "7", 0, 36500, NULL,
     "Days after its last heartbeat until a row of instance is deleted; 0: never."},
    {LIVE_NUMBER(housekeep, progress_days), "0", 0, 36500, NULL,
     "Days after its last change until the progress of groups and topics that [consumer] does not "
     "name is deleted; 0: never."},
    {LIVE_NUMBER(housekeep, dead_days), "0", 0, 36500, NULL,
     "Days that dead records are kept; 0: for ever."},
    {LIVE_NUMBER(housekeep, dead_history_days), "90", 0, 36500, NULL,
     "Days that dead records are kept after they were replayed or dropped; 0: for ever."},
    {LIVE_NUMBER(housekeep, retry_history_days), "90", 0, 36500, NULL,
     "Days that tasks of the retry queue are kept after their end, with their attempts; 0: for "
     "ever."},

    {LISTEN(admin, listen), "127.0.0.1:9464", 0, 0, "off",
     "Address and port of /healthz, /readyz and /metrics; port 0 chooses a free port."},
    {ENTRY(admin, hosts, SETTING_HOSTS), "", 0, 0, NULL,
     "Names under which these pages are called, as in api.hosts; /healthz answers to every name."},
    {TEXT(admin, token_file), "", 0, 0, NULL,
     "File of bearer tokens for these pages, one per line: TOKEN operate; /healthz needs no "
     "token."},
    {CHOICE(admin, without_token), "no", 0, 0, "no|yes",
     "Lets other machines read these pages without a token if listen is not a loopback address."},
    {TEXT(admin, tls_cert), "", 0, 0, NULL,
     "PEM file of the certificate for HTTPS and of its intermediate certificates."},
    {TEXT(admin, tls_key), "", 0, 0, NULL, "PEM file of the certificate's private key."},
    {NUMBER(admin, connections_per_address_max), "16", 0, 100000, NULL,
     "Connections from one address at the same time; 0: no limit. /healthz answers beyond the "
     "limit."},
    {NUMBER(admin, header_timeout_ms), "5000", 100, 600000, NULL,
     "As api.header_timeout_ms, in milliseconds."},
    {NUMBER(admin, body_timeout_ms), "10000", 100, 3600000, NULL,
     "As api.body_timeout_ms, in milliseconds."},
    {LIVE_NUMBER(admin, stale_ms), "60000", 100, 86400000, NULL,
     "The process is not ready while its oldest waiting work is older than this, in milliseconds."},
    {LIVE_NUMBER(admin, stop_timeout_ms), "10000", 100, 600000, NULL,
     "Longest time a clean stop may take, in milliseconds."},

    {LIVE_CHOICE(log, level), "info", 0, 0, "debug|info|warn|error",
     "Lowest level of the lines that are written."},
};
const size_t settings_table_count = sizeof(settings_table) / sizeof(settings_table[0]);
