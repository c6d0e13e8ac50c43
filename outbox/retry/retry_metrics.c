/* SPDX-License-Identifier: MIT */
#include "outbox/retry/retry_metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct metric retry_claimed = {.name = "tallybox_retry_claimed_total",
                               .kind = METRIC_COUNTER,
                               .help = "Tasks claimed by this process."};
struct metric retry_rescued = {.name = "tallybox_retry_rescued_total",
                               .kind = METRIC_COUNTER,
                               .help =
                                   "Tasks returned because the lease of their process expired."};
struct metric retry_lost = {.name = "tallybox_retry_lost_leases_total",
                            .kind = METRIC_COUNTER,
                            .help = "Claimed tasks whose lease this process lost."};
struct metric retry_in_flight = {.name = "tallybox_retry_inflight_tasks",
                                 .kind = METRIC_GAUGE,
                                 .help = "Tasks claimed and not yet written back."};
struct metric retry_invalid_scenes = {.name = "tallybox_retry_invalid_scenes",
                                      .kind = METRIC_GAUGE,
                                      .help = "Scenes with an invalid policy or options, of their "
                                              "own or of their group; they are paused."};

struct metric retry_breakers_open = {
    .name = "tallybox_retry_breakers_open",
    .kind = METRIC_GAUGE,
    .help = "Destinations whose circuit breaker is open or half-open: only probes go there."};
struct metric retry_breakers_open_age = {
    .name = "tallybox_retry_breakers_open_age_seconds",
    .kind = METRIC_GAUGE,
    .help = "Time since the first open circuit breaker opened; 0: none is open."};
struct metric retry_put_off = {
    .name = "tallybox_retry_put_off_total",
    .kind = METRIC_COUNTER,
    .help = "Tasks that were not tried because the circuit breaker of their destination was open."};

struct metric retry_client_waits = {
    .name = "tallybox_retry_client_waits_total",
    .kind = METRIC_COUNTER,
    .help = "Tasks that were not tried because their group had no live client."};
struct metric retry_client_others = {
    .name = "tallybox_retry_client_others_total",
    .kind = METRIC_COUNTER,
    .help = "Calls of another client in the same attempt, because the one before could not be "
            "reached."};

struct metric retry_config_pushes = {
    .name = "tallybox_retry_config_pushes_total",
    .kind = METRIC_COUNTER,
    .help = "Tasks that tell a client the changed configuration of its group."};

struct kind {
    size_t offset;
    const char *name;
    enum metric_kind kind;
    const char *help;
};

#define AT(field) offsetof(struct retry_scene_metrics, field)

static const struct kind kinds[] = {
    {AT(oldest_age), "tallybox_retry_oldest_due_age_seconds", METRIC_GAUGE,
     "Time since which the oldest waiting task of the scene is due; it waits for its claim or for "
     "a thread."},
    {AT(seconds), "tallybox_retry_attempt_seconds", METRIC_SECONDS, "Time that attempts took."},
    {AT(exhausted), "tallybox_retry_exhausted_total", METRIC_COUNTER,
     "Tasks that are not tried again: out of attempts or time, or refused."},
    {AT(over_max), "tallybox_retry_pending_over_max", METRIC_GAUGE,
     "Tasks of the scene beyond its max_pending."},
    {AT(no_handler), "tallybox_retry_unknown_handler_tasks", METRIC_GAUGE,
     "Waiting tasks whose handler no live process runs."},
    {AT(group_closed), "tallybox_retry_group_closed_tasks", METRIC_GAUGE,
     "Waiting tasks whose group is unknown or disabled, or refuses their scene."},
    {AT(paused), "tallybox_retry_paused", METRIC_GAUGE,
     "1 while the scene is paused or its row is invalid."},
};

/* Guards all_count and the names in `all`: the dispatcher and the thread of first tries may run in
 * one process. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct retry_scene_metrics all[RETRY_METRICS_SCENES + 1]; /* the last one: other */
static size_t all_count;

const char *attempt_end_name(enum attempt_end end)
{
    static const char *const names[RETRY_ATTEMPT_ENDS] = {[ATTEMPT_DONE] = "done",
                                                          [ATTEMPT_FAILED] = "failed",
                                                          [ATTEMPT_SNOOZED] = "snoozed",
                                                          [ATTEMPT_REJECTED] = "rejected",
                                                          [ATTEMPT_CUT] = "cut"};

    return names[end];
}

static void init_metric(struct metric *metric, const struct kind *kind, const char *labels)
{
    metric->name = kind->name;
    metric->kind = kind->kind;
    metric->help = kind->help;
    metric->labels = labels;
    metrics_register(metric);
}

static void init_scene(struct retry_scene_metrics *metrics, const char *group, const char *scene)
{
    static const struct kind tasks = {0, "tallybox_retry_tasks", METRIC_GAUGE,
                                      "Tasks by scene and state, counted up to a bound."};
    static const struct kind attempts = {0, "tallybox_retry_attempts_total", METRIC_COUNTER,
                                         "Attempts by scene and outcome."};

    snprintf(metrics->group, sizeof(metrics->group), "%s", group);
    snprintf(metrics->scene, sizeof(metrics->scene), "%s", scene);
    snprintf(metrics->labels, sizeof(metrics->labels), "group=\"%s\",scene=\"%s\"", group, scene);
    for (size_t i = 0; i < TASK_STATES; i++) {
        snprintf(metrics->state_labels[i], RETRY_LABELS_SIZE,
                 "group=\"%s\",scene=\"%s\",state=\"%s\"", group, scene,
                 task_state_name((enum task_state)i));
        init_metric(&metrics->tasks[i], &tasks, metrics->state_labels[i]);
    }
    for (size_t i = 0; i < RETRY_ATTEMPT_ENDS; i++) {
        snprintf(metrics->end_labels[i], RETRY_LABELS_SIZE,
                 "group=\"%s\",scene=\"%s\",outcome=\"%s\"", group, scene,
                 attempt_end_name((enum attempt_end)i));
        init_metric(&metrics->attempts[i], &attempts, metrics->end_labels[i]);
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        init_metric((struct metric *)(void *)((char *)metrics + kinds[i].offset), &kinds[i],
                    metrics->labels);
}

static bool is_name(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_.:-";

    return *text && strlen(text) < TASK_NAME_SIZE && strspn(text, letters) == strlen(text);
}

static struct retry_scene_metrics *find_scene(const char *group, const char *scene)
{
    struct retry_scene_metrics *other = &all[RETRY_METRICS_SCENES];

    for (size_t i = 0; i < all_count; i++)
        if (strcmp(all[i].scene, scene) == 0 && strcmp(all[i].group, group) == 0)
            return &all[i];
    if (all_count < RETRY_METRICS_SCENES && is_name(group) && is_name(scene)) {
        init_scene(&all[all_count], group, scene);
        return &all[all_count++];
    }
    if (!other->group[0])
        init_scene(other, "other", "other");
    return other;
}

struct retry_scene_metrics *retry_metrics_of(const char *group, const char *scene)
{
    struct retry_scene_metrics *metrics;

    pthread_mutex_lock(&all_lock);
    metrics = find_scene(group, scene);
    pthread_mutex_unlock(&all_lock);
    return metrics;
}

struct metric *retry_metrics_shards(const char *handler)
{
    static const struct kind held = {0, "tallybox_retry_shards_held", METRIC_GAUGE,
                                     "Shards that this process holds, of 16 of each handler."};
    static struct {
        char handler[TASK_HANDLER_SIZE];
        char labels[RETRY_LABELS_SIZE];
        struct metric metric;
    } shards[RETRY_HANDLERS_MAX];
    size_t i = 0;

    while (i < RETRY_HANDLERS_MAX - 1 && shards[i].handler[0] &&
           strcmp(shards[i].handler, handler) != 0)
        i++;
    if (!shards[i].handler[0]) {
        snprintf(shards[i].handler, sizeof(shards[i].handler), "%s", handler);
        snprintf(shards[i].labels, sizeof(shards[i].labels), "handler=\"%.*s\"",
                 TASK_HANDLER_SIZE - 1, handler);
        init_metric(&shards[i].metric, &held, shards[i].labels);
    }
    return &shards[i].metric;
}

struct group_metrics {
    char group[TASK_NAME_SIZE]; /* "": free */
    char labels[RETRY_LABELS_SIZE];
    struct metric live;
    int64_t count;
};

static struct group_metrics groups[RETRY_METRICS_GROUPS + 1]; /* the last one: other */

static struct group_metrics *find_group(const char *group)
{
    static const struct kind live = {0, "tallybox_retry_clients_live", METRIC_GAUGE,
                                     "Live clients of the group that this process calls."};
    size_t i = 0;

    while (i < RETRY_METRICS_GROUPS && groups[i].group[0] && strcmp(groups[i].group, group) != 0)
        i++;
    if (!groups[i].group[0]) {
        struct group_metrics *metrics = &groups[i];

        snprintf(metrics->group, sizeof(metrics->group), "%s",
                 i < RETRY_METRICS_GROUPS ? group : "other");
        snprintf(metrics->labels, sizeof(metrics->labels), "group=\"%s\"", metrics->group);
        init_metric(&metrics->live, &live, metrics->labels);
    }
    return &groups[i];
}

void retry_clients_begin(void)
{
    for (size_t i = 0; i <= RETRY_METRICS_GROUPS; i++)
        groups[i].count = 0;
}

void retry_clients_add(const char *group, int64_t count)
{
    find_group(is_name(group) ? group : "other")->count += count;
}

void retry_clients_end(void)
{
    for (size_t i = 0; i <= RETRY_METRICS_GROUPS; i++)
        if (groups[i].group[0])
            metric_set(&groups[i].live, groups[i].count);
}

void retry_depths_begin(void)
{
    for (size_t i = 0; i <= RETRY_METRICS_SCENES; i++)
        memset(&all[i].counting, 0, sizeof(all[i].counting));
}

void retry_depths_age(struct retry_scene_metrics *metrics, int64_t age_ms)
{
    if (age_ms > metrics->counting.oldest_ms)
        metrics->counting.oldest_ms = age_ms;
}

void retry_depths_add(struct retry_scene_metrics *metrics, enum task_state state, int64_t count,
                      int64_t oldest_ms, int64_t pending_max, bool handled, bool closed)
{
    metrics->counting.tasks[state] += count;
    metrics->counting.pending_max = pending_max;
    if (state != TASK_WAITING)
        return;
    retry_depths_age(metrics, oldest_ms);
    if (!handled)
        metrics->counting.no_handler += count;
    if (closed)
        metrics->counting.group_closed += count;
}

static void show_depths(struct retry_scene_metrics *metrics)
{
    int64_t pending = metrics->counting.tasks[TASK_WAITING] + metrics->counting.tasks[TASK_QUEUED];
    int64_t pending_max = metrics->counting.pending_max;

    for (size_t i = 0; i < TASK_STATES; i++)
        metric_set(&metrics->tasks[i], metrics->counting.tasks[i]);
    metric_set(&metrics->oldest_age, metrics->counting.oldest_ms);
    metric_set(&metrics->no_handler, metrics->counting.no_handler);
    metric_set(&metrics->group_closed, metrics->counting.group_closed);
    metric_set(&metrics->over_max,
               pending_max > 0 && pending > pending_max ? pending - pending_max : 0);
}

void retry_depths_end(void)
{
    for (size_t i = 0; i <= RETRY_METRICS_SCENES; i++)
        show_depths(&all[i]);
}

void retry_metrics_register(void)
{
    static struct metric *const singles[] = {
        &retry_claimed,           &retry_rescued,        &retry_lost,
        &retry_in_flight,         &retry_invalid_scenes, &retry_breakers_open,
        &retry_breakers_open_age, &retry_put_off,        &retry_client_waits,
        &retry_client_others,     &retry_config_pushes};

    for (size_t i = 0; i < sizeof(singles) / sizeof(singles[0]); i++)
        metrics_register(singles[i]);
    retry_metrics_of(RETRY_GROUP_DEFAULT, "publish");
    retry_metrics_shards("kafka");
    find_group(RETRY_GROUP_DEFAULT);
}
