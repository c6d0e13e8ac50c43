/* SPDX-License-Identifier: MIT */
/* The facts that `tallybox status` shows, and what follows from them: the lag of a partition, which
 * instances are dead, what an operator must look at, and whether all parts could be read. Each part
 * fails on its own: if its server is unavailable or its tables are missing, its fault tells why and
 * its other fields have no meaning. Pure; one thread at a time. */
#ifndef CONSUMER_STATUS_STATUS_H
#define CONSUMER_STATUS_STATUS_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"
#include "outbox/lanes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATUS_NAME_SIZE 130
#define STATUS_TOPIC_SIZE 256
#define STATUS_LANES_MAX SETTINGS_LANES_MAX
#define STATUS_INSTANCES_MAX 100
#define STATUS_PARTITIONS_MAX 2000
#define STATUS_CLASSES_MAX 50
/* Counts stop here: exact larger numbers help no operator and cost the server too much. */
#define STATUS_COUNT_MAX 100000

/* An age or a number that is not known. */
#define STATUS_UNKNOWN (-1)
/* Of tasks whose failures have the class ours. */
#define STATUS_OURS "fail because of a setting, token or account, of tallybox or the application"

struct status_fault {
    enum rc rc;     /* RC_OK: the part could be read */
    bool no_schema; /* the database has no schema yet, or an unfinished one */
    bool no_table;  /* the schema is there, and a table of it is missing */
    bool left_out;  /* no_schema, as `migrate up --only outbox` recorded it */
    struct err err;
};

struct status_schema {
    struct status_fault fault;
    const char *section; /* of the settings: "mysql" or "sink" */
    char place[STATUS_TOPIC_SIZE];
    int64_t version;                   /* the newest that is applied; 0: none */
    char unfinished[STATUS_NAME_SIZE]; /* a migration that stopped half-way; "": none */
    bool outbox_only;                  /* the vote tables were left out */
    char missing[STATUS_TOPIC_SIZE];   /* its tables that are not there: "outbox, instance" */
};

#define STATUS_GTIDS_SIZE 1000
#define STATUS_FILE_SIZE 513

/* Where a lane that reads the binary log goes on. */
struct status_position {
    struct status_fault fault;
    bool found;
    bool by_gtid;                  /* gtids says where; otherwise file and offset do */
    char gtids[STATUS_GTIDS_SIZE]; /* all transactions before it, possibly cut */
    char file[STATUS_FILE_SIZE];   /* "": not known, or a file of another server */
    int64_t offset;
    int64_t saved_ms; /* age; STATUS_UNKNOWN if there is none, as for the next two */
    /* Every transaction that was committed longer ago is before it; 0 at the end of the log. */
    int64_t behind_ms;
    int64_t behind_bytes; /* of the log behind it */
    /* Of the log before it, that the server keeps. No meaning if behind_bytes is unknown. */
    int64_t kept_bytes;
    bool is_oldest_file; /* the server will delete this file next */
    bool is_purged;      /* the server has deleted this file */
    bool from_table;     /* the lane goes on from its table, and has no place in the log */
};

struct status_lane {
    struct status_fault fault;
    char name[STATUS_NAME_SIZE];
    char table[STATUS_NAME_SIZE];
    bool no_table;  /* the fault is that the lane's own table is missing */
    int64_t rows;   /* STATUS_COUNT_MAX: that many or more */
    bool is_stream; /* it reads the binary log; its rows stay in the table */
    struct status_position position;
    /* age; STATUS_UNKNOWN if the lane is empty, age_unknown or is_stream */
    int64_t oldest_ms;
    bool age_unknown;             /* there is no created_at, or it may not be read */
    char owner[STATUS_NAME_SIZE]; /* "": the lease is free */
    int64_t epoch;
    int64_t lease_left_ms; /* below 0: it has expired */
    int64_t lease_ms;      /* length of the lease; 0: unknown */
    int64_t diverted_keys;
    /* The first task of a key that is diverted still: the one that blocks its key first. */
    int64_t diverted_task;                /* 0: none was found */
    char diverted_key[STATUS_TOPIC_SIZE]; /* "orders/7" */
    char diverted_reason[STATUS_TOPIC_SIZE];
    int64_t
        block_ms; /* when it blocks its key if no attempt succeeds, since 1970; 0: not foreseen */
};

#define STATUS_CLUSTER_SIZE 80

struct status_instance {
    char name[STATUS_NAME_SIZE];
    char role[33];
    int64_t up_ms;
    int64_t seen_ms;               /* age of the last heartbeat */
    int64_t lease_ms;              /* dead without a heartbeat for so long: its own settings */
    char admin[STATUS_TOPIC_SIZE]; /* URL of its admin server; "": none, or not known */
};

struct status_partition {
    char topic[STATUS_TOPIC_SIZE];
    int32_t partition;
    bool held;           /* it has a row in consumer_progress */
    int64_t next_offset; /* STATUS_UNKNOWN: nothing was applied */
    int64_t low;         /* watermarks; STATUS_UNKNOWN while Kafka is unavailable */
    int64_t high;
    char owner[STATUS_NAME_SIZE];
    int64_t epoch;
    int64_t updated_ms; /* age */
    int64_t late;       /* records in the lag that are older than stale_ms; or STATUS_UNKNOWN */
};

/* The retry queue, with the states of retry_task. */
#define STATUS_TASK_STATES 5
#define STATUS_PAUSED_MAX 20
#define STATUS_UNSERVED_MAX 10
#define STATUS_CLOSED_MAX 10
#define STATUS_REASON_SIZE 200
#define STATUS_OURS_MAX 5

struct status_retry {
    struct status_fault fault;
    int64_t tasks[STATUS_TASK_STATES]; /* STATUS_COUNT_MAX: that many or more */
    /* how long the oldest waiting task is due; below 0: time until it is; STATUS_UNKNOWN: none
     * waits */
    int64_t due_ms;
    /* the same for tasks that no operator holds back: their scene runs and their group is enabled
     */
    int64_t overdue_ms;
    int64_t instances; /* live processes that run the queue */
    int64_t threads;   /* retry.threads in the settings of this command */
    size_t unserved_count;
    struct {
        char handler[STATUS_NAME_SIZE]; /* no live process runs it */
        int64_t tasks;                  /* waiting tasks of the handler, among those counted */
    } unserved[STATUS_UNSERVED_MAX];
    size_t closed_count;
    struct {
        char group[STATUS_NAME_SIZE]; /* disabled, or not in retry_group */
        bool known;                   /* the group is in retry_group */
        int64_t tasks;                /* waiting tasks of the group, among those counted */
    } closed[STATUS_CLOSED_MAX];
    size_t unconfigured_count;
    struct {
        char scene[STATUS_NAME_SIZE]; /* group/scene: it has no row, and its group refuses such */
        int64_t tasks;                /* waiting tasks of the scene, among those counted */
    } unconfigured[STATUS_CLOSED_MAX];
    /* Waiting tasks whose last failure is of the class ours: a setting or an account of the
     * installation is wrong. */
    size_t ours_count;
    struct {
        char handler[STATUS_NAME_SIZE];
        char reason[STATUS_REASON_SIZE]; /* of one of them, possibly cut */
        int64_t tasks;
    } ours[STATUS_OURS_MAX];
    int64_t exhausted; /* tasks that ended so within a day and were not requeued */
    size_t paused_count;
    char paused[STATUS_PAUSED_MAX][STATUS_NAME_SIZE]; /* group/scene */
};

struct status_class {
    char name[33];
    int64_t records;
    int64_t newest_ms; /* age */
};

struct status_rollup {
    struct status_fault fault;
    int64_t rolled_until_ms;      /* since 1970; 0 = never */
    int64_t finished_ms;          /* since 1970; 0 = never */
    int64_t due_ms;               /* since 1970 */
    char owner[STATUS_NAME_SIZE]; /* the instance that works now, or "" */
    int64_t waiting;              /* contents whose remark is behind */
};

struct status_housekeep {
    struct status_fault fault;
    int64_t finished_ms;          /* since 1970; 0 = never */
    int64_t due_ms;               /* since 1970 */
    char owner[STATUS_NAME_SIZE]; /* the instance that works now, or "" */
    char begin_date[16];          /* older votes are refused; "": none are */
    int64_t partitions;           /* of vote_document */
    char until_date[16];          /* earlier months have partitions; "": none has */
};

struct status {
    char group[STATUS_NAME_SIZE]; /* of the consumers; "": not known */
    int64_t stale_ms;             /* admin.stale_ms: work that waits for longer is a problem */
    int64_t relay_lease_ms;       /* a lane without a relay for so long is not served */
    int64_t rollup_lease_ms;
    int64_t housekeep_lease_ms;
    /* since 1970, by the clock of the sink, or of this machine while the sink is unavailable */
    int64_t now_ms;

    struct status_schema schemas[2];
    size_t schema_count; /* 1 if both sides use one database */

    struct status_fault outbox_fault;
    char cluster[STATUS_CLUSTER_SIZE]; /* a cluster whose other nodes may write; "": none */
    struct status_lane lanes[STATUS_LANES_MAX];
    size_t lane_count;
    struct status_fault log_fault; /* of the sizes of the binary log */
    int64_t log_expire_ms;         /* its files are deleted after this time; 0: never */
    struct status_fault written_fault;
    struct lanes written; /* the lanes that writers use, whether or not relay.lanes lists them */
    bool served[LANES_MAX];

    struct status_fault instances_fault;
    struct status_instance instances[STATUS_INSTANCES_MAX];
    size_t instance_count;

    struct status_retry retry;

    /* of the fields of the partitions that come from the sink */
    struct status_fault progress_fault;
    struct status_fault kafka_fault; /* of the fields of the partitions that come from Kafka */
    struct status_partition partitions[STATUS_PARTITIONS_MAX];
    size_t partition_count;

    struct status_fault dead_fault;
    struct status_class classes[STATUS_CLASSES_MAX];
    size_t class_count;

    struct status_rollup rollup;
    struct status_housekeep housekeep;
};

/* Finds a partition or adds it, without progress and watermarks. Returns NULL if there are too
 * many. */
struct status_partition *status_partition_at(struct status *status, const char *topic,
                                             int32_t partition);

/* Records why a part could not be read. The first fault of a part counts. */
void status_fail(struct status_fault *fault, enum rc rc, const struct err *err);

/* Returns how many records can still be read and are not applied; STATUS_UNKNOWN while Kafka or the
 * sink is unavailable. */
int64_t status_lag(const struct status *status, const struct status_partition *partition);

/* Whether the instance has sent no heartbeat for its lease_ms. A heartbeat far in the future was
 * written before the clock of the database was set back. */
bool status_instance_is_dead(const struct status_instance *one);

/* Called for each problem. text is one line without its end, borrowed for the call. */
typedef void (*status_on_problem)(void *ctx, const char *text);

/* "keys diverted by a refused event: 1; task 17, key orders/7: ...", when that task blocks its key,
 * and the commands that list and correct the tasks. */
#define STATUS_DIVERTED_SIZE 1024
void status_diverted_text(char text[STATUS_DIVERTED_SIZE], const struct status_lane *lane);

/* Finds everything that an operator must look at: what could not be read, work that waits for
 * longer than stale_ms or for a decision, dead records, and roles of which only dead instances are
 * left. Returns how many problems there are. */
size_t status_find_problems(const struct status *status, status_on_problem on_problem, void *ctx);

/* Appends "ok", or "PROBLEMS: " and all of them, as one line. Returns how many there are. */
size_t status_put_summary(const struct status *status, struct buf *out);

/* Returns RC_OK or the worst fault: RC_FATAL before RC_RETRY. A schema that is not there yet is not
 * a fault. */
enum rc status_outcome(const struct status *status);

#endif
