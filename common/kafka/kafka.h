/* SPDX-License-Identifier: MIT */
/* Shared by all users of librdkafka: the configuration from settings, the library's log, the
 * classification of errors, and the end of a handle. Any thread; the handle types are
 * librdkafka's. */
#ifndef COMMON_KAFKA_KAFKA_H
#define COMMON_KAFKA_KAFKA_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_kafka_s;
struct rd_kafka_conf_s;

enum kafka_role { KAFKA_PRODUCER, KAFKA_CONSUMER, KAFKA_TOOL };

/* A property that the caller sets unless the settings name it. A `fixed` property may not be
 * overridden; another value in [kafka] is an error with the reason. */
struct kafka_default {
    const char *name;
    const char *value;
    const char *fixed; /* why it is fixed, or NULL */
};

/* Makes a configuration: 127.0.0.1:9092 as bootstrap server, the defaults, then [kafka] properties
 * ("producer.x" and "consumer.x" only for that role); librdkafka's lines go into our log. *conf is
 * the caller's until rd_kafka_new() takes it. RC_REJECT: a property has to keep its value;
 * RC_FATAL: another mistake. err names the property; secrets are not in it. Logs once what
 * kafka_version_flaws() says of the library. */
enum rc kafka_conf_make(struct rd_kafka_conf_s **conf, const struct settings *settings,
                        enum kafka_role role, const struct kafka_default *defaults, size_t count,
                        struct err *err);

/* Do the settings' properties make sense, all of them? Used by `config` and before anything
 * starts. Fixed names are checked by kafka_conf_make(). */
enum rc kafka_conf_check(const struct settings *settings, struct err *err);

/* Writes what a version of librdkafka (as of rd_kafka_version()) cannot do or notice that newer
 * ones can; "" from 2.13 on. At most size bytes, always terminated. */
void kafka_version_flaws(int version, char *text, size_t size);

/* False for versions below 2.5, whose cooperative rebalancing can hang or fail an assertion: use
 * the eager assignor with them. */
bool kafka_cooperative(void);

/* What a delivery report's, a call's, a consumer's or a global error means.
 * RC_RETRY: a fault of the broker or the network; the message is valid. Every unknown code
 * counts as one of them.
 * RC_REJECT: this message is refused (too large, unknown topic, no right, invalid record), or, for
 * a consumer, this partition cannot go on (its records are gone).
 * RC_FATAL: this handle is finished: a new one is needed. RC_OK for no error. */
enum rc kafka_classify(int code);

/* err_fail() with librdkafka's name and sentence for code and kafka_classify()'s rc. */
enum rc kafka_fail(struct err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* kafka_fail() for a handle that got no answer within timeout_ms: names its bootstrap.servers. */
enum rc kafka_fail_no_answer(struct err *err, struct rd_kafka_s *kafka, int code,
                             int64_t timeout_ms);

/* "; the user of [kafka] lacks ..." for what Kafka's ACLs refuse, else ""; static. */
const char *kafka_acl_hint(int code);

/* For a handle that gets no answer: names the brokers of its bootstrap.servers again; those that it
 * still knows stay as they are. A broker that is going away may say that there are none. Some
 * versions of librdkafka (2.13 and 2.14 at least) then forget all, these too, and connect nowhere
 * any more: confluentinc/librdkafka issue 5301. */
void kafka_name_brokers(struct rd_kafka_s *kafka);

/* Destroys the handle, as rd_kafka_destroy_flags() does, but waits for it no longer than until_ms:
 * librdkafka waits for the answer to every commit of offsets and to the word that a member leaves,
 * and a broker that does not answer costs a minute. False: the handle was left with its threads,
 * which go on destroying it. Then the process has to end by _exit(). */
bool kafka_destroy(struct rd_kafka_s *kafka, int flags, int64_t until_ms);

/* How many handles were left so and are not destroyed yet. */
int kafka_handles_left(void);

/* librdkafka's own lines go into our log; its statistics and errors are not lines. */
void kafka_log_to_ours(struct rd_kafka_conf_s *conf);

/* A line of librdkafka that differs from an earlier one in digits only is counted instead of
 * logged. Logs their number, once librdkafka has been quiet for two minutes or has repeated itself
 * for an hour; then each text is new again. Call it now and then. Any thread. */
void kafka_log_repeats(int64_t now_ms);

#endif
