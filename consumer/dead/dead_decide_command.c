/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_decide_command.h"

#include "common/backoff.h"
#include "common/options.h"
#include "common/os.h"
#include "common/stop.h"
#include "common/when.h"
#include "consumer/dead/dead.h"
#include "consumer/dead/dead_queue_command.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES_MAX 8
#define RETRY_BASE_MS 100
#define RETRY_CAP_MS 2000
#define REPORT_LINES_MAX 20  /* lines of text */
#define REPORT_JSON_MAX 1000 /* objects in JSON */
/* A vote is never longer. */
#define VALUE_BYTES_MAX VOTE_EVENT_BYTES_MAX

#define OUTCOME_COUNT (DEAD_WAITS + 1)

struct work {
    struct dead_mysql *mysql;
    struct dead_request *request;
    const char *group;
    bool keep_lasts;
    int64_t now_ms;
    uint64_t matched;
    uint64_t counts[OUTCOME_COUNT];
    bool seen[DEAD_IDS_MAX]; /* the ids of the request that are dead */
    bool decided[DEAD_IDS_MAX];
    uint64_t unknown; /* ids that exist neither as dead nor as decided records */
    struct buf lines; /* text: records that stay dead, and single records */
    uint64_t reported;
    json_t *stay; /* JSON: the same records; NULL: text */
    struct buf value;
};

static const char *const words[OUTCOME_COUNT] = {
    [DEAD_IS_APPLIED] = "applied",
    [DEAD_IS_DUPLICATE] = "was in the log before",
    [DEAD_IS_STALE] = "is stale: it changes nothing",
    [DEAD_IS_DROPPED] = "dropped",
    [DEAD_STAYS] = "stays dead",
    [DEAD_WAITS] = "stays dead",
};

static bool stays_dead(enum dead_outcome outcome)
{
    return outcome == DEAD_STAYS || outcome == DEAD_WAITS;
}

static void report_json(struct work *work, const struct dead_result *result)
{
    json_t *one;

    if (!stays_dead(result->outcome) || work->reported == REPORT_JSON_MAX)
        return;
    one = json_pack("{s:I, s:s, s:i, s:I, s:s?, s:s?, s:o}", "id", (json_int_t)result->id, "topic",
                    result->place.topic, "partition", (int)result->place.partition, "offset",
                    (json_int_t)result->place.offset, "reason_class", result->reason_class,
                    "reason", result->reason, "behind",
                    result->behind != 0 ? json_integer(result->behind) : json_null());
    json_array_append_new(work->stay, one);
    work->reported++;
}

static void report_text(struct work *work, const struct dead_result *result)
{
    struct buf *out = &work->lines;

    if ((!stays_dead(result->outcome) && work->matched > REPORT_LINES_MAX) ||
        work->reported == REPORT_LINES_MAX)
        return;
    work->reported++;
    buf_print(out, "  %" PRId64 "  %s/%" PRId32 "@%" PRId64 "  %s", result->id, result->place.topic,
              result->place.partition, result->place.offset, words[result->outcome]);
    if (result->outcome == DEAD_STAYS)
        buf_print(out, ": %s: %s", result->reason_class, result->reason);
    if (result->outcome == DEAD_WAITS)
        buf_print(out,
                  ": %" PRId64 " is older, has the same key and stays too; replay or drop it "
                  "first",
                  result->behind);
    buf_char(out, '\n');
}

static void on_result(void *ctx, const struct dead_result *result)
{
    struct work *work = ctx;

    work->counts[result->outcome]++;
    for (size_t i = 0; i < work->request->filter.id_count; i++)
        if (work->request->ids[i] == result->id)
            work->seen[i] = true;
    if (work->stay)
        report_json(work, result);
    else
        report_text(work, result);
}

/* Runs page after page. A page that fails is tried again a few times. */
static enum rc run_pages(struct dead *dead, struct err *err)
{
    struct backoff backoff = {.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    struct stop stop = {0};
    bool more = true;
    enum rc rc = stop_init(&stop, err);

    while (rc == RC_OK && more) {
        rc = dead_step(dead, &more, err);
        if (rc == RC_OK)
            backoff_reset(&backoff);
        if (rc != RC_RETRY || backoff.tries == TRIES_MAX)
            continue;
        stop_wait(&stop, backoff_next_ms(&backoff, os_random_u64()));
        rc = RC_OK;
    }
    stop_done(&stop);
    return rc;
}

/* Returns -1 to go on, otherwise the exit code. */
static int confirm_bulk(const struct work *work)
{
    const char *verb = work->request->action == DEAD_DROP ? "drop" : "replay";
    char answer[16] = "";

    if (!dead_request_is_bulk(work->request) || work->request->words.yes || work->matched == 0)
        return -1;
    if (!isatty(STDIN_FILENO)) {
        fprintf(stderr,
                "tallybox dead: %" PRIu64
                " dead records of group %s match; without a terminal, add --yes to %s them\n",
                work->matched, work->group, verb);
        return EXIT_USAGE;
    }
    fprintf(stderr, "%" PRIu64 " dead records of group %s match. %s them? [y/N] ", work->matched,
            work->group, work->request->action == DEAD_DROP ? "Drop" : "Replay");
    if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return -1;
    fprintf(stderr, "nothing was changed\n");
    return EXIT_FAILED;
}

static enum rc on_decided(void *ctx, const struct dead_view *view, struct err *err)
{
    struct work *work = ctx;
    char age[WHEN_AGE_SIZE];

    (void)err;
    for (size_t i = 0; i < work->request->filter.id_count; i++) {
        if (work->request->ids[i] != view->id || work->seen[i] || work->decided[i])
            continue;
        work->decided[i] = true;
        when_age(age, work->now_ms - view->decided_ms);
        if (!work->stay)
            buf_print(&work->lines, "  %" PRId64 "  is no longer dead: %s %s ago by %s\n", view->id,
                      view->decision, age, view->decided_by);
    }
    return RC_OK;
}

/* Reports the ids that are not dead. A record that was decided before, by this run or another,
 * counts as done. */
static enum rc report_missing(struct work *work, struct err *err)
{
    const struct dead_request *request = work->request;
    enum rc rc = RC_OK;

    if (request->filter.id_count > 0)
        rc = dead_mysql_list(work->mysql, &request->filter, true, 0, 2 * (size_t)DEAD_IDS_MAX,
                             on_decided, work, err);
    for (size_t i = 0; rc == RC_OK && i < request->filter.id_count; i++) {
        if (work->seen[i] || work->decided[i])
            continue;
        work->unknown++;
        fprintf(stderr, "tallybox dead: there is no dead record %" PRId64 " of group %s\n",
                request->ids[i], work->group);
    }
    return rc;
}

static int print_text(struct work *work)
{
    const uint64_t *counts = work->counts;
    uint64_t stay = counts[DEAD_STAYS] + counts[DEAD_WAITS];
    struct buf out = {0};

    if (work->request->action == DEAD_DROP)
        buf_print(&out, "dropped %" PRIu64 " dead records\n", counts[DEAD_IS_DROPPED]);
    else
        buf_print(&out,
                  "applied %" PRIu64 ", in the log before %" PRIu64 ", stale %" PRIu64
                  ", still dead %" PRIu64 "\n",
                  counts[DEAD_IS_APPLIED], counts[DEAD_IS_DUPLICATE], counts[DEAD_IS_STALE], stay);
    if (work->lines.failed)
        out.failed = true;
    buf_put(&out, work->lines.data, work->lines.len);
    if (stay > work->reported)
        buf_print(&out, "  and %" PRIu64 " more: tallybox dead list\n", stay - work->reported);
    return options_print(&out);
}

static int print_json(struct work *work)
{
    const uint64_t *counts = work->counts;
    json_t *all = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "matched", (json_int_t)work->matched, "applied",
        (json_int_t)counts[DEAD_IS_APPLIED], "duplicates", (json_int_t)counts[DEAD_IS_DUPLICATE],
        "stale", (json_int_t)counts[DEAD_IS_STALE], "dropped", (json_int_t)counts[DEAD_IS_DROPPED],
        "still_dead", (json_int_t)counts[DEAD_STAYS] + (json_int_t)counts[DEAD_WAITS],
        "unknown_ids", (json_int_t)work->unknown, "stay", work->stay);
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    struct buf out = {0};

    if (text) {
        buf_text_put(&out, text);
        buf_char(&out, '\n');
    } else {
        out.failed = true;
    }
    free(text);
    json_decref(all);
    return options_print(&out);
}

static enum rc decide_records(struct work *work, struct err *err)
{
    const struct dead_request *request = work->request;
    struct dead_config config = {
        .sink = dead_mysql_sink(work->mysql),
        .store = dead_mysql_store(work->mysql),
        .filter = &request->filter,
        .drop = request->action == DEAD_DROP,
        .rule = request->words.ignore_key ? RECORD_ANY_KEY : RECORD_KEY,
        .keep_lasts = work->keep_lasts,
        .records_max = request->words.limit > 0 ? (uint64_t)request->words.limit : 0,
        .on_result = on_result,
        .ctx = work,
    };
    struct dead dead;
    enum rc rc;

    if (request->words.value_path) {
        config.value = buf_text(&work->value);
        config.value_len = work->value.len;
    }
    rc = dead_init(&dead, &config, err);
    if (rc != RC_OK)
        return rc;
    rc = run_pages(&dead, err);
    dead_done(&dead);
    if (rc == RC_OK)
        rc = report_missing(work, err);
    return rc;
}

static int print_result(struct work *work, enum rc rc, const struct err *err)
{
    uint64_t stay = work->counts[DEAD_STAYS] + work->counts[DEAD_WAITS];
    int code = work->stay ? print_json(work) : print_text(work);

    if (rc != RC_OK)
        return options_fail(rc, err);
    if (code == EXIT_DONE && (stay > 0 || work->unknown > 0))
        return EXIT_FAILED;
    return code;
}

static void free_work(struct work *work)
{
    json_decref(work->stay);
    buf_done(&work->lines);
    buf_done(&work->value);
}

int dead_decide(struct dead_mysql *mysql, struct dead_request *request,
                const struct settings *settings, int64_t now_ms)
{
    struct work work = {
        .mysql = mysql,
        .request = request,
        .group = settings->consumer.group,
        .keep_lasts = strcmp(settings->consumer.votes_from, "anyone") == 0,
        .now_ms = now_ms,
    };
    struct err err = {0};
    int64_t id_max = 0;
    enum rc rc = RC_OK;
    int code;

    work.stay = request->words.json ? json_array() : NULL;
    if (request->words.value_path)
        rc = options_read_file(&work.value, "value", request->words.value_path, VALUE_BYTES_MAX,
                               &err);
    if (rc == RC_OK)
        rc = dead_mysql_count(mysql, &request->filter, &work.matched, &id_max, &err);
    if (rc != RC_OK) {
        free_work(&work);
        return options_fail(rc, &err);
    }
    if (request->words.limit > 0 && work.matched > (uint64_t)request->words.limit)
        work.matched = (uint64_t)request->words.limit;
    code = confirm_bulk(&work);
    if (code < 0) {
        /* Excludes records that die after the confirmation. */
        request->filter.id_max = id_max;
        if (request->words.queue) {
            free_work(&work);
            return dead_queue(mysql, request, settings);
        }
        if (work.matched > 0 || !dead_request_is_bulk(request))
            rc = decide_records(&work, &err);
        code = print_result(&work, rc, &err);
    }
    free_work(&work);
    return code;
}
