/* SPDX-License-Identifier: MIT */
#include "common/daemon/reference_command.h"

#include "common/daemon/admin.h"
#include "common/metrics.h"
#include "common/options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

struct event {
    const char *name;
    const char *level; /* "info", "warn or info" ... */
    const char *meaning;
    const char *action; /* "" where there is nothing to do */
};

static const struct event events[] = {
    /* Every role. */
    {"starting", "info", "The process begins; it names its version and instance.", ""},
    {"started", "info", "All roles of the process work.", ""},
    {"start_failed", "error", "A role cannot start: a wrong setting, a missing privilege or table.",
     "correct what `err` names"},
    {"start_stalled", "error", "The start does not end; often memory or threads are missing.",
     "raise the limits of the process"},
    {"stopping", "info", "A clean stop begins.", ""},
    {"stopped", "info", "The clean stop has ended.", ""},
    {"stop_timed_out", "error", "The stop took longer than `admin.stop_timeout_ms` and was cut.",
     "see which server does not answer"},
    {"stop_forced", "error", "A second signal ended the process at once.", ""},
    {"crashed", "error",
     "A fault in the program ends the process at once, which is as safe as a kill. `stack` has "
     "offsets into each file, for `addr2line -e FILE OFFSET`.",
     "report it with this line and the version, and a core file if there is one"},
    {"stop_cuts_connections", "warn",
     "A statement does not end, so the stop closes its connection.", "look at that server"},
    {"dependency_down", "warn",
     "A server that the role needs is failing; `reason` names the failure. The role retries.",
     "bring `dep` back, or correct what `err` names"},
    {"dependency_up", "info", "The server works again; `after_ms` tells how long it did not.", ""},
    {"work_paused", "warn or error", "The work that `what` names waits for what `err` names.",
     "see the Runbook in OPERATIONS"},
    {"work_resumed", "info", "The work continues.", ""},
    {"still_waiting", "warn",
     "Logged once a minute for each `dep` or `what` that fails: `lasts_ms` tells since when, and "
     "`others` how many more conditions wait for it.",
     "as for `dependency_down` and `work_paused`"},
    {"check_failed", "warn", "A check found something unsafe; the work goes on.",
     "correct what `err` names"},
    {"check_passed", "info", "The check passes again.", ""},
    {"not_ready", "warn",
     "The process has not been ready for three seconds; again each minute, with `lasts_ms`, unless "
     "`still_waiting` is logged.",
     "see `/readyz`, which names every reason"},
    {"ready_again", "info", "The process is ready again.", ""},
    {"role_failed", "error", "A role met an error that no retry can remove; the process ends.",
     "correct what `err` names; the supervisor starts it again"},
    {"watchdog_withheld", "error", "A loop hangs, so the service manager is no longer notified.",
     "report the loop that it names"},
    {"watchdog_resumed", "warn", "The loop goes on, and so do the notifications.", ""},
    {"watchdog_short", "warn", "`WatchdogSec` is shorter than twice `mysql.query_timeout_ms`.",
     "raise `WatchdogSec`"},
    {"runs_as_root", "warn", "The process runs as root and does not need to.",
     "give it an account of its own"},
    {"password_file_open", "warn", "Every account of the machine can read this password.",
     "`chmod o=` on the file, or mount it with mode 0400"},
    {"setting_changed", "info", "SIGHUP changed a live setting.", ""},
    {"settings_need_restart", "warn", "SIGHUP found changed settings that are not live.",
     "restart the role to apply them"},
    {"reloaded", "info", "SIGHUP has been handled.", ""},
    {"reload_failed", "error", "The settings file is wrong; no setting has changed.",
     "correct the place that `err` names"},
    {"tokens_reloaded", "info", "The token file was read again.", ""},
    {"tokens_reload_failed", "error", "The token file is wrong; the old tokens stay valid.",
     "correct the line that `err` names"},
    {"admin_listening", "info", "The admin pages are served at this URL.", ""},
    {"api_listening", "info", "The HTTP API is served at this address.", ""},
    {"connections_limited", "warn", "The limit of open files allows fewer HTTP connections.",
     "raise `LimitNOFILE`"},
    {"http_without_tls", "warn", "Other machines reach an address that is not encrypted.",
     "set the certificate, or put a proxy in front"},
    {"http_library", "debug", "A message of libmicrohttpd.", ""},
    {"kafka_library", "any", "A message of librdkafka; a repeated one is only counted.", ""},
    {"kafka_library_repeated", "info",
     "`lines` messages repeated earlier ones; logged after two quiet minutes, or each hour.", ""},
    {"kafka_library_old", "warn", "librdkafka is older than recommended; `text` names the effect.",
     "install 2.13.0 or newer"},
    {"topic_config_unreadable", "warn", "The topic's configuration cannot be read.",
     "grant DescribeConfigs on the topics"},
    /* Leases. */
    {"lease_taken", "info (shards: debug)", "This instance holds the lane or shard now.", ""},
    {"lease_lost", "info or warn",
     "Another instance holds the lane, shard or job now, or the roll-up lost its connection and "
     "begins its window again.",
     ""},
    {"lease_released", "info (shards: debug)", "The lane or shard was handed over.", ""},
    {"lease_shortened", "warn", "A lease ended implausibly late and was cut to its length.",
     "see why the database clock was set back"},
    {"lease_implausible", "warn", "A job's lease ended implausibly late and counts as expired.",
     "see why the database clock was set back"},
    {"shards_leased", "info",
     "How many shards of each handler this process holds, and how many processes share them.", ""},
    /* Schema. */
    {"database_created", "info", "The database did not exist and was created.", ""},
    {"migration_started", "info", "A migration begins.", ""},
    {"migration_resumed", "info", "A migration that was interrupted goes on.", ""},
    {"migration_applied", "info", "A migration has ended.", ""},
    {"migration_baselined", "info", "The existing tables were recorded as this version.", ""},
    /* serve */
    {"page_not_read", "warn",
     "A page of remarks could not be read, although the database answers: its request was answered "
     "503. Logged once a minute for each reason.",
     "correct what `err` names; for a time-out see the slow query log of the server"},
    {"vote_refused", "error", "The database refuses a vote that passed all checks.",
     "report it with `err`"},
    {"task_intake_failed", "error", "The retry queue's tables cannot be used; tasks get 503.",
     "grant what `err` names"},
    {"dead_admin_failed", "error",
     "The tables of dead records, or the audit, cannot be used; `/v1/dead` answers 503.",
     "grant what `err` names"},
    {"change_unannounced", "warn",
     "It could not be stored that remarks of these items were written; it is tried again every "
     "500 ms, and until then other processes show the last lists. At most once a minute for each "
     "reason.",
     "grant what `err` names"},
    {"recommended_build_failed", "warn",
     "A recommended list could not be built; it is tried again after 2 s, after further failures "
     "later, and the last one is used.",
     "correct what `err` names, or raise `api.recommended_build_ms`"},
    /* relay */
    {"key_diverted", "warn", "A row was refused; its key's rows go through the retry queue.",
     "correct or cancel its task: `tallybox retry list`"},
    {"database_changed", "warn",
     "The lane's database is another one, was restarted, or was truncated. A lane that reads its "
     "table begins with its first row, one that reads the binary log at its saved position.",
     ""},
    {"deletes_abandoned", "warn",
     "The lease ended before these published rows were deleted; they "
     "are published again.",
     ""},
    {"lane_fenced", "warn",
     "Another process has made a producer with the transactional id of the lane, which publishes "
     "exactly once, or has written its position; this one gives the lease up.",
     "give each lane on the Kafka cluster a transactional id of its own"},
    {"rows_repeated", "warn",
     "A lane that publishes exactly once goes on in the log of another server, and publishes again "
     "the rows behind the last position that is valid there.",
     ""},
    {"outbox_partition_dropped", "info",
     "All rows of a partition of the lane's table were published `keep_ms` ago, and the partition "
     "was dropped.",
     ""},
    {"outbox_partition_kept", "warn",
     "A partition of the lane's table is not dropped, for the reason in the log. Its published "
     "rows "
     "are deleted one by one, and it is looked at again after ten minutes.",
     "see `unpublished_rows` in `/readyz`, or make smaller partitions"},
    {"outbox_partitions_not_dropped", "warn",
     "The lane's table is partitioned by `seq`, and the account lacks a privilege to drop or make "
     "partitions. Its rows are deleted one by one.",
     "`tallybox migrate grants --role relay_partitions --account tallybox_relay@%`, then start the "
     "relay again"},
    {"table_emptied", "info",
     "The lane reads in the binary log that its table was emptied by `TRUNCATE`, `DROP TABLE` or "
     "`CREATE OR REPLACE TABLE`. It forgets which rows it has published, because new rows may have "
     "their `seq`s, and publishes the rows before that as any others.",
     ""},
    {"stream_joined", "info",
     "The lane reads the binary log through the connection that the lanes of this process share.",
     ""},
    {"stream_left", "info",
     "The lane could not follow the shared connection and reads the log through one of its own "
     "until it can.",
     ""},
    {"rows_updated", "warn",
     "Rows of the lane's table were changed after they were written. The lane publishes each row "
     "as "
     "it was inserted; `count` events of the binary log were passed over, the last of them in the "
     "transaction at `last`. At most once a minute.",
     "insert a further row instead of changing one"},
    {"statements_in_log", "warn",
     "`count` statements in the binary log have changed rows of other tables without writing these "
     "rows into it, because their session does not have `binlog_format = ROW`, the last of them in "
     "the transaction at `last`. What their triggers, functions and views wrote into the lane's "
     "table is not published. At most once a minute.",
     "let the clients of that server connect again, and compare the table with the topic: "
     "`tallybox "
     "relay publish-missing`"},
    {"rows_not_removed", "warn",
     "The primary key of the lane's table is not a column `seq`, so published rows stay; or, with "
     "`keep_ids_max`, an id is too long, and its row stays.",
     "set `lane.NAME.keep_ids_max`, or remove rows in the writer's transaction or later, as with "
     "Debezium"},
    {"lane_left_log", "warn",
     "The server has purged the binary log at the position of the lane, which now publishes the "
     "`rows` of its table that are not saved as published. At most `repeats_max` of them were "
     "published before; none if it is 0.",
     "keep the log for longer than a relay may be stopped: binlog_expire_logs_seconds"},
    {"lane_back_in_log", "info",
     "These rows are published, and the lane reads on in the log, where it ended when the last of "
     "them was in the table.",
     ""},
    {"diversions_abandoned", "warn", "The lease ended before these rows were diverted.", ""},
    {"row_below_cursor", "warn", "A row appeared below the position of the reader.", ""},
    {"gaps_merged", "warn", "More than `relay.gaps_max` gaps are open; reading gets slower.",
     "look for long transactions that were rolled back"},
    {"several_writer_nodes", "warn", "The cluster accepts writes on several nodes.",
     "write to one node and let the relay read there"},
    {"group_name_taken", "warn", "A retry group of an application has the lane's name.",
     "rename that group"},
    {"batch_size_limited", "info", "A topic's `max.message.bytes` limits the batches.", ""},
    {"stopped_early", "warn", "The stop ended before all rows or tasks were finished.", ""},
    /* retry */
    {"task_exhausted", "warn", "A task used its attempts; at most once a minute for each scene.",
     "`tallybox retry show ID`"},
    {"tasks_lost", "warn", "Leases of tasks ran out; another process runs them again.",
     "see whether the process was paused"},
    {"task_replaced", "info",
     "The task of a refused row of a lane that publishes exactly once ends without a record, "
     "because the lane has read the row again.",
     ""},
    {"result_refused", "error", "The database refuses to store an attempt's result.",
     "report it with `err`"},
    {"handler_unserved", "warn",
     "No live process runs this handler, or there is no such handler; its tasks wait. Each minute "
     "`still_waiting what=handler`.",
     "add it to `retry.handlers` of a process; cancel tasks of a handler that does not exist"},
    {"handler_served", "info", "No task waits for a handler that no process runs any more.", ""},
    {"group_opened", "info", "Tasks of the group run again.", ""},
    {"group_closed", "warn",
     "Tasks of the group wait: it is disabled or does not exist, or refuses their scene, which has "
     "no "
     "row. While tasks are due, each minute `still_waiting what=group`.",
     "`tallybox retry group set`, `tallybox retry scene set`"},
    {"group_refuses", "warn", "The group does not allow these tasks; they fail.",
     "`tallybox retry group set`"},
    {"scene_paused", "info", "An operator paused the scene.", ""},
    {"scene_resumed", "info", "An operator resumed the scene.", ""},
    {"scene_invalid", "error",
     "The scene's policy cannot be read; the scene is paused. While tasks are due, each minute "
     "`still_waiting what=scene`.",
     "`tallybox retry scene set`"},
    {"scene_valid", "info", "The scene's policy can be read again.", ""},
    {"too_many_scenes", "error",
     "More scenes have tasks than one process can hold. Each minute `still_waiting what=kinds`.",
     "start another process, or use fewer scenes"},
    {"scenes_not_isolated", "warn", "With one thread a slow scene delays all others.",
     "raise `retry.threads`"},
    {"retry_client_ignored", "warn", "A client of a group fails and is left out for a while.",
     "correct what `err` names; `tallybox retry clients`"},
    {"retry_endpoint_ignored", "warn", "A client's address is not used.",
     "correct what `err` names"},
    /* consume */
    {"partitions_assigned", "info", "Kafka assigned partitions to this process.", ""},
    {"partitions_revoked", "info", "Kafka revoked partitions.", ""},
    {"partitions_lost", "warn", "The session expired; the partitions belong to others.",
     "see why the process or the broker was slow"},
    {"partition_fenced", "warn", "Another process applies this partition now.", ""},
    {"partition_quiet", "debug", "The position moved past records that hold no event.", ""},
    {"progress_went_back", "warn",
     "The database knows less than was applied: a fail-over lost "
     "commits, or a restore; the records are applied again.",
     ""},
    {"topic_missing", "warn", "The topic does not exist; the relay creates it.", ""},
    {"votes_refused", "warn", "Events of clients arrive while `consumer.votes_from` forbids them.",
     "`tallybox dead list`"},
    {"record_dead", "warn",
     "A record cannot be applied and is in `dead_record`; logged for the first one of each class "
     "since the process began.",
     "`tallybox dead show ID`, see *Dead records*"},
    {"held_submitted", "info", "Votes of held contents became tasks of the retry queue.", ""},
    {"kafka_close_abandoned", "warn", "The stop did not wait for a broker that does not answer.",
     ""},
    /* rollup and housekeep */
    {"rollup_finished", "info", "A roll-up window has ended, with its counts.", ""},
    {"total_refused", "warn", "The database refuses one remark's total; the others go on.",
     "correct what `err` names"},
    {"housekeeping_finished", "info", "A round of housekeeping has ended, with its counts.", ""},
    {"housekeeping_postponed", "error", "A step was put off to the next round.",
     "correct what `err` names"},
    {"partition_created", "info", "A month's partition of the log was created.", ""},
    {"partition_dropped", "info", "A month's partition of the log was dropped.", ""},
    {"log_begin_moved", "info", "The log begins at this date now; older votes are refused.", ""},
};

void events_put_table(struct buf *out)
{
    buf_text_put(out, "| event | level | meaning | what you do |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        buf_print(out, "| `%s` | %s | %s | %s |\n", events[i].name, events[i].level,
                  events[i].meaning, events[i].action);
}

static void put_json(struct buf *out)
{
    json_t *list = json_array();
    char *text;

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "event", events[i].name,
                                              "level", events[i].level, "meaning",
                                              events[i].meaning, "action", events[i].action));
    text = json_dumps(list, JSON_INDENT(2));
    if (text)
        buf_print(out, "%s\n", text);
    free(text);
    json_decref(list);
}

static void put_text(struct buf *out)
{
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        buf_print(out, "%-24s %-20s %s%s%s\n", events[i].name, events[i].level, events[i].meaning,
                  events[i].action[0] ? " Remedy: " : "", events[i].action);
}

int events_command(int argc, char **argv)
{
    bool table = false;
    bool json = false;
    const struct option_entry entries[] = {
        {"table", OPTION_FLAG, &table, NULL, "print a Markdown table", NULL},
        {"json", OPTION_FLAG, &json, NULL, "print JSON", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox events",
        .arguments = "",
        .about = "Prints every log event, its level, its meaning and what an operator does.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
    };
    struct options options;
    struct buf out = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (table)
        events_put_table(&out);
    else if (json)
        put_json(&out);
    else
        put_text(&out);
    return options_print(&out);
}

int metrics_command(const struct role *const *roles, size_t count, int argc, char **argv)
{
    bool table = false;
    const struct option_entry entries[] = {
        {"table", OPTION_FLAG, &table, NULL, "print a Markdown table", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox metrics",
        .arguments = "",
        .about = "Prints every metric there is, as /metrics of a role that has done nothing yet.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
    };
    struct options options;
    struct buf out = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    for (size_t i = 0; i < count; i++)
        roles[i]->register_metrics();
    admin_metrics_register();
    if (table)
        metrics_render_table(&out);
    else
        metrics_render(&out);
    return options_print(&out);
}
