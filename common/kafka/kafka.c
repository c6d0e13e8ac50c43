/* SPDX-License-Identifier: MIT */
#include "common/kafka/kafka.h"

#include "common/condition.h"
#include "common/config/settings.h"
#include "common/daemon/crash.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/os.h"

#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* From here on cooperative rebalancing is sound; see kafka_cooperative(). */
#define VERSION_COOPERATIVE 0x020500ff
#define VERSION_RECOMMENDED 0x020d00ff

#define ERROR_BYTES 256
#define BROKERS_BYTES 4096
#define FLAWS_BYTES 512

/* Defaults of properties that [kafka] does not set. */
static const struct kafka_default ground[] = {
    {"bootstrap.servers", "127.0.0.1:9092", NULL},
    {"client.id", "tallybox", NULL},
};

struct meaning {
    int code; /* a rd_kafka_resp_err_t */
    enum rc rc;
};

/* Codes that are not listed are RC_RETRY: faults that end by themselves or through an operator's
 * work at the broker while the handle stays good (no connection, no leader, too few replicas,
 * time-outs, full queues, purged messages, throttling, full disks, rebalances), and every code yet
 * unknown: trying again is harmless, because what is refused stays in its table. Three are worth a
 * word:
 * - failed logins and TLS: librdkafka keeps trying by itself and recovers when the account is
 *   corrected; a new handle or process would only try faster.
 * - REQUEST_TIMED_OUT and MSG_TIMED_OUT leave open whether the broker has the message.
 * - UNSUPPORTED_COMPRESSION_TYPE, INVALID_REQUIRED_ACKS: settings, the same for every message;
 *   setting one message aside would not help the next. */
static const struct meaning meanings[] = {
    {RD_KAFKA_RESP_ERR_NO_ERROR, RC_OK},
    {RD_KAFKA_RESP_ERR__PARTITION_EOF, RC_OK}, /* no error */

    /* This message, its topic, or (consuming) this partition. */
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, RC_REJECT},
    /* A bad checksum. Older brokers also return it if a compacted topic gets a record without key,
     * and then every repetition would fail. */
    {RD_KAFKA_RESP_ERR_INVALID_MSG, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, RC_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, RC_REJECT},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, RC_REJECT},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, RC_REJECT}, /* not a topic's name */
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RC_REJECT},
    /* librdkafka returns it after it has requested the topic for
     * topic.metadata.propagation.max.ms. */
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RC_REJECT},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, RC_REJECT},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RC_REJECT},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, RC_REJECT},
    {RD_KAFKA_RESP_ERR__KEY_SERIALIZATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR__VALUE_SERIALIZATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR__KEY_DESERIALIZATION, RC_REJECT},
    {RD_KAFKA_RESP_ERR__VALUE_DESERIALIZATION, RC_REJECT},
    /* The needed records have been deleted. */
    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, RC_REJECT},
    {RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, RC_REJECT},
    {RD_KAFKA_RESP_ERR__NO_OFFSET, RC_REJECT},
    {-139, RC_REJECT}, /* _LOG_TRUNCATION, which 2.0 has no name for */

    /* The handle: its producer id, epoch or sequence is not what the broker expects any more, it
     * may not have one, or it is being destroyed. */
    {RD_KAFKA_RESP_ERR__FATAL, RC_FATAL},
    {RD_KAFKA_RESP_ERR__FENCED, RC_FATAL},
    {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, RC_FATAL},
    {RD_KAFKA_RESP_ERR__INCONSISTENT, RC_FATAL},
    {RD_KAFKA_RESP_ERR__DESTROY, RC_FATAL},
    {RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, RC_FATAL},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, RC_FATAL},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RC_FATAL},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING, RC_FATAL},
    {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, RC_FATAL},
    {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, RC_FATAL},
    {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, RC_FATAL},
    {RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, RC_FATAL},
    {RD_KAFKA_RESP_ERR_TRANSACTION_COORDINATOR_FENCED, RC_FATAL},
    /* Without the right to an idempotent producer's id librdkafka gives the handle up. */
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, RC_FATAL},
    {RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, RC_FATAL},
};

enum rc kafka_classify(int code)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (meanings[i].code == code)
            return meanings[i].rc;
    }
    return RC_RETRY;
}

/* What to do for a user that lacks an ACL; "" for every other code. */
const char *kafka_acl_hint(int code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return "; the user of [kafka] lacks an ACL on the topic: Describe, and Write to publish or "
               "Read to consume";
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        return "; the user of [kafka] lacks the ACL Read on the consumer group";
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        return "; the user of [kafka] lacks the ACL Write on its topics";
    default:
        return "";
    }
}

enum rc kafka_fail(struct err *err, int code, const char *format, ...)
{
    char what[256];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return err_fail(err, kafka_classify(code), code, "%s: %s (%s)%s", what,
                    rd_kafka_err2str((rd_kafka_resp_err_t)code),
                    rd_kafka_err2name((rd_kafka_resp_err_t)code), kafka_acl_hint(code));
}

enum rc kafka_fail_no_answer(struct err *err, rd_kafka_t *kafka, int code, int64_t timeout_ms)
{
    char servers[160] = "";
    size_t size = sizeof(servers);

    rd_kafka_conf_get(rd_kafka_conf(kafka), SETTINGS_KAFKA_SERVERS, servers, &size);
    return kafka_fail(err, code, "no answer within %" PRId64 " s from kafka.%s = %.120s",
                      timeout_ms / 1000, SETTINGS_KAFKA_SERVERS, servers);
}

bool kafka_cooperative(void)
{
    return rd_kafka_version() >= VERSION_COOPERATIVE;
}

/* Faults of versions below a number, the oldest first. */
static const struct {
    int below;
    const char *flaw;
} version_flaws[] = {
    {0x020300ff, "it cannot notice that a topic was deleted and made again, and it can lose an "
                 "idempotent producer on a disconnect"},
    {VERSION_COOPERATIVE, "it can hang in cooperative rebalances, so the eager assignor is used"},
    {0x020c00ff, "its consumer groups of KIP-848 (group.protocol=consumer) are a preview"},
    {VERSION_RECOMMENDED, "tallybox is not tested with it"},
};

void kafka_version_flaws(int version, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(version_flaws) / sizeof(version_flaws[0]); i++) {
        if (version >= version_flaws[i].below || used >= size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "; " : "",
                                 version_flaws[i].flaw);
    }
}

static void check_version(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char flaws[FLAWS_BYTES];

    kafka_version_flaws(rd_kafka_version(), flaws, sizeof(flaws));
    if (flaws[0] == '\0' || atomic_flag_test_and_set(&said))
        return;
    log_event(LOG_WARN, "kafka_library_old", "version=%s recommended=2.13.0 text=\"%s\"",
              rd_kafka_version_str(), flaws);
}

/* level: as syslog counts, 0 worst and 7 for debugging. (Its header's names are ours as well.) */
static enum log_level map_level(int level, const char *facility, const char *text)
{
    /* [kafka] serves both roles, so the warning that a property belongs to the other role is
     * suppressed. */
    if (strcmp(facility, "CONFWARN") == 0 && strstr(text, "will be ignored by this"))
        return LOG_DEBUG;
    /* Since 2019 a warning calls enable.gapless.guarantee experimental. The relay depends on it. */
    if (strcmp(facility, "CONFWARN") == 0 && strstr(text, "is experimental"))
        return LOG_DEBUG;
    /* The owner of the handle gets the same as an error event and decides. */
    if (strcmp(facility, "ERROR") == 0)
        return LOG_DEBUG;
    if (level <= 2)
        return LOG_ERROR;
    /* Most of librdkafka's errors are brokers that cannot be reached for a moment. */
    if (level <= 4)
        return LOG_WARN;
    return level <= 6 ? LOG_INFO : LOG_DEBUG;
}

/* librdkafka retries for ever and logs each failure. A text is logged once; it is new again after a
 * quiet time, or after an hour of repetitions. */
#define QUIET_MS 120000
#define REPEATING_MS_MAX 3600000
#define DEBUG_LEVEL 7

static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER; /* guards logged */
static struct {
    struct reasons texts;
    size_t repeats; /* lines that were not written, because their text is among texts */
    int64_t first_ms;
    int64_t last_ms; /* of all lines */
    struct err last; /* the last repeated line */
} logged;

/* Returns false when the line is a repetition, which is only counted. */
static bool note_line(const struct err *line, int64_t now_ms)
{
    bool is_new;

    pthread_mutex_lock(&logged_lock);
    is_new = reasons_add(&logged.texts, line->text, now_ms, INT64_MAX);
    logged.last_ms = now_ms;
    if (!is_new) {
        if (logged.repeats++ == 0)
            logged.first_ms = now_ms;
        logged.last = *line;
    }
    pthread_mutex_unlock(&logged_lock);
    return is_new;
}

/* Called by librdkafka's threads. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
    enum log_level shown = map_level(level, facility, text);
    const char *client = kafka ? rd_kafka_name(kafka) : "none";
    struct err line;

    err_set(&line, "%s", text);
    /* A line that is shown at debug level only is never counted. */
    if (level < DEBUG_LEVEL && shown != LOG_DEBUG && !note_line(&line, os_now_ms()))
        return;
    log_error(shown, "kafka_library", &line, "client=%s facility=%s", client, facility);
}

void kafka_log_repeats(int64_t now_ms)
{
    struct err last = {0};
    size_t repeats = 0;
    int64_t over_ms = 0;

    pthread_mutex_lock(&logged_lock);
    if (now_ms - logged.last_ms >= QUIET_MS ||
        (logged.repeats > 0 && now_ms - logged.first_ms >= REPEATING_MS_MAX)) {
        repeats = logged.repeats;
        over_ms = logged.last_ms - logged.first_ms;
        last = logged.last;
        logged.repeats = 0;
        logged.texts.count = 0;
    }
    pthread_mutex_unlock(&logged_lock);
    if (repeats > 0)
        log_error(LOG_INFO, "kafka_library_repeated", &last, "lines=%zu over_ms=%" PRId64, repeats,
                  over_ms);
}

void kafka_log_to_ours(rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_log_cb(conf, on_log);
}

/* librdkafka prints its properties as a table, one line each, the name first. */
static void offer_properties(struct nearest *nearest, char *table)
{
    char *rest = NULL;

    for (char *line = strtok_r(table, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t len = strcspn(line, " |");

        if (line[len] == '\0')
            continue;
        line[len] = '\0';
        if (strpbrk(line, "."))
            nearest_offer(nearest, line);
    }
}

static enum rc fail_unknown_property(const char *name, struct err *err)
{
    struct nearest nearest = {.typed = name};
    char *table = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&table, &size);

    if (stream) {
        rd_kafka_conf_properties_show(stream);
        fclose(stream);
    }
    if (table)
        offer_properties(&nearest, table);
    err_set(err, "kafka.%s: librdkafka has no property of that name%s%s%s", name,
            nearest.word ? "; did you mean " : "", nearest.word ? nearest.word : "",
            nearest.word ? "?" : "");
    free(table);
    return RC_FATAL;
}

static enum rc set_property(rd_kafka_conf_t *conf, const char *name, const char *value,
                            struct err *err)
{
    char text[ERROR_BYTES] = "";

    switch (rd_kafka_conf_set(conf, name, value, text, sizeof(text))) {
    case RD_KAFKA_CONF_OK:
        return RC_OK;
    case RD_KAFKA_CONF_UNKNOWN:
        return fail_unknown_property(name, err);
    case RD_KAFKA_CONF_INVALID:
    default:
        break;
    }
    text[strcspn(text, "\n")] = '\0';
    if (setting_is_secret_property(name))
        return err_fail(err, RC_FATAL, 0, "kafka.%s: librdkafka does not take this value", name);
    return err_fail(err, RC_FATAL, 0, "kafka.%s = %s: %s", name, value, text);
}

/* The name without the role in front, or NULL when the property is for another role. */
static const char *strip_side(const char *name, enum kafka_role role)
{
    static const char producer[] = "producer.";
    static const char consumer[] = "consumer.";

    if (strncmp(name, producer, sizeof(producer) - 1) == 0)
        return role == KAFKA_PRODUCER ? name + sizeof(producer) - 1 : NULL;
    if (strncmp(name, consumer, sizeof(consumer) - 1) == 0)
        return role == KAFKA_CONSUMER ? name + sizeof(consumer) - 1 : NULL;
    return name;
}

static bool is_same(const rd_kafka_conf_t *base, const rd_kafka_conf_t *conf, const char *name)
{
    char want[ERROR_BYTES] = "";
    char have[ERROR_BYTES] = "";
    size_t want_size = sizeof(want);
    size_t have_size = sizeof(have);

    return rd_kafka_conf_get(base, name, want, &want_size) == RD_KAFKA_CONF_OK &&
           rd_kafka_conf_get(conf, name, have, &have_size) == RD_KAFKA_CONF_OK &&
           strcmp(want, have) == 0;
}

/* Compares values, not names: most properties have a second name. */
static enum rc check_fixed(const rd_kafka_conf_t *base, const rd_kafka_conf_t *conf,
                           const struct kafka_default *defaults, size_t count, const char *name,
                           struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (defaults[i].fixed && !is_same(base, conf, defaults[i].name))
            return err_fail(err, RC_REJECT, 0, "kafka.%s: %s cannot be set here: %s", name,
                            defaults[i].name, defaults[i].fixed);
    }
    return RC_OK;
}

static enum rc apply_settings(const rd_kafka_conf_t *base, rd_kafka_conf_t *conf,
                              const struct settings *settings, enum kafka_role role,
                              const struct kafka_default *defaults, size_t count, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < settings->kafka.count && rc == RC_OK; i++) {
        const struct kafka_property *property = &settings->kafka.properties[i];
        const char *name = strip_side(property->name, role);

        if (!name)
            continue;
        rc = set_property(conf, name, property->value, err);
        if (rc == RC_OK)
            rc = check_fixed(base, conf, defaults, count, property->name, err);
    }
    return rc;
}

static enum rc apply_defaults(rd_kafka_conf_t *conf, const struct kafka_default *defaults,
                              size_t count, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = set_property(conf, defaults[i].name, defaults[i].value, err);
    return rc;
}

static enum rc make_conf(rd_kafka_conf_t **out, const struct settings *settings,
                         enum kafka_role role, const struct kafka_default *defaults, size_t count,
                         struct err *err)
{
    rd_kafka_conf_t *base = rd_kafka_conf_new();
    rd_kafka_conf_t *conf = NULL;
    enum rc rc = apply_defaults(base, ground, sizeof(ground) / sizeof(ground[0]), err);

    check_version();
    kafka_log_to_ours(base);
    if (rc == RC_OK)
        rc = apply_defaults(base, defaults, count, err);
    if (rc == RC_OK) {
        conf = rd_kafka_conf_dup(base);
        rc = apply_settings(base, conf, settings, role, defaults, count, err);
    }
    rd_kafka_conf_destroy(base);
    if (rc == RC_OK)
        *out = conf;
    else if (conf)
        rd_kafka_conf_destroy(conf);
    return rc;
}

static rd_kafka_resp_err_t on_thread_start(rd_kafka_t *kafka, rd_kafka_thread_type_t type,
                                           const char *name, void *opaque)
{
    (void)kafka;
    (void)type;
    (void)name;
    (void)opaque;
    crash_unblock();
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t on_new_handle(rd_kafka_t *kafka, const rd_kafka_conf_t *conf,
                                         void *opaque, char *text, size_t size)
{
    (void)conf;
    (void)text;
    (void)size;
    return rd_kafka_interceptor_add_on_thread_start(kafka, "crash", on_thread_start, opaque);
}

/* The library blocks all signals in its threads. It does not free the interceptor of a handle that
 * cannot be made, so check_handle() adds none. */
enum rc kafka_conf_make(rd_kafka_conf_t **out, const struct settings *settings,
                        enum kafka_role role, const struct kafka_default *defaults, size_t count,
                        struct err *err)
{
    enum rc rc = make_conf(out, settings, role, defaults, count, err);

    if (rc == RC_OK)
        rd_kafka_conf_interceptor_add_on_new(*out, "crash", on_new_handle, NULL);
    return rc;
}

void kafka_name_brokers(rd_kafka_t *kafka)
{
    char brokers[BROKERS_BYTES] = "";
    size_t size = sizeof(brokers);
    rd_kafka_conf_res_t found =
        rd_kafka_conf_get(rd_kafka_conf(kafka), "bootstrap.servers", brokers, &size);

    if (found == RD_KAFKA_CONF_OK && size <= sizeof(brokers))
        rd_kafka_brokers_add(kafka, brokers);
}

static void on_log_dropped(const rd_kafka_t *kafka, int level, const char *facility,
                           const char *text)
{
    (void)kafka;
    (void)level;
    (void)facility;
    (void)text;
}

/* Some mistakes (a certificate that is not there, a login method that was not built in) show only
 * when a handle is made. It gets no broker, so that it connects nowhere. */
static enum rc check_handle(const struct settings *settings, enum kafka_role role, struct err *err)
{
    rd_kafka_type_t type = role == KAFKA_CONSUMER ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER;
    rd_kafka_conf_t *conf = NULL;
    rd_kafka_t *kafka;
    char text[ERROR_BYTES] = "";
    enum rc rc = make_conf(&conf, settings, role, NULL, 0, err);

    if (rc != RC_OK)
        return rc;
    rd_kafka_conf_set_log_cb(conf, on_log_dropped);
    rc = set_property(conf, "bootstrap.servers", "", err);
    /* This handle would only log that it has no broker. */
    if (rc == RC_OK)
        rc = set_property(conf, "log_level", "0", err);
    kafka = rc == RC_OK ? rd_kafka_new(type, conf, text, sizeof(text)) : NULL;
    if (!kafka) {
        rd_kafka_conf_destroy(conf);
        return rc != RC_OK ? rc : err_fail(err, RC_FATAL, 0, "[kafka]: %s", text);
    }
    rd_kafka_destroy(kafka);
    return RC_OK;
}

enum rc kafka_conf_check(const struct settings *settings, struct err *err)
{
    enum rc rc = check_handle(settings, KAFKA_PRODUCER, err);

    return rc == RC_OK ? check_handle(settings, KAFKA_CONSUMER, err) : rc;
}

/* A handle that a separate thread destroys. The thread or the caller frees it, whichever
 * ends later. */
struct destruction {
    rd_kafka_t *kafka;
    int flags;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool done;
    bool left; /* the caller has stopped waiting */
};

static atomic_int handles_left;

static void free_destruction(struct destruction *one)
{
    pthread_cond_destroy(&one->changed);
    pthread_mutex_destroy(&one->lock);
    free(one);
}

static struct destruction *make_destruction(rd_kafka_t *kafka, int flags)
{
    struct destruction *one = calloc(1, sizeof(*one));
    pthread_condattr_t clock;

    if (!one)
        return NULL;
    one->kafka = kafka;
    one->flags = flags;
    pthread_mutex_init(&one->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&one->changed, &clock);
    pthread_condattr_destroy(&clock);
    return one;
}

static void *destroy_main(void *arg)
{
    struct destruction *one = arg;
    bool left;

    os_thread_name("kafka-end");
    rd_kafka_destroy_flags(one->kafka, one->flags);
    pthread_mutex_lock(&one->lock);
    one->done = true;
    left = one->left;
    pthread_cond_signal(&one->changed);
    pthread_mutex_unlock(&one->lock);
    if (left) {
        free_destruction(one);
        atomic_fetch_sub(&handles_left, 1);
    }
    return NULL;
}

static struct timespec compute_deadline(int64_t until_ms)
{
    struct timespec at;
    int64_t ms = until_ms - os_now_ms();

    clock_gettime(CLOCK_MONOTONIC, &at);
    if (ms <= 0)
        return at;
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* True when it is done; otherwise it is the thread's. */
static bool wait_destruction(struct destruction *one, int64_t until_ms)
{
    struct timespec at = compute_deadline(until_ms);
    bool done;

    pthread_mutex_lock(&one->lock);
    while (!one->done && pthread_cond_timedwait(&one->changed, &one->lock, &at) == 0) {
    }
    done = one->done;
    if (!done) {
        one->left = true;
        atomic_fetch_add(&handles_left, 1);
    }
    pthread_mutex_unlock(&one->lock);
    return done;
}

bool kafka_destroy(rd_kafka_t *kafka, int flags, int64_t until_ms)
{
    struct destruction *one = make_destruction(kafka, flags);
    pthread_t thread;

    /* Without memory or a thread for it there is no bound. */
    if (!one || pthread_create(&thread, NULL, destroy_main, one) != 0) {
        if (one)
            free_destruction(one);
        rd_kafka_destroy_flags(kafka, flags);
        return true;
    }
    pthread_detach(thread);
    if (!wait_destruction(one, until_ms))
        return false;
    free_destruction(one);
    return true;
}

int kafka_handles_left(void)
{
    return atomic_load(&handles_left);
}
