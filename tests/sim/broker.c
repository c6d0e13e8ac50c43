/* SPDX-License-Identifier: MIT */
#include "tests/sim/broker.h"

#include "tests/sim/binlog.h"
#include "tests/sim/group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_MESSAGES_MAX 8

void broker_begin_run(struct fake_broker *broker, struct sim *sim)
{
    broker->sim = sim;
    for (int topic = 0; topic < BROKER_TOPICS; topic++) {
        for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++) {
            struct broker_partition *partition = &broker->partitions[topic][i];

            if (!partition->records)
                partition->records = malloc(BROKER_RECORDS_MAX * sizeof(*partition->records));
            assert(partition->records);
            partition->end = 0;
            partition->leader_epoch = 0;
            partition->down_until_ms = 0;
        }
    }
    broker->ghost_count = 0;
    broker->silent_until_ms = broker->refuses_until_ms = 0;
}

void broker_done(struct fake_broker *broker)
{
    for (int topic = 0; topic < BROKER_TOPICS; topic++)
        for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
            free(broker->partitions[topic][i].records);
}

int32_t broker_partition_of(const struct sim *sim, int64_t key)
{
    return (int32_t)(key % sim->plan.partitions);
}

static struct broker_record *record_add(struct sim *sim, struct broker_partition *partition)
{
    struct broker_record *record = &partition->records[partition->end];

    if (partition->end + 1 >= BROKER_RECORDS_MAX) {
        sim_fail(sim, STORY_ALL, "stuck: the same records are published again and again");
        partition->end = 0;
    }
    partition->end++;
    record->leader_epoch = partition->leader_epoch;
    return record;
}

void broker_append(struct sim *sim, int topic, int32_t number, size_t event)
{
    struct broker_partition *partition = &sim->broker->partitions[topic][number];
    struct event *known = &sim->events[event];

    if (sim_chance(sim, sim->plan.holes))
        record_add(sim, partition)->event = BROKER_HOLE;
    record_add(sim, partition)->event = event;
    known->published++;
    sim_tell(sim, "broker", known->key, "appends event %lld at offset %lld of partition %lld",
             (int64_t)event, partition->end - 1, number);
    group_news(sim, topic, number);
}

void broker_move_leader(struct sim *sim, int topic, int32_t number, int64_t down_ms)
{
    struct broker_partition *partition = &sim->broker->partitions[topic][number];

    partition->leader_epoch++;
    partition->down_until_ms = sim_now(sim) + down_ms;
    sim_tell(sim, "broker", STORY_ALL, "topic %lld partition %lld has no leader for %lld ms", topic,
             number, down_ms);
}

void broker_tend(struct fake_broker *broker)
{
    struct sim *sim = broker->sim;
    size_t kept = 0;

    for (size_t i = 0; i < broker->ghost_count; i++) {
        struct broker_ghost ghost = broker->ghosts[i];

        if (ghost.due_ms <= sim_now(sim))
            broker_append(sim, ghost.topic, ghost.partition, ghost.event);
        else
            broker->ghosts[kept++] = ghost;
    }
    broker->ghost_count = kept;
}

/* A producer */

static bool is_bad(const struct sim *sim, const struct message *message)
{
    return sim->events[message->event].refused && !sim->healed;
}

void producer_init(struct producer *producer, struct proc *proc, size_t lane)
{
    producer->proc = proc;
    producer->lane = lane;
    producer->count = 0;
    producer->finished = producer->stalled = false;
    producer->network = producer->sender = NULL;
}

static void report(struct producer *producer, struct message *message, enum rc rc)
{
    if (message->state == MESSAGE_DONE)
        return;
    message->state = MESSAGE_DONE;
    message->report_due = true;
    message->report = rc;
    if (producer->sender)
        sched_wake(&producer->proc->sim->sched, producer->sender);
}

static int64_t time_out_ms(const struct sim *sim)
{
    int64_t send_ms = sim->settings.relay.send_timeout_ms;

    return send_ms + (sim->settings.relay.lease_ms - send_ms) / 2;
}

static void time_outs(struct producer *producer)
{
    const struct sim *sim = producer->proc->sim;
    int64_t oldest_ms = sim_now(sim) - time_out_ms(sim);

    for (size_t i = 0; i < producer->count; i++) {
        struct message *message = &producer->messages[i];

        if (message->sent_ms >= oldest_ms || message->state == MESSAGE_DONE)
            continue;
        report(producer, message, RC_RETRY);
        producer->stalled = true;
    }
}

/* All of its records or none. After a refused one nothing goes out any more. */
static void request_arrives(struct producer *producer, struct message **request, size_t count)
{
    struct sim *sim = producer->proc->sim;
    bool silent = sim_now(sim) < sim->broker->silent_until_ms ||
                  (!sim->healed && sim_chance(sim, sim->plan.ack_lost));
    bool bad = false;

    for (size_t i = 0; i < count; i++)
        bad = bad || is_bad(sim, request[i]);
    for (size_t i = 0; i < count; i++) {
        struct message *message = request[i];

        if (bad) {
            report(producer, message, RC_REJECT);
            producer->finished = true;
            continue;
        }
        broker_append(sim, message->topic, message->partition, message->event);
        message->state = MESSAGE_TAKEN;
        if (!silent)
            report(producer, message, RC_OK);
    }
}

/* The broker knows what it has taken: a request whose answer was lost is sent again. */
static void answers_again(struct producer *producer)
{
    const struct sim *sim = producer->proc->sim;

    if (sim_now(sim) < sim->broker->silent_until_ms)
        return;
    for (size_t i = 0; i < producer->count; i++)
        if (producer->messages[i].state == MESSAGE_TAKEN)
            report(producer, &producer->messages[i], RC_OK);
}

/* The first queued messages of one partition. */
static size_t request_make(struct producer *producer, struct message **request)
{
    struct sim *sim = producer->proc->sim;
    struct message *first = NULL;
    size_t seen = 0;
    size_t count = 0;
    size_t max = 1 + (size_t)sim_below(sim, REQUEST_MESSAGES_MAX);

    for (size_t i = 0; i < producer->count; i++)
        if (producer->messages[i].state == MESSAGE_QUEUED && sim_below(sim, ++seen) == 0)
            first = &producer->messages[i];
    if (!first)
        return 0;
    for (size_t i = 0; i < producer->count && count < max; i++) {
        struct message *message = &producer->messages[i];

        if (message->state == MESSAGE_QUEUED && message->topic == first->topic &&
            message->partition == first->partition)
            request[count++] = message;
    }
    return count;
}

static bool has_leader(const struct sim *sim, const struct message *message)
{
    return sim_now(sim) >=
           sim->broker->partitions[message->topic][message->partition].down_until_ms;
}

void producer_main(void *arg)
{
    struct producer *producer = arg;
    struct sim *sim = producer->proc->sim;
    struct sched *sched = &sim->sched;

    for (;;) {
        struct message *request[REQUEST_MESSAGES_MAX];
        size_t count;

        sched_pause(sched, sim_between(sim, 0, sim_chance(sim, sim->plan.slow) ? 60 : 3));
        time_outs(producer);
        if (sim_now(sim) < producer->proc->cut_until_ms) {
            sched_idle(sched, 20);
            continue;
        }
        if (sim_chance(sim, 500))
            answers_again(producer);
        count = producer->finished || producer->stalled ? 0 : request_make(producer, request);
        if (count > 0 && has_leader(sim, request[0]))
            request_arrives(producer, request, count);
        else
            sched_idle(sched, producer->count > 0 ? 10 : 1000);
    }
}

/* The first messages of each partition may be on the wire already; they arrive later, in order. */
static void leave_ghosts(struct producer *producer)
{
    struct sim *sim = producer->proc->sim;
    struct fake_broker *broker = sim->broker;
    size_t left[BROKER_TOPICS][BROKER_PARTITIONS_MAX];
    int64_t due_ms = sim_now(sim) + sim_between(sim, 1, 300);

    for (int topic = 0; topic < BROKER_TOPICS; topic++)
        for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
            left[topic][i] = !producer->finished && !producer->stalled && !sim->healed &&
                                     sim_chance(sim, sim->plan.ghosts)
                                 ? (size_t)sim_below(sim, 6)
                                 : 0;
    for (size_t i = 0; i < producer->count; i++) {
        const struct message *message = &producer->messages[i];
        size_t *room = &left[message->topic][message->partition];

        if (message->state != MESSAGE_QUEUED || *room == 0 ||
            broker->ghost_count == BROKER_GHOSTS_MAX)
            continue;
        /* The broker refuses it and all later requests: a sequence number is missing. */
        if (is_bad(sim, message)) {
            *room = 0;
            continue;
        }
        --*room;
        due_ms += sim_between(sim, 0, 20);
        broker->ghosts[broker->ghost_count++] =
            (struct broker_ghost){message->topic, message->partition, message->event, due_ms};
    }
}

static void forget_all(struct producer *producer)
{
    producer->count = 0;
    producer->finished = producer->stalled = false;
}

void producer_gone(struct producer *producer)
{
    leave_ghosts(producer);
    forget_all(producer);
    producer->network = producer->sender = NULL;
}

static enum rc producer_topic_open(void *ctx, const char *topic, size_t topic_index,
                                   struct err *err)
{
    struct producer *producer = ctx;
    struct sim *sim = producer->proc->sim;

    (void)topic;
    (void)topic_index;
    proc_pass(producer->proc);
    if (sim_now(sim) < producer->proc->cut_until_ms ||
        (!sim->healed && sim_chance(sim, sim->plan.broker_fails)))
        return err_fail(err, RC_RETRY, 0, "kafka: no answer about the topic");
    if (!sim->healed && sim_now(sim) < sim->broker->refuses_until_ms)
        return err_fail(err, sim_chance(sim, 500) ? RC_REJECT : RC_FATAL, 0,
                        "kafka: the topic cannot be made");
    return RC_OK;
}

/* The promise: once another relay has the lane, this one sends nothing. The relay that took over
 * may have released the lane since, while this one still believes its lease. */
static void check_fence(const struct producer *producer, size_t event)
{
    struct sim *sim = producer->proc->sim;
    const struct lane_lease *lease = &sim->tables->leases[producer->lane];
    int64_t next = *producer->epoch + 1;
    int64_t fence_ms;

    if (next > lease->base.epoch)
        return;
    if (next <= lease->base.epoch - LEASE_FENCES)
        next = lease->base.epoch - LEASE_FENCES + 1;
    fence_ms = lease->fences_ms[next % LEASE_FENCES];
    if (sim_now(sim) > fence_ms)
        sim_fail(sim, sim->events[event].key,
                 "fence: %s sent event %zu with epoch %lld of lane %zu, %lld ms after epoch %lld "
                 "had begun",
                 producer->proc->name, event, (long long)*producer->epoch, producer->lane,
                 (long long)(sim_now(sim) - fence_ms), (long long)next);
}

static enum rc producer_send(void *ctx, const char *topic, size_t topic_index,
                             const struct relay_row *row, uint64_t ticket, struct err *err)
{
    struct producer *producer = ctx;
    struct sim *sim = producer->proc->sim;
    size_t number = tables_event_of(sim, row->id);
    const struct event *event = &sim->events[number];

    (void)topic;
    (void)topic_index;
    assert(event->order > 0);
    check_fence(producer, number);
    if (sim_is_stream(sim, producer->lane))
        binlog_check_sending(sim, number, producer->proc, *producer->epoch);
    proc_pass(producer->proc);
    if (!sim->healed && event->unsendable)
        return err_fail(err, RC_REJECT, 0, "refused before it was sent");
    if (producer->finished || (!sim->healed && sim_chance(sim, sim->plan.broker_fails / 8)))
        return err_fail(err, RC_FATAL, 0, "the producer is finished");
    if (producer->count == PRODUCER_MESSAGES_MAX)
        return err_fail(err, RC_RETRY, 0, "no room");
    producer->messages[producer->count++] =
        (struct message){.event = number,
                         .ticket = ticket,
                         .topic = event->kind == EVENT_STEP ? BROKER_STEPS : BROKER_VOTES,
                         .partition = broker_partition_of(sim, event->key),
                         .sent_ms = sim_now(sim)};
    sim_tell(sim, producer->proc->name, event->key, "sends event %lld, seq %lld of lane %lld",
             (int64_t)number, row->seq, (int64_t)producer->lane);
    sched_wake(&sim->sched, producer->network);
    return RC_OK;
}

static enum rc producer_poll(void *ctx, broker_on_report on_report, void *on_report_ctx,
                             struct err *err)
{
    struct producer *producer = ctx;
    struct sim *sim = producer->proc->sim;
    const struct err why = {.text = "the broker says no"};
    size_t kept = 0;

    proc_pass(producer->proc);
    for (size_t i = 0; i < producer->count; i++) {
        struct message *message = &producer->messages[i];

        /* Partitions report on their own: some of them now, some later. */
        if (message->report_due && sim_chance(sim, 700)) {
            on_report(on_report_ctx, message->ticket, message->report,
                      message->report == RC_OK ? NULL : &why);
            continue;
        }
        if (message->report_due)
            sched_wake(&sim->sched, producer->sender);
        producer->messages[kept++] = *message;
    }
    producer->count = kept;
    return producer->finished ? err_fail(err, RC_FATAL, 0, "the producer is finished") : RC_OK;
}

static void producer_purge(void *ctx)
{
    struct producer *producer = ctx;

    proc_pass(producer->proc);
    leave_ghosts(producer);
    for (size_t i = 0; i < producer->count; i++)
        report(producer, &producer->messages[i], RC_RETRY);
}

static void producer_reset(void *ctx)
{
    struct producer *producer = ctx;

    proc_pass(producer->proc);
    leave_ghosts(producer);
    forget_all(producer);
}

struct broker producer_ops(struct producer *producer)
{
    return (struct broker){
        .ctx = producer,
        .topic_open = producer_topic_open,
        .send = producer_send,
        .poll = producer_poll,
        .purge = producer_purge,
        .reset = producer_reset,
    };
}
