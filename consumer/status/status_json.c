/* SPDX-License-Identifier: MIT */
#include "consumer/status/status.h"
#include "outbox/outbox.h"

#include <jansson.h>
#include <stdlib.h>

/* NULL members (no memory) make json_pack() fail, and the whole with it. */

static json_t *number(int64_t value)
{
    return value == STATUS_UNKNOWN ? json_null() : json_integer((json_int_t)value);
}

/* "" is nobody, nothing. */
static json_t *text(const char *value)
{
    return value[0] ? json_string(value) : json_null();
}

static json_t *fault_json(const struct status_fault *fault)
{
    if (fault->no_schema)
        return json_string("no schema: run tallybox migrate up");
    return fault->rc == RC_OK ? json_null() : text(fault->err.text);
}

/* Half a list is worse than none: a failed append spoils it. */
static void append(json_t **list, json_t *one)
{
    if (json_array_append_new(*list, one) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

static json_t *schemas_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->schema_count; i++) {
        const struct status_schema *one = &status->schemas[i];

        append(&list, json_pack("{s:o, s:s, s:s, s:I, s:o}", "error", fault_json(&one->fault),
                                "section", one->section, "place", one->place, "version",
                                (json_int_t)one->version, "unfinished", text(one->unfinished)));
    }
    return list;
}

static json_t *lanes_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->lane_count; i++) {
        const struct status_lane *one = &status->lanes[i];
        bool held = one->owner[0] != '\0';

        append(&list, json_pack("{s:o, s:s, s:I, s:b, s:o, s:o, s:I, s:o, s:I, s:o}", "error",
                                fault_json(&one->fault), "lane", one->name, "rows",
                                (json_int_t)one->rows, "rows_more", one->rows >= STATUS_COUNT_MAX,
                                "oldest_age_ms", number(one->oldest_ms), "owner", text(one->owner),
                                "epoch", (json_int_t)one->epoch, "lease_left_ms",
                                held ? json_integer((json_int_t)one->lease_left_ms) : json_null(),
                                "stopped_keys", (json_int_t)one->stopped_keys, "stopped_reason",
                                text(one->stopped_reason)));
    }
    return list;
}

static json_t *written_json(const struct status *status)
{
    json_t *unserved = json_array();

    for (int64_t i = 0; i < status->written.count && i < LANES_MAX; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        outbox_lane_name(name, (size_t)i);
        if (!status->served[i])
            append(&unserved, json_string(name));
    }
    return json_pack("{s:o, s:I, s:I, s:o}", "error", fault_json(&status->written_fault),
                     "lane_count", (json_int_t)status->written.count, "changing_to",
                     (json_int_t)status->written.next, "unserved", unserved);
}

static json_t *instances_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->instance_count; i++) {
        const struct status_instance *one = &status->instances[i];

        append(&list,
               json_pack("{s:s, s:s, s:I, s:I}", "name", one->name, "role", one->role, "up_ms",
                         (json_int_t)one->up_ms, "seen_age_ms", (json_int_t)one->seen_ms));
    }
    return list;
}

static json_t *partitions_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->partition_count; i++) {
        const struct status_partition *one = &status->partitions[i];

        append(&list,
               json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "topic", one->topic,
                         "partition", (int)one->partition, "next_offset", number(one->next_offset),
                         "low_watermark", number(one->low), "high_watermark", number(one->high),
                         "lag", number(status_lag(status, one)), "owner", text(one->owner), "epoch",
                         (json_int_t)one->epoch, "updated_age_ms", number(one->updated_ms)));
    }
    return list;
}

static json_t *classes_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->class_count; i++) {
        const struct status_class *one = &status->classes[i];

        append(&list,
               json_pack("{s:s, s:I, s:b, s:I}", "reason_class", one->name, "records",
                         (json_int_t)one->records, "records_more", one->records >= STATUS_COUNT_MAX,
                         "newest_age_ms", (json_int_t)one->newest_ms));
    }
    return list;
}

static json_t *rollup_json(const struct status *status)
{
    const struct status_rollup *one = &status->rollup;

    return json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:I, s:b}", "error", fault_json(&one->fault), "rolled_until_ms",
        number(one->rolled_until_ms > 0 ? one->rolled_until_ms : STATUS_UNKNOWN), "finished_ms",
        number(one->finished_ms > 0 ? one->finished_ms : STATUS_UNKNOWN), "due_ms",
        (json_int_t)one->due_ms, "owner", text(one->owner), "waiting", (json_int_t)one->waiting,
        "waiting_more", one->waiting >= STATUS_COUNT_MAX);
}

static json_t *housekeep_json(const struct status *status)
{
    const struct status_housekeep *one = &status->housekeep;

    return json_pack(
        "{s:o, s:o, s:I, s:o, s:o, s:I, s:o}", "error", fault_json(&one->fault), "finished_ms",
        number(one->finished_ms > 0 ? one->finished_ms : STATUS_UNKNOWN), "due_ms",
        (json_int_t)one->due_ms, "owner", text(one->owner), "begin_date", text(one->begin_date),
        "partitions", (json_int_t)one->partitions, "until_date", text(one->until_date));
}

static json_t *retry_json(const struct status *status)
{
    static const char *const names[STATUS_TASK_STATES] = {"waiting", "running", "queued", "blocked",
                                                          "parked"};
    const struct status_retry *one = &status->retry;
    json_t *tasks = json_object();
    json_t *paused = json_array();
    json_t *unserved = json_object();
    json_t *closed = json_object();

    for (size_t i = 0; i < STATUS_TASK_STATES; i++)
        json_object_set_new(tasks, names[i], json_integer((json_int_t)one->tasks[i]));
    for (size_t i = 0; i < one->paused_count; i++)
        append(&paused, json_string(one->paused[i]));
    for (size_t i = 0; i < one->unserved_count; i++)
        json_object_set_new(unserved, one->unserved[i].handler,
                            json_integer((json_int_t)one->unserved[i].tasks));
    for (size_t i = 0; i < one->closed_count; i++)
        json_object_set_new(closed, one->closed[i].group,
                            json_integer((json_int_t)one->closed[i].tasks));
    return json_pack(
        "{s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:I, s:b}", "error", fault_json(&one->fault), "tasks",
        tasks, "tasks_max", STATUS_COUNT_MAX, "oldest_due_age_ms",
        one->tasks[0] > 0 ? json_integer((json_int_t)one->due_ms) : json_null(), "paused_scenes",
        paused, "unserved_handlers", unserved, "closed_groups", closed, "instances",
        (json_int_t)one->instances, "scenes_isolated", one->threads > 1);
}

void status_json(const struct status *status, struct buf *out)
{
    json_t *root = json_pack(
        "{s:s, s:I, s:o, s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o}, s:{s:s, s:o, s:o, s:o}, "
        "s:{s:o, s:o}, s:o, s:o, s:o}",
        "version", TALLYBOX_VERSION, "now_ms", (json_int_t)status->now_ms, "schema",
        schemas_json(status), "outbox", "error", fault_json(&status->outbox_fault), "lanes",
        lanes_json(status), "written", written_json(status), "writer_cluster",
        text(status->cluster), "instances", "error", fault_json(&status->instances_fault), "list",
        instances_json(status), "consumer", "group", status->group, "error",
        fault_json(&status->progress_fault), "kafka_error", fault_json(&status->kafka_fault),
        "partitions", partitions_json(status), "dead_records", "error",
        fault_json(&status->dead_fault), "classes", classes_json(status), "rollup",
        rollup_json(status), "housekeep", housekeep_json(status), "retry", retry_json(status));
    char *json = root ? json_dumps(root, JSON_INDENT(2)) : NULL;

    json_decref(root);
    if (json) {
        buf_text_put(out, json);
        buf_char(out, '\n');
    } else {
        out->failed = true;
    }
    free(json);
}
