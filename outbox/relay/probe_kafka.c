/* SPDX-License-Identifier: MIT */
#include "outbox/relay/probe_kafka.h"

#include "common/kafka/kafka.h"
#include "common/log.h"
#include "common/loop.h"

#include <inttypes.h>
#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

/* A stop of the process waits for so long at most. A slower broker answers nevertheless, but the
 * call has ended by then: only the statistics of the client tell. */
#define ANSWER_MS 500
#define AGAIN_MS 500
#define EVERY_MS 5000

/* Of the statistics. Writing and reading them is most of the work of an idle client, and so they
 * come no more often than silence has to be told from a slow answer: some in each send_timeout_ms.
 */
#define STATISTICS_MS_MIN 500
#define STATISTICS_MS_MAX 2000
#define STATISTICS_PART 4

#define SERVERS "bootstrap.servers"

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
    struct probe_kafka *probe = opaque;

    (void)kafka;
    err_fail(&probe->trouble, RC_RETRY, code, "%s", reason);
}

/* When the broker last sent something on the connection that it has accepted, -1: never. */
static int64_t find_received_us(const json_t *all, const json_t *broker)
{
    const char *state = json_string_value(json_object_get(broker, "state"));
    const json_t *idle = json_object_get(broker, "rxidle");

    if (!state || strcmp(state, "UP") != 0 || json_integer_value(idle) < 0)
        return -1;
    return json_integer_value(json_object_get(all, "ts")) - json_integer_value(idle);
}

static int on_statistics(rd_kafka_t *kafka, char *text, size_t len, void *opaque)
{
    struct probe_kafka *probe = opaque;
    json_t *all = json_loadb(text, len, 0, NULL);
    const char *name;
    json_t *broker;

    (void)kafka;
    json_object_foreach(json_object_get(all, "brokers"), name, broker) {
        int64_t received_us = find_received_us(all, broker);

        if (received_us <= probe->heard_us)
            continue;
        probe->heard_us = received_us;
        probe->heard = true;
    }
    json_decref(all);
    return 0; /* the text is librdkafka's */
}

static int64_t choose_statistics_ms(const struct settings *settings)
{
    int64_t ms = settings->relay.send_timeout_ms / STATISTICS_PART;

    if (ms < STATISTICS_MS_MIN)
        return STATISTICS_MS_MIN;
    return ms < STATISTICS_MS_MAX ? ms : STATISTICS_MS_MAX;
}

static enum rc ensure_client(struct probe_kafka *probe, struct err *err)
{
    rd_kafka_conf_t *conf = NULL;
    char text[256] = "";
    char every[24];
    enum rc rc;

    if (probe->kafka)
        return RC_OK;
    rc = kafka_conf_make(&conf, probe->settings, KAFKA_PRODUCER, NULL, 0, err);
    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_stats_cb(conf, on_statistics);
    snprintf(every, sizeof(every), "%" PRId64, choose_statistics_ms(probe->settings));
    rd_kafka_conf_set(conf, "statistics.interval.ms", every, text, sizeof(text));
    rd_kafka_conf_set_opaque(conf, probe);
    probe->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (probe->kafka)
        return RC_OK;
    rd_kafka_conf_destroy(conf);
    return err_fail(err, RC_FATAL, 0, "kafka: a client cannot be created: %s", text);
}

/* Requests the list of brokers, which needs no ACL. */
static enum rc request_brokers(struct probe_kafka *probe, struct err *err)
{
    const struct rd_kafka_metadata *metadata = NULL;
    char servers[160] = "";
    size_t size = sizeof(servers);
    rd_kafka_resp_err_t code;
    enum rc rc = ensure_client(probe, err);

    if (rc != RC_OK)
        return rc;
    code = rd_kafka_metadata(probe->kafka, 0, NULL, &metadata, ANSWER_MS);
    rd_kafka_poll(probe->kafka, 0);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR || probe->heard)
        return RC_OK;
    kafka_name_brokers(probe->kafka);
    rd_kafka_conf_get(rd_kafka_conf(probe->kafka), SERVERS, servers, &size);
    /* Without the thread for a broker the client connects nowhere, and tries no more. */
    rc = probe->trouble.code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE ? RC_FATAL : RC_RETRY;
    return err_fail(err, rc, code, "no answer from kafka." SERVERS " = %.120s: %.180s", servers,
                    probe->trouble.text[0] ? probe->trouble.text : rd_kafka_err2str(code));
}

void probe_kafka_open(struct probe_kafka *probe, const struct settings *settings)
{
    memset(probe, 0, sizeof(*probe));
    probe->settings = settings;
    condition_init(&probe->answering, CONDITION_DEPENDENCY,
                   "dep=kafka role=relay reason=no_answer");
    condition_assume_failing(&probe->answering, "not reached yet");
}

void probe_kafka_close(struct probe_kafka *probe)
{
    if (probe->kafka)
        rd_kafka_destroy(probe->kafka);
    probe->kafka = NULL;
    condition_done(&probe->answering);
}

int64_t probe_kafka_step(void *arg, int64_t now_ms)
{
    struct probe_kafka *probe = arg;
    struct err err = {0};
    enum rc rc;

    probe->heard = false;
    rc = request_brokers(probe, &err);
    if (rc == RC_FATAL) {
        log_error(LOG_ERROR, "role_failed", &err, "role=relay");
        probe->failed = true;
        return LOOP_END;
    }
    if (rc == RC_OK) {
        probe->silent_since_ms = 0;
        probe->trouble = (struct err){0};
        condition_ok(&probe->answering, now_ms);
        return EVERY_MS;
    }
    if (probe->silent_since_ms == 0)
        probe->silent_since_ms = now_ms;
    if (now_ms - probe->silent_since_ms >= probe->settings->relay.send_timeout_ms)
        condition_fail(&probe->answering, now_ms, &err);
    return AGAIN_MS;
}

bool probe_kafka_failing(struct probe_kafka *probe, struct err *err)
{
    return condition_read(&probe->answering, err);
}
