/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/wait.h"

#include "common/backoff.h"
#include "common/utc.h"
#include "outbox/retry/policy/span.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const struct wait_preset wait_presets[] = {
    {"default", "1m 5m 10m 30m 60m", "the usual five"},
    {"rocketmq", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
     "the 18 delay levels of Apache RocketMQ (messageDelayLevel)"},
    {"easyretry",
     "10s 15s 30s 35s 40s 50s 1m 2m 4m 6m 8m 10m 20m 40m 1h 2h 3h 4h 5h 6h 7h 8h 9h 10h 11h 12h",
     "the 26 delay levels of EasyRetry (DelayLevelEnum)"},
};
const size_t wait_presets_count = sizeof(wait_presets) / sizeof(wait_presets[0]);

/* The words of a rule, one after the other. */
struct word {
    const char *at;
    size_t len;
};

static bool read_word(const char **rest, struct word *word)
{
    word->at = *rest + strspn(*rest, " \t");
    word->len = strcspn(word->at, " \t");
    *rest = word->at + word->len;
    return word->len > 0;
}

static bool word_is(const struct word *word, const char *text)
{
    return strlen(text) == word->len && memcmp(word->at, text, word->len) == 0;
}

static enum rc take_span(const char **rest, const char *what, int64_t *ms, struct err *err)
{
    struct word word;

    if (!read_word(rest, &word))
        return err_fail(err, RC_REJECT, 0, "%s is missing: a time like 500ms, 30s, 5m, 2h or 7d",
                        what);
    if (!span_parse(word.at, word.len, ms))
        return err_fail(err, RC_REJECT, 0,
                        "\"%.*s\" is not %s: a time like 500ms, 30s, 5m, 2h or 7d, up to 3650d",
                        word.len > 40 ? 40 : (int)word.len, word.at, what);
    return RC_OK;
}

static enum rc check_end(const char *rest, struct err *err)
{
    struct word word;

    if (!read_word(&rest, &word))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "unexpected text after the rule: \"%.40s\"", word.at);
}

static enum rc parse_list(struct wait *wait, const char *rest, struct err *err)
{
    enum rc rc = RC_OK;

    wait->kind = WAIT_LIST;
    while (rc == RC_OK && (wait->count == 0 || *(rest + strspn(rest, " \t")))) {
        if (wait->count == WAIT_LIST_MAX)
            return err_fail(err, RC_REJECT, 0, "a list has %d times at most", WAIT_LIST_MAX);
        rc = take_span(&rest, "the next wait", &wait->list_ms[wait->count], err);
        wait->count++;
    }
    return rc;
}

static enum rc parse_preset(struct wait *wait, const char *rest, struct err *err)
{
    char names[128] = "";
    struct word word;

    read_word(&rest, &word);
    for (size_t i = 0; i < wait_presets_count; i++) {
        size_t len = strlen(names);

        if (word_is(&word, wait_presets[i].name)) {
            enum rc rc = check_end(rest, err);

            return rc == RC_OK ? parse_list(wait, wait_presets[i].list, err) : rc;
        }
        snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "", wait_presets[i].name);
    }
    return err_fail(err, RC_REJECT, 0, "there is no preset \"%.*s\": it is one of %s",
                    word.len > 40 ? 40 : (int)word.len, word.at, names);
}

static enum rc parse_fixed(struct wait *wait, const char *rest, struct err *err)
{
    enum rc rc = take_span(&rest, "the wait", &wait->low_ms, err);

    wait->kind = WAIT_FIXED;
    return rc == RC_OK ? check_end(rest, err) : rc;
}

static enum rc parse_range(struct wait *wait, const char *rest, const char *low, const char *high,
                           struct err *err)
{
    enum rc rc = take_span(&rest, low, &wait->low_ms, err);

    if (rc == RC_OK)
        rc = take_span(&rest, high, &wait->high_ms, err);
    if (rc == RC_OK)
        rc = check_end(rest, err);
    if (rc == RC_OK && wait->high_ms < wait->low_ms)
        return err_fail(err, RC_REJECT, 0, "%s is below %s", high, low);
    return rc;
}

static enum rc parse_random(struct wait *wait, const char *rest, struct err *err)
{
    wait->kind = WAIT_RANDOM;
    return parse_range(wait, rest, "the shortest wait", "the longest wait", err);
}

static enum rc parse_exponential(struct wait *wait, const char *rest, struct err *err)
{
    enum rc rc = parse_range(wait, rest, "the base", "the cap", err);

    wait->kind = WAIT_EXPONENTIAL;
    if (rc == RC_OK && wait->low_ms == 0)
        return err_fail(err, RC_REJECT, 0, "the base must be above 0");
    return rc;
}

/* One word that begins with @, or five fields; the rest is the zone. */
static enum rc parse_cron_rule(struct wait *wait, const char *rest, struct err *err)
{
    const char *from = rest + strspn(rest, " \t");
    size_t words = *from == '@' ? 1 : 5;
    char fields[WAIT_TEXT_BYTES_MAX + 1];
    char name[ZONE_NAME_SIZE + 1] = "UTC";
    struct word word;
    enum rc rc;

    for (size_t i = 0; i < words; i++)
        read_word(&rest, &word);
    snprintf(fields, sizeof(fields), "%.*s", (int)(rest - from), from);
    wait->kind = WAIT_CRON;
    rc = cron_parse(&wait->cron, fields, err);
    if (rc != RC_OK)
        return rc;
    if (read_word(&rest, &word))
        snprintf(name, sizeof(name), "%.*s", (int)word.len, word.at);
    rc = check_end(rest, err);
    return rc == RC_OK ? zone_open(&wait->zone, ZONE_FOLDER, name, err) : rc;
}

/* RFC 3339 in UTC, to the second or finer: "2026-12-01T06:00:00Z". */
static enum rc parse_at(struct wait *wait, const char *rest, struct err *err)
{
    char text[UTC_TEXT_SIZE];
    struct word word;

    wait->kind = WAIT_AT;
    wait->at_ms = UTC_UNKNOWN_MS;
    read_word(&rest, &word);
    if (word.len > 11 && word.len < sizeof(text) && word.at[10] == 'T' &&
        word.at[word.len - 1] == 'Z') {
        memcpy(text, word.at, word.len);
        text[10] = ' ';
        wait->at_ms = utc_parse_ms(text, word.len - 1);
    }
    if (wait->at_ms == UTC_UNKNOWN_MS)
        return err_fail(err, RC_REJECT, 0,
                        "\"%.*s\" is not a time in UTC like 2026-12-01T06:00:00Z",
                        word.len > 40 ? 40 : (int)word.len, word.at);
    return check_end(rest, err);
}

static const struct {
    const char *name;
    enum rc (*parse)(struct wait *wait, const char *rest, struct err *err);
} kinds[] = {
    {"list", parse_list},     {"preset", parse_preset},           {"fixed", parse_fixed},
    {"random", parse_random}, {"exponential", parse_exponential}, {"cron", parse_cron_rule},
    {"at", parse_at},
};

enum rc wait_parse(struct wait *wait, const char *text, struct err *err)
{
    const char *rest = text;
    struct word word;

    memset(wait, 0, sizeof(*wait));
    if (strlen(text) > WAIT_TEXT_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "a rule has %d characters at most", WAIT_TEXT_BYTES_MAX);
    read_word(&rest, &word);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        enum rc rc;

        if (!word_is(&word, kinds[i].name))
            continue;
        rc = kinds[i].parse(wait, rest, err);
        if (rc != RC_OK)
            err_wrap(err, "wait \"%s\"", kinds[i].name);
        return rc;
    }
    return err_fail(err, RC_REJECT, 0,
                    "\"%.*s\" is not a way to wait: list, preset, fixed, random, exponential, cron "
                    "or at",
                    word.len > 40 ? 40 : (int)word.len, word.at);
}

void wait_done(struct wait *wait)
{
    zone_close(wait->zone);
    wait->zone = NULL;
}

static int64_t draw_random_ms(const struct wait *wait, uint64_t random_bits)
{
    uint64_t width = (uint64_t)(wait->high_ms - wait->low_ms) + 1;

    return wait->low_ms + (int64_t)(random_bits % width);
}

static int64_t draw_exponential_ms(const struct wait *wait, unsigned failures, uint64_t random_bits)
{
    struct backoff backoff = {
        .base_ms = wait->low_ms, .cap_ms = wait->high_ms, .tries = failures - 1};

    return backoff_next_ms(&backoff, random_bits);
}

int64_t wait_next_ms(const struct wait *wait, unsigned failures, int64_t now_ms,
                     uint64_t random_bits)
{
    int64_t next_ms;

    switch (wait->kind) {
    case WAIT_LIST:
        return now_ms + wait->list_ms[failures < wait->count ? failures - 1 : wait->count - 1];
    case WAIT_FIXED:
        return now_ms + wait->low_ms;
    case WAIT_RANDOM:
        return now_ms + draw_random_ms(wait, random_bits);
    case WAIT_EXPONENTIAL:
        return now_ms + draw_exponential_ms(wait, failures, random_bits);
    case WAIT_CRON:
        next_ms = cron_next_ms(&wait->cron, wait->zone, now_ms);
        return next_ms < 0 ? WAIT_NEVER : next_ms;
    case WAIT_AT:
        return wait->at_ms > now_ms ? wait->at_ms : WAIT_NEVER;
    }
    return WAIT_NEVER;
}
