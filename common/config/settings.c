/* SPDX-License-Identifier: MIT */
#include "common/config/settings.h"

#include "common/config/lane_texts.h"
#include "common/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 64   /* of a table or an aggregate type */
#define TOPIC_BYTES_MAX 249 /* Kafka's own bound */
#define HOST_BYTES_MAX 253  /* DNS's own bound */
#define TOPIC_MARKS "._-"   /* allowed in a topic beside letters and digits */

#define TO_SHOW "%.60s" /* at most so much of a bad value is in an error */

/* section, key, kind, live, offset and size of an entry. The macros derive the texts and the place
 * from one name. */
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
    {SETTINGS_ROLE,
     "Settings for one role alone, as section.key = value: admin.listen, mysql.user ... They "
     "override the other sections, wherever they are in the file. NAME is run, serve (also for "
     "tallybox vote), relay, retry, retry_admin (tallybox retry ACTION), consume, rollup, "
     "housekeep, status, verify, dead, lanes, rank or migrate."},
};
const size_t settings_sections_count = sizeof(settings_sections) / sizeof(settings_sections[0]);

/* A name that begins another one comes after it: variables of the environment are split by them. */
const char *const settings_roles[] = {"run",     "serve",  "relay",     "retry_admin", "retry",
                                      "consume", "rollup", "housekeep", "status",      "verify",
                                      "dead",    "lanes",  "rank",      "migrate"};
const size_t settings_roles_count = sizeof(settings_roles) / sizeof(settings_roles[0]);

const struct setting settings_table[] = {
    {TEXT(mysql, host), "127.0.0.1", 1, 0, NULL, "Host name or address of the server."},
    {NUMBER(mysql, port), "3306", 1, 65535, NULL, "TCP port of the server."},
    {TEXT(mysql, socket), "", 0, 0, NULL, "Unix socket, used instead of host and port when set."},
    {TEXT(mysql, user), "tallybox", 1, 0, NULL, "Account to log in with."},
    {SECRET(mysql, password), "", 0, 0, NULL, "Password of the account."},
    {TEXT(mysql, password_file), "", 0, 0, NULL,
     "File that holds the password in one line. It is read again for each connection."},
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
    {NUMBER(mysql, auth_wait_ms), "60000", 0, 86400000, NULL,
     "How long a role keeps trying while the server refuses its password, in milliseconds; then "
     "the process ends with exit code 1."},

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
    {NUMBER(sink, auth_wait_ms), "-1", -1, 86400000, NULL,
     "How long a role keeps trying while the server refuses its password, in milliseconds; -1: as "
     "in [mysql]."},

    {LISTEN(api, listen), "127.0.0.1:8080", 0, 0, NULL,
     "Address and port of the API; port 0 chooses a free port."},
    {ENTRY(api, hosts, SETTING_HOSTS), "", 0, 0, NULL,
     "Names under which the API is called, separated by commas: name, name:port or *.suffix; "
     "another Host is answered 421. Empty: localhost, 127.0.0.1, [::1] and the address of listen; "
     "if that is every address, the one that was connected to and the name of the machine."},
    {TEXT(api, token_file), "", 0, 0, NULL,
     "File of bearer tokens, one per line: TOKEN [SCOPE ...], with the scopes votes, read, "
     "remarks and tasks:GROUP; without a scope: votes read. Required if other machines can reach "
     "listen, and "
     "for tasks."},
    {CHOICE(api, without_token), "no", 0, 0, "no|yes",
     "Lets other machines vote and read without a token if listen is not a loopback address."},
    {CHOICE(api, tasks), "off", 0, 0, "off|on",
     "Accepts tasks for the retry queue over HTTP from tokens with the scope tasks:GROUP."},
    {CHOICE(api, operate), "off", 0, 0, "off|on",
     "Lets tokens with the scope operate act on tasks and dead records over HTTP, as tallybox "
     "retry "
     "ACTION and tallybox dead do. The account of serve then needs the privileges of retry_admin "
     "and dead, too."},
    {NUMBER(api, try_max), "0", 0, 64, NULL,
     "Most tasks that serve itself tries at the same time, of requests with try=1; 0: none, they "
     "wait for a retry process. The account of serve then needs the privileges of first_try, too, "
     "and retry.http_hosts the hosts that may be called."},
    {NUMBER(api, try_timeout_ms), "5000", 100, 60000, NULL,
     "Longest time of such a try, in milliseconds, if the task's own timeout is not shorter; then "
     "the attempt has failed."},
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
     "Threads that commit votes, each with its connection. As many threads read totals, as many "
     "read remarks, and as many insert tasks."},
    {CHOICE(api, deleted_status), "404", 0, 0, "404|410",
     "HTTP status of a vote on a deleted content, which does not count, and of a remark with the "
     "id of a deleted one, which is not made."},
    {CHOICE(api, votes), "on", 0, 0, "off|on",
     "Serves votes and lists; off: only tasks, for which the outbox without the tables for votes "
     "is "
     "enough."},
    {CHOICE(api, lists), "on", 0, 0, "off|on",
     "Serves lists of remarks, which needs the database of [sink]."},
    {NUMBER(api, page_cache_bytes_max), "67108864", 0, 68719476736, NULL,
     "Most memory of the pages of remarks that are kept, in bytes."},
    {NUMBER(api, page_cache_ms), "60000", 0, 86400000, NULL,
     "How long a page of remarks that was read is used again, without the totals, in milliseconds. "
     "A remark that is written through this process is seen at once."},
    {NUMBER(api, page_stale_ms), "600000", 0, 86400000, NULL,
     "How long a page that was read is used while the database is away, marked with stale: true, "
     "in milliseconds."},
    {NUMBER(api, totals_max_age_ms), "0", 0, 3600000, NULL,
     "How old the totals of a list may be, in milliseconds; 0: each page reads them. The votes of "
     "voterId are always read."},
    {NUMBER(api, recommended_max), "1000", 1, 1000, NULL,
     "Most remarks in the recommended list of an item."},
    {NUMBER(api, recommended_items_max), "10000", 1, 10000000, NULL,
     "Most items whose recommended lists are kept; the one used longest ago is forgotten."},
    {NUMBER(api, recommended_empty_max), "10000", 1, 10000000, NULL,
     "Most items that are remembered because they have no remark to recommend."},
    {NUMBER(api, recommended_bytes_max), "67108864", 0, 68719476736, NULL,
     "Most memory of the recommended lists, in bytes."},
    {NUMBER(api, recommended_refresh_ms), "3600000", 1000, 86400000, NULL,
     "How long a recommended list is used without being built again, in milliseconds. A roll-up, "
     "new "
     "weights, and remarks that are written over HTTP change it earlier."},
    {NUMBER(api, recommended_build_ms), "10000", 100, 600000, NULL,
     "Longest time of the statement that builds a recommended list, in milliseconds; it is tried "
     "again after 2 s."},
    {NUMBER(api, rank_votes), "1", -1000000, 1000000, NULL,
     "Points in the rank of a remark for each rolled-up vote, unless tallybox rank set has stored "
     "others."},
    {NUMBER(api, rank_score), "0", -1000000, 1000000, NULL,
     "Points in the rank of a remark for each point of its score; see rank_votes."},
    {NUMBER(api, rank_age), "0", -1000000, 1000000, NULL,
     "Points that a remark loses with each day of its age; see rank_votes."},
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
    {ENTRY(relay, positions_topic, SETTING_TOPICS), "tallybox.relay.positions", 0, 0, NULL,
     "Topic that has the positions of lanes with exactly_once = yes; the relay creates it, with "
     "one "
     "partition and cleanup.policy=compact."},
    {LIVE_NUMBER(relay, topic_partitions), "12", 1, 10000, NULL,
     "Partitions of a topic that the relay creates."},
    {LIVE_NUMBER(relay, topic_replication), "-1", -1, 100, NULL,
     "Replicas of a topic that the relay creates; -1: the default of the broker."},
    {NUMBER(relay, read_rows_max), "3000", 1, 100000, NULL, "Most rows read with one statement."},
    {NUMBER(relay, read_bytes_max), "4194304", 65536, 268435456, NULL,
     "Most bytes of rows kept from one read; the other rows are read again. A lane that shares "
     "a stream of the binary log has a queue of this size, or of that of the largest row."},
    {NUMBER(relay, row_bytes_max), "1000000", 1024, 16777216, NULL,
     "Largest key and value of a record together, in bytes, of an outbox row and of a `kafka` "
     "task. A larger row diverts its key, and a larger task is refused."},
    {NUMBER(relay, window_rows_max), "100000", 1, 10000000, NULL,
     "Most rows of one lane that were read and are not yet acknowledged and deleted."},
    {LIVE_NUMBER(relay, poll_ms), "2", 0, 60000, NULL,
     "Wait before the next read while rows arrive, in milliseconds."},
    {LIVE_NUMBER(relay, poll_idle_ms), "25", 1, 60000, NULL,
     "Wait before the next read while the outbox stays empty, in milliseconds."},
    {CHOICE(relay, wakeup), "off", 0, 0, "off|binlog",
     "Whether the binary log of the server tells when rows come: an empty outbox is then read only "
     "once a second. Needs the privileges that `tallybox migrate grants --role relay_wakeup` "
     "prints."},
    {NUMBER(relay, server_id), "0", 0, 4294967230, NULL,
     "Id under which a relay reads the binary log. No server and no other reader may have it, so "
     "the ids of two relay processes must differ by more than the number of lanes and one; 0: a "
     "number above 2147483647 that is made from the name of the instance. The wake-up uses "
     "server_id itself, lane number N (from 0, in the order of relay.lanes) that reads the binary "
     "log server_id + 1 + N, and the stream that such lanes share the next one."},
    {NUMBER(relay, delete_rows_max), "40000", 1, 1000000, NULL,
     "Acknowledged rows that begin a round of deletions; a round uses several statements and may "
     "delete some rows more."},
    {LIVE_NUMBER(relay, delete_wait_ms), "200", 0, 60000, NULL,
     "Longest time a published row waits for others to be deleted with it, in milliseconds."},
    {NUMBER(relay, gap_wait_ms), "30000", 1000, 86400000, NULL,
     "How long the relay waits for a missing seq if it cannot see the transactions of other "
     "accounts, in milliseconds. An open transaction keeps a gap open for up to 20 times this, and "
     "longer while its uncommitted row is in the gap."},
    {NUMBER(relay, gap_wait_multi_ms), "600000", 1000, 86400000, NULL,
     "Shortest age at which a gap is closed if several nodes of a cluster accept writes (Galera, "
     "group replication with several primaries), in milliseconds."},
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
     "the lane stops."},
    {NUMBER(relay, lease_ms), "15000", 2000, 3600000, NULL,
     "Length of a lane's lease, in milliseconds: if its holder does not renew it in this time, "
     "another relay takes the lane."},

    {LANE(table, SETTING_TABLE), "", 0, 0, NULL,
     "Outbox table that the lane reads; not set: the table with the lane's name. The lease, the "
     "diverted tasks and the record header \"lane\" carry the table's name, so a lane may be "
     "renamed."},
    {LANE(source, SETTING_CHOICE), LANE_SOURCE_TABLE, 0, 0,
     LANE_SOURCE_TABLE "|" LANE_SOURCE_BINLOG,
     "How the relay reads the table: `table` polls it and deletes what is published; `binlog` "
     "reads the rows from the server's binary log, in the order of commits, and deletes them "
     "keep_ms later (needs what `tallybox migrate grants --role relay_wakeup` prints). `tallybox "
     "relay source` changes a running lane, which relays with the other value then do not take."},
    {LANE(exactly_once, SETTING_CHOICE), "no", 0, 0, "no|yes",
     "Whether a lane with source = binlog publishes in Kafka transactions, with its position in "
     "the topic relay.positions_topic: a consumer with isolation.level=read_committed then gets "
     "each row once. A row waits for its transaction: about 50 ms at most, 200 ms in a backlog."},
    {LANE(transactional_id, SETTING_TEXT), "", 0, 0, NULL,
     "transactional.id of a lane with exactly_once = yes, and the key of its position; not set: "
     "tallybox-relay-DATABASE-TABLE. No other lane on the same Kafka cluster may have it; the "
     "retry role adds -retry-SHARD. With a new id the lane begins at relay_position."},
    {LANE(keep_ms, SETTING_NUMBER), "3600000", -1, INT64_C(315360000000), NULL,
     "How long a published row stays in the table of a lane with source = binlog, in milliseconds: "
     "in this time it can be published again; -1: for ever. From a table whose primary key is not "
     "a column seq the relay removes rows only with keep_ids_max. Ignored with source = table, "
     "where published rows are deleted at once."},
    {LANE(from_table, SETTING_CHOICE), "yes", 0, 0, "yes|no",
     "Whether a lane with source = binlog goes on from its table by itself when the server has "
     "purged the log at its position. `no`: it stops and names the commands among which an "
     "operator chooses, as for a restored copy of the database."},
    {LANE(keep_ids_max, SETTING_NUMBER), "0", 0, 1000000000, NULL,
     "Most ids of published rows that are kept in relay_published_id, to delete the rows of a "
     "table without a column seq, as Debezium's, by their ids; of a UUID 17 bytes are kept. When "
     "there are more, rows are deleted earlier than keep_ms says. 0: the relay removes nothing "
     "from such a table, and the writer or you remove the rows."},
    {LANE(topics, SETTING_TOPIC_MAP), "", 0, 0, NULL,
     "Topics of aggregate types, as type=topic,type=topic; not set: as relay.topics."},
    {LANE(columns, SETTING_COLUMN_MAP), "", 0, 0, LANE_FIELDS,
     "Columns of a table with other names than the outbox, as field=column,field=column, of a lane "
     "with source = binlog. The fields are id, aggregatetype, aggregateid, type, payload, headers "
     "and created_at; one that is not named is in the column of its own name."},
    {LANE(header_columns, SETTING_LANE_TEXT), "", 0, 0, "column:header,...",
     "Further columns that become headers of the record, as column,column:header, of a lane with "
     "source = binlog: texts as a SELECT returns them, bytes as they are, NULL as a header without "
     "a value."},
    {LANE(topic, SETTING_LANE_TEXT), "", 0, 0, "topic with $0 to $9",
     "Topic of the aggregate types that topics does not list, with ${routedByValue} for the type "
     "and $0 to $9 for what topic_regex matches; not set: relay.topic_prefix and the type."},
    {LANE(topic_regex, SETTING_LANE_TEXT), "", 0, 0, "regular expression",
     "POSIX extended regular expression for topic. An aggregate type that it does not match as a "
     "whole is its own topic; not set: it matches all of them."},
    {LANE(empty_payload, SETTING_CHOICE), LANE_EMPTY_VALUE, 0, 0,
     LANE_EMPTY_VALUE "|" LANE_EMPTY_TOMBSTONE,
     "What a text payload without any character but blanks becomes, in a lane with source = "
     "binlog: the value as it is, or a tombstone as a payload that is NULL."},

    {NUMBER(retry, threads), "4", 0, 256, NULL,
     "Threads that run tasks; 0: the thread that claims the tasks runs them, too."},
    {NUMBER(retry, batch_rows_max), "250", 1, 1000, NULL,
     "Most tasks claimed in one transaction, and rescued in one transaction."},
    {NUMBER(retry, in_flight_max), "1000", 1, 10000, NULL,
     "Most tasks that one process has claimed and not yet written back."},
    {LIVE_NUMBER(retry, poll_ms), "200", 1, 3600000, NULL,
     "Time between two polls for due tasks, in milliseconds; after a full batch the next poll "
     "follows at once."},
    {NUMBER(retry, first_poll_ms), "0", 0, 3600000, NULL,
     "Time from the start of the process to its first poll, in milliseconds."},
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
     "without a port, the default port of the scheme; empty: none. serve refuses tasks and "
     "clients with other hosts."},
    {NUMBER(retry, clients_max), "64", 1, 1024, NULL,
     "Most clients of a group, live and expired; serve refuses the beat of a further one."},
    {TEXT(retry, http_ca), "", 0, 0, NULL,
     "File of trusted certificates for the handler http; empty: those of the system."},
    {ENTRY(retry, exec_programs, SETTING_PATHS), "", 0, 0, NULL,
     "Programs that the handler exec may start, as absolute paths separated by commas; empty: "
     "none."},

    {TEXT(consumer, group), "", 0, 128, NULL,
     "Kafka consumer group; its progress is stored under this name. Empty: tallybox- and the id "
     "of the installation, which tallybox migrate made."},
    {CHOICE(consumer, static_member), "off", 0, 0, "off|host",
     "host: the consumer is a static member of its group, named after its host, so a restart "
     "within kafka.consumer.session.timeout.ms moves no partition. Needs one consumer on each "
     "host, and host names that stay."},
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
     "Once a partition has this many undecided dead records, the next batch with one stops it; "
     "the count may exceed the limit by one batch. 0: no limit."},

    {LIVE_NUMBER(rollup, interval_ms), "3600000", 1000, 86400000, NULL,
     "Roll-ups begin at multiples of this since 1970 (UTC), in milliseconds; one makes up for all "
     "that were missed."},
    {NUMBER(rollup, batch_rows_max), "1000", 1, 100000, NULL,
     "Contents rolled up in one transaction."},
    {NUMBER(rollup, overlap_ms), "600000", 0, 86400000, NULL,
     "Overlap of a roll-up with the one before it, in milliseconds."},

    {LIVE_NUMBER(housekeep, interval_ms), "3600000", 1000, 86400000, NULL,
     "Rounds begin at multiples of this since 1970 (UTC), in milliseconds; one makes up for all "
     "that were missed."},
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
    {LIVE_NUMBER(housekeep, retry_audit_days), "365", 0, 36500, NULL,
     "Days that the actions of operators on the retry queue stay in retry_audit; 0: for ever."},
    {LIVE_NUMBER(housekeep, vote_state_days), "0", 0, 36500, NULL,
     "Days after which the votes of contents that an application deleted are removed from "
     "vote_state, vote_count and vote_last, and its deleted remarks with them; 0: never."},

    {ENTRY(admin, listen, SETTING_LISTEN_NEXT), "127.0.0.1:9464+", 0, 0, "off",
     "Address and port of /healthz, /readyz and /metrics; with a + the first free port from this "
     "one on, of 100; port 0 chooses a free port."},
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

/* All sections lane.NAME are described by one. */
static const char *map_section(const char *section)
{
    return strncmp(section, SETTINGS_LANE_PREFIX, strlen(SETTINGS_LANE_PREFIX)) == 0 ? SETTINGS_LANE
                                                                                     : section;
}

const struct setting *setting_find(const char *section, const char *key)
{
    section = map_section(section);
    for (size_t i = 0; i < settings_table_count; i++)
        if (strcmp(settings_table[i].section, section) == 0 &&
            strcmp(settings_table[i].key, key) == 0)
            return &settings_table[i];
    return NULL;
}

const struct settings_section *setting_section_find(const char *section)
{
    section = map_section(section);
    for (size_t i = 0; i < settings_sections_count; i++)
        if (strcmp(settings_sections[i].name, section) == 0)
            return &settings_sections[i];
    return NULL;
}

const char *setting_text(const struct setting *setting, const void *base)
{
    return (const char *)base + setting->offset;
}

int64_t setting_number(const struct setting *setting, const void *base)
{
    int64_t value;

    memcpy(&value, (const char *)base + setting->offset, sizeof(value));
    return value;
}

static enum rc store_text(const struct setting *setting, void *base, const char *text,
                          struct err *err)
{
    size_t len = strlen(text);
    size_t high = setting->high > 0 ? (size_t)setting->high : setting->size - 1;

    if (len < (size_t)setting->low)
        return err_fail(err, RC_FATAL, 0, "must not be empty");
    if (len > high)
        return err_fail(err, RC_FATAL, 0, "is %zu bytes long; expected %zu at most", len, high);
    memcpy((char *)base + setting->offset, text, len + 1);
    return RC_OK;
}

static enum rc store_number(const struct setting *setting, void *base, const char *text,
                            struct err *err)
{
    char *end;
    long long value;
    int64_t number;

    errno = 0;
    value = strtoll(text, &end, 10);
    /* strtoll() accepts blanks and "+5"; settings do not. */
    if (!*text || *end || (*text != '-' && (*text < '0' || *text > '9')))
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not a whole number; expected %" PRId64 "..%" PRId64,
                        text, setting->low, setting->high);
    if (errno == ERANGE || value < setting->low || value > setting->high)
        return err_fail(err, RC_FATAL, 0,
                        TO_SHOW " is out of range; expected %" PRId64 "..%" PRId64, text,
                        setting->low, setting->high);
    number = value;
    memcpy((char *)base + setting->offset, &number, sizeof(number));
    return RC_OK;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t len;

    for (const char *word; choices && (word = list_next(&choices, '|', &len));)
        if (strlen(text) == len && memcmp(word, text, len) == 0)
            return true;
    return false;
}

static bool is_name(const char *text, size_t len, const char *more, size_t bytes_max)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && (c == '\0' || !strchr(more, c)))
            return false;
    }
    return len > 0 && len <= bytes_max;
}

static bool is_table_name(const char *text, size_t len)
{
    return is_name(text, len, "_", NAME_BYTES_MAX);
}

/* Without capitals, so that a variable of the environment can name a lane. */
bool setting_is_lane_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            return false;
    return is_table_name(text, len);
}

static bool is_topic(const char *text, size_t len)
{
    bool dots = (len == 1 && *text == '.') || (len == 2 && memcmp(text, "..", 2) == 0);

    return !dots && is_name(text, len, TOPIC_MARKS, TOPIC_BYTES_MAX);
}

static bool is_topic_pair(const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    size_t name_len;

    if (!equals)
        return false;
    name_len = (size_t)(equals - text);
    return is_name(text, name_len, TOPIC_MARKS, NAME_BYTES_MAX) &&
           is_topic(equals + 1, len - name_len - 1);
}

static bool is_column_pair(const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    const char *fields = LANE_FIELDS;
    size_t field_len;
    size_t name_len;

    if (!equals)
        return false;
    name_len = (size_t)(equals - text);
    for (const char *field; (field = list_next(&fields, '|', &field_len));)
        if (field_len == name_len && memcmp(field, text, name_len) == 0)
            return is_table_name(equals + 1, len - name_len - 1);
    return false;
}

/* name, *.suffix or [IPv6 address], and :port if need be. */
static bool is_host(const char *text, size_t len)
{
    static const char digits[] = "0123456789";
    const char *colon = memchr(text, ':', len);
    size_t name_len = colon ? (size_t)(colon - text) : len;

    if (len == 0 || name_len == 0)
        return false;
    if (*text == '[') {
        const char *end = memchr(text, ']', len);

        name_len = end ? (size_t)(end - text) + 1 : 0;
        colon = end && name_len < len ? end + 1 : NULL;
        if (!end || strspn(text + 1, "0123456789abcdefABCDEF:.") != name_len - 2 || name_len < 4)
            return false;
    } else {
        size_t from = name_len > 2 && memcmp(text, "*.", 2) == 0 ? 2 : 0;

        if (text[from] == '.' || !is_name(text + from, name_len - from, "-.", HOST_BYTES_MAX))
            return false;
    }
    if (!colon)
        return name_len == len;
    len -= name_len + 1;
    return *colon == ':' && len > 0 && len <= 5 && strspn(colon + 1, digits) >= len &&
           strtol(colon + 1, NULL, 10) >= 1 && strtol(colon + 1, NULL, 10) <= 65535;
}

static bool is_path(const char *text, size_t len)
{
    return len > 1 && *text == '/' && text[len - 1] != '/';
}

/* address:port, with an IPv6 address in brackets; a + may follow the port if plus. */
static bool is_listen(const char *text, bool plus)
{
    const char *colon = strrchr(text, ':');
    const char *port = colon ? colon + 1 : "";
    size_t digits = strspn(port, "0123456789");
    size_t len = colon ? (size_t)(colon - text) : 0;

    if (len == 0 || digits == 0 || digits > 5 || strtol(port, NULL, 10) > 65535)
        return false;
    if (port[digits] && !(plus && strcmp(port + digits, "+") == 0 && strtol(port, NULL, 10) > 0))
        return false;
    if (*text == '[')
        return len > 2 && text[len - 1] == ']' &&
               strspn(text + 1, "0123456789abcdefABCDEF:.%") == len - 2;
    return strcspn(text, ": \t/") == len;
}

/* Removes the blanks around the parts of a list, so that readers of the setting find none. A blank
 * inside a part stays and makes it invalid: "a b" is not "ab". */
static void squeeze_blanks(char *to, size_t size, const char *text)
{
    static const char blanks[] = " \t";
    static const char marks[] = ",=";
    size_t len = 0;

    for (; *text && len + 1 < size; text++) {
        const char *next = text + strspn(text, blanks);
        bool at_edge = len == 0 || strchr(marks, to[len - 1]) || !*next || strchr(marks, *next);

        if (next == text || !at_edge)
            to[len++] = *text;
    }
    to[len] = '\0';
}

static bool is_part_twice(const char *list, const char *part, size_t len, char until)
{
    const char *stop = memchr(part, until, len);
    size_t name_len = stop ? (size_t)(stop - part) : len;
    size_t other_len;

    for (const char *other; (other = list_next(&list, ',', &other_len)) && other < part;) {
        const char *end = memchr(other, until, other_len);

        if (end)
            other_len = (size_t)(end - other);
        if (other_len == name_len && memcmp(other, part, name_len) == 0)
            return true;
    }
    return false;
}

static enum rc store_list(const struct setting *setting, void *base, const char *text,
                          bool (*is_part)(const char *, size_t), const char *expected,
                          struct err *err)
{
    bool is_map = setting->kind == SETTING_TOPIC_MAP || setting->kind == SETTING_COLUMN_MAP;
    char list[SETTING_LIST_SIZE] = "";
    const char *rest = list;
    size_t len;

    if (strlen(text) >= sizeof(list) || strlen(text) >= setting->size)
        return store_text(setting, base, text, err);
    squeeze_blanks(list, sizeof(list), text);
    for (const char *part; (part = list_next(&rest, ',', &len));) {
        if (!is_part(part, len))
            return err_fail(err, RC_FATAL, 0, "\"%.*s\" is not %s", len > 60 ? 60 : (int)len, part,
                            expected);
        if (is_part_twice(list, part, len, is_map ? '=' : ','))
            return err_fail(err, RC_FATAL, 0, "\"%.*s\" is there twice", len > 60 ? 60 : (int)len,
                            part);
    }
    return store_text(setting, base, list, err);
}

enum rc setting_store(const struct setting *setting, void *base, const char *text, struct err *err)
{
    switch (setting->kind) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        return store_text(setting, base, text, err);
    case SETTING_NUMBER:
        return store_number(setting, base, text, err);
    case SETTING_CHOICE:
        if (is_choice(setting->choices, text))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0, "\"" TO_SHOW "\" is not one of: %s", text,
                        setting->choices);
    case SETTING_LISTEN:
    case SETTING_LISTEN_NEXT:
        if (is_choice(setting->choices, text) ||
            is_listen(text, setting->kind == SETTING_LISTEN_NEXT))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not an address and port; expected 127.0.0.1:8080, "
                        "[::1]:8080 or the like%s%s",
                        text, setting->choices ? ", or " : "",
                        setting->choices ? setting->choices : "");
    case SETTING_TABLE:
        if (is_table_name(text, strlen(text)))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not the name of a table; expected letters, digits and "
                        "_, %d at most",
                        text, NAME_BYTES_MAX);
    case SETTING_LANES:
        return store_list(setting, base, text, setting_is_lane_name,
                          SETTING_LANE_EXPECTED ", separated by commas", err);
    case SETTING_TOPICS:
        return store_list(setting, base, text, is_topic,
                          "a topic; expected letters, digits and ._-, separated by commas", err);
    case SETTING_TOPIC_MAP:
        if (!*text)
            return store_text(setting, base, text, err);
        return store_list(setting, base, text, is_topic_pair,
                          "a type and its topic; expected type=topic,type=topic", err);
    case SETTING_COLUMN_MAP:
        if (!*text)
            return store_text(setting, base, text, err);
        return store_list(setting, base, text, is_column_pair,
                          "a field and its column; expected field=column,field=column with the "
                          "fields " LANE_FIELDS,
                          err);
    case SETTING_LANE_TEXT:
        if (*text && lane_text_check(setting->key, text, err) != RC_OK)
            return RC_FATAL;
        return store_text(setting, base, text, err);
    case SETTING_HOSTS:
        if (!*text)
            return store_text(setting, base, text, err);
        return store_list(setting, base, text, is_host,
                          "a host; expected name, name:port or *.suffix, separated by commas", err);
    case SETTING_PATHS:
        if (!*text)
            return store_text(setting, base, text, err);
        return store_list(setting, base, text, is_path,
                          "an absolute path; expected /folder/program, separated by commas", err);
    case SETTING_TOPIC_PREFIX:
        if (!*text || is_name(text, strlen(text), TOPIC_MARKS, TOPIC_BYTES_MAX - NAME_BYTES_MAX))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not the beginning of a topic; expected letters, "
                        "digits and ._-, %d at most",
                        text, TOPIC_BYTES_MAX - NAME_BYTES_MAX);
    }
    return err_fail(err, RC_FATAL, 0, "has no kind");
}

void setting_put(const struct setting *setting, const void *base, struct buf *out)
{
    if (setting->kind == SETTING_NUMBER)
        buf_i64(out, setting_number(setting, base));
    else
        buf_text_put(out, setting_text(setting, base));
}

static void put_choices(const struct setting *setting, struct buf *out)
{
    const char *choices = setting->choices;
    const char *between = "";
    size_t len;

    for (const char *word; (word = list_next(&choices, '|', &len)); between = " or ") {
        if (len == 0)
            continue;
        buf_text_put(out, between);
        buf_put(out, word, len);
    }
}

void setting_put_range(const struct setting *setting, struct buf *out)
{
    switch (setting->kind) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        buf_text_put(out, "text");
        return;
    case SETTING_NUMBER:
        buf_print(out, "%" PRId64 "..%" PRId64, setting->low, setting->high);
        return;
    case SETTING_CHOICE:
        put_choices(setting, out);
        return;
    case SETTING_LISTEN:
        buf_text_put(out, "address:port");
        return;
    case SETTING_LISTEN_NEXT:
        buf_print(out, "address:port, address:port+ or %s", setting->choices);
        return;
    case SETTING_TABLE:
        buf_text_put(out, "table");
        return;
    case SETTING_LANES:
        buf_text_put(out, "lanes");
        return;
    case SETTING_TOPICS:
        buf_text_put(out, "topics");
        return;
    case SETTING_TOPIC_MAP:
        buf_text_put(out, "type=topic,...");
        return;
    case SETTING_COLUMN_MAP:
        buf_text_put(out, "field=column,...");
        return;
    case SETTING_LANE_TEXT:
        buf_text_put(out, setting->choices);
        return;
    case SETTING_HOSTS:
        buf_text_put(out, "hosts");
        return;
    case SETTING_PATHS:
        buf_text_put(out, "paths");
        return;
    case SETTING_TOPIC_PREFIX:
        buf_text_put(out, "start of a topic");
        return;
    }
}

bool setting_is_unset(const struct setting *setting, const void *base)
{
    if (setting->kind == SETTING_NUMBER)
        return setting_number(setting, base) == -1;
    return *setting_text(setting, base) == '\0';
}

/* Some harmless properties are masked, too, so that none like ssl.key.password is shown. The place
 * of a file is no secret. */
bool setting_is_secret_property(const char *name)
{
    static const char *const words[] = {"password", "passphrase",         "secret", "key",
                                        "token",    "oauthbearer.config", "jaas"};
    static const char place[] = ".location";
    size_t len = strlen(name);

    if (len >= sizeof(place) && strcmp(name + len - (sizeof(place) - 1), place) == 0)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(name, words[i]))
            return true;
    }
    return false;
}

bool settings_serve_votes(const struct settings *settings)
{
    return strcmp(settings->api.votes, "off") != 0;
}
