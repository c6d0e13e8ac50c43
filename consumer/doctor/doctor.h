/* SPDX-License-Identifier: MIT */
/* `tallybox doctor`: judges the facts about settings, databases and Kafka, and collects findings
 * with their remedies. The adapters gather the facts (doctor_mysql.h, doctor_kafka.h). No I/O. Main
 * thread. */
#ifndef CONSUMER_DOCTOR_DOCTOR_H
#define CONSUMER_DOCTOR_DOCTOR_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOCTOR_FINDINGS_MAX 256
#define DOCTOR_TOPICS_MAX 64
#define DOCTOR_PLACE_SIZE (2 * SETTING_TEXT_SIZE + 64)
#define DOCTOR_UNKNOWN INT64_MIN

enum doctor_level {
    DOCTOR_OK,
    DOCTOR_WARNING,     /* works, with a risk that the text names */
    DOCTOR_FAILED,      /* a role does not work with this */
    DOCTOR_UNREACHABLE, /* the server did not answer, so nothing about it is known */
    DOCTOR_LEVELS
};

struct doctor_finding {
    enum doctor_level level;
    char subject[32]; /* "mysql", "kafka", ... */
    char text[600];
    char remedy[600]; /* "": none is needed */
};

/* Findings after the first DOCTOR_FINDINGS_MAX are counted, not kept. */
struct doctor {
    struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
    size_t count;
    size_t counts[DOCTOR_LEVELS];
};

/* The facts about one database server. A number is DOCTOR_UNKNOWN if the server does not have it.
 */
struct doctor_database {
    const char *section;           /* "mysql" or "sink" */
    char place[DOCTOR_PLACE_SIZE]; /* "database tallybox at 127.0.0.1:3306" */
    enum rc rc;                    /* of the connection; the fields below are unset unless RC_OK */
    struct err err;
    bool login_refused; /* err: the account or its password is wrong */
    bool no_database;   /* err: the server does not have the database */
    bool is_known;      /* this server was judged before, with another account */
    char version[64];   /* "10.11.6-MariaDB", "8.4.3" */
    bool is_mariadb;
    int64_t flush_log_at_commit; /* innodb_flush_log_at_trx_commit */
    int64_t sync_binlog;
    bool has_binlog;
    char binlog_format[16];
    char binlog_row_image[16];
    char binlog_row_metadata[16]; /* "": the server has no such variable, as for the next one */
    char gtid_mode[24];
    int64_t log_expire_s; /* binlog_expire_logs_seconds */
    int64_t server_id;
    bool has_log_filter;       /* the log lacks this database */
    bool log_lacks_replicated; /* as of db_cluster_bypasses_log() */
    bool is_read_only;
    int64_t packet_bytes_max;
    int64_t clock_ahead_ms; /* of the server against this machine; below 0: behind */
    int64_t clock_error_ms; /* bound of the error of clock_ahead_ms */
    struct buf grants;      /* lines of SHOW GRANTS of the account */
    bool outbox_only;       /* the history records that there are no vote tables */
    const char *required;   /* the lines of `tallybox migrate grants` for this server */
    /* Of the lanes in the settings, in their order; "": of a lane that reads its table, or of a
     * table that the account does not see. */
    char engines[SETTINGS_LANES_MAX][64];
    bool is_partitioned[SETTINGS_LANES_MAX];
    bool has_seq[SETTINGS_LANES_MAX];          /* as primary key, and a column created_at */
    struct err unreadable[SETTINGS_LANES_MAX]; /* why no record can be made of a row; "": it can */
};

struct doctor_topic {
    char name[250];
    bool is_consumed; /* in consumer.topics */
    int partitions;   /* 0: the topic does not exist */
    int replicas;     /* the least of any partition */
    bool has_config;  /* false: the broker does not tell this account; the fields below are unset */
    bool is_compacted;
    bool elects_unclean;     /* unclean.leader.election.enable */
    int64_t retention_ms;    /* -1: no limit */
    int64_t batch_bytes_max; /* max.message.bytes */
    int64_t insync_min;      /* min.insync.replicas */
};

struct doctor_kafka {
    int64_t record_extra_bytes; /* the caller's: as in struct doctor_env */
    enum rc rc;                 /* of the connection; the fields below are unset unless RC_OK */
    struct err err;
    int brokers;
    struct doctor_topic topics[DOCTOR_TOPICS_MAX];
    size_t topic_count;
    size_t left_out; /* topics of the relay for which there is no room in topics */
};

/* remedy: NULL or "" for none. A finding that was added before is ignored. */
void doctor_add(struct doctor *doctor, enum doctor_level level, const char *subject,
                const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* roles: names separated by commas whose privileges the account must have; "": none. */
void doctor_judge_database(struct doctor *doctor, struct doctor_database *database,
                           const struct settings *settings, const char *roles);
void doctor_judge_kafka(struct doctor *doctor, const struct doctor_kafka *kafka,
                        const struct settings *settings);

/* Adds the topics that the settings of the lanes and of the consumer name to kafka->topics, each
 * once. outbox_only: there is no consumer. */
void doctor_list_topics(struct doctor_kafka *kafka, const struct settings *settings,
                        bool outbox_only);

/* Adds a topic that exists if the relay publishes to it because of relay.topic_prefix, or
 * if its name begins as lane.NAME.topic does. */
void doctor_add_existing(struct doctor_kafka *kafka, const struct settings *settings,
                         const char *name);

/* The worst level. strict: a warning counts as failed. */
enum doctor_level doctor_outcome(const struct doctor *doctor, bool strict);

/* out->failed: no memory. */
void doctor_print_text(const struct doctor *doctor, struct buf *out);
void doctor_print_json(const struct doctor *doctor, bool strict, struct buf *out);

#endif
