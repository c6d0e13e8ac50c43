/* SPDX-License-Identifier: MIT */
#include "common/kafka/kafka.h"

#include "common/condition.h"
#include "common/config/setting.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/os.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* librdkafka retries for ever and logs each failure. */
#define SAY_AGAIN_MS 60000
#define DEBUG_LEVEL 7

static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER; /* guards logged */
static struct reasons logged;

/* Called by librdkafka's threads. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
    struct err line;
    bool is_new = true;

    /* With debugging on, every line is logged. */
    if (level < DEBUG_LEVEL) {
        pthread_mutex_lock(&logged_lock);
        is_new = reasons_add(&logged, text, os_now_ms(), SAY_AGAIN_MS);
        pthread_mutex_unlock(&logged_lock);
    }
    if (!is_new)
        return;
    err_set(&line, "%s", text);
    log_error(map_level(level, facility, text), "kafka_library", &line, "client=%s facility=%s",
              kafka ? rd_kafka_name(kafka) : "none", facility);
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
            return err_fail(err, RC_FATAL, 0, "kafka.%s: %s has to stay %s: %s", name,
                            defaults[i].name, defaults[i].value, defaults[i].fixed);
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

enum rc kafka_conf_make(rd_kafka_conf_t **out, const struct settings *settings,
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
    enum rc rc = kafka_conf_make(&conf, settings, role, NULL, 0, err);

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
