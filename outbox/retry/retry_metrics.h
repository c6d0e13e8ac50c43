/* SPDX-License-Identifier: MIT */
/* The metrics of the retry queue, for the process and by scene. To bound the number of series, the
 * scenes beyond RETRY_METRICS_SCENES and those with invalid names share one series with group and
 * scene "other", as groups with clients beyond RETRY_METRICS_GROUPS do. Any thread may write; only
 * the dispatcher finds the metrics of a scene. */
#ifndef OUTBOX_RETRY_RETRY_METRICS_H
#define OUTBOX_RETRY_RETRY_METRICS_H

#include "common/metrics.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/retry_ops.h"

#include <stdbool.h>
#include <stdint.h>

#define RETRY_METRICS_SCENES 64
#define RETRY_METRICS_GROUPS 64
#define RETRY_ATTEMPT_ENDS 5 /* enum attempt_end */
#define RETRY_LABELS_SIZE 192

struct retry_scene_metrics {
    char group[TASK_NAME_SIZE];
    char scene[TASK_NAME_SIZE];
    struct metric tasks[TASK_STATES];
    struct metric attempts[RETRY_ATTEMPT_ENDS];
    struct metric oldest_age;
    struct metric seconds;
    struct metric exhausted;
    struct metric over_max;
    struct metric no_handler;
    struct metric group_closed;
    struct metric paused;
    struct {
        int64_t tasks[TASK_STATES];
        int64_t oldest_ms;
        int64_t no_handler;
        int64_t group_closed;
        int64_t pending_max;
    } counting;
    char labels[RETRY_LABELS_SIZE];
    char state_labels[TASK_STATES][RETRY_LABELS_SIZE];
    char end_labels[RETRY_ATTEMPT_ENDS][RETRY_LABELS_SIZE];
};

extern struct metric retry_claimed;
extern struct metric retry_rescued;
extern struct metric retry_lost;
extern struct metric retry_in_flight;
extern struct metric retry_invalid_scenes;
extern struct metric retry_breakers_open;
extern struct metric retry_breakers_open_age;
extern struct metric retry_put_off;
extern struct metric retry_client_waits;
extern struct metric retry_client_others;
extern struct metric retry_config_pushes;

/* Registers all of them, so that lists of all metrics have them. */
void retry_metrics_register(void);

/* Those of a scene, registered; they live as long as the process. */
struct retry_scene_metrics *retry_metrics_of(const char *group, const char *scene);

/* Held shards of a handler; registered by the first call. The dispatcher's thread. */
struct metric *retry_metrics_shards(const char *handler);

/* A count of the live clients of each group: begin, add the clients of a group, end, and the gauges
 * show it. The thread that reads the clients. */
void retry_clients_begin(void);
void retry_clients_add(const char *group, int64_t count);
void retry_clients_end(void);

/* A count of all tasks: begin, add each depth, end, and the gauges show it. pending_max: of the
 * scene, 0: no limit; handled: a live process runs the handler; closed: the group is unknown or
 * disabled. One thread at a time. */
void retry_depths_begin(void);
void retry_depths_add(struct retry_scene_metrics *metrics, enum task_state state, int64_t count,
                      int64_t oldest_ms, int64_t pending_max, bool handled, bool closed);
/* Reports how long a claimed task of the scene that waits for a thread has been due. */
void retry_depths_age(struct retry_scene_metrics *metrics, int64_t age_ms);
void retry_depths_end(void);

/* The word of an attempt's end in metrics and in retry_attempt; static. */
const char *attempt_end_name(enum attempt_end end);

#endif
