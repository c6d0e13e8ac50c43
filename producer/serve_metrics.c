/* SPDX-License-Identifier: MIT */
#include "producer/serve_metrics.h"

#include <stddef.h>

#define VOTES_HELP                                                                                 \
    "Votes by result; deleted: not counted, because their content is deleted; failed: refused by " \
    "the database, or not done in time, then not counted or unknown."
#define TASKS_HELP                                                                            \
    "Tasks submitted over HTTP by result; existed: one with its idempotency key was active; " \
    "refused: bad, its scene full, or not done in time."
#define TRIES_HELP                                                                                \
    "Tasks that were to be tried first, by result; waiting: the try failed; not_begun: the task " \
    "was made, and waits for a retry process; unknown: another process tries it again, or the "   \
    "database gave no clear answer."
#define PAGES_HELP                                                                           \
    "Pages of remarks by where they came from; kept: from memory; read: from the database; " \
    "shared: "                                                                               \
    "another request was reading it; stale: answered while the database was away."
#define RECOMMENDED_HELP                                                                      \
    "Requests for recommended lists by their answer; kept: a list from memory; building: an " \
    "empty list, because it is being built; stale: a list while the database was away; "      \
    "refused: 503, because the database was away for longer."
#define BUILDS_HELP                                                                    \
    "Builds of recommended lists by result; a failed one is tried again after 2 s; a " \
    "further failure of the item doubles the time, up to 5 minutes."
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
struct metric serve_removals = {
    .name = "tallybox_removals_total",
    .kind = METRIC_COUNTER,
    .help = "Deleted remarks, and contents of deleted_content, whose votes were removed."};
struct metric serve_queue_removals = {.name = "tallybox_removal_queue_remarks",
                                      .kind = METRIC_GAUGE,
                                      .help = "Requests to delete a remark that wait."};
struct metric serve_queue_dead = {.name = "tallybox_dead_queue_requests",
                                  .kind = METRIC_GAUGE,
                                  .help = "Requests for dead records that wait."};
struct metric serve_removal_oldest_age = {
    .name = "tallybox_removal_oldest_seconds",
    .kind = METRIC_GAUGE,
    .help =
        "How long ago the removal of votes was asked for that has waited longest; 0: none waits."};
struct metric serve_recommended_kept = {.name = "tallybox_recommended_requests_total",
                                        .kind = METRIC_COUNTER,
                                        .help = RECOMMENDED_HELP,
                                        .labels = "result=\"kept\""};
struct metric serve_recommended_stale = {.name = "tallybox_recommended_requests_total",
                                         .kind = METRIC_COUNTER,
                                         .help = RECOMMENDED_HELP,
                                         .labels = "result=\"stale\""};
struct metric serve_recommended_building = {.name = "tallybox_recommended_requests_total",
                                            .kind = METRIC_COUNTER,
                                            .help = RECOMMENDED_HELP,
                                            .labels = "result=\"building\""};
struct metric serve_recommended_refused = {.name = "tallybox_recommended_requests_total",
                                           .kind = METRIC_COUNTER,
                                           .help = RECOMMENDED_HELP,
                                           .labels = "result=\"refused\""};
struct metric serve_recommended_built = {.name = "tallybox_recommended_builds_total",
                                         .kind = METRIC_COUNTER,
                                         .help = BUILDS_HELP,
                                         .labels = "result=\"done\""};
struct metric serve_recommended_failed = {.name = "tallybox_recommended_builds_total",
                                          .kind = METRIC_COUNTER,
                                          .help = BUILDS_HELP,
                                          .labels = "result=\"failed\""};
struct metric serve_recommended_queries = {
    .name = "tallybox_recommended_queries_total",
    .kind = METRIC_COUNTER,
    .help = "Statements that read a recommended list; more than the builds where a roll-up ended "
            "or weights changed meanwhile."};
struct metric serve_recommended_seconds = {
    .name = "tallybox_recommended_build_seconds",
    .kind = METRIC_SECONDS,
    .help = "Time of each build of a recommended list that succeeded."};
struct metric serve_recommended_items = {.name = "tallybox_recommended_items",
                                         .kind = METRIC_GAUGE,
                                         .help = "Items whose recommended lists are kept."};
struct metric serve_recommended_empty = {
    .name = "tallybox_recommended_empty_items",
    .kind = METRIC_GAUGE,
    .help = "Items that are remembered because they have no remark to recommend."};
struct metric serve_recommended_bytes = {.name = "tallybox_recommended_bytes",
                                         .kind = METRIC_GAUGE,
                                         .help = "Memory of the recommended lists that are kept."};
struct metric serve_recommended_queued = {
    .name = "tallybox_recommended_queue_items",
    .kind = METRIC_GAUGE,
    .help = "Items that wait until their recommended list is built."};
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
struct metric serve_tries_done = {.name = "tallybox_first_tries_total",
                                  .kind = METRIC_COUNTER,
                                  .help = TRIES_HELP,
                                  .labels = "result=\"done\""};
struct metric serve_tries_waiting = {.name = "tallybox_first_tries_total",
                                     .kind = METRIC_COUNTER,
                                     .help = TRIES_HELP,
                                     .labels = "result=\"waiting\""};
struct metric serve_tries_exhausted = {.name = "tallybox_first_tries_total",
                                       .kind = METRIC_COUNTER,
                                       .help = TRIES_HELP,
                                       .labels = "result=\"exhausted\""};
struct metric serve_tries_not_begun = {.name = "tallybox_first_tries_total",
                                       .kind = METRIC_COUNTER,
                                       .help = TRIES_HELP,
                                       .labels = "result=\"not_begun\""};
struct metric serve_tries_unknown = {.name = "tallybox_first_tries_total",
                                     .kind = METRIC_COUNTER,
                                     .help = TRIES_HELP,
                                     .labels = "result=\"unknown\""};
struct metric serve_queue_tries = {.name = "tallybox_try_queue_tasks",
                                   .kind = METRIC_GAUGE,
                                   .help = "Tasks that wait to be tried first."};
struct metric serve_queue_tasks = {.name = "tallybox_task_queue_tasks",
                                   .kind = METRIC_GAUGE,
                                   .help = "Tasks that wait to be taken in or found."};
struct metric serve_failed_reports = {
    .name = "tallybox_client_failed_reports_total",
    .kind = METRIC_COUNTER,
    .help = "Reports that clients could not send, as their beats say."};
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
        &serve_votes_changed,        &serve_votes_unchanged,     &serve_votes_failed,
        &serve_votes_deleted,        &serve_commit_seconds,      &serve_queue_votes,
        &serve_queue_reads,          &serve_tasks_made,          &serve_tasks_existed,
        &serve_pages_kept,           &serve_pages_read,          &serve_pages_shared,
        &serve_pages_stale,          &serve_recommended_kept,    &serve_recommended_stale,
        &serve_recommended_building, &serve_recommended_refused, &serve_recommended_built,
        &serve_recommended_failed,   &serve_recommended_queries, &serve_recommended_seconds,
        &serve_recommended_items,    &serve_recommended_empty,   &serve_recommended_bytes,
        &serve_recommended_queued,   &serve_page_cache_bytes,    &serve_queue_remarks,
        &serve_tasks_refused,        &serve_queue_tasks,         &serve_answers_2xx,
        &serve_answers_4xx,          &serve_answers_5xx,         &serve_removals,
        &serve_queue_removals,       &serve_removal_oldest_age,  &serve_failed_reports,
        &serve_queue_dead,           &serve_tries_done,          &serve_tries_waiting,
        &serve_tries_exhausted,      &serve_tries_not_begun,     &serve_tries_unknown,
        &serve_queue_tries,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        metrics_register(all[i]);
}
