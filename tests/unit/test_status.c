/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_print.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_MS INT64_C(1767225600000) /* 2026-01-01 00:00:00 */

/* text: an array, not a pointer. */
#define set(text, value) snprintf(text, sizeof(text), "%s", value)

static struct status *status_make(void)
{
    struct status *status = calloc(1, sizeof(*status));

    assert_non_null(status);
    set(status->group, "tallybox");
    status->stale_ms = 60000;
    status->retry.overdue_ms = STATUS_UNKNOWN;
    status->relay_lease_ms = 15000;
    status->now_ms = NOW_MS;
    status->schema_count = 1;
    status->schemas[0].section = "mysql";
    set(status->schemas[0].place, "tallybox at db:3306");
    status->schemas[0].version = 2;
    return status;
}

/* One of everything. */
static struct status *status_full(void)
{
    struct status *status = status_make();
    struct status_partition *partition = status_partition_at(status, "vote-events", 3);

    status->lane_count = 2;
    set(status->lanes[0].name, "outbox");
    set(status->lanes[0].table, "outbox");
    status->lanes[0].rows = STATUS_COUNT_MAX;
    status->lanes[0].oldest_ms = 1234;
    set(status->lanes[0].owner, "db-1-ab12");
    status->lanes[0].epoch = 7;
    status->lanes[0].lease_left_ms = 12000;
    status->lanes[0].diverted_keys = 2;
    set(status->lanes[0].diverted_reason, "too large");
    status->lanes[0].diverted_task = 17;
    set(status->lanes[0].diverted_key, "orders/7");
    status->lanes[0].block_ms = INT64_C(1790000060000);
    set(status->lanes[1].name, "outbox_1");
    set(status->lanes[1].table, "outbox_1");
    status->lanes[1].oldest_ms = STATUS_UNKNOWN;
    status->instance_count = 1;
    set(status->instances[0].name, "db-1-ab12");
    set(status->instances[0].role, "relay");
    status->instances[0].up_ms = 3600000;
    status->instances[0].seen_ms = 16000;
    status->instances[0].lease_ms = 15000;
    partition->held = true;
    partition->next_offset = 40;
    partition->low = 0;
    partition->high = 42;
    partition->updated_ms = 50;
    set(partition->owner, "db-2-cd34");
    status->class_count = 1;
    set(status->classes[0].name, "not_json");
    status->classes[0].records = 9;
    status->classes[0].newest_ms = 61000;
    status->rollup.finished_ms = NOW_MS - 720000;
    status->rollup.rolled_until_ms = NOW_MS - 721000;
    status->rollup.due_ms = NOW_MS + 2880000;
    status->rollup.waiting = 5;
    status->housekeep.finished_ms = NOW_MS - 720000;
    status->housekeep.due_ms = NOW_MS + 2880000;
    status->housekeep.partitions = 37;
    set(status->housekeep.until_date, "2029-01-01");
    return status;
}

static void assert_says(const struct status *status, const char *words)
{
    struct buf out = {0};

    status_print_text(status, &out);
    if (!strstr(buf_text(&out), words))
        fail_msg("\"%s\" is not in:\n%s", words, buf_text(&out));
    buf_done(&out);
}

static json_t *json_of(const struct status *status)
{
    struct buf out = {0};
    json_t *root;

    status_print_json(status, &out);
    assert_false(out.failed);
    root = json_loads(buf_text(&out), 0, NULL);
    assert_non_null(root);
    buf_done(&out);
    return root;
}

static void judge_problem(const struct status *status, const char *words, bool expected)
{
    struct buf out = {0};

    status_put_summary(status, &out);
    if ((strstr(buf_text(&out), words) != NULL) != expected)
        fail_msg("\"%s\" %s:\n%s", words, expected ? "is not in" : "is in", buf_text(&out));
    buf_done(&out);
}

static void the_retry_queue_reports_tasks_that_wait_for_an_operator(void **state)
{
    struct status *status = status_make();
    struct status_retry *retry = &status->retry;
    struct buf out = {0};

    (void)state;
    *retry = (struct status_retry){.tasks = {STATUS_COUNT_MAX, 3, 2, 1, 1},
                                   .due_ms = 65000,
                                   .instances = 2,
                                   .threads = 2,
                                   .closed_count = 2,
                                   .closed = {{"shop", false, 7}, {"mail", true, 1}},
                                   .paused_count = 1,
                                   .paused = {"default/mail"}};
    buf_reset(&out);
    status_print_text(status, &out);
    assert_non_null(strstr(buf_text(&out), "100000+ waiting, 3 running, 2 queued, 1 blocked"));
    assert_non_null(strstr(buf_text(&out), "the oldest is due for 1 min"));
    assert_non_null(strstr(buf_text(&out), "2 keys wait for an operator"));
    assert_non_null(strstr(buf_text(&out), "scene default/mail is paused"));
    assert_non_null(strstr(buf_text(&out), "7 wait for the group shop, which does not exist"));
    assert_non_null(strstr(buf_text(&out), "1 wait for the group mail, which is disabled"));
    assert_non_null(strstr(buf_text(&out), "processes that run it: 2"));
    assert_null(strstr(buf_text(&out), "isolation"));
    *retry = (struct status_retry){.tasks = {1}, .due_ms = -5000, .threads = 1};
    buf_reset(&out);
    status_print_text(status, &out);
    assert_non_null(strstr(buf_text(&out), "the next is due in 5.0 s"));
    assert_non_null(strstr(buf_text(&out), "no process runs it"));
    assert_non_null(strstr(buf_text(&out), "isolation of scenes is off"));
    assert_null(strstr(buf_text(&out), "wait for an operator"));
    buf_done(&out);
    free(status);
}

static void a_partition_is_found_again(void **state)
{
    struct status *status = status_make();
    struct status_partition *one = status_partition_at(status, "a", 1);

    (void)state;
    assert_ptr_not_equal(status_partition_at(status, "a", 2), one);
    assert_ptr_not_equal(status_partition_at(status, "b", 1), one);
    assert_ptr_equal(status_partition_at(status, "a", 1), one);
    assert_int_equal(status->partition_count, 3);
    assert_int_equal(one->next_offset, STATUS_UNKNOWN);
    free(status);
}

static void there_is_an_end_to_partitions(void **state)
{
    struct status *status = status_make();

    (void)state;
    for (int32_t i = 0; i < STATUS_PARTITIONS_MAX; i++)
        assert_non_null(status_partition_at(status, "a", i));
    assert_null(status_partition_at(status, "a", STATUS_PARTITIONS_MAX));
    assert_non_null(status_partition_at(status, "a", 0));
    free(status);
}

static void lag_counts_the_records_that_can_still_be_read(void **state)
{
    static const struct {
        int64_t next, low, high, lag;
    } cases[] = {
        {5, 0, 8, 3},
        {8, 0, 8, 0},
        {9, 0, 8, 0}, /* a recreated topic: the consumer reports it, and there is no lag */
        {5, 6, 8, 2},
        {STATUS_UNKNOWN, 6, 8, 2},
        {STATUS_UNKNOWN, 0, 0, 0},
        {5, STATUS_UNKNOWN, STATUS_UNKNOWN, STATUS_UNKNOWN},
    };
    struct status *status = status_make();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct status_partition partition = {
            .next_offset = cases[i].next, .low = cases[i].low, .high = cases[i].high};

        assert_int_equal(status_lag(status, &partition), cases[i].lag);
    }
    free(status);
}

static void lag_is_unknown_while_the_applied_offset_is_unknown(void **state)
{
    struct status *status = status_full();
    struct err err = {0};

    (void)state;
    status_fail(&status->progress_fault, RC_RETRY, &err);
    assert_int_equal(status_lag(status, &status->partitions[0]), STATUS_UNKNOWN);
    status->partitions[0].owner[0] = '\0';
    assert_says(status, "  vote-events/3    40   42    -  -        50 ms ago\n");
    free(status);
}

static void the_reason_of_an_unavailable_server_is_reported_once(void **state)
{
    struct status *status = status_full();
    struct err err = {0};

    (void)state;
    err_set(&err, "server away");
    status_fail(&status->schemas[0].fault, RC_RETRY, &err);
    status_fail(&status->outbox_fault, RC_RETRY, &err);
    assert_says(status, "schema\n  [mysql] tallybox at db:3306: not known: server away\n");
    assert_says(status, "outbox\n  not known, for the same reason\n");
    free(status);
}

static void the_first_fault_of_a_part_counts(void **state)
{
    struct status_fault fault = {0};
    struct err err = {0};

    (void)state;
    err_set(&err, "first");
    status_fail(&fault, RC_RETRY, &err);
    err_set(&err, "second");
    status_fail(&fault, RC_FATAL, &err);
    assert_int_equal(fault.rc, RC_RETRY);
    assert_string_equal(fault.err.text, "first");
}

/* Every part that can fail, in turn. */
static void every_part_that_fails_is_reported(void **state)
{
    struct status *status = status_full();
    struct status_fault *const faults[] = {
        &status->schemas[0].fault, &status->outbox_fault,   &status->lanes[1].fault,
        &status->instances_fault,  &status->progress_fault, &status->kafka_fault,
        &status->dead_fault,       &status->rollup.fault,   &status->housekeep.fault,
    };
    struct err err = {0};

    (void)state;
    err_set(&err, "server away");
    assert_int_equal(status_outcome(status), RC_OK);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        status_fail(faults[i], RC_RETRY, &err);
        assert_int_equal(status_outcome(status), RC_RETRY);
        assert_says(status, "server away");
        *faults[i] = (struct status_fault){0};
    }
    free(status);
}

static void a_fault_that_stays_is_graver_than_one_that_passes(void **state)
{
    struct status *status = status_full();
    struct err err = {0};

    (void)state;
    status_fail(&status->outbox_fault, RC_FATAL, &err);
    status_fail(&status->kafka_fault, RC_RETRY, &err);
    assert_int_equal(status_outcome(status), RC_FATAL);
    status->outbox_fault = (struct status_fault){0};
    assert_int_equal(status_outcome(status), RC_RETRY);
    free(status);
}

static void assert_problem(const struct status *status, const char *words)
{
    struct buf out = {0};
    size_t count = status_put_summary(status, &out);

    if (!words && count == 0 && strcmp(buf_text(&out), "ok\n") == 0)
        words = "ok\n";
    else
        assert_int_equal(strncmp(buf_text(&out), "PROBLEMS: ", 10), 0);
    if (!words || !strstr(buf_text(&out), words))
        fail_msg("\"%s\" is not in:\n%s", words ? words : "ok", buf_text(&out));
    assert_ptr_equal(strchr(buf_text(&out), '\n'), out.data + out.len - 1);
    buf_done(&out);
}

/* Work moves, nothing waits for an operator, and every role has a live instance. */
static struct status *status_good(void)
{
    struct status *status = status_full();

    status->lanes[0].diverted_keys = 0;
    status->instances[0].seen_ms = 3000;
    status->class_count = 0;
    status->written.count = 1;
    status->served[0] = true;
    return status;
}

static void what_an_operator_must_look_at_is_the_first_line(void **state)
{
    struct status *status = status_good();
    struct buf out = {0};
    json_t *root;

    (void)state;
    assert_problem(status, NULL);
    status_print_text(status, &out);
    assert_int_equal(strncmp(buf_text(&out), "ok\ntallybox ", 12), 0);
    buf_done(&out);
    status->lanes[0].oldest_ms = 60001;
    set(status->lanes[0].owner, "");
    assert_problem(status,
                   "lane outbox: its oldest row waits for 1 min, and no relay holds the lane");
    assert_says(status, "PROBLEMS: lane outbox");
    set(status->instances[0].admin, "http://db:9464");
    assert_problem(status, "and no relay holds the lane; http://db:9464/readyz of the role relay "
                           "says why\n");
    set(status->lanes[0].owner, status->instances[0].name);
    assert_problem(status, "held by db-1-ab12; http://db:9464/readyz of the role relay says why\n");
    status->instances[0].seen_ms = 15001;
    assert_problem(status, "held by db-1-ab12; role relay: no live instance");
    status->instances[0].seen_ms = 0;
    set(status->lanes[0].owner, "");
    set(status->instances[0].admin, "");
    root = json_of(status);
    assert_int_equal(json_array_size(json_object_get(root, "problems")), 1);
    json_decref(root);
    status->served[0] = false;
    assert_problem(status, "lane; lane outbox: no live relay serves it\n");
    free(status);
}

static void tasks_that_fail_for_a_reason_of_the_installation_are_a_problem(void **state)
{
    struct status *status = status_good();

    (void)state;
    status->retry.exhausted = 3;
    assert_problem(status, NULL);
    assert_says(status, "  tasks exhausted within a day: 3: tallybox retry history --outcome "
                        "exhausted --since 1d\n");
    status->retry.ours_count = 1;
    set(status->retry.ours[0].handler, "http");
    set(status->retry.ours[0].reason, "the host \"h\" is not in retry.http_hosts");
    status->retry.ours[0].tasks = 7;
    assert_problem(status, "PROBLEMS: retry queue: 7 tasks of the handler http fail because of a "
                           "setting, token or account, of tallybox or the application: the host "
                           "\"h\" is not in retry.http_hosts: tallybox "
                           "retry list --reason-class ours\n");
    assert_says(status, "  7 of the handler http fail because of a setting, token or account, of "
                        "tallybox or the");
    free(status);
}

/* As --watch writes it on a terminal, which clears the screen first. */
static void the_first_line_has_its_beginning_behind_other_text(void **state)
{
    struct status *status = status_good();
    struct buf out = {0};

    (void)state;
    status->retry.tasks[3] = 2;
    status->class_count = 1;
    buf_text_put(&out, "\033[H\033[2J");
    assert_int_equal(status_put_summary(status, &out), 2);
    assert_int_equal(strncmp(buf_text(&out), "\033[H\033[2JPROBLEMS: retry queue: 2 keys wait", 40),
                     0);
    assert_non_null(strstr(buf_text(&out), "; dead records: 9"));
    buf_reset(&out);
    buf_text_put(&out, "\033[H\033[2J");
    status->retry.tasks[3] = 0;
    status->class_count = 0;
    assert_int_equal(status_put_summary(status, &out), 0);
    assert_string_equal(buf_text(&out), "\033[H\033[2Jok\n");
    buf_done(&out);
    free(status);
}

static void a_dead_instance_is_a_problem_until_another_has_its_role(void **state)
{
    struct status *status = status_good();

    (void)state;
    status->instances[0].seen_ms = 15001;
    assert_problem(status, "role relay: no live instance; db-1-ab12 died 15 s ago");
    status->instances[1] = status->instances[0];
    status->instances[0].seen_ms = 1;
    status->instance_count = 2;
    assert_problem(status, NULL);
    set(status->instances[1].role, "retry");
    assert_problem(status, "role retry: no live instance");
    free(status);
}

static void the_settings_of_an_instance_tell_when_it_is_dead(void **state)
{
    struct status *status = status_good();

    (void)state;
    status->instances[0].lease_ms = 120000;
    status->instances[0].seen_ms = 120000;
    assert_problem(status, NULL);
    status->instances[0].seen_ms = 120001;
    assert_problem(status, "role relay: no live instance; db-1-ab12 died 2 min ago");
    status->instances[0].lease_ms = 2000;
    status->instances[0].seen_ms = 2001;
    assert_problem(status, "role relay: no live instance");
    free(status);
}

static void waiting_work_is_a_problem_when_it_is_stale(void **state)
{
    struct status *status = status_good();

    (void)state;
    status->retry.overdue_ms = 60000;
    status->rollup.due_ms = NOW_MS - 60000;
    status->housekeep.due_ms = NOW_MS - 60000;
    assert_problem(status, NULL);
    status->retry.overdue_ms = 60001;
    assert_problem(status, "retry queue: a task is due for 1 min, and no process runs the queue");
    status->retry.overdue_ms = STATUS_UNKNOWN;
    status->retry.tasks[3] = 2;
    assert_problem(status, "2 keys wait for an operator: tallybox retry list");
    status->retry.tasks[3] = 0;
    status->partitions[0].late = 1;
    assert_problem(status, "consumer: records wait for longer than 1 min in vote-events/3, held by "
                           "db-2-cd34\n");
    status_partition_at(status, "vote-events", 4)->late = 1;
    assert_problem(status, "in vote-events/3 and 1 other partitions, held by db-2-cd34\n");
    status->partitions[1].late = 0;
    status->partitions[0].late = 0;
    status->rollup.due_ms = NOW_MS - 60001;
    assert_problem(status, "roll-up: due for 1 min, and no instance works on it");
    set(status->rollup.owner, "db-3-ef56");
    assert_problem(status, NULL);
    status->housekeep.due_ms = NOW_MS - 60001;
    assert_problem(status, "housekeeping: due for 1 min");
    status->housekeep.finished_ms = 0;
    assert_problem(status, NULL);
    free(status);
}

static void dead_records_and_faults_are_problems(void **state)
{
    struct status *status = status_good();
    struct err err = {0};

    (void)state;
    status->class_count = 1;
    assert_problem(status, "dead records: 9 (not_json 9): tallybox dead list\n");
    status->class_count = 0;
    err_set(&err, "server\naway");
    status_fail(&status->kafka_fault, RC_RETRY, &err);
    assert_problem(status, "Kafka: server away\n");
    status_fail(&status->schemas[0].fault, RC_RETRY, &err);
    assert_problem(status, "PROBLEMS: [mysql] tallybox at db:3306: server away\n");
    status->kafka_fault = status->schemas[0].fault = (struct status_fault){0};
    status->rollup.fault = (struct status_fault){.rc = RC_FATAL, .no_schema = true};
    assert_problem(status, NULL);
    status->schemas[0].version = 0;
    assert_problem(status, "no schema: run tallybox migrate up");
    free(status);
}

static void housekeeping_reports_the_months_of_the_log(void **state)
{
    struct status *status = status_full();

    (void)state;
    assert_says(status, "housekeeping\n  the last round ended 12 min ago\n"
                        "  the next one is due in 48 min\n"
                        "  vote_document: 37 partitions, months made up to 2029-01-01\n");
    set(status->housekeep.begin_date, "2026-02-01");
    set(status->housekeep.owner, "db-3-ef56");
    assert_says(status, "db-3-ef56 is at work");
    assert_says(status, "votes from before 2026-02-01 are dropped, and refused");
    free(status);
}

static void a_missing_schema_is_a_fact_and_not_a_failure(void **state)
{
    struct status *status = status_make();
    struct err err = {0};

    (void)state;
    err_set(&err, "Table does not exist");
    status_fail(&status->schemas[0].fault, RC_FATAL, &err);
    status->schemas[0].fault.no_schema = true;
    status->schemas[0].version = 0;
    status->rollup.fault = status->schemas[0].fault;
    assert_int_equal(status_outcome(status), RC_OK);
    assert_says(status, "[mysql] tallybox at db:3306: no schema: run tallybox migrate up");
    assert_says(status, "roll-up\n  no schema: run tallybox migrate up");
    free(status);
}

/* The history says that all migrations were applied. */
static void a_missing_table_of_a_schema_is_a_problem_with_its_name(void **state)
{
    struct status *status = status_good();
    struct err err = {0};

    (void)state;
    err_set(&err, "Table 't.retry_task' doesn't exist");
    status_fail(&status->retry.fault, RC_FATAL, &err);
    status->retry.fault.no_table = true;
    assert_int_equal(status_outcome(status), RC_FATAL);
    assert_problem(status, "PROBLEMS: retry queue: Table 't.retry_task' doesn't exist\n");
    assert_says(status, "retry queue\n  not known: Table 't.retry_task' doesn't exist\n");
    set(status->schemas[0].missing, "retry_task, instance");
    assert_problem(status, "PROBLEMS: [mysql] tallybox at db:3306: tables are missing: retry_task, "
                           "instance: tallybox migrate verify compares all tables\n");
    assert_says(status, "  tables are missing: retry_task, instance: tallybox migrate verify");
    free(status);
}

static void a_lane_tells_its_own_table_from_that_of_its_lease(void **state)
{
    struct status *status = status_good();
    struct err err = {0};

    (void)state;
    err_set(&err, "Table 't.relay_lease' doesn't exist");
    status_fail(&status->lanes[1].fault, RC_FATAL, &err);
    status->lanes[1].fault.no_table = true;
    assert_problem(status, "PROBLEMS: outbox_1: Table 't.relay_lease' doesn't exist\n");
    status->lanes[1].no_table = true;
    assert_problem(status, "PROBLEMS: lane outbox_1: there is no table outbox_1\n");
    free(status);
}

static void the_first_task_of_a_diverted_key_is_named_with_the_commands(void **state)
{
    struct status *status = status_full();

    (void)state;
    assert_problem(status,
                   "lane outbox: keys diverted by a refused event: 2; task 17, key orders/7: "
                   "too large; it blocks its key at 2026-09-21 14:14 UTC unless corrected; "
                   "tallybox retry list --group outbox shows the tasks, tallybox retry edit "
                   "17 corrects this one");
    status->lanes[0].block_ms = 0;
    assert_problem(status, "key orders/7: too large; tallybox retry list --group outbox");
    status->lanes[0].diverted_task = 0;
    assert_problem(status, "lane outbox: keys diverted by a refused event: 2; role relay");
    free(status);
}

static void a_person_reads_aligned_columns(void **state)
{
    struct status *status = status_full();

    (void)state;
    assert_says(status, "2026-01-01 00:00:00 UTC");
    assert_says(status, "  [mysql] tallybox at db:3306: version 2\n");
    assert_says(status, "  lane         rows  oldest  held by    epoch  lease left\n"
                        "  outbox    100000+   1.2 s  db-1-ab12      7        12 s\n"
                        "  outbox_1        0       -  none           0           -\n");
    assert_says(
        status,
        "  outbox: keys diverted by a refused event: 2; task 17, key orders/7: too large; it "
        "blocks its key\n  at 2026-09-21 14:14 UTC unless corrected; tallybox retry list "
        "--group outbox shows the tasks,\n  tallybox retry edit 17 corrects this one\n");
    assert_says(status, "  instance   role    up  last seen  admin\n"
                        "  db-1-ab12  relay  1 h   16 s ago  dead since 2025-12-31 23:59:44 UTC\n");
    assert_says(status, "  partition      next  end  lag  held by      updated\n"
                        "  vote-events/3    40   42    2  db-2-cd34  50 ms ago\n"
                        "  records not applied yet: 2\n");
    assert_says(status, "  not_json        9  1 min ago\n");
    assert_says(status, "  the last one ended 12 min ago\n  the next one is due in 48 min\n"
                        "  contents changed since their remark: 5\n");
    free(status);
}

static void an_empty_installation_is_reported_as_empty(void **state)
{
    struct status *status = status_make();

    (void)state;
    assert_says(status, "instances\n  none has left a heartbeat\n");
    assert_says(status, "no partition: its topics do not exist yet");
    assert_says(status, "dead records\n  none\n");
    assert_says(status, "none was finished yet\n  the next one is due now\n");
    free(status);
}

static void an_unfinished_migration_is_named(void **state)
{
    struct status *status = status_make();

    (void)state;
    status->schemas[0].version = 1;
    set(status->schemas[0].unfinished, "0002_sink");
    assert_says(status, "version 1, and 0002_sink is not finished: run tallybox migrate up");
    free(status);
}

static void an_expired_lease_differs_from_a_valid_one(void **state)
{
    struct status *status = status_full();

    (void)state;
    status->lanes[0].lease_left_ms = -1;
    assert_says(status, "db-1-ab12      7        over\n");
    free(status);
}

static void a_lease_from_before_the_clock_was_set_back_is_named(void **state)
{
    struct status *status = status_full();
    struct buf out = {0};

    (void)state;
    status->lanes[0].lease_ms = 15000;
    status->lanes[0].lease_left_ms = 30000;
    status_print_text(status, &out);
    assert_null(strstr(buf_text(&out), "set back"));
    buf_done(&out);
    status->lanes[0].lease_left_ms = 30001;
    assert_says(status, "outbox: the database clock was set back");
    status->instances[0].seen_ms = -30000;
    assert_says(status, "1 h   0 ms ago  -\n");
    status->instances[0].seen_ms = -30001;
    assert_says(status, "1 h   0 ms ago  dead since 2026-01-01 00:00:30 UTC\n");
    free(status);
}

static void lines_stay_within_100_columns(void **state)
{
    struct status *status = status_full();
    struct buf out = {0};
    struct err err = {0};
    char *rest = NULL;

    (void)state;
    err_set(&err, "%s",
            "kafka: a reason that is much longer than a line should be, and that goes "
            "on and on because somebody had a lot to say about what the matter was, "
            "and did not stop here either");
    status_fail(&status->kafka_fault, RC_RETRY, &err);
    memset(status->lanes[0].name, 'x', 64);
    memset(status->lanes[0].owner, 'y', 128);
    memset(status->instances[0].name, 'z', 128);
    status_print_text(status, &out);
    assert_non_null(strstr(buf_text(&out), "either"));
    /* The first line lists the problems. */
    strtok_r((char *)out.data, "\n", &rest);
    for (char *line = strtok_r(NULL, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strlen(line) > 100)
            fail_msg("%zu columns: %s", strlen(line), line);
    buf_done(&out);
    free(status);
}

static void json_has_the_same_facts_as_numbers(void **state)
{
    struct status *status = status_full();
    json_t *root = json_of(status);
    const char *lane = NULL, *owner = NULL, *topic = NULL;
    int version, rows_more, partition;
    json_int_t rows, oldest_ms, left_ms, next, high, lag, waiting, finished_ms, seen_ms, records;
    json_t *none;

    (void)state;
    assert_int_equal(
        json_unpack(root,
                    "{s:[{s:i}], s:{s:n, s:[{s:s, s:I, s:b, s:I, s:s, s:I}, {s:o}]},"
                    " s:{s:[{s:I}]}, s:{s:n, s:[{s:s, s:i, s:I, s:I, s:I}]},"
                    " s:{s:[{s:I}]}, s:{s:n, s:I, s:I}}",
                    "schema", "version", &version, "outbox", "error", "lanes", "lane", &lane,
                    "rows", &rows, "rows_more", &rows_more, "oldest_age_ms", &oldest_ms, "owner",
                    &owner, "lease_left_ms", &left_ms, "oldest_age_ms", &none, "instances", "list",
                    "seen_age_ms", &seen_ms, "consumer", "kafka_error", "partitions", "topic",
                    &topic, "partition", &partition, "next_offset", &next, "high_watermark", &high,
                    "lag", &lag, "dead_records", "classes", "records", &records, "rollup", "error",
                    "finished_ms", &finished_ms, "waiting", &waiting),
        0);
    assert_int_equal(version, 2);
    assert_string_equal(lane, "outbox");
    assert_int_equal(rows, STATUS_COUNT_MAX);
    assert_true(rows_more);
    assert_int_equal(oldest_ms, 1234);
    assert_string_equal(owner, "db-1-ab12");
    assert_int_equal(left_ms, 12000);
    assert_true(json_is_null(none));
    assert_int_equal(seen_ms, 16000);
    assert_string_equal(topic, "vote-events");
    assert_int_equal(partition, 3);
    assert_int_equal(next, 40);
    assert_int_equal(high, 42);
    assert_int_equal(lag, 2);
    assert_int_equal(records, 9);
    assert_int_equal(finished_ms, NOW_MS - 720000);
    assert_int_equal(waiting, 5);
    json_decref(root);
    free(status);
}

static void json_has_a_fault_in_its_part(void **state)
{
    struct status *status = status_full();
    struct err err = {0};
    json_t *root;
    const char *text = NULL;

    (void)state;
    err_set(&err, "server away");
    status_fail(&status->kafka_fault, RC_RETRY, &err);
    root = json_of(status);
    assert_int_equal(json_unpack(root, "{s:{s:s}}", "consumer", "kafka_error", &text), 0);
    assert_string_equal(text, "server away");
    json_decref(root);
    free(status);
}

/* Its rows stay in the table, so their age is no delay. */
static struct status *status_with_stream(void)
{
    struct status *status = status_full();
    struct status_lane *lane = &status->lanes[1];
    struct status_position *position = &lane->position;

    lane->is_stream = true;
    lane->rows = 7;
    set(lane->name, "fast");
    position->found = position->by_gtid = true;
    set(position->gtids, "0-1-77");
    set(position->file, "binlog.000042");
    position->offset = 4711;
    position->saved_ms = 900;
    position->behind_ms = 2500;
    position->behind_bytes = 3210;
    position->kept_bytes = 99000;
    status->log_expire_ms = 86400000;
    return status;
}

/* As assert_says(), for words that may be on two lines. */
static void assert_reads(const struct status *status, const char *words)
{
    struct buf out = {0};
    struct buf line = {0};

    status_print_text(status, &out);
    for (const char *at = buf_text(&out); *at; at++)
        if (*at != '\n' && (*at != ' ' || at[1] != ' '))
            buf_char(&line, *at);
    if (!strstr(buf_text(&line), words))
        fail_msg("\"%s\" is not in:\n%s", words, buf_text(&line));
    buf_done(&out);
    buf_done(&line);
}

static void a_lane_that_reads_the_log_shows_its_position(void **state)
{
    struct status *status = status_with_stream();
    struct status_position *position = &status->lanes[1].position;

    (void)state;
    assert_reads(status, "fast: reads the binary log; position behind the transactions 0-1-77, "
                         "saved 900 ms ago, 2.5 s behind");
    assert_reads(status, "fast: file binlog.000042, offset 4711");
    assert_reads(status, "fast: 3210 bytes of the log are behind its position, and 99000 are kept "
                         "before it;");
    assert_reads(status, "not the oldest file; files are deleted after 24 h");
    position->is_oldest_file = true;
    position->behind_ms = 0;
    status->log_expire_ms = 0;
    assert_reads(status, "at the end of the log");
    assert_reads(status, "is the oldest file; files are deleted by the administrator");
    position->by_gtid = false;
    assert_reads(status, "position by file and offset");
    position->found = false;
    assert_reads(status, "fast: it has no position in the binary log yet");
    free(status);
}

static void the_size_of_the_log_needs_a_privilege(void **state)
{
    struct status *status = status_with_stream();
    struct err err = {0};

    (void)state;
    status->lanes[1].position.behind_bytes = STATUS_UNKNOWN;
    err_set(&err, "Access denied (1227)");
    status_fail(&status->log_fault, RC_FATAL, &err);
    assert_reads(status, "needs REPLICATION CLIENT, on");
    assert_reads(status, "Access denied (1227)");
    assert_int_equal(status_outcome(status), RC_OK);
    free(status);
}

static void a_position_that_does_not_move_is_a_problem(void **state)
{
    struct status *status = status_with_stream();
    struct status_position *position = &status->lanes[1].position;

    (void)state;
    judge_problem(status, "lane fast", false);
    position->behind_ms = 60001;
    judge_problem(status,
                  "lane fast: its position in the binary log is 1 min behind, and no relay "
                  "holds the lane",
                  true);
    position->behind_ms = 0;
    position->is_purged = true;
    judge_problem(status, "lane fast: the server has deleted file binlog.000042", true);
    position->is_purged = false;
    position->from_table = true;
    judge_problem(
        status, "lane fast: the server had purged its binary log, so it goes on from table", true);
    position->from_table = position->found = false;
    judge_problem(status, "`tallybox lanes begin fast` if they are published", true);
    status->lanes[1].rows = 0;
    judge_problem(status, "lane fast", false);
    free(status);
}

static void json_has_the_position_of_a_lane_that_reads_the_log(void **state)
{
    struct status *status = status_with_stream();
    json_t *root = json_of(status);
    json_t *lanes = json_object_get(json_object_get(root, "outbox"), "lanes");
    json_t *position = json_object_get(json_array_get(lanes, 1), "position");

    (void)state;
    assert_true(json_is_null(json_object_get(json_array_get(lanes, 0), "position")));
    assert_true(json_is_null(json_object_get(position, "error")));
    assert_string_equal(json_string_value(json_object_get(position, "gtids")), "0-1-77");
    assert_string_equal(json_string_value(json_object_get(position, "file")), "binlog.000042");
    assert_int_equal(json_integer_value(json_object_get(position, "offset")), 4711);
    assert_int_equal(json_integer_value(json_object_get(position, "saved_age_ms")), 900);
    assert_int_equal(json_integer_value(json_object_get(position, "behind_ms")), 2500);
    assert_int_equal(json_integer_value(json_object_get(position, "behind_bytes")), 3210);
    assert_int_equal(json_integer_value(json_object_get(position, "kept_bytes")), 99000);
    assert_true(json_is_false(json_object_get(position, "oldest_file")));
    assert_true(json_is_false(json_object_get(position, "purged")));
    assert_int_equal(json_integer_value(json_object_get(position, "log_expire_ms")), 86400000);
    json_decref(root);
    free(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_retry_queue_reports_tasks_that_wait_for_an_operator),
        cmocka_unit_test(tasks_that_fail_for_a_reason_of_the_installation_are_a_problem),
        cmocka_unit_test(a_partition_is_found_again),
        cmocka_unit_test(there_is_an_end_to_partitions),
        cmocka_unit_test(lag_counts_the_records_that_can_still_be_read),
        cmocka_unit_test(lag_is_unknown_while_the_applied_offset_is_unknown),
        cmocka_unit_test(the_reason_of_an_unavailable_server_is_reported_once),
        cmocka_unit_test(the_first_fault_of_a_part_counts),
        cmocka_unit_test(every_part_that_fails_is_reported),
        cmocka_unit_test(a_fault_that_stays_is_graver_than_one_that_passes),
        cmocka_unit_test(what_an_operator_must_look_at_is_the_first_line),
        cmocka_unit_test(the_first_line_has_its_beginning_behind_other_text),
        cmocka_unit_test(a_dead_instance_is_a_problem_until_another_has_its_role),
        cmocka_unit_test(the_settings_of_an_instance_tell_when_it_is_dead),
        cmocka_unit_test(waiting_work_is_a_problem_when_it_is_stale),
        cmocka_unit_test(dead_records_and_faults_are_problems),
        cmocka_unit_test(housekeeping_reports_the_months_of_the_log),
        cmocka_unit_test(a_missing_schema_is_a_fact_and_not_a_failure),
        cmocka_unit_test(a_missing_table_of_a_schema_is_a_problem_with_its_name),
        cmocka_unit_test(a_lane_tells_its_own_table_from_that_of_its_lease),
        cmocka_unit_test(the_first_task_of_a_diverted_key_is_named_with_the_commands),
        cmocka_unit_test(a_person_reads_aligned_columns),
        cmocka_unit_test(an_empty_installation_is_reported_as_empty),
        cmocka_unit_test(an_unfinished_migration_is_named),
        cmocka_unit_test(an_expired_lease_differs_from_a_valid_one),
        cmocka_unit_test(a_lease_from_before_the_clock_was_set_back_is_named),
        cmocka_unit_test(lines_stay_within_100_columns),
        cmocka_unit_test(a_lane_that_reads_the_log_shows_its_position),
        cmocka_unit_test(the_size_of_the_log_needs_a_privilege),
        cmocka_unit_test(a_position_that_does_not_move_is_a_problem),
        cmocka_unit_test(json_has_the_position_of_a_lane_that_reads_the_log),
        cmocka_unit_test(json_has_the_same_facts_as_numbers),
        cmocka_unit_test(json_has_a_fault_in_its_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
