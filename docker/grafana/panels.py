# SPDX-License-Identifier: MIT
"""The panels of the dashboard, from which scripts/dashboard.py makes tallybox.json.

A query has no filter for job, instance and lane: the script adds the variables of the dashboard to
each metric, but the process only in graphs. `alerts` names the rules of docs/alerts.yml that watch
the same metrics, and `guarantee` the row of README's table. tests/e2e/test_monitoring.py runs every
query in a Prometheus that scrapes the program."""

import dataclasses


@dataclasses.dataclass
class Query:
    """A query and the name of its series."""

    expr: str
    legend: str = ""


@dataclasses.dataclass
class Panel:
    """kind: stat (one colored number), graph or table. warn, bad: from which value on the number is
    yellow or red. limit: the limit of the alert, a line in the graph."""

    kind: str
    title: str
    text: str  # one sentence
    queries: list
    unit: str = "short"
    alerts: tuple = ()
    guarantee: str = ""
    warn: float = None
    bad: float = None
    limit: float = None
    none: str = "none"  # what a stat shows without a series
    stacked: bool = False
    width: int = 8


def stat(title, text, queries, **more):
    queries = [Query(queries)] if isinstance(queries, str) else queries
    return Panel("stat", title, text, queries, **{"width": 6, **more})


def graph(title, text, *queries, **more):
    return Panel("graph", title, text, [Query(*query) for query in queries], **more)


def table(title, text, expr, **more):
    return Panel("table", title, text, [Query(expr)], **{"width": 24, **more})


def quantiles(metric, by=""):
    """The median and the 99th percentile of a histogram."""
    labels = f"le, {by}" if by else "le"
    prefix = f"{{{{{by}}}}} " if by else ""
    return [(f"histogram_quantile({share}, sum by ({labels}) "
             f"(rate({metric}_bucket[$__rate_interval])))", f"{prefix}{name}")
            for share, name in (("0.5", "p50"), ("0.99", "p99"))]


def or_zero(expr):
    return f"({expr} or vector(0))"


ROWS = [
    ("Is anything wrong?", [
        stat("Processes without an answer",
             "Processes that Prometheus cannot scrape.",
             or_zero("count((up == 0) and on (job) "
                     "(count by (job) (last_over_time(tallybox_build_info[1d]))))"),
             bad=1),
        stat("Processes that are not ready",
             "`/readyz` of the process names each reason.",
             or_zero("count(tallybox_ready == 0)"), bad=1, alerts=("TallyboxNotReady",)),
        stat("Servers that fail",
             "How long a server that a process needs has failed.",
             [Query("max by (dep) (tallybox_dependency_down_seconds)", "{{dep}}")],
             unit="s", warn=1, bad=60, alerts=("TallyboxDependencyDown",)),
        stat("Durability: databases that changed",
             "Times that a database was restarted, replaced, or came back without commits.",
             or_zero("sum(increase(tallybox_relay_database_changes_total[$__range]))") + " + "
             + or_zero("sum(increase(tallybox_consumer_went_back_total[$__range]))"),
             bad=1, guarantee="durability",
             alerts=("TallyboxDatabaseChanged", "TallyboxProgressWentBack")),
        stat("No loss: lanes and partitions without service",
             "Lanes that not exactly one relay holds, and partitions that wait for an operator.",
             or_zero("count(sum by (job, lane) (tallybox_relay_lease_held) != 1)") + " + "
             + or_zero("sum(tallybox_consumer_stopped_partitions)"),
             bad=1, guarantee="no loss",
             alerts=("TallyboxLaneLease", "TallyboxRelayAbsent", "TallyboxPartitionStopped")),
        stat("No double count: repeated work",
             "Times that rows in flight were published again, and tasks that may have run twice; "
             "the log counts each vote once all the same.",
             or_zero("sum(increase(tallybox_relay_resets_total[$__range]))") + " + "
             + or_zero("sum(increase(tallybox_retry_lost_leases_total[$__range]))"),
             warn=1, guarantee="no double count",
             alerts=("TallyboxLaneRestarts", "TallyboxTasksLostTheirLease")),
        stat("Order: moves of a lease",
             "How often the lease of the lane that moves most has moved in half an hour.",
             or_zero("max(changes(tallybox_relay_lease_epoch[30m]))"),
             warn=3, bad=6, guarantee="order", alerts=("TallyboxLeaseMoves",)),
        stat("Totals: age of the last roll-up",
             "`remark.votes` is as old as the last roll-up that was finished.",
             "time() - max(tallybox_rollup_last_success_timestamp_seconds > 0)",
             unit="s", warn=4000, bad=7200, none="never", guarantee="totals",
             alerts=("TallyboxRollupLate",)),
        stat("Isolation of events: diverted keys",
             "Keys whose events go through the retry queue, because Kafka refused one of them.",
             or_zero("sum(tallybox_relay_diverted_keys)"),
             warn=1, guarantee="isolation of events", alerts=("TallyboxKeysDiverted",)),
        stat("Isolation of records: dead records",
             "Records that could not be applied, and are kept in `dead_record`.",
             or_zero("sum(increase(tallybox_consumer_dead_total[$__range]))"),
             warn=1, guarantee="isolation of records", alerts=("TallyboxDeadRecords",)),
        stat("Visibility: the longest wait",
             "Age of the oldest event that is not published, and of the oldest vote that is not "
             "applied.",
             [Query("max(tallybox_outbox_oldest_age_seconds)", "event"),
              Query("max(tallybox_consumer_oldest_age_seconds)", "vote")],
             unit="s", warn=10, bad=60, guarantee="visibility",
             alerts=("TallyboxOutboxOld", "TallyboxConsumerOld")),
        stat("Tasks that wait for an operator",
             "Blocked and parked tasks of the retry queue.",
             or_zero('sum(max by (job, group, scene, state) '
                     '(tallybox_retry_tasks{state=~"blocked|parked"}))'),
             warn=1, alerts=("TallyboxKeysBlocked",)),
        table("Alerts that fire",
              "Empty also if Prometheus has not loaded docs/alerts.yml.",
              'ALERTS{alertname=~"Tallybox.*",alertstate="firing"}'),
    ]),
    ("Relay", [
        graph("Events published and deleted",
              "Rows that Kafka acknowledged, and rows deleted from the outbox after that.",
              ("sum by (lane) (rate(tallybox_relay_published_total[$__rate_interval]))",
               "{{lane}} published"),
              ("sum by (lane) (rate(tallybox_relay_deleted_total[$__rate_interval]))",
               "{{lane}} deleted"),
              unit="rowsps"),
        graph("Age of the oldest event",
              "Grows while a lane does not publish.",
              ("max by (lane) (tallybox_outbox_oldest_age_seconds)", "{{lane}}"),
              unit="s", limit=60, alerts=("TallyboxOutboxOld",)),
        graph("Events that wait",
              "Rows in the outbox, estimated, those of them that were read, whether the server "
              "deletes binary log that is not read, and whether statements are in it instead of "
              "rows.",
              ("max by (lane) (tallybox_outbox_rows)", "{{lane}} in the outbox"),
              ("max by (lane) (tallybox_relay_window_rows)", "{{lane}} read"),
              ("max by (lane) (tallybox_relay_open_gaps)", "{{lane}} open gaps"),
              ("max by (lane) (tallybox_relay_log_expires)", "{{lane}} log expires"),
              ("sum by (lane) (increase(tallybox_relay_log_statements_total[15m]))",
               "{{lane}} statements in the log"),
              alerts=("TallyboxLogExpires", "TallyboxStatementsInLog")),
        graph("Kafka: time to the acknowledgement",
              "From sending a row to the answer of the brokers.",
              *quantiles("tallybox_relay_send_seconds", "lane"), unit="s"),
        graph("Holder of each lane",
              "Each lane has one holder; a step from one line to another is a take-over.",
              ("sum by (lane, instance) (tallybox_relay_lease_held) > 0", "{{lane}} {{instance}}"),
              stacked=True, alerts=("TallyboxLaneLease", "TallyboxRelayAbsent")),
        graph("Refused events",
              "Rows that Kafka refused, rows moved into the retry queue, and diverted keys.",
              ("sum by (lane) (rate(tallybox_relay_refused_total[$__rate_interval]))",
               "{{lane}} refused/s"),
              ("sum by (lane) (rate(tallybox_relay_moved_total[$__rate_interval]))",
               "{{lane}} moved/s"),
              ("max by (lane) (tallybox_relay_diverted_keys)", "{{lane}} diverted keys"),
              alerts=("TallyboxKeysDiverted",)),
    ]),
    ("Kafka and the consumer", [
        graph("Lag",
              "Records of the partitions of each consumer that are not applied.",
              ("sum by (instance) (tallybox_consumer_lag_records)", "{{instance}}"),
              stacked=True, alerts=("TallyboxConsumerLag",)),
        graph("Age of the oldest vote",
              "The oldest record that was fetched and is not applied.",
              ("max by (instance) (tallybox_consumer_oldest_age_seconds)", "{{instance}}"),
              unit="s", limit=60, alerts=("TallyboxConsumerOld",)),
        graph("Votes applied",
              "Votes written into the log, votes that the log had, and stale votes.",
              ("sum(rate(tallybox_consumer_applied_total[$__rate_interval]))", "applied"),
              ("sum(rate(tallybox_consumer_duplicates_total[$__rate_interval]))", "repeated"),
              ("sum(rate(tallybox_consumer_stale_votes_total[$__rate_interval]))", "stale"),
              unit="ops"),
        graph("Partitions of each consumer",
              "A step is a rebalance; a stopped partition waits for an operator.",
              ("sum by (instance) (tallybox_consumer_partitions)", "{{instance}}"),
              ("sum by (instance) (tallybox_consumer_stopped_partitions)", "{{instance}} stopped"),
              alerts=("TallyboxConsumerAbsent", "TallyboxConsumerWithoutPartitions",
                      "TallyboxPartitionStopped")),
        graph("Database: time of a batch",
              "One transaction with the votes of a batch.",
              *quantiles("tallybox_consumer_batch_seconds"), unit="s"),
        graph("Dead records and held contents",
              "Dead records by the class of their reason, and contents whose votes wait in the "
              "retry queue.",
              ("sum by (reason_class) (increase(tallybox_consumer_dead_total[5m]))",
               "{{reason_class}} in 5 min"),
              ("max(tallybox_consumer_held_contents)", "held contents"),
              alerts=("TallyboxDeadRecords", "TallyboxContentsHeld")),
    ]),
    ("Votes and HTTP", [
        graph("Votes over HTTP",
              "Votes by result; failed ones were refused by the database or took too long.",
              ("sum by (result) (rate(tallybox_votes_total[$__rate_interval]))", "{{result}}"),
              unit="ops", stacked=True, width=6),
        graph("HTTP answers",
              "Answers by class; 5xx means that the database is down or too slow.",
              ("sum by (class) (rate(tallybox_http_answers_total[$__rate_interval]))", "{{class}}"),
              unit="reqps", stacked=True, width=6, alerts=("TallyboxAnswersFail",)),
        graph("Database: time of a commit",
              "One transaction of votes, which may hold the votes of many requests.",
              *quantiles("tallybox_commit_seconds"), unit="s", width=6),
        graph("Queues of the API",
              "Requests that wait for a thread; a full queue answers 429.",
              ("sum(tallybox_commit_queue_votes)", "votes"),
              ("sum(tallybox_read_queue_contents)", "totals"),
              ("sum(tallybox_remark_queue_rows)", "remarks"),
              ("sum(tallybox_task_queue_tasks)", "tasks"),
              ("sum(tallybox_removal_queue_remarks)", "removals"),
              width=6),
    ]),
    ("Retry queue", [
        graph("Tasks by state",
              "All processes count the same tasks, up to a bound.",
              ("sum by (state) (max by (job, group, scene, state) (tallybox_retry_tasks))",
               "{{state}}"),
              stacked=True, alerts=("TallyboxKeysBlocked",)),
        graph("Age of the oldest due task",
              "Grows while a scene has no process, no thread or no rate, or is paused.",
              ("max by (group, scene) (tallybox_retry_oldest_due_age_seconds)",
               "{{group}} {{scene}}"),
              unit="s", limit=300, alerts=("TallyboxTasksLate",)),
        graph("Attempts by outcome",
              "Attempts of all scenes.",
              ("sum by (outcome) (rate(tallybox_retry_attempts_total[$__rate_interval]))",
               "{{outcome}}"),
              unit="ops", stacked=True),
        graph("Tasks that do not go on",
              "Without a handler, an open group, attempts or a valid policy; and tasks beyond "
              "`max_pending`.",
              ("sum(max by (job, group, scene) (tallybox_retry_unknown_handler_tasks))",
               "without a handler"),
              ("sum(max by (job, group, scene) (tallybox_retry_group_closed_tasks))",
               "of closed groups"),
              ("sum(increase(tallybox_retry_exhausted_total[5m]))", "exhausted in 5 min"),
              ("max(tallybox_retry_invalid_scenes)", "invalid scenes"),
              ("sum(max by (job, group, scene) (tallybox_retry_pending_over_max))",
               "beyond max_pending"),
              ('sum(increase(tallybox_tasks_submitted_total{result="refused"}[5m]))',
               "refused by the API in 5 min"),
              alerts=("TallyboxHandlerUnserved", "TallyboxGroupClosed", "TallyboxTasksExhausted",
                      "TallyboxSceneInvalid", "TallyboxSceneFull", "TallyboxTasksRefused"),
              width=12),
        graph("Destinations that fail",
              "Open circuit breakers, and tasks that wait for a destination or a live client.",
              ("sum(tallybox_retry_breakers_open)", "open circuit breakers"),
              ("max(tallybox_retry_breakers_open_age_seconds)", "seconds since the first opened"),
              ("sum(rate(tallybox_retry_put_off_total[$__rate_interval]))", "put off/s"),
              ("sum(rate(tallybox_retry_client_waits_total[$__rate_interval]))",
               "without a client/s"),
              alerts=("TallyboxDestinationFails", "TallyboxNoLiveClient"), width=12),
    ]),
    ("Roll-up and housekeeping", [
        graph("Age of the last success",
              "Time since the last roll-up and the last round of housekeeping were finished.",
              ("time() - max(tallybox_rollup_last_success_timestamp_seconds > 0)", "roll-up"),
              ("time() - max(tallybox_housekeep_last_success_timestamp_seconds > 0)",
               "housekeeping"),
              ("max(tallybox_removal_oldest_seconds)", "oldest removal of votes"),
              unit="s", alerts=("TallyboxRollupLate", "TallyboxHousekeepingLate",
                                "TallyboxRemovalsWait")),
        graph("Rows changed",
              "Remarks that got a newer total, old rows deleted, and rows of old months added up.",
              ("sum(rate(tallybox_rollup_remarks_changed_total[$__rate_interval]))",
               "remarks with a newer total"),
              ("sum(rate(tallybox_housekeep_deleted_rows_total[$__rate_interval]))",
               "old rows deleted"),
              ("sum(rate(tallybox_housekeep_folded_rows_total[$__rate_interval]))",
               "rows of vote_document added up"),
              unit="rowsps"),
        graph("Failures",
              "Steps that failed and were tried again, and changes of partitions that wait.",
              ("sum(increase(tallybox_rollup_failures_total[5m]))", "roll-up in 5 min"),
              ("sum(increase(tallybox_housekeep_failures_total[5m]))", "housekeeping in 5 min"),
              ("max(tallybox_housekeep_postponed)", "postponed changes of partitions"),
              alerts=("TallyboxHousekeepingPostponed",)),
    ]),
    ("Processes", [
        graph("Memory",
              "Memory of each process that is in RAM.",
              ("process_resident_memory_bytes", "{{job}} {{instance}}"),
              unit="bytes"),
        graph("CPU",
              "1 is one whole core.",
              ("rate(process_cpu_seconds_total[$__rate_interval])", "{{job}} {{instance}}")),
        graph("Restarts and readiness",
              "Starts of each process in an hour, and whether it is not ready.",
              ("changes(process_start_time_seconds[1h])", "{{job}} {{instance}} restarts"),
              ("1 - tallybox_ready", "{{job}} {{instance}} not ready"),
              alerts=("TallyboxProcessRestarts", "TallyboxNotReady")),
    ]),
]
