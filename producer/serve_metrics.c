/* SPDX-License-Identifier: MIT */
#include "producer/serve_metrics.h"

#include <stddef.h>

#define VOTES_HELP                                                                                 \
    "Votes by result; deleted: not counted, because their content is deleted; failed: refused by " \
    "the database, or not done in time, then not counted or unknown."
#define TASKS_HELP                                                                            \
    "Tasks submitted over HTTP by result; existed: one with its idempotency key was active; " \
    "refused: bad, its scene full, or not done in time."
#define PAGES_HELP                                                                           \
    "Pages of remarks by where they came from; kept: from memory; read: from the database; " \
    "shared: "                                                                               \
    "another request was reading it; stale: answered while the database was away."
#define ANSWERS_HELP "Answers of the HTTP API by class."

struct metric serve_votes_changed = {.name = "tallybox_votes_total",
                                     .kind = METRIC_COUNTER,
                                     .help = VOTES_HELP,
                                     .labels = "result=\"changed\""};
struct metric serve_votes_unchanged = {.name = "tallybox_votes_total",
                                       .kind = METRIC_COUNTER,
                                       .help = VOTES_HELP,
                                       .labels = "result=\"unchanged\""};
struct metric serve_votes_deleted = {.name = "tallybox_votes_total",
                                     .kind = METRIC_COUNTER,
                                     .help = VOTES_HELP,
                                     .labels = "result=\"deleted\""};
struct metric serve_votes_failed = {.name = "tallybox_votes_total",
                                    .kind = METRIC_COUNTER,
                                    .help = VOTES_HELP,
                                    .labels = "result=\"failed\""};
struct metric serve_commit_seconds = {.name = "tallybox_commit_seconds",
                                      .kind = METRIC_SECONDS,
                                      .help =
                                          "Time of each transaction of votes that succeeded; with "
                                          "tallybox_votes_total it gives votes per transaction."};
struct metric serve_queue_votes = {.name = "tallybox_commit_queue_votes",
                                   .kind = METRIC_GAUGE,
                                   .help = "Votes that wait for a committer."};
struct metric serve_queue_reads = {.name = "tallybox_read_queue_contents",
                                   .kind = METRIC_GAUGE,
                                   .help = "Contents whose totals wait to be read."};
struct metric serve_pages_kept = {.name = "tallybox_remark_pages_total",
                                  .kind = METRIC_COUNTER,
                                  .help = PAGES_HELP,
                                  .labels = "result=\"kept\""};
struct metric serve_pages_read = {.name = "tallybox_remark_pages_total",
                                  .kind = METRIC_COUNTER,
                                  .help = PAGES_HELP,
                                  .labels = "result=\"read\""};
struct metric serve_pages_shared = {.name = "tallybox_remark_pages_total",
                                    .kind = METRIC_COUNTER,
                                    .help = PAGES_HELP,
                                    .labels = "result=\"shared\""};
struct metric serve_pages_stale = {.name = "tallybox_remark_pages_total",
                                   .kind = METRIC_COUNTER,
                                   .help = PAGES_HELP,
                                   .labels = "result=\"stale\""};
struct metric serve_page_cache_bytes = {.name = "tallybox_remark_cache_bytes",
                                        .kind = METRIC_GAUGE,
                                        .help = "Memory of the pages of remarks that are kept."};
struct metric serve_queue_remarks = {.name = "tallybox_remark_queue_rows",
                                     .kind = METRIC_GAUGE,
                                     .help = "Remarks of pages that wait to be read."};
struct metric serve_removals = {.name = "tallybox_removals_total",
                                .kind = METRIC_COUNTER,
                                .help = "Deleted remarks that were removed with their votes."};
struct metric serve_queue_removals = {.name = "tallybox_removal_queue_remarks",
                                      .kind = METRIC_GAUGE,
                                      .help = "Requests to delete a remark that wait."};
struct metric serve_removal_oldest_age = {
    .name = "tallybox_removal_oldest_seconds",
    .kind = METRIC_GAUGE,
    .help = "How long ago the remark was deleted whose removal has waited longest; 0: none waits."};
struct metric serve_tasks_made = {.name = "tallybox_tasks_submitted_total",
                                  .kind = METRIC_COUNTER,
                                  .help = TASKS_HELP,
                                  .labels = "result=\"made\""};
struct metric serve_tasks_existed = {.name = "tallybox_tasks_submitted_total",
                                     .kind = METRIC_COUNTER,
                                     .help = TASKS_HELP,
                                     .labels = "result=\"existed\""};
struct metric serve_tasks_refused = {.name = "tallybox_tasks_submitted_total",
                                     .kind = METRIC_COUNTER,
                                     .help = TASKS_HELP,
                                     .labels = "result=\"refused\""};
struct metric serve_queue_tasks = {.name = "tallybox_task_queue_tasks",
                                   .kind = METRIC_GAUGE,
                                   .help = "Tasks that wait to be taken in or found."};
struct metric serve_answers_2xx = {.name = "tallybox_http_answers_total",
                                   .kind = METRIC_COUNTER,
                                   .help = ANSWERS_HELP,
                                   .labels = "class=\"2xx\""};
struct metric serve_answers_4xx = {.name = "tallybox_http_answers_total",
                                   .kind = METRIC_COUNTER,
                                   .help = ANSWERS_HELP,
                                   .labels = "class=\"4xx\""};
struct metric serve_answers_5xx = {.name = "tallybox_http_answers_total",
                                   .kind = METRIC_COUNTER,
                                   .help = ANSWERS_HELP,
                                   .labels = "class=\"5xx\""};

void serve_metrics_register(void)
{
    static struct metric *const all[] = {
        &serve_votes_changed,      &serve_votes_unchanged,  &serve_votes_deleted,
        &serve_votes_failed,       &serve_commit_seconds,   &serve_queue_votes,
        &serve_queue_reads,        &serve_tasks_made,       &serve_tasks_existed,
        &serve_pages_kept,         &serve_pages_read,       &serve_pages_shared,
        &serve_pages_stale,        &serve_page_cache_bytes, &serve_queue_remarks,
        &serve_tasks_refused,      &serve_removals,         &serve_queue_removals,
        &serve_removal_oldest_age, &serve_queue_tasks,      &serve_answers_2xx,
        &serve_answers_4xx,        &serve_answers_5xx,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        metrics_register(all[i]);
}
