/* SPDX-License-Identifier: MIT */
#include "common/config/settings.h"

/* The first six members of an entry, so that a name is written once. */
#define AT(place) offsetof(struct settings, place), sizeof(((struct settings *)NULL)->place)
#define ENTRY(section, key, kind) #section, #key, kind, false, AT(section.key)
/* Only an atomic number may change while others read it: anything else does not compile here. */
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
    {"sink", "The database of the reading side: vote log, totals, progress, remarks. What is left "
             "empty (or -1) is as in [mysql]."},
    {"kafka", "Every line is handed to librdkafka as it stands; \"producer.\" or \"consumer.\" in "
              "front of a name limits it to that side."},
    {"api", "tallybox serve: the HTTP API for votes."},
    {"relay", "tallybox relay: from the outbox to Kafka."},
    {SETTINGS_LANE, "One lane of relay.lanes: an outbox table and its single reader. A lane needs "
                    "this section only where it differs from the defaults."},
    {"retry", "tallybox retry: what could not be done at once is tried again."},
    {"consumer", "tallybox consume: from Kafka to the vote log."},
    {"rollup", "tallybox rollup: from the totals to remark.votes."},
    {"housekeep", "tallybox housekeep: partitions ahead and behind, old rows."},
    {"admin", "Health, readiness and metrics of every long-running command."},
    {"log", "One event, one line, on standard error."},
};
const size_t settings_sections_count = sizeof(settings_sections) / sizeof(settings_sections[0]);

const struct setting settings_table[] = {
    {TEXT(mysql, host), "127.0.0.1", 1, 0, NULL, "Host name or address of the server."},
    {NUMBER(mysql, port), "3306", 1, 65535, NULL, "TCP port of the server."},
    {TEXT(mysql, socket), "", 0, 0, NULL, "Unix socket, used instead of host and port when set."},
    {TEXT(mysql, user), "tallybox", 1, 0, NULL, "Account to log in with."},
    {SECRET(mysql, password), "", 0, 0, NULL, "Password of the account."},
    {TEXT(mysql, password_file), "", 0, 0, NULL,
     "File to read the password from; the line end after it is not part of it."},
    {TEXT(mysql, database), "tallybox", 1, 64, NULL, "Database (schema) that holds the tables."},
    {CHOICE(mysql, tls), "auto", 0, 0, "auto|off|on|verify",
     "Encrypt the connection (on), and check the server's name and certificate (verify); auto: "
     "verify, but off for a socket or a loopback address."},
    {TEXT(mysql, tls_ca), "", 0, 0, NULL,
     "File of trusted certificates for verify; empty takes the system's."},
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
     "Where the API listens; port 0 takes a free one."},
    {ENTRY(api, hosts, SETTING_HOSTS), "", 0, 0, NULL,
     "Names under which the API is called, separated by commas: name, name:port or *.suffix; "
     "another Host is answered 421. Empty: localhost, 127.0.0.1, [::1] and the address of listen."},
    {TEXT(api, token_file), "", 0, 0, NULL,
     "File of bearer tokens, one a line: TOKEN [SCOPE ...], with the scopes votes, read and "
     "tasks:GROUP; without a scope: votes read. Needed where other machines can reach listen, and "
     "for tasks."},
    {CHOICE(api, without_token), "no", 0, 0, "no|yes",
     "Lets other machines vote and read without a token, where listen is no loopback address."},
    {CHOICE(api, tasks), "off", 0, 0, "off|on",
     "Takes tasks of the retry queue over HTTP, from tokens with the scope tasks:GROUP."},
    {TEXT(api, tls_cert), "", 0, 0, NULL,
     "PEM file of the certificate to serve HTTPS with, and of those between it and its root."},
    {TEXT(api, tls_key), "", 0, 0, NULL, "PEM file of the certificate's private key."},
    {NUMBER(api, body_bytes_max), "1048576", 1024, 67108864, NULL,
     "Longest body of a request, in bytes; a longer one is answered 413."},
    {NUMBER(api, header_bytes_max), "16384", 1024, 1048576, NULL,
     "Longest request line and headers together, in bytes."},
    {NUMBER(api, connections_max), "2000", 1, 100000, NULL,
     "Connections at the same time; later ones wait until one ends."},
    {NUMBER(api, connections_per_address_max), "0", 0, 100000, NULL,
     "Of these, from one address; more are closed at once. 0: any number, as behind a balancer."},
    {NUMBER(api, header_timeout_ms), "5000", 100, 600000, NULL,
     "A header that is not whole after this closes the connection, in milliseconds from its "
     "accept."},
    {NUMBER(api, body_timeout_ms), "10000", 100, 3600000, NULL,
     "A body that is not whole after this closes the connection, in milliseconds from its header's "
     "end."},
    {NUMBER(api, request_timeout_ms), "10000", 100, 600000, NULL,
     "A request is answered 503, an idle connection closed, after this, in milliseconds."},
    {NUMBER(api, queue_votes_max), "10000", 1, 1000000, NULL,
     "Votes that may wait for their commit, and contents for being read; past it 429."},
    {NUMBER(api, batch_votes_max), "1000", 1, 10000, NULL, "Votes in one transaction, at most."},
    {NUMBER(api, committers), "2", 1, 64, NULL,
     "Threads, each with its connection, that commit votes; as many read totals, and as many take "
     "tasks."},
    {NUMBER(api, lane_count), "1", 1, 64, NULL,
     "Outbox tables to spread over by key: outbox, outbox_1 ... Must be what `tallybox lanes` "
     "shows."},

    {ENTRY(relay, lanes, SETTING_LANES), "outbox", 0, 0, NULL,
     "Lanes to publish, separated by commas. A lane reads the table with its name, unless "
     "[lane.NAME] names another one."},
    {TEXT(relay, ce_source), "tallybox", 0, 0, NULL,
     "Value of the header ce_source; empty: records carry no CloudEvents headers."},
    {ENTRY(relay, topics, SETTING_TOPIC_MAP), "vote=vote-events", 0, 0, NULL,
     "Topics of aggregate types, as type=topic,type=topic, for lanes without topics of their "
     "own."},
    {ENTRY(relay, topic_prefix, SETTING_TOPIC_PREFIX), "outbox.event.", 0, 0, NULL,
     "Put before the aggregate type to name the topic of a type not listed in topics."},
    {LIVE_NUMBER(relay, topic_partitions), "12", 1, 10000, NULL,
     "Partitions of a topic that must be made."},
    {LIVE_NUMBER(relay, topic_replication), "-1", -1, 100, NULL,
     "Replicas of a topic that must be made; -1: as the broker is set."},
    {NUMBER(relay, read_rows_max), "3000", 1, 100000, NULL, "Rows read with one statement."},
    {NUMBER(relay, read_bytes_max), "4194304", 65536, 268435456, NULL,
     "Bytes of rows held from one read; the rest is read again."},
    {NUMBER(relay, row_bytes_max), "1000000", 1024, 67108864, NULL,
     "Largest row that is published, in bytes; a larger one diverts its key."},
    {NUMBER(relay, window_rows_max), "100000", 1, 10000000, NULL,
     "Rows of one lane read and not yet acknowledged or deleted."},
    {LIVE_NUMBER(relay, poll_ms), "2", 0, 60000, NULL,
     "Wait before the next read while rows arrive, in milliseconds."},
    {LIVE_NUMBER(relay, poll_idle_ms), "25", 1, 60000, NULL,
     "Wait before the next read while the outbox stays empty, in milliseconds."},
    {NUMBER(relay, delete_rows_max), "40000", 1, 1000000, NULL,
     "Published rows deleted with one statement."},
    {LIVE_NUMBER(relay, delete_wait_ms), "200", 0, 60000, NULL,
     "Longest time a published row waits for others to be deleted with it, in milliseconds."},
    {NUMBER(relay, gap_wait_ms), "30000", 1000, 86400000, NULL,
     "A missing seq is given up at the earliest after this, in milliseconds."},
    {NUMBER(relay, gap_wait_multi_ms), "600000", 1000, 86400000, NULL,
     "The same where several nodes of a cluster take writes (Galera, group replication with "
     "several "
     "primaries), in milliseconds."},
    {NUMBER(relay, gaps_max), "4096", 16, 1000000, NULL,
     "Missing seqs watched at the same time; past it reading waits."},
    {LIVE_NUMBER(relay, full_scan_ms), "60000", 1000, 86400000, NULL,
     "Time between two full scans, which find rows left below the cursor, in milliseconds."},
    {NUMBER(relay, send_timeout_ms), "8000", 1000, 3600000, NULL,
     "A record not acknowledged after this is sent again, in milliseconds; below lease_ms."},
    {NUMBER(relay, diverted_keys_max), "10000", 1, 1000000, NULL,
     "Keys that may go through the retry queue at the same time; past it the lane stops."},
    {NUMBER(relay, lease_ms), "15000", 2000, 3600000, NULL,
     "A lane whose holder is silent this long goes to another relay, in milliseconds."},

    {LANE(table, SETTING_TABLE), "", 0, 0, NULL,
     "Outbox table that the lane reads; not set: the table with the lane's name. The lease, the "
     "diverted tasks and the record header \"lane\" carry the table's name, so a lane may be "
     "renamed."},
    {LANE(source, SETTING_CHOICE), LANE_SOURCE_TABLE, 0, 0, LANE_SOURCE_TABLE,
     "How the lane reads its rows: by polling the table."},
    {LANE(topics, SETTING_TOPIC_MAP), "", 0, 0, NULL,
     "Topics of aggregate types, as type=topic,type=topic; not set: as relay.topics."},

    {NUMBER(retry, threads), "4", 0, 256, NULL,
     "Threads that run tasks; 0: the thread that claims them runs them too."},
    {NUMBER(retry, batch_rows_max), "100", 1, 1000, NULL,
     "Tasks claimed with one transaction, and rescued with one."},
    {NUMBER(retry, in_flight_max), "500", 1, 10000, NULL,
     "Tasks of one process that are claimed and not yet written back."},
    {LIVE_NUMBER(retry, poll_ms), "200", 1, 3600000, NULL,
     "Time between two looks for due tasks, in milliseconds; while batches come back full there is "
     "none."},
    {CHOICE(retry, poll_pace), "delay", 0, 0, "delay|rate",
     "poll_ms counts from the end of a round (delay) or from its beginning (rate)."},
    {LIVE_NUMBER(retry, poll_jitter_percent), "10", 0, 100, NULL,
     "So much longer than poll_ms a wait may be, by chance, in percent."},
    {LIVE_NUMBER(retry, rescue_ms), "5000", 100, 3600000, NULL,
     "Time between two rescues of tasks whose process died, in milliseconds."},
    {CHOICE(retry, claim), "skip_locked", 0, 0, "skip_locked|compare_and_set",
     "How tasks are claimed; compare_and_set is for servers without SKIP LOCKED."},
    {TEXT(retry, handlers), "", 0, 0, NULL,
     "Handlers that this process runs, separated by commas; empty: all it has."},
    {TEXT(retry, shards), "auto", 1, 0, NULL,
     "Which of the shards 0..15 this process works on: auto shares them with the other processes; "
     "a list like 0-7,12 fixes them."},
    {NUMBER(retry, weight), "1", 1, 100, NULL,
     "Share of the shards that this process gets, beside those of the others."},
    {NUMBER(retry, lease_ms), "15000", 2000, 3600000, NULL,
     "Shards of a process that is silent this long go to another one, in milliseconds."},
    {ENTRY(retry, http_hosts, SETTING_HOSTS), "", 0, 0, NULL,
     "Hosts that the handler http may call, separated by commas: name, name:port or *.suffix; "
     "without a port the scheme's own; empty: none."},
    {TEXT(retry, http_ca), "", 0, 0, NULL,
     "File of trusted certificates for the handler http; empty takes the system's."},
    {ENTRY(retry, exec_programs, SETTING_PATHS), "", 0, 0, NULL,
     "Programs that the handler exec may start, as absolute paths separated by commas; empty: "
     "none."},

    {TEXT(consumer, group), "tallybox", 1, 128, NULL,
     "Kafka consumer group, and the name of its progress."},
    {ENTRY(consumer, topics, SETTING_TOPICS), "vote-events", 0, 0, NULL,
     "Topics to read, separated by commas."},
    {CHOICE(consumer, votes_from), "tallybox", 0, 0, "tallybox|anyone",
     "Who writes them: tallybox, whose events are all changes, or anyone: repeated and older votes "
     "of a voter are then stale and change nothing."},
    {NUMBER(consumer, batch_rows_max), "5000", 1, 100000, NULL,
     "Records applied in one transaction."},
    {NUMBER(consumer, batch_bytes_max), "1048576", 65536, 268435456, NULL,
     "Bytes of records applied in one transaction."},
    {LIVE_NUMBER(consumer, batch_wait_ms), "5", 0, 60000, NULL,
     "Longest wait for a batch to fill, in milliseconds."},
    {NUMBER(consumer, memory_max), "67108864", 33554432, 17179869184, NULL,
     "Bytes of memory that a consumer may take; sets how much it fetches at a time."},
    {NUMBER(consumer, appliers), "1", 1, 64, NULL,
     "Threads, each with its connection, that apply batches."},
    {LIVE_NUMBER(consumer, dead_max), "10000", 0, 1000000000, NULL,
     "Dead records of one partition that nobody has decided on; with so many the next one stops "
     "the "
     "partition. 0: no limit."},

    {LIVE_NUMBER(rollup, interval_ms), "3600000", 1000, 86400000, NULL,
     "Time between two roll-ups, in milliseconds."},
    {NUMBER(rollup, batch_rows_max), "1000", 1, 100000, NULL,
     "Contents rolled up in one transaction."},
    {NUMBER(rollup, overlap_ms), "600000", 0, 86400000, NULL,
     "How far a roll-up looks back before the last one, in milliseconds."},

    {LIVE_NUMBER(housekeep, interval_ms), "3600000", 1000, 86400000, NULL,
     "Time between two rounds, in milliseconds."},
    {LIVE_NUMBER(housekeep, months_ahead), "12", 1, 120, NULL,
     "Months for which vote_document gets its partitions ahead."},
    {LIVE_NUMBER(housekeep, keep_months), "0", 0, 1200, NULL,
     "Months of vote_document kept before that of the newest vote; older ones are dropped. 0: "
     "all."},
    {LIVE_NUMBER(housekeep, move_rows_max), "10000", 0, 1000000000, NULL,
     "Rows behind the last month that may be moved, while consumers wait, to make a partition."},
    {LIVE_NUMBER(housekeep, batch_rows_max), "5000", 1, 100000, NULL,
     "Rows summed up or deleted in one transaction."},
    {LIVE_NUMBER(housekeep, pause_ms), "20", 0, 60000, NULL,
     "Rest between two such transactions, in milliseconds."},
    {LIVE_NUMBER(housekeep, instance_days), "7", 0, 36500, NULL,
     "Days after its last heartbeat that a row of instance is deleted; 0: never."},
    {LIVE_NUMBER(housekeep, progress_days), "0", 0, 36500, NULL,
     "Days after its last change that the progress of other groups and topics than those of "
     "[consumer] is deleted; 0: never."},
    {LIVE_NUMBER(housekeep, dead_days), "0", 0, 36500, NULL,
     "Days that dead records are kept; 0: for ever."},
    {LIVE_NUMBER(housekeep, dead_history_days), "90", 0, 36500, NULL,
     "Days that dead records are kept after they were replayed or dropped; 0: for ever."},
    {LIVE_NUMBER(housekeep, retry_history_days), "90", 0, 36500, NULL,
     "Days that tasks of the retry queue are kept after their end, with their attempts; 0: for "
     "ever."},

    {LISTEN(admin, listen), "127.0.0.1:9464", 0, 0, "off",
     "Where /healthz, /readyz and /metrics are served; port 0 takes a free one."},
    {ENTRY(admin, hosts, SETTING_HOSTS), "", 0, 0, NULL,
     "Names under which the pages are called, as in api.hosts; /healthz answers under every name."},
    {TEXT(admin, token_file), "", 0, 0, NULL,
     "File of bearer tokens, one a line: TOKEN operate, which opens these pages; /healthz needs "
     "none."},
    {CHOICE(admin, without_token), "no", 0, 0, "no|yes",
     "Lets other machines in without a token, where listen is no loopback address."},
    {TEXT(admin, tls_cert), "", 0, 0, NULL,
     "PEM file of the certificate to serve HTTPS with, and of those between it and its root."},
    {TEXT(admin, tls_key), "", 0, 0, NULL, "PEM file of the certificate's private key."},
    {NUMBER(admin, connections_per_address_max), "16", 0, 100000, NULL,
     "Connections from one address at the same time; 0: any number. /healthz is answered beyond "
     "it."},
    {NUMBER(admin, header_timeout_ms), "5000", 100, 600000, NULL,
     "As api.header_timeout_ms, in milliseconds."},
    {NUMBER(admin, body_timeout_ms), "10000", 100, 3600000, NULL,
     "As api.body_timeout_ms, in milliseconds."},
    {LIVE_NUMBER(admin, stale_ms), "60000", 100, 86400000, NULL,
     "Not ready while the oldest waiting work is older than this, in milliseconds."},
    {LIVE_NUMBER(admin, stop_timeout_ms), "10000", 100, 600000, NULL,
     "Longest time a clean stop may take, in milliseconds."},

    {LIVE_CHOICE(log, level), "info", 0, 0, "debug|info|warn|error",
     "The least important lines to write."},
};
const size_t settings_table_count = sizeof(settings_table) / sizeof(settings_table[0]);
