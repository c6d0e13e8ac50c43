/* SPDX-License-Identifier: MIT */
/* What `tallybox status` knows, as plain facts, and what follows from them: how far a partition is
 * behind, and whether all could be shown. Each part fails on its own: when its server is away or
 * its tables are missing, its fault says so and the rest of it means nothing. Pure; one thread at a
 * time. */
#ifndef CONSUMER_STATUS_STATUS_H
#define CONSUMER_STATUS_STATUS_H

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
/* Counting stops here: a person needs no more digits, and the server has other work. */
#define STATUS_COUNT_MAX 100000

/* An age or a number that is not known. */
#define STATUS_UNKNOWN (-1)

struct status_fault {
    enum rc rc; /* RC_OK: there is none */
    bool no_schema;
    struct err err;
};

struct status_schema {
    struct status_fault fault;
    const char *section; /* of the settings: "mysql" or "sink" */
    char place[STATUS_TOPIC_SIZE];
    int64_t version;                   /* newest applied; 0 = none */
    char unfinished[STATUS_NAME_SIZE]; /* a migration that stopped half-way, or "" */
};

struct status_lane {
    struct status_fault fault;
    char name[STATUS_NAME_SIZE];
    char table[STATUS_NAME_SIZE];
    int64_t rows;                 /* STATUS_COUNT_MAX: that many or more */
    int64_t oldest_ms;            /* age; unknown when empty */
    char owner[STATUS_NAME_SIZE]; /* "" = nobody */
    int64_t epoch;
    int64_t lease_left_ms; /* below 0: it is over */
    int64_t lease_ms;      /* length of one; 0: unknown */
    int64_t diverted_keys;
    char diverted_reason[STATUS_TOPIC_SIZE];
};

#define STATUS_CLUSTER_SIZE 80

struct status_instance {
    char name[STATUS_NAME_SIZE];
    char role[33];
    int64_t up_ms;
    int64_t seen_ms; /* age of the last heartbeat */
};

struct status_partition {
    char topic[STATUS_TOPIC_SIZE];
    int32_t partition;
    bool held;           /* there is a row of progress */
    int64_t next_offset; /* unknown: nothing was applied */
    int64_t low;         /* watermarks; unknown when Kafka is away */
    int64_t high;
    char owner[STATUS_NAME_SIZE];
    int64_t epoch;
    int64_t updated_ms; /* age */
};

/* Of the retry queue; states as retry_task has them. */
#define STATUS_TASK_STATES 5
#define STATUS_PAUSED_MAX 20
#define STATUS_UNSERVED_MAX 10
#define STATUS_CLOSED_MAX 10

struct status_retry {
    struct status_fault fault;
    int64_t tasks[STATUS_TASK_STATES]; /* STATUS_COUNT_MAX: that many or more */
    int64_t due_ms;    /* the oldest waiting one is due for so long; below 0: not yet;
                                          unknown: none waits */
    int64_t instances; /* that run it, seen in the last minute */
    int64_t threads;   /* retry.threads of the configuration at hand */
    size_t unserved_count;
    struct {
        char handler[STATUS_NAME_SIZE]; /* that no live process runs */
        int64_t tasks;                  /* that wait for it, of those looked at */
    } unserved[STATUS_UNSERVED_MAX];
    size_t closed_count;
    struct {
        char group[STATUS_NAME_SIZE]; /* that is disabled, or not in retry_group */
        bool known;                   /* it is in retry_group */
        int64_t tasks;                /* that wait for it, of those looked at */
    } closed[STATUS_CLOSED_MAX];
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
    char owner[STATUS_NAME_SIZE]; /* at work now, or "" */
    int64_t waiting;              /* contents whose remark is behind */
};

struct status_housekeep {
    struct status_fault fault;
    int64_t finished_ms;          /* since 1970; 0 = never */
    int64_t due_ms;               /* since 1970 */
    char owner[STATUS_NAME_SIZE]; /* at work now, or "" */
    char begin_date[16];          /* older votes are refused; "" = none are */
    int64_t partitions;           /* of vote_document */
    char until_date[16];          /* the months before it have theirs; "" = none */
};

struct status {
    const char *group; /* consumer.group */
    const char *admin; /* admin.listen */
    int64_t relay_lease_ms;
    int64_t rollup_lease_ms;
    int64_t housekeep_lease_ms;
    int64_t now_ms; /* since 1970, the sink's clock, or the machine's while it is away */

    struct status_schema schemas[2];
    size_t schema_count; /* 1: both sides live in one database */

    struct status_fault outbox_fault;
    char cluster[STATUS_CLUSTER_SIZE]; /* whose other nodes write, too; "" = none */
    struct status_lane lanes[STATUS_LANES_MAX];
    size_t lane_count;
    struct status_fault written_fault;
    struct lanes written; /* the lanes that writers use, those of relay.lanes or not */
    bool served[LANES_MAX];

    struct status_fault instances_fault;
    struct status_instance instances[STATUS_INSTANCES_MAX];
    size_t instance_count;

    struct status_retry retry;

    struct status_fault progress_fault; /* the sink's half of the partitions */
    struct status_fault kafka_fault;    /* Kafka's half */
    struct status_partition partitions[STATUS_PARTITIONS_MAX];
    size_t partition_count;

    struct status_fault dead_fault;
    struct status_class classes[STATUS_CLASSES_MAX];
    size_t class_count;

    struct status_rollup rollup;
    struct status_housekeep housekeep;
};

/* Finds a partition or adds it, without progress and watermarks. NULL: there are too many. */
struct status_partition *status_partition_at(struct status *status, const char *topic,
                                             int32_t partition);

/* Notes why a part cannot be shown. Of one part the first fault counts. */
void status_fail(struct status_fault *fault, enum rc rc, const struct err *err);

/* Records that may still be read and are not applied; unknown while Kafka or the sink is away. */
int64_t status_lag(const struct status *status, const struct status_partition *partition);

/* RC_OK, or the gravest of what could not be shown: RC_FATAL before RC_RETRY. A schema that is not
 * there yet is something to show. */
enum rc status_outcome(const struct status *status);

#endif
