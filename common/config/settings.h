/* SPDX-License-Identifier: MIT */
/* Every setting of the program in one struct, the one table that feeds the parser, `tallybox
 * config`, --help and docs/settings.md, and how the text of one setting is checked, stored and
 * printed. Any thread may read the struct. Settings do not change after threads have started,
 * except the _Atomic ones: they are live, and SIGHUP may change each of them between two reads. The
 * main thread alone stores values. */
#ifndef COMMON_CONFIG_SETTINGS_H
#define COMMON_CONFIG_SETTINGS_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTING_TEXT_SIZE 256
#define SETTING_LIST_SIZE 1024
#define SETTING_NAME_SIZE 65
#define SETTINGS_LANES_MAX 64
#define KAFKA_NAME_SIZE 128
#define KAFKA_VALUE_SIZE 1024
#define KAFKA_PROPERTIES_MAX 64

/* One database server and the account on it: sections [mysql] and [sink]. An empty text or a -1 in
 * [sink] means "as in [mysql]"; config_load() replaces both by the value of [mysql]. */
struct mysql_settings {
    char host[SETTING_TEXT_SIZE];
    int64_t port;
    char socket[SETTING_TEXT_SIZE]; /* used instead of host and port when set */
    char user[SETTING_TEXT_SIZE];
    char password[SETTING_TEXT_SIZE];
    char password_file[SETTING_TEXT_SIZE];
    char database[SETTING_TEXT_SIZE];
    char tls[SETTING_TEXT_SIZE]; /* auto | off | on (encrypt) | verify (also check name and CA) */
    char tls_ca[SETTING_TEXT_SIZE];
    int64_t connect_timeout_ms;
    int64_t query_timeout_ms;
    int64_t auth_wait_ms;
    /* No settings, but for error texts: "mysql.database (tallybox.ini:4)", and what to do if the
     * server refuses the account. "": not known. */
    char database_place[SETTING_TEXT_SIZE];
    char account_advice[SETTING_TEXT_SIZE];
};

/* One property that librdkafka gets unchanged. */
struct kafka_property {
    char name[KAFKA_NAME_SIZE];
    char value[KAFKA_VALUE_SIZE];
};

/* One outbox table and its single reader: section [lane.NAME]. */
struct lane_settings {
    char name[SETTING_NAME_SIZE];
    char table[SETTING_NAME_SIZE];
    char source[SETTING_NAME_SIZE];           /* LANE_SOURCE_TABLE | LANE_SOURCE_BINLOG */
    char exactly_once[SETTING_NAME_SIZE];     /* no | yes, with source = binlog */
    char transactional_id[SETTING_TEXT_SIZE]; /* "": made of the database and the table */
    int64_t keep_ms;                    /* of published rows, with source = binlog; -1: for ever */
    char from_table[SETTING_NAME_SIZE]; /* yes | no, with source = binlog */
    int64_t keep_ids_max;               /* of published rows without a seq; 0: those stay */
    char topics[SETTING_LIST_SIZE];     /* "vote=vote-events,order=orders" */
    char columns[SETTING_LIST_SIZE];    /* "id=event_id,aggregateid=root_id" */
    char header_columns[SETTING_LIST_SIZE]; /* "tenant,version:schema"; see lane_texts.h */
    char topic[SETTING_TEXT_SIZE];          /* "orders.$1" */
    char topic_regex[SETTING_TEXT_SIZE];
    char empty_payload[SETTING_NAME_SIZE]; /* LANE_EMPTY_VALUE | LANE_EMPTY_TOMBSTONE */
};

struct settings {
    struct mysql_settings mysql; /* vote_state, vote_count, outbox, relay_lease, retry_task, ... */
    struct mysql_settings sink;  /* vote_document, vote_tally, consumer_progress, remark, ... */
    struct {
        struct kafka_property properties[KAFKA_PROPERTIES_MAX];
        size_t count;
    } kafka;
    struct {
        char listen[SETTING_TEXT_SIZE]; /* address:port; port 0 = any free one */
        char hosts[SETTING_LIST_SIZE];  /* "name,name:port,*.suffix"; "": loopback and listen */
        char token_file[SETTING_TEXT_SIZE];
        char without_token[SETTING_TEXT_SIZE]; /* no | yes */
        char tasks[SETTING_TEXT_SIZE];         /* off | on */
        char operate[SETTING_TEXT_SIZE];       /* off | on */
        int64_t try_max;                       /* 0: no task is tried first */
        int64_t try_timeout_ms;
        char tls_cert[SETTING_TEXT_SIZE];
        char tls_key[SETTING_TEXT_SIZE];
        int64_t body_bytes_max;
        int64_t header_bytes_max;
        int64_t connections_max;
        int64_t connections_per_address_max; /* 0: any number */
        int64_t header_timeout_ms;
        int64_t body_timeout_ms;
        int64_t request_timeout_ms;
        int64_t queue_votes_max;
        int64_t batch_votes_max;
        int64_t committers;
        char deleted_status[SETTING_TEXT_SIZE]; /* 404 | 410 */
        char votes[SETTING_TEXT_SIZE];          /* off | on */
        char lists[SETTING_TEXT_SIZE];          /* off | on */
        int64_t page_cache_bytes_max;
        int64_t page_cache_ms;
        int64_t page_stale_ms;
        int64_t totals_max_age_ms;
        int64_t recommended_max;
        int64_t recommended_items_max;
        int64_t recommended_empty_max;
        int64_t recommended_bytes_max;
        int64_t recommended_refresh_ms;
        int64_t recommended_build_ms;
        int64_t rank_votes;
        int64_t rank_score;
        int64_t rank_age;
        int64_t lane_count; /* outbox tables to spread over: outbox, outbox_1, ... */
    } api;
    struct {
        char lanes[SETTING_LIST_SIZE]; /* comma-separated; the lanes themselves are in `lanes` */
        char ce_source[SETTING_TEXT_SIZE];
        char topics[SETTING_LIST_SIZE]; /* of lanes without topics of their own */
        char topic_prefix[SETTING_TEXT_SIZE];
        char positions_topic[SETTING_TEXT_SIZE]; /* of lanes with exactly_once = yes */
        _Atomic int64_t topic_partitions;
        _Atomic int64_t topic_replication; /* -1: the broker's default */
        int64_t read_rows_max;
        int64_t read_bytes_max;
        int64_t row_bytes_max;
        int64_t window_rows_max;
        _Atomic int64_t poll_ms;
        _Atomic int64_t poll_idle_ms;
        char wakeup[SETTING_TEXT_SIZE]; /* off | RELAY_WAKEUP_BINLOG */
        int64_t server_id;              /* 0: made from the name of the instance */
        int64_t delete_rows_max;
        _Atomic int64_t delete_wait_ms;
        int64_t gap_wait_ms;
        int64_t gap_wait_multi_ms;
        int64_t gaps_max;
        _Atomic int64_t full_scan_ms;
        int64_t send_timeout_ms;
        int64_t diverted_keys_max;
        int64_t lease_ms;
    } relay;
    struct lane_settings lanes[SETTINGS_LANES_MAX]; /* in the order of relay.lanes */
    size_t lane_count;
    struct {
        int64_t threads; /* 0: the dispatcher runs the tasks itself */
        int64_t batch_rows_max;
        int64_t in_flight_max;
        _Atomic int64_t poll_ms;
        int64_t first_poll_ms;
        char poll_pace[SETTING_TEXT_SIZE]; /* delay | rate */
        _Atomic int64_t poll_jitter_percent;
        _Atomic int64_t rescue_ms;
        char claim[SETTING_TEXT_SIZE];    /* skip_locked | compare_and_set */
        char handlers[SETTING_LIST_SIZE]; /* comma-separated; empty: all */
        char shards[SETTING_TEXT_SIZE];   /* auto, or "0-7,12" */
        int64_t weight;
        int64_t lease_ms;                   /* of shards */
        char http_hosts[SETTING_LIST_SIZE]; /* "name,name:port,*.suffix"; "": none */
        char http_ca[SETTING_TEXT_SIZE];
        int64_t clients_max;                   /* of a group */
        char exec_programs[SETTING_LIST_SIZE]; /* absolute paths; "": none */
    } retry;
    struct {
        char group[SETTING_TEXT_SIZE];
        char static_member[SETTING_TEXT_SIZE]; /* off | host */
        char topics[SETTING_LIST_SIZE];        /* comma-separated */
        char votes_from[SETTING_TEXT_SIZE];
        int64_t batch_rows_max;
        int64_t batch_bytes_max;
        _Atomic int64_t batch_wait_ms;
        int64_t memory_max; /* bytes */
        int64_t appliers;
        _Atomic int64_t dead_max; /* undecided ones of a partition; 0: no limit */
    } consumer;
    struct {
        _Atomic int64_t interval_ms;
        int64_t batch_rows_max;
        int64_t overlap_ms;
    } rollup;
    struct {
        _Atomic int64_t interval_ms;
        _Atomic int64_t months_ahead;
        _Atomic int64_t keep_months; /* 0: all */
        _Atomic int64_t move_rows_max;
        _Atomic int64_t batch_rows_max;
        _Atomic int64_t pause_ms;
        _Atomic int64_t instance_days; /* 0: kept for ever, as in the next six */
        _Atomic int64_t progress_days;
        _Atomic int64_t dead_days;
        _Atomic int64_t dead_history_days;
        _Atomic int64_t retry_history_days;
        _Atomic int64_t retry_audit_days;
        _Atomic int64_t vote_state_days;
    } housekeep;
    struct {
        char listen[SETTING_TEXT_SIZE]; /* address:port, or "off" */
        char hosts[SETTING_LIST_SIZE];  /* as api.hosts */
        char token_file[SETTING_TEXT_SIZE];
        char without_token[SETTING_TEXT_SIZE]; /* no | yes */
        char tls_cert[SETTING_TEXT_SIZE];
        char tls_key[SETTING_TEXT_SIZE];
        int64_t connections_per_address_max;
        int64_t header_timeout_ms;
        int64_t body_timeout_ms;
        _Atomic int64_t stale_ms;        /* not ready while waiting work is older */
        _Atomic int64_t stop_timeout_ms; /* bound of a clean stop */
    } admin;
    struct {
        char level[SETTING_TEXT_SIZE]; /* live, but read by log_init() alone */
    } log;
};

enum setting_kind {
    SETTING_TEXT,        /* low..high bytes; high 0 = as many as fit */
    SETTING_SECRET,      /* text that is never printed */
    SETTING_NUMBER,      /* low..high */
    SETTING_CHOICE,      /* one of the words in `choices`, separated by | */
    SETTING_LISTEN,      /* address:port, or the word in `choices` */
    SETTING_LISTEN_NEXT, /* the same, or address:port+ */
    SETTING_TABLE,       /* [A-Za-z0-9_]{1,64} */
    SETTING_LANES,       /* comma-separated names of lanes, [a-z0-9_]{1,64} */
    SETTING_TOPICS,      /* comma-separated Kafka topics */
    SETTING_TOPIC_MAP,   /* "name=topic,name=topic", may be empty */
    SETTING_COLUMN_MAP,  /* "field=column,field=column" with fields of `choices`, may be empty */
    SETTING_LANE_TEXT,   /* see lane_texts.h; choices: its form in a few words; may be empty */
    SETTING_TOPIC_PREFIX,
    SETTING_HOSTS, /* comma-separated name, name:port or *.suffix, may be empty */
    SETTING_PATHS, /* comma-separated absolute paths, may be empty */
};

struct setting {
    const char *section;
    const char *key;
    enum setting_kind kind;
    bool live;            /* may change while threads run */
    size_t offset;        /* into struct settings; of SETTINGS_LANE, into struct lane_settings */
    size_t size;          /* bytes there; a text ends within them */
    const char *standard; /* the default, as text */
    int64_t low;
    int64_t high;
    const char *choices;
    const char *help; /* one sentence, with the unit */
};

/* The table, in the order of the sections. [kafka] and [role.NAME] have no entries: the former
 * takes every property of librdkafka, the latter every setting of the other sections. The entries
 * of SETTINGS_LANE describe the section [lane.NAME] of every lane. */
extern const struct setting settings_table[];
extern const size_t settings_table_count;

struct settings_section {
    const char *name;
    const char *about; /* one or two sentences */
};

extern const struct settings_section settings_sections[];
extern const size_t settings_sections_count;

/* The sections [role.NAME]: settings of the other sections for one role alone. The names are those
 * of the accounts in docs/grants.md. */
#define SETTINGS_ROLE "role.NAME"
#define SETTINGS_ROLE_PREFIX "role."

extern const char *const settings_roles[];
extern const size_t settings_roles_count;

#define SETTINGS_LANE "lane.NAME"
#define SETTINGS_LANE_PREFIX "lane."
#define LANE_SOURCE_TABLE "table"
#define LANE_SOURCE_BINLOG "binlog"
#define LANE_FIELDS "id|aggregatetype|aggregateid|type|payload|headers|created_at"
#define LANE_EMPTY_VALUE "value"
#define LANE_EMPTY_TOMBSTONE "tombstone"
#define RELAY_WAKEUP_BINLOG "binlog"

#define SETTINGS_KAFKA "kafka"
#define SETTINGS_KAFKA_SERVERS "bootstrap.servers"
#define SETTINGS_KAFKA_SERVERS_STANDARD "127.0.0.1:9092"

#define SETTING_LANE_EXPECTED "the name of a lane; expected a-z, 0-9 and _, 64 at most"

/* NULL: there is none. Every section lane.NAME has the settings of SETTINGS_LANE. */
const struct setting *setting_find(const char *section, const char *key);
const struct settings_section *setting_section_find(const char *section);

bool setting_is_lane_name(const char *text, size_t len);

/* In this and all functions below, base points to struct settings, or to struct lane_settings for
 * a setting of a lane.
 *
 * Stores text in base. RC_FATAL: nothing was stored; err has the text and what was expected,
 * without the setting and its place. A secret is never in err. */
enum rc setting_store(const struct setting *setting, void *base, const char *text, struct err *err);

/* Appends the value in the form that setting_store() reads; a secret is not masked. */
void setting_put(const struct setting *setting, const void *base, struct buf *out);

/* Appends the possible values: "1..65535", "off or on", "address:port" ... */
void setting_put_range(const struct setting *setting, struct buf *out);

/* True if the value is empty or -1, which means "as in [mysql]" in [sink]. */
bool setting_is_unset(const struct setting *setting, const void *base);

/* The text of a setting of any text kind; the number of a SETTING_NUMBER. */
const char *setting_text(const struct setting *setting, const void *base);
int64_t setting_number(const struct setting *setting, const void *base);

/* Whether a property of librdkafka may hold a secret, judged by its name because librdkafka has no
 * list of such properties. */
bool setting_is_secret_property(const char *name);

/* api.votes is not off: otherwise serve takes tasks only, and needs no tables for votes. */
bool settings_serve_votes(const struct settings *settings);

#endif
