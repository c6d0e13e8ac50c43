/* SPDX-License-Identifier: MIT */
/* Gathers the facts about the brokers and topics for `tallybox doctor`. Creates no topic. Main
 * thread. */
#ifndef CONSUMER_DOCTOR_DOCTOR_KAFKA_H
#define CONSUMER_DOCTOR_DOCTOR_KAFKA_H

#include "common/config/settings.h"
#include "consumer/doctor/doctor.h"

/* Connects and fills rc, err, brokers and what the broker tells about the topics that kafka lists
 * (doctor_list_topics()), and adds the existing topics of the relay. Waits a few seconds at most
 * for a broker that does not answer. */
void doctor_kafka_fill(struct doctor_kafka *kafka, const struct settings *settings);

/* Adds a finding about the versions of this program and of librdkafka. */
void doctor_kafka_judge_versions(struct doctor *doctor);

#endif
