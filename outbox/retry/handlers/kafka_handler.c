/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/kafka_handler.h"

#include "common/os.h"
#include "outbox/retry/handlers/attempt.h"
#include "outbox/retry/handlers/kafka_options.h"
#include "outbox/retry/handlers/publisher_kafka.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_HEADERS 2

static enum rc kafka_open(void **handler, const struct retry_handler_env *env, struct err *err)
{
    struct publisher *publisher = NULL;
    enum rc rc = publisher_open(&publisher, env->settings, env->stop, env->workers, err);

    *handler = publisher;
    return rc;
}

static void kafka_close(void *handler)
{
    publisher_close(handler);
}

static enum rc kafka_check(const struct retry_handlers *all, const struct retry_job *job,
                           struct err *err)
{
    struct kafka_options options;
    enum rc rc = kafka_options_read(&options, job->options, err);

    (void)all;
    if (rc == RC_OK)
        kafka_options_done(&options);
    return rc;
}

static void kafka_destination(const struct retry_handlers *all, const struct retry_job *job,
                              struct buf *name)
{
    struct kafka_options options;

    (void)all;
    if (kafka_options_read(&options, job->options, NULL) != RC_OK)
        return;
    buf_print(name, "kafka:%s", options.topic);
    kafka_options_done(&options);
}

static struct bytes text_bytes(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

/* These headers replace headers of the same name: an event of the queue may return to the queue. */
static size_t headers_take(struct publisher_header *headers, const struct kafka_options *options,
                           const char *number)
{
    size_t count = 0;

    for (size_t i = 0; i < options->header_count; i++) {
        const struct kafka_header *given = &options->headers[i];

        if (strcmp(given->name, HEADER_ATTEMPT) != 0 && strcmp(given->name, HEADER_NO_RETRY) != 0)
            headers[count++] = (struct publisher_header){given->name, given->value};
    }
    headers[count++] = (struct publisher_header){HEADER_ATTEMPT, text_bytes(number)};
    headers[count++] = (struct publisher_header){HEADER_NO_RETRY, text_bytes("1")};
    return count;
}

static void publish(struct publisher *publisher, size_t worker, const struct retry_job *job,
                    const struct kafka_options *options, struct publisher_header *headers,
                    struct attempt_result *attempt)
{
    char number[24];
    struct publisher_record record = {
        .topic = options->topic,
        .key = options->key,
        .value = {job->params, job->params_len},
        .headers = headers,
        .timestamp_ms = options->timestamp_ms,
        .now_ms = os_now_ms() + job->database_ahead_ms,
        .partition = options->partition,
        .lease_until_ms = job->lease_until_ms,
    };
    struct err err = {0};

    snprintf(number, sizeof(number), "%" PRId64, job->attempt);
    record.header_count = headers_take(headers, options, number);
    switch (publisher_send(publisher, worker, &record, &err)) {
    case PUBLISHED:
        return;
    case PUBLISH_FAILED:
        attempt_fail(attempt, FAULT_KAFKA, err.code, FAULT_TRANSIENT, "%s", err.text);
        return;
    case PUBLISH_REFUSED:
        attempt_fail(attempt, FAULT_KAFKA, err.code, FAULT_REFUSED, "%s", err.text);
        return;
    case PUBLISH_BARRED:
        attempt_fail(attempt, FAULT_KAFKA, err.code, FAULT_OURS, "%s", err.text);
        return;
    case PUBLISH_CUT:
        attempt_cut(attempt);
        return;
    case PUBLISH_LOST:
        attempt_lose_lease(attempt);
        return;
    }
}

static void kafka_run(void *handler, size_t worker, const struct retry_job *job,
                      struct attempt_result *attempt)
{
    struct kafka_options options;
    struct publisher_header *headers;
    struct err err = {0};

    if (kafka_options_read(&options, job->options, &err) != RC_OK) {
        attempt_refuse(attempt, &err);
        return;
    }
    headers = calloc(options.header_count + OWN_HEADERS, sizeof(*headers));
    if (headers)
        publish(handler, worker, job, &options, headers, attempt);
    else
        attempt_fail(attempt, FAULT_PLAIN, 0, FAULT_TRANSIENT, "no memory for headers");
    free(headers);
    kafka_options_done(&options);
}

static enum rc kafka_effects(const struct retry_handlers *all, const struct retry_job *job,
                             retry_on_effect on_effect, void *ctx, struct err *err)
{
    struct kafka_options options;
    enum rc rc = kafka_options_read(&options, job->options, err);

    (void)all;
    if (rc != RC_OK)
        return rc == RC_REJECT ? RC_OK : rc;
    rc = on_effect(ctx, retry_kafka_handler.name, options.topic, err);
    kafka_options_done(&options);
    return rc;
}

const struct retry_handler retry_kafka_handler = {
    .name = "kafka",
    .about = "Publishes the parameters to a Kafka topic and waits for the acknowledgement.",
    .open = kafka_open,
    .check = kafka_check,
    .destination = kafka_destination,
    .effects = kafka_effects,
    .run = kafka_run,
    .close = kafka_close,
};
