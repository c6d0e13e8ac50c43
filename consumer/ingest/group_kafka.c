/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/group_kafka.h"

#include "common/kafka/kafka.h"
#include "common/os.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An error code of the protocol that older libraries do not name. */
#define UNRELEASED_INSTANCE_ID 111

#define LEAVE_POLL_MS 50
#define INSTANCE_ID_SIZE 256

static const uint64_t wakeup_bytes = 1;

void group_init(struct group *group, struct rd_kafka_s *kafka, int wakeup_fd)
{
    memset(group, 0, sizeof(*group));
    group->kafka = kafka;
    group->wakeup_fd = wakeup_fd;
    rd_kafka_poll_set_consumer(kafka);
    group->queue = rd_kafka_queue_get_consumer(kafka);
    rd_kafka_queue_io_event_enable(group->queue, wakeup_fd, &wakeup_bytes, sizeof(wakeup_bytes));
}

static void free_partition(struct group_partition *partition)
{
    rd_kafka_queue_destroy(partition->queue);
    free(partition);
}

static void free_leaving(struct group *group)
{
    for (size_t i = 0; i < group->leaving_count; i++)
        free_partition(group->leaving[i]);
    group->leaving_count = 0;
}

/* Makes room for `more` partitions in all three arrays. */
static bool grow_arrays(struct group *group, size_t more)
{
    size_t size = group->partition_count + more;
    void *partitions;
    void *leaving;
    void *places;

    if (size <= group->size)
        return true;
    partitions = realloc(group->partitions, size * sizeof(struct group_partition *));
    if (partitions)
        group->partitions = partitions;
    leaving = realloc(group->leaving, size * sizeof(struct group_partition *));
    if (leaving)
        group->leaving = leaving;
    places = realloc(group->places, size * sizeof(*group->places));
    if (places)
        group->places = places;
    if (!partitions || !leaving || !places)
        return false;
    group->size = size;
    return true;
}

static struct group_partition *find_partition(const struct group *group, const char *topic,
                                              int32_t number)
{
    for (size_t i = 0; i < group->partition_count; i++)
        if (group->partitions[i]->number == number &&
            strcmp(group->partitions[i]->name, topic) == 0)
            return group->partitions[i];
    return NULL;
}

/* Separates the partition's queue from the common queue before the first record can arrive, so that
 * records wait where only their reader polls. */
static struct group_partition *make_partition(struct group *group, const char *topic,
                                              int32_t number)
{
    struct group_partition *partition = calloc(1, sizeof(*partition));

    if (!partition)
        return NULL;
    snprintf(partition->name, sizeof(partition->name), "%s", topic);
    partition->number = number;
    partition->end = -1;
    partition->queue = rd_kafka_queue_get_partition(group->kafka, topic, number);
    if (!partition->queue) {
        free(partition);
        return NULL;
    }
    rd_kafka_queue_forward(partition->queue, NULL);
    rd_kafka_queue_io_event_enable(partition->queue, group->wakeup_fd, &wakeup_bytes,
                                   sizeof(wakeup_bytes));
    return partition;
}

static void add_place(struct stream_event *event, struct stream_place *places,
                      struct group_partition *partition)
{
    places[event->count++] = (struct stream_place){
        .place = {.topic = partition->name, .partition = partition->number}, .handle = partition};
}

static void set_failure(struct stream_event *event, enum rc rc, const struct err *err)
{
    event->kind = STREAM_FAILURE;
    event->rc = rc;
    event->err = *err;
}

static bool is_cooperative(rd_kafka_t *kafka)
{
    const char *protocol = rd_kafka_rebalance_protocol(kafka);

    return protocol && strcmp(protocol, "COOPERATIVE") == 0;
}

/* A rebalance without an answer blocks the member until the group expels it: fail, so that the
 * consumer starts again. */
static void check_answer(struct stream_event *event, int code, const char *what)
{
    struct err err = {0};

    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    kafka_fail(&err, code, "cannot answer the group (%s)", what);
    set_failure(event, RC_FATAL, &err);
}

static void answer_group(struct group *group, struct stream_event *event,
                         const rd_kafka_topic_partition_list_t *list, bool assign)
{
    const char *what = assign ? "assign" : "unassign";
    rd_kafka_error_t *error;

    if (!is_cooperative(group->kafka)) {
        check_answer(event, rd_kafka_assign(group->kafka, assign ? list : NULL), what);
        return;
    }
    error = assign ? rd_kafka_incremental_assign(group->kafka, list)
                   : rd_kafka_incremental_unassign(group->kafka, list);
    check_answer(event, rd_kafka_error_code(error), what);
    if (error)
        rd_kafka_error_destroy(error);
}

/* Assigned partitions start at their beginnings. The seek after the claim sets the real position.
 * If that seek is lost, applied records are read again and none is skipped. */
static void take_assigned(struct group *group, rd_kafka_topic_partition_list_t *list,
                          struct stream_event *event)
{
    struct err err = {0};

    event->kind = STREAM_ASSIGNED;
    event->places = group->places;
    if (!grow_arrays(group, (size_t)list->cnt)) {
        err_set(&err, "no memory for %d partitions", list->cnt);
        set_failure(event, RC_FATAL, &err);
        return;
    }
    event->places = group->places;
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_t *elem = &list->elems[i];
        struct group_partition *partition = make_partition(group, elem->topic, elem->partition);

        if (!partition) {
            err_set(&err, "no memory for the queue of %s/%d", elem->topic, (int)elem->partition);
            set_failure(event, RC_FATAL, &err);
            return;
        }
        elem->offset = RD_KAFKA_OFFSET_BEGINNING;
        group->partitions[group->partition_count++] = partition;
        add_place(event, group->places, partition);
    }
    answer_group(group, event, list, true);
}

static void move_to_leaving(struct group *group, struct group_partition *partition)
{
    for (size_t i = 0; i < group->partition_count; i++) {
        if (group->partitions[i] != partition)
            continue;
        group->partitions[i] = group->partitions[--group->partition_count];
        group->leaving[group->leaving_count++] = partition;
        return;
    }
}

static void take_revoked(struct group *group, const rd_kafka_topic_partition_list_t *list,
                         struct stream_event *event)
{
    event->kind = STREAM_REVOKED;
    event->lost = rd_kafka_assignment_lost(group->kafka) != 0;
    event->places = group->places;
    for (int i = 0; i < list->cnt; i++) {
        struct group_partition *partition =
            find_partition(group, list->elems[i].topic, list->elems[i].partition);

        if (!partition)
            continue;
        move_to_leaving(group, partition);
        add_place(event, group->places, partition);
    }
    answer_group(group, event, list, false);
}

static void take_rebalance(struct group *group, rd_kafka_event_t *got, struct stream_event *event)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(got);

    if (rd_kafka_event_error(got) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
        take_assigned(group, list, event);
    else
        take_revoked(group, list, event);
}

static const char *advice_of(int code)
{
    if (code == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
        return "; another consumer of the group has the same group.instance.id: give each its own "
               "kafka.consumer.group.instance.id, or with consumer.static_member = host run one "
               "consumer on each host";
    if (code == UNRELEASED_INSTANCE_ID)
        return "; another consumer of the group has the same group.instance.id, or had it when it "
               "was killed: then it is free when the broker's "
               "group.consumer.session.timeout.ms is over";
    return "";
}

/* An error of one topic or partition is reported as RC_REJECT: the broker itself works. After a
 * fatal error, whose event has the code of its cause, the handle does nothing any more. */
static void take_error(struct group *group, rd_kafka_event_t *got, struct stream_event *event)
{
    int code = (int)rd_kafka_event_error(got);
    struct err err = {0};
    char text[256];
    int fatal = (int)rd_kafka_fatal_error(group->kafka, text, sizeof(text));
    enum rc rc;

    if (fatal != RD_KAFKA_RESP_ERR_NO_ERROR)
        rc = err_fail(&err, RC_FATAL, fatal, "kafka: %s%s%s", text, advice_of(fatal),
                      kafka_acl_hint(fatal));
    else
        rc = kafka_fail(&err, code, "kafka: %s", rd_kafka_event_error_string(got));
    if (rc != RC_OK)
        set_failure(event, rc, &err);
    event->denied = rc != RC_FATAL && (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
                                       code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
}

void group_poll(struct group *group, struct stream_event *event, int wait_ms)
{
    rd_kafka_event_t *got;

    free_leaving(group);
    *event = (struct stream_event){.kind = STREAM_NOTHING};
    /* Events without meaning for the consumer are skipped. */
    while (event->kind == STREAM_NOTHING) {
        got = rd_kafka_queue_poll(group->queue, wait_ms);
        if (!got)
            return;
        if (rd_kafka_event_type(got) == RD_KAFKA_EVENT_REBALANCE)
            take_rebalance(group, got, event);
        else if (rd_kafka_event_type(got) == RD_KAFKA_EVENT_ERROR)
            take_error(group, got, event);
        rd_kafka_event_destroy(got);
    }
}

enum rc group_renew(struct group *group, struct group_partition *partition, struct err *err)
{
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_error_t *error;
    enum rc rc = RC_OK;

    if (!is_cooperative(group->kafka))
        return err_fail(err, RC_RETRY, 0, "%s/%d continues only after a restart of this process",
                        partition->name, (int)partition->number);
    list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, partition->name, partition->number)->offset =
        RD_KAFKA_OFFSET_BEGINNING;
    error = rd_kafka_incremental_unassign(group->kafka, list);
    if (!error)
        error = rd_kafka_incremental_assign(group->kafka, list);
    if (error)
        rc = err_fail(err, RC_RETRY, (int)rd_kafka_error_code(error), "cannot take %s/%d anew: %s",
                      partition->name, (int)partition->number, rd_kafka_error_string(error));
    else
        partition->ended = partition->answered = false;
    partition->end = -1;
    if (error)
        rd_kafka_error_destroy(error);
    rd_kafka_topic_partition_list_destroy(list);
    return rc;
}

/* Returns false for a property that is not set, or that the library does not know. */
static bool read_property(rd_kafka_t *kafka, const char *name, char *value, size_t size)
{
    return rd_kafka_conf_get(rd_kafka_conf(kafka), name, value, &size) == RD_KAFKA_CONF_OK &&
           size > 1;
}

static bool is_static(rd_kafka_t *kafka)
{
    char id[INSTANCE_ID_SIZE];

    return read_property(kafka, "group.instance.id", id, sizeof(id));
}

/* librdkafka clears the member id when it sends LeaveGroup, which it does after the offset commit
 * of an unassign, and when the group has expelled the member. A handle that is closed during that
 * commit never sends LeaveGroup, so its partitions would wait for the end of the session (seen with
 * 2.14.2). In a group of KIP-848 the member id stays, and the close always sends the request. */
static bool has_sent_leave(rd_kafka_t *kafka)
{
    char protocol[16] = "";
    bool sent;
    char *member;

    if (read_property(kafka, "group.protocol", protocol, sizeof(protocol)) &&
        strcmp(protocol, "consumer") == 0)
        return true;
    member = rd_kafka_memberid(kafka);
    sent = !member || *member == '\0';
    if (member)
        rd_kafka_mem_free(kafka, member);
    return sent;
}

static bool has_unassigned(const struct group *group)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    bool held = true;

    if (rd_kafka_assignment(group->kafka, &list) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        held = list->cnt > 0;
        rd_kafka_topic_partition_list_destroy(list);
    }
    return !held && group->partition_count == 0;
}

static bool has_left(const struct group *group)
{
    return has_unassigned(group) && has_sent_leave(group->kafka);
}

static bool has_closed(const struct group *group)
{
    return rd_kafka_consumer_closed(group->kafka) == 1;
}

/* Answers the events of the group until done(). False: the time is over, or the handle has
 * failed. */
static bool answer_until(struct group *group, bool (*done)(const struct group *), int64_t until_ms)
{
    struct stream_event event;

    for (;;) {
        group_poll(group, &event, LEAVE_POLL_MS);
        if (event.kind == STREAM_FAILURE && event.rc == RC_FATAL)
            return false;
        if (event.kind != STREAM_NOTHING)
            continue;
        if (done(group))
            return true;
        if (os_now_ms() > until_ms)
            return false;
    }
}

/* The events come from a queue of the close, because the queue of the group cannot be forwarded to
 * itself. */
static bool close_static(struct group *group, int64_t until_ms)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(group->kafka);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(group->kafka, queue);

    if (error) {
        rd_kafka_error_destroy(error);
        rd_kafka_queue_destroy(queue);
        return false;
    }
    rd_kafka_queue_destroy(group->queue);
    group->queue = queue;
    return answer_until(group, has_closed, until_ms);
}

bool group_leave(struct group *group, int64_t wait_ms)
{
    int64_t until_ms = os_now_ms() + wait_ms;
    /* Without partitions there is no commit to wait for, and a JoinGroup that is under way would
     * delay LeaveGroup: the close sends it then. */
    bool has_partitions = group->partition_count > 0;

    /* librdkafka tells the broker that a member leaves when it unsubscribes, also a static one,
     * whose partitions then move. Closed without that, it stays a member until its session ends. */
    if (is_static(group->kafka))
        return close_static(group, until_ms);
    return rd_kafka_unsubscribe(group->kafka) == RD_KAFKA_RESP_ERR_NO_ERROR &&
           answer_until(group, has_partitions ? has_left : has_unassigned, until_ms);
}

void group_done(struct group *group)
{
    free_leaving(group);
    for (size_t i = 0; i < group->partition_count; i++)
        free_partition(group->partitions[i]);
    if (group->queue)
        rd_kafka_queue_destroy(group->queue);
    free(group->partitions);
    free(group->leaving);
    free(group->places);
    memset(group, 0, sizeof(*group));
}
