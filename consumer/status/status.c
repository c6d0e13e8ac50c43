/* SPDX-License-Identifier: MIT */
#include "consumer/status/status.h"

#include "common/text.h"
#include "common/utc.h"
#include "consumer/singleton_lease.h"
#include "outbox/outbox.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void worsen_rc(enum rc *worst, const struct status_fault *fault)
{
    if (fault->rc == RC_OK || fault->no_schema || *worst == RC_FATAL)
        return;
    *worst = fault->rc == RC_RETRY ? RC_RETRY : RC_FATAL;
}

struct status_partition *status_partition_at(struct status *status, const char *topic,
                                             int32_t partition)
{
    struct status_partition *one = status->partitions;

    for (size_t i = 0; i < status->partition_count; i++, one++)
        if (one->partition == partition && strcmp(one->topic, topic) == 0)
            return one;
    if (status->partition_count == STATUS_PARTITIONS_MAX)
        return NULL;
    status->partition_count++;
    *one = (struct status_partition){
        .partition = partition,
        .next_offset = STATUS_UNKNOWN,
        .low = STATUS_UNKNOWN,
        .high = STATUS_UNKNOWN,
        .updated_ms = STATUS_UNKNOWN,
    };
    snprintf(one->topic, sizeof(one->topic), "%s", topic);
    return one;
}

void status_fail(struct status_fault *fault, enum rc rc, const struct err *err)
{
    if (fault->rc != RC_OK)
        return;
    fault->rc = rc;
    fault->err = *err;
}

int64_t status_lag(const struct status *status, const struct status_partition *partition)
{
    int64_t next = partition->next_offset;

    if (partition->high == STATUS_UNKNOWN || status->progress_fault.rc != RC_OK)
        return STATUS_UNKNOWN;
    if (next < partition->low)
        next = partition->low;
    return partition->high > next ? partition->high - next : 0;
}

enum rc status_outcome(const struct status *status)
{
    enum rc worst = RC_OK;

    for (size_t i = 0; i < status->schema_count; i++)
        worsen_rc(&worst, &status->schemas[i].fault);
    worsen_rc(&worst, &status->outbox_fault);
    for (size_t i = 0; i < status->lane_count; i++) {
        worsen_rc(&worst, &status->lanes[i].fault);
        worsen_rc(&worst, &status->lanes[i].position.fault);
    }
    worsen_rc(&worst, &status->written_fault);
    worsen_rc(&worst, &status->instances_fault);
    worsen_rc(&worst, &status->retry.fault);
    worsen_rc(&worst, &status->progress_fault);
    worsen_rc(&worst, &status->kafka_fault);
    worsen_rc(&worst, &status->dead_fault);
    worsen_rc(&worst, &status->rollup.fault);
    worsen_rc(&worst, &status->housekeep.fault);
    return worst;
}

bool status_instance_is_dead(const struct status_instance *one)
{
    return one->seen_ms > one->lease_ms ||
           singleton_lease_is_implausible(-one->seen_ms, 0, one->lease_ms);
}

/* A search for problems. */
struct problems {
    const struct status *status;
    status_on_problem on_problem;
    void *ctx;
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void add_problem(struct problems *problems,
                                                              const char *format, ...)
{
    char text[STATUS_DIVERTED_SIZE + 256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *at = text; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    problems->on_problem(problems->ctx, text);
    problems->count++;
}

/* Whether the problem of the schema is that of the part, too. */
static bool is_of_schema(const struct status_schema *schema, const struct status_fault *fault)
{
    if (fault->no_table)
        return schema->missing[0] != '\0';
    return strcmp(fault->err.text, schema->fault.err.text) == 0;
}

/* A part of a database without a schema is no problem by itself: that of the schema is. */
static void check_fault(struct problems *problems, const char *part,
                        const struct status_fault *fault)
{
    const struct status *status = problems->status;

    if (fault->rc == RC_OK || fault->no_schema)
        return;
    for (size_t i = 0; i < status->schema_count; i++)
        if (is_of_schema(&status->schemas[i], fault))
            return;
    add_problem(problems, "%s: %s", part, fault->err.text);
}

static void check_schemas(struct problems *problems)
{
    const struct status *status = problems->status;

    for (size_t i = 0; i < status->schema_count; i++) {
        const struct status_schema *schema = &status->schemas[i];

        if (schema->fault.rc != RC_OK && !schema->fault.no_schema)
            add_problem(problems, "[%s] %s: %s", schema->section, schema->place,
                        schema->fault.err.text);
        else if (schema->version == 0 && !schema->unfinished[0])
            add_problem(problems, "[%s] %s: no schema: run tallybox migrate up", schema->section,
                        schema->place);
        else if (schema->unfinished[0])
            add_problem(problems, "[%s] %s: migration %s is not finished: run tallybox migrate up",
                        schema->section, schema->place, schema->unfinished);
        if (schema->missing[0])
            add_problem(problems,
                        "[%s] %s: tables are missing: %s: tallybox migrate verify compares all "
                        "tables",
                        schema->section, schema->place, schema->missing);
    }
}

void status_diverted_text(char text[STATUS_DIVERTED_SIZE], const struct status_lane *lane)
{
    time_t seconds = (time_t)(lane->block_ms / 1000);
    struct tm tm = {0};
    size_t len =
        (size_t)snprintf(text, STATUS_DIVERTED_SIZE, "keys diverted by a refused event: %" PRId64,
                         lane->diverted_keys);

    if (lane->diverted_task == 0)
        return;
    len +=
        (size_t)snprintf(text + len, STATUS_DIVERTED_SIZE - len, "; task %" PRId64 ", key %s: %s",
                         lane->diverted_task, lane->diverted_key, lane->diverted_reason);
    if (lane->block_ms > 0 && gmtime_r(&seconds, &tm))
        len += strftime(text + len, STATUS_DIVERTED_SIZE - len,
                        "; it blocks its key at %Y-%m-%d %H:%M UTC unless corrected", &tm);
    snprintf(text + len, STATUS_DIVERTED_SIZE - len,
             "; tallybox retry list --group %s shows the tasks, tallybox retry edit %" PRId64
             " corrects this one",
             lane->table, lane->diverted_task);
}

#define READYZ_SIZE (STATUS_TOPIC_SIZE + 64)

/* "; http://db-1:9464/readyz of the role relay says why": where the reason is to be read. owner: an
 * instance, or "" for any live one of the role or of run. "" if it has no admin server. */
static void put_readyz(char text[READYZ_SIZE], const struct status *status, const char *role,
                       const char *owner)
{
    text[0] = '\0';
    for (size_t i = 0; i < status->instance_count && !text[0]; i++) {
        const struct status_instance *one = &status->instances[i];
        bool fits = owner[0] ? strcmp(one->name, owner) == 0
                             : strcmp(one->role, role) == 0 || strcmp(one->role, "run") == 0;

        if (fits && one->admin[0] && !status_instance_is_dead(one))
            snprintf(text, READYZ_SIZE, "; %s/readyz of the role %s says why", one->admin,
                     one->role);
    }
}

static void check_position(struct problems *problems, const struct status_lane *lane,
                           const char *readyz)
{
    const struct status_position *position = &lane->position;
    char age[WHEN_AGE_SIZE];

    check_fault(problems, lane->name, &position->fault);
    if (position->fault.rc == RC_OK && !position->found && lane->rows > 0)
        add_problem(problems,
                    "lane %s: it has no position in the binary log, and table %s has rows, which "
                    "may not be published: `tallybox relay source %s binlog` publishes them, or "
                    "`tallybox lanes begin %s` if they are published",
                    lane->name, lane->table, lane->name, lane->name);
    if (position->is_purged)
        add_problem(problems,
                    "lane %s: the server has deleted file %s of the binary log, to which its "
                    "position belongs",
                    lane->name, position->file);
    when_age(age, position->saved_ms);
    if (position->from_table) {
        add_problem(problems,
                    "lane %s: the server had purged its binary log, so it goes on from table %s, "
                    "since %s, %s%s",
                    lane->name, lane->table, age,
                    lane->owner[0] ? "held by " : "and no relay holds the lane", lane->owner);
        return;
    }
    when_age(age, position->behind_ms);
    if (position->behind_ms > problems->status->stale_ms)
        add_problem(problems, "lane %s: its position in the binary log is %s behind, %s%s%s",
                    lane->name, age, lane->owner[0] ? "held by " : "and no relay holds the lane",
                    lane->owner, readyz);
}

static void check_lane(struct problems *problems, const struct status_lane *lane)
{
    char age[WHEN_AGE_SIZE];
    char readyz[READYZ_SIZE];
    char diverted[STATUS_DIVERTED_SIZE];

    if (lane->no_table)
        add_problem(problems, "lane %s: there is no table %s", lane->name, lane->table);
    else
        check_fault(problems, lane->name, &lane->fault);
    if (lane->fault.rc != RC_OK)
        return;
    when_age(age, lane->oldest_ms);
    put_readyz(readyz, problems->status, "relay", lane->owner);
    if (lane->oldest_ms > problems->status->stale_ms)
        add_problem(problems, "lane %s: its oldest row waits for %s, %s%s%s", lane->name, age,
                    lane->owner[0] ? "held by " : "and no relay holds the lane", lane->owner,
                    readyz);
    if (lane->is_stream)
        check_position(problems, lane, readyz);
    if (lane->diverted_keys > 0) {
        status_diverted_text(diverted, lane);
        add_problem(problems, "lane %s: %s", lane->name, diverted);
    }
}

static void check_lanes(struct problems *problems)
{
    const struct status *status = problems->status;
    const struct lanes *written = &status->written;

    check_fault(problems, "outbox", &status->outbox_fault);
    check_fault(problems, "number of lanes", &status->written_fault);
    if (status->outbox_fault.rc != RC_OK)
        return;
    for (size_t i = 0; i < status->lane_count; i++)
        check_lane(problems, &status->lanes[i]);
    if (status->written_fault.rc != RC_OK)
        return;
    if (written->next != 0)
        add_problem(problems, "the number of lanes is being changed: no votes are taken");
    for (int64_t i = 0; i < written->count && i < LANES_MAX; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        outbox_lane_name(name, (size_t)i);
        if (!status->served[i])
            add_problem(problems, "lane %s: no live relay serves it", name);
    }
}

static bool has_live_instance(const struct status *status, const char *role)
{
    for (size_t i = 0; i < status->instance_count; i++)
        if (strcmp(status->instances[i].role, role) == 0 &&
            !status_instance_is_dead(&status->instances[i]))
            return true;
    return false;
}

/* Instances are in the order of their last heartbeats, the newest first. A dead instance is no
 * problem while another one has its role. */
static void check_instances(struct problems *problems)
{
    const struct status *status = problems->status;

    check_fault(problems, "instances", &status->instances_fault);
    for (size_t i = 0; i < status->instance_count; i++) {
        const struct status_instance *one = &status->instances[i];
        char age[WHEN_AGE_SIZE];
        bool named = false;

        for (size_t j = 0; j < i; j++)
            named = named || strcmp(status->instances[j].role, one->role) == 0;
        when_age(age, one->seen_ms);
        if (!named && !has_live_instance(status, one->role))
            add_problem(problems, "role %s: no live instance; %s died %s ago", one->role, one->name,
                        age);
    }
}

static void check_retry(struct problems *problems)
{
    const struct status_retry *retry = &problems->status->retry;
    char age[WHEN_AGE_SIZE];

    check_fault(problems, "retry queue", &retry->fault);
    if (retry->fault.rc != RC_OK)
        return;
    when_age(age, retry->overdue_ms);
    if (retry->overdue_ms > problems->status->stale_ms)
        add_problem(problems, "retry queue: a task is due for %s%s", age,
                    retry->instances > 0 ? "" : ", and no process runs the queue");
    if (retry->tasks[3] + retry->tasks[4] > 0)
        add_problem(problems,
                    "retry queue: %" PRId64
                    " keys wait for an operator: tallybox retry list --state blocked,parked",
                    retry->tasks[3] + retry->tasks[4]);
    for (size_t i = 0; i < retry->unserved_count; i++)
        add_problem(problems,
                    "retry queue: %" PRId64 " tasks wait for the handler %s, which no "
                    "live process runs",
                    retry->unserved[i].tasks, retry->unserved[i].handler);
    for (size_t i = 0; i < retry->closed_count; i++)
        add_problem(problems, "retry queue: %" PRId64 " tasks wait for the group %s, which %s",
                    retry->closed[i].tasks, retry->closed[i].group,
                    retry->closed[i].known ? "is disabled" : "does not exist");
    for (size_t i = 0; i < retry->unconfigured_count; i++)
        add_problem(problems,
                    "retry queue: %" PRId64 " tasks wait for a configuration of the scene %s, "
                    "without which its group refuses them",
                    retry->unconfigured[i].tasks, retry->unconfigured[i].scene);
    for (size_t i = 0; i < retry->ours_count; i++)
        add_problem(problems,
                    "retry queue: %" PRId64 " tasks of the handler %s " STATUS_OURS
                    ": %s: tallybox retry list --reason-class ours",
                    retry->ours[i].tasks, retry->ours[i].handler, retry->ours[i].reason);
}

static void check_partitions(struct problems *problems)
{
    const struct status *status = problems->status;
    const struct status_partition *first = NULL;
    size_t count = 0;
    char others[48] = "";
    char age[WHEN_AGE_SIZE];
    char readyz[READYZ_SIZE];

    check_fault(problems, "consumer", &status->progress_fault);
    check_fault(problems, "Kafka", &status->kafka_fault);
    for (size_t i = 0; i < status->partition_count; i++) {
        if (status->partitions[i].late <= 0)
            continue;
        if (!first)
            first = &status->partitions[i];
        count++;
    }
    when_age(age, status->stale_ms);
    if (count > 1)
        snprintf(others, sizeof(others), " and %zu other partitions", count - 1);
    if (!first)
        return;
    put_readyz(readyz, status, "consume", first->owner);
    add_problem(problems,
                "consumer: records wait for longer than %s in %s/%" PRId32 "%s, held by %s%s", age,
                first->topic, first->partition, others, first->owner[0] ? first->owner : "none",
                readyz);
}

static void check_dead(struct problems *problems)
{
    const struct status *status = problems->status;
    char classes[256] = "";
    int64_t records = 0;

    check_fault(problems, "dead records", &status->dead_fault);
    for (size_t i = 0; i < status->class_count; i++) {
        const struct status_class *one = &status->classes[i];

        char class[128];

        records += one->records;
        snprintf(class, sizeof(class), "%s %" PRId64, one->name, one->records);
        text_list_add(classes, sizeof(classes), class);
    }
    if (records > 0)
        add_problem(problems, "dead records: %" PRId64 " (%s): tallybox dead list", records,
                    classes);
}

static void check_job(struct problems *problems, const char *name, int64_t due_ms,
                      const char *owner)
{
    int64_t late_ms = problems->status->now_ms - due_ms;
    char age[WHEN_AGE_SIZE];

    when_age(age, late_ms);
    if (late_ms > problems->status->stale_ms && !owner[0])
        add_problem(problems, "%s: due for %s, and no instance works on it", name, age);
}

/* A job that never ran and has nothing to do is not used in this installation. */
static void check_jobs(struct problems *problems)
{
    const struct status_rollup *rollup = &problems->status->rollup;
    const struct status_housekeep *housekeep = &problems->status->housekeep;

    check_fault(problems, "roll-up", &rollup->fault);
    check_fault(problems, "housekeeping", &housekeep->fault);
    if (rollup->fault.rc == RC_OK && (rollup->finished_ms > 0 || rollup->waiting > 0))
        check_job(problems, "roll-up", rollup->due_ms, rollup->owner);
    if (housekeep->fault.rc == RC_OK && housekeep->finished_ms > 0)
        check_job(problems, "housekeeping", housekeep->due_ms, housekeep->owner);
}

size_t status_find_problems(const struct status *status, status_on_problem on_problem, void *ctx)
{
    struct problems problems = {.status = status, .on_problem = on_problem, .ctx = ctx};

    check_schemas(&problems);
    check_lanes(&problems);
    check_instances(&problems);
    check_retry(&problems);
    check_partitions(&problems);
    check_dead(&problems);
    check_jobs(&problems);
    return problems.count;
}

/* The first line of the page. Other text may stand in out before it. */
struct summary {
    struct buf *out;
    bool begun; /* a problem was appended */
};

static void put_problem(void *ctx, const char *text)
{
    struct summary *summary = ctx;

    buf_text_put(summary->out, summary->begun ? "; " : "PROBLEMS: ");
    buf_text_put(summary->out, text);
    summary->begun = true;
}

size_t status_put_summary(const struct status *status, struct buf *out)
{
    struct summary summary = {.out = out};
    size_t count = status_find_problems(status, put_problem, &summary);

    buf_text_put(out, count == 0 ? "ok\n" : "\n");
    return count;
}
