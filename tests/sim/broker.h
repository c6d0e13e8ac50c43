/* SPDX-License-Identifier: MIT */
/* A fake of Kafka: topics with partitions, whose leaders move, and the producers of the relays,
 * which are idempotent and pipelined. Requests arrive late, are sent twice, stay unanswered or are
 * refused. */
#ifndef TESTS_SIM_BROKER_H
#define TESTS_SIM_BROKER_H

#include "outbox/relay/relay_ops.h"
#include "tests/sim/tables.h"

#define BROKER_PARTITIONS_MAX 4
#define BROKER_RECORDS_MAX 16384
#define BROKER_HOLE SIZE_MAX

enum { BROKER_VOTES, BROKER_STEPS, BROKER_TOPICS };

struct broker_record {
    size_t event; /* BROKER_HOLE: an offset without a record */
    int32_t leader_epoch;
};

struct broker_partition {
    struct broker_record *records;
    int64_t end;
    int32_t leader_epoch;
    int64_t down_until_ms; /* it has no leader */
};

/* A record that a dead relay has sent and that has not arrived yet. */
struct broker_ghost {
    int topic;
    int32_t partition;
    size_t event;
    int64_t due_ms;
};

#define BROKER_GHOSTS_MAX 512

struct fake_broker {
    struct sim *sim;
    struct broker_partition partitions[BROKER_TOPICS][BROKER_PARTITIONS_MAX];
    struct broker_ghost ghosts[BROKER_GHOSTS_MAX];
    size_t ghost_count;
    int64_t silent_until_ms;  /* appends requests and does not answer */
    int64_t refuses_until_ms; /* topics cannot be opened */
};

enum message_state { MESSAGE_QUEUED, MESSAGE_TAKEN, MESSAGE_DONE };

struct message {
    size_t event;
    uint64_t ticket;
    int topic;
    int32_t partition;
    enum message_state state; /* TAKEN: appended, not answered */
    bool report_due;
    enum rc report;
    int64_t sent_ms;
};

#define PRODUCER_MESSAGES_MAX 128

/* One lane's producer. */
struct producer {
    struct proc *proc;
    size_t lane;
    const int64_t *epoch; /* of the rows that are sent */
    struct message messages[PRODUCER_MESSAGES_MAX];
    size_t count;
    bool finished;
    bool
        stalled; /* a message timed out: the producer renumbers its requests, which takes a while */
    struct fiber *network;
    struct fiber *sender; /* is woken for reports */
};

void broker_begin_run(struct fake_broker *broker, struct sim *sim);
void broker_done(struct fake_broker *broker);
int32_t broker_partition_of(const struct sim *sim, int64_t key);
void broker_append(struct sim *sim, int topic, int32_t partition, size_t event);
/* A leader moves: the partition has none for down_ms. */
void broker_move_leader(struct sim *sim, int topic, int32_t partition, int64_t down_ms);
/* Requests of dead processes arrive. Called now and then. */
void broker_tend(struct fake_broker *broker);

void producer_init(struct producer *producer, struct proc *proc, size_t lane);
/* The fiber of its network. */
void producer_main(void *producer);
/* The process has died. */
void producer_gone(struct producer *producer);
struct broker producer_ops(struct producer *producer);

#endif
