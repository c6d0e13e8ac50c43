/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/group_check_kafka.h"

#include "common/kafka/kafka.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "tallybox-"
#define ANSWER_MS 3000
/* After a query without an answer; doubled after each further one, up to MISSES_MAX in a row. */
#define ASK_SOON_MS 500
#define MISSES_MAX 4
#define ASK_FOREIGN_MS 3000 /* while there is a foreign member */
#define ASK_AGAIN_MS 60000
/* A reachable broker that does not answer so many queries in a row cannot describe groups. */
#define UNANSWERED_MAX 3

#define NO_BROKER (-1)

/* rd_kafka_DescribeConsumerGroups() exists since 2.1, rd_kafka_DescribeCluster() since 2.3. */
#define CAN_ASK (RD_KAFKA_VERSION >= 0x020300ff)

void group_client_id(char client[GROUP_CLIENT_SIZE], const char *installation, const char *instance)
{
    if (installation[0])
        snprintf(client, GROUP_CLIENT_SIZE, PREFIX "%s.%s", installation, instance);
    else
        snprintf(client, GROUP_CLIENT_SIZE, "%s", instance);
}

bool group_client_is_foreign(const char *client, const char *installation, char *other,
                             size_t other_size)
{
    size_t len;

    if (strncmp(client, PREFIX, sizeof(PREFIX) - 1) != 0)
        return false;
    client += sizeof(PREFIX) - 1;
    len = strcspn(client, ".");
    if (len == 0 || client[len] != '.' || len >= other_size ||
        (strncmp(client, installation, len) == 0 && installation[len] == '\0'))
        return false;
    snprintf(other, other_size, "%.*s", (int)len, client);
    return true;
}

void group_check_init(struct group_check *check, struct rd_kafka_s *kafka, const char *group,
                      const char *installation, int wakeup_fd)
{
    static const uint64_t wakeup_bytes = 1;

    memset(check, 0, sizeof(*check));
    if (!CAN_ASK || !installation[0])
        return;
    check->kafka = kafka;
    check->group = group;
    check->installation = installation;
    check->rc = RC_RETRY;
    check->coordinator = NO_BROKER;
    check->queue = rd_kafka_queue_new(kafka);
    rd_kafka_queue_io_event_enable(check->queue, wakeup_fd, &wakeup_bytes, sizeof(wakeup_bytes));
}

void group_check_done(struct group_check *check)
{
    if (check->queue)
        rd_kafka_queue_destroy(check->queue);
    check->queue = NULL;
    check->kafka = NULL;
}

void group_check_doubt(struct group_check *check)
{
    check->doubtful = true;
}

void group_check_judge(struct group_check *check, const struct group_member *members, size_t count)
{
    const struct group_member *found = NULL;
    char lowest[GROUP_OTHER_SIZE] = "";
    bool stays;

    for (size_t i = 0; i < count; i++) {
        const char *client = members[i].client ? members[i].client : "";
        char other[GROUP_OTHER_SIZE];

        if (!group_client_is_foreign(client, check->installation, other, sizeof(other)) ||
            (found && strcmp(other, lowest) >= 0))
            continue;
        found = &members[i];
        snprintf(lowest, sizeof(lowest), "%s", other);
    }
    /* Two installations that join at the same time do not see each other before. Both apply this
     * rule, so one of them stays and the others leave. */
    stays = !found || (check->joined && strcmp(check->installation, lowest) < 0);
    check->unanswered = 0;
    check->foreign = found != NULL;
    check->rc = stays ? RC_OK : RC_REJECT;
    if (found)
        err_set(&check->err,
                "installation %s uses the consumer group %s, too (member %.100s at %.64s), and "
                "would take partitions of this installation, %s: set consumer.group to another "
                "name in one of them; until then %s stays %s the group",
                lowest, check->group, found->client, found->host ? found->host : "an unknown host",
                check->installation, check->installation, stays ? "in" : "out of");
}

/* The broker has answered, and will answer the same next time. */
static bool is_refusal(int code)
{
    return code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION ||
           code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE || kafka_classify(code) != RC_RETRY;
}

/* A broker that refuses the query gives no reason to wait. Queries that fail at once count as one
 * in ANSWER_MS. */
void group_check_miss(struct group_check *check, int code, bool reachable, int64_t now_ms)
{
    if (reachable && now_ms >= check->count_at_ms) {
        check->unanswered++;
        check->count_at_ms = now_ms + ANSWER_MS;
    }
    if (check->rc == RC_RETRY && (is_refusal(code) || check->unanswered >= UNANSWERED_MAX))
        check->rc = RC_OK;
}

#if CAN_ASK

/* rd_kafka_DescribeConsumerGroups() without a broker looks for the coordinator by itself, and uses
 * freed memory when it finds one after the request's time (seen with librdkafka 2.14.2; issue 4605
 * there is open). With a broker it does not look for one. So each broker is asked, and then the one
 * that answered. */
static void ask_broker(struct group_check *check, int32_t broker)
{
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(check->kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    const char *groups[] = {check->group};
    char text[128];

    rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, text, sizeof(text));
    rd_kafka_AdminOptions_set_opaque(options, (void *)(intptr_t)broker);
    if (rd_kafka_AdminOptions_set_broker(options, broker, text, sizeof(text)) ==
        RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_DescribeConsumerGroups(check->kafka, groups, 1, options, check->queue);
        check->pending++;
    }
    rd_kafka_AdminOptions_destroy(options);
}

static void ask_brokers(struct group_check *check)
{
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(check->kafka, RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER);
    char text[128];

    rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, text, sizeof(text));
    rd_kafka_DescribeCluster(check->kafka, options, check->queue);
    rd_kafka_AdminOptions_destroy(options);
    check->pending++;
}

static void ask_members(struct group_check *check)
{
    check->answered = false;
    check->doubtful = false;
    check->code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (check->coordinator == NO_BROKER)
        ask_brokers(check);
    else
        ask_broker(check, check->coordinator);
}

/* Passes the members of an answer on. Without memory the answer counts as none. */
static int take_members(struct group_check *check, const rd_kafka_ConsumerGroupDescription_t *group)
{
    size_t count = rd_kafka_ConsumerGroupDescription_member_count(group);
    struct group_member *members = calloc(count + 1, sizeof(*members));

    if (!members)
        return RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
    for (size_t i = 0; i < count; i++) {
        const rd_kafka_MemberDescription_t *member =
            rd_kafka_ConsumerGroupDescription_member(group, i);

        members[i].client = rd_kafka_MemberDescription_client_id(member);
        members[i].host = rd_kafka_MemberDescription_host(member);
    }
    group_check_judge(check, members, count);
    free(members);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static bool is_without_coordinator(int code)
{
    return code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS;
}

/* Of the brokers' failures a refusal counts most, and that of a broker which is not the coordinator
 * least. */
static void note_failure(struct group_check *check, int code)
{
    bool first = check->code == RD_KAFKA_RESP_ERR_NO_ERROR;

    if (first || is_refusal(code) ||
        (is_without_coordinator(check->code) && !is_without_coordinator(code)))
        check->code = code;
}

static void take_brokers(struct group_check *check, rd_kafka_event_t *event)
{
    const rd_kafka_DescribeCluster_result_t *result = rd_kafka_event_DescribeCluster_result(event);
    int code = (int)rd_kafka_event_error(event);
    const rd_kafka_Node_t **nodes = NULL;
    size_t count = 0;

    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && result)
        nodes = rd_kafka_DescribeCluster_result_nodes(result, &count);
    for (size_t i = 0; i < count; i++)
        ask_broker(check, rd_kafka_Node_id(nodes[i]));
    if (count == 0)
        note_failure(check, code != RD_KAFKA_RESP_ERR_NO_ERROR ? code : RD_KAFKA_RESP_ERR__FAIL);
}

static void take_answer(struct group_check *check, rd_kafka_event_t *event)
{
    const rd_kafka_DescribeConsumerGroups_result_t *result =
        rd_kafka_event_DescribeConsumerGroups_result(event);
    const rd_kafka_ConsumerGroupDescription_t **groups = NULL;
    int code = (int)rd_kafka_event_error(event);
    size_t count = 0;

    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && result)
        groups = rd_kafka_DescribeConsumerGroups_result_groups(result, &count);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && count == 0)
        code = RD_KAFKA_RESP_ERR__FAIL;
    if (count > 0)
        code = (int)rd_kafka_error_code(rd_kafka_ConsumerGroupDescription_error(groups[0]));
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = take_members(check, groups[0]);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        note_failure(check, code);
        return;
    }
    check->answered = true;
    check->coordinator = (int32_t)(intptr_t)rd_kafka_event_opaque(event);
}

/* lost: the last broker that answered does not any more. */
static int64_t choose_wait_ms(const struct group_check *check, bool lost)
{
    bool settled =
        check->answered || (check->rc != RC_RETRY && !lost && check->coordinator == NO_BROKER);
    unsigned misses = check->misses < MISSES_MAX ? check->misses : MISSES_MAX;

    if (settled)
        return check->foreign ? ASK_FOREIGN_MS : ASK_AGAIN_MS;
    return (int64_t)ASK_SOON_MS << (misses - 1);
}

/* Each broker that was asked has answered, or its time is over. The coordinator is asked a second
 * time before it counts as lost, unless it says itself that it is none. */
static void end_query(struct group_check *check, bool reachable, int64_t now_ms)
{
    bool lost = false;

    check->misses = check->answered ? 0 : check->misses + 1;
    if (!check->answered) {
        group_check_miss(check, check->code, reachable, now_ms);
        lost = check->coordinator != NO_BROKER &&
               (is_without_coordinator(check->code) || check->misses > 1);
    }
    if (lost)
        check->coordinator = NO_BROKER;
    check->ask_ms = now_ms + choose_wait_ms(check, lost);
}

enum rc group_check_poll(struct group_check *check, bool reachable, int64_t now_ms)
{
    rd_kafka_event_t *event;

    if (!check->kafka)
        return RC_OK;
    while (check->pending > 0 && (event = rd_kafka_queue_poll(check->queue, 0))) {
        int type = rd_kafka_event_type(event);

        if (type == RD_KAFKA_EVENT_DESCRIBECLUSTER_RESULT)
            take_brokers(check, event);
        else if (type == RD_KAFKA_EVENT_DESCRIBECONSUMERGROUPS_RESULT)
            take_answer(check, event);
        if (type == RD_KAFKA_EVENT_DESCRIBECLUSTER_RESULT ||
            type == RD_KAFKA_EVENT_DESCRIBECONSUMERGROUPS_RESULT)
            check->pending--;
        rd_kafka_event_destroy(event);
        if (check->pending == 0)
            end_query(check, reachable, now_ms);
    }
    if (check->pending == 0 && (check->doubtful || now_ms >= check->ask_ms))
        ask_members(check);
    return check->rc;
}

#else

enum rc group_check_poll(struct group_check *check, bool reachable, int64_t now_ms)
{
    (void)check;
    (void)reachable;
    (void)now_ms;
    return RC_OK;
}

#endif
