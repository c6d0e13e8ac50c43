/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_request.h"

#include "common/nearest.h"
#include "common/when.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const actions[] = {
    [DEAD_LIST] = "list", [DEAD_SHOW] = "show", [DEAD_REPLAY] = "replay", [DEAD_DROP] = "drop"};

#define ACTION_COUNT (sizeof(actions) / sizeof(actions[0]))

static enum rc read_action(struct dead_request *request, const char *name, struct err *err)
{
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        if (strcmp(actions[i], name) == 0) {
            request->action = (enum dead_action)i;
            return RC_OK;
        }
        nearest_offer(&nearest, actions[i]);
    }
    return err_fail(err, RC_FATAL, 0, "unknown action \"%.64s\"%s%s", name,
                    nearest.word ? "; did you mean " : "", nearest.word ? nearest.word : "");
}

static enum rc read_ids(struct dead_request *request, const char *const *arguments, size_t count,
                        struct err *err)
{
    if (count > DEAD_IDS_MAX)
        return err_fail(err, RC_FATAL, 0, "more than %d ids; choose by --class, --since ...",
                        DEAD_IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        char *end;

        errno = 0;
        request->ids[i] = strtoll(arguments[i], &end, 10);
        if (errno != 0 || *end != '\0' || request->ids[i] <= 0)
            return err_fail(err, RC_FATAL, 0,
                            "\"%.64s\" is not the id of a dead record, such as 17", arguments[i]);
    }
    request->filter.ids = request->ids;
    request->filter.id_count = count;
    return RC_OK;
}

static bool has_filter(const struct dead_words *words)
{
    return words->topic || words->partition != DEAD_NUMBER_ANY || words->reason_class ||
           words->key || words->since || words->until;
}

/* An option that has no meaning for the action is an error. */
static enum rc check_options(const struct dead_request *request, struct err *err)
{
    const struct dead_words *words = &request->words;
    const struct {
        const char *name;
        bool given;
        bool fits;
    } options[] = {
        {"after", words->after != 0, request->action == DEAD_LIST},
        {"decided", words->decided, request->action == DEAD_LIST},
        {"payload", words->payload, request->action == DEAD_SHOW},
        {"json", words->json && words->payload, false},
        {"value", words->value_path != NULL, request->action == DEAD_REPLAY && !words->queue},
        {"ignore-key", words->ignore_key, request->action == DEAD_REPLAY && !words->queue},
        {"queue", words->queue, request->action == DEAD_REPLAY},
        {"all", words->all, request->action == DEAD_REPLAY || request->action == DEAD_DROP},
        {"yes", words->yes, request->action == DEAD_REPLAY || request->action == DEAD_DROP},
        {"limit", words->limit != DEAD_NUMBER_ANY, request->action != DEAD_SHOW},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].given && !options[i].fits)
            return err_fail(err, RC_FATAL, 0, "--%s does not apply to this action",
                            options[i].name);
    return RC_OK;
}

static enum rc check_numbers(const struct dead_words *words, struct err *err)
{
    int64_t ms;

    if (words->partition != DEAD_NUMBER_ANY &&
        (words->partition < 0 || words->partition > INT32_MAX))
        return err_fail(err, RC_FATAL, 0, "--partition takes a number from 0");
    if (words->limit != DEAD_NUMBER_ANY && words->limit < 1)
        return err_fail(err, RC_FATAL, 0, "--limit takes a number from 1");
    if (words->after < 0)
        return err_fail(err, RC_FATAL, 0, "--after takes an id");
    if ((words->since && !when_read(words->since, INT64_MAX / 2, &ms)) ||
        (words->until && !when_read(words->until, INT64_MAX / 2, &ms)))
        return err_fail(err, RC_FATAL, 0,
                        "--since and --until take 30s, 15m, 2h or 7d before now, or a time in UTC "
                        "such as 2026-11-21T17:05:00Z");
    return RC_OK;
}

static enum rc check_choice(const struct dead_request *request, struct err *err)
{
    const struct dead_words *words = &request->words;
    size_t ids = request->filter.id_count;

    if (request->action == DEAD_SHOW && (ids != 1 || has_filter(words)))
        return err_fail(err, RC_FATAL, 0, "show takes one ID");
    if (words->value_path && (ids != 1 || has_filter(words)))
        return err_fail(err, RC_FATAL, 0, "--value takes one ID");
    if (words->all && (ids > 0 || has_filter(words)))
        return err_fail(err, RC_FATAL, 0, "--all takes no IDs and no filters");
    if (request->action != DEAD_LIST && ids == 0 && !has_filter(words) && !words->all)
        return err_fail(err, RC_FATAL, 0,
                        "select records: an ID, or --class, --key, --topic, --partition, --since, "
                        "--until, or --all");
    return RC_OK;
}

enum rc dead_request_read(struct dead_request *request, const struct dead_words *words,
                          const char *const *arguments, size_t count, struct err *err)
{
    enum rc rc;

    memset(request, 0, sizeof(*request));
    request->words = *words;
    request->filter = (struct dead_filter){
        .topic = words->topic,
        .partition = words->partition,
        .reason_class = words->reason_class,
        .key = words->key,
        .since_ms = DEAD_NUMBER_ANY,
        .until_ms = DEAD_NUMBER_ANY,
    };
    if (count == 0)
        return err_fail(err, RC_FATAL, 0, "expected an ACTION: list, show, replay or drop");
    rc = read_action(request, arguments[0], err);
    if (rc == RC_OK)
        rc = read_ids(request, arguments + 1, count - 1, err);
    if (rc == RC_OK)
        rc = check_options(request, err);
    if (rc == RC_OK)
        rc = check_numbers(words, err);
    if (rc == RC_OK)
        rc = check_choice(request, err);
    return rc;
}

void dead_request_times(struct dead_request *request, int64_t now_ms)
{
    struct dead_filter *filter = &request->filter;

    if (request->words.since)
        when_read(request->words.since, now_ms, &filter->since_ms);
    if (request->words.until)
        when_read(request->words.until, now_ms, &filter->until_ms);
    /* No record died before 1970. */
    if (request->words.since && filter->since_ms < 0)
        filter->since_ms = 0;
    if (request->words.until && filter->until_ms < 0)
        filter->until_ms = 0;
}

bool dead_request_is_bulk(const struct dead_request *request)
{
    return request->filter.id_count == 0;
}
