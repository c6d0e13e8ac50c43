/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_decide_command.h"

#include "common/backoff.h"
#include "common/db/db.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "common/utc.h"
#include "consumer/dead/dead.h"
#include "consumer/dead/dead_audit_mysql.h"
#include "consumer/held/held_mysql.h"
#include "consumer/held/vote_task.h"
#include "consumer/installation_mysql.h"

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

/* The row of the command in the audit. */
struct audit {
    struct db *db;
    int64_t id;
};

struct work {
    struct dead_mysql *mysql;
    struct dead_request *request;
    const char *group;
    bool keep_lasts;
    int64_t now_ms;
    uint64_t matched;
    uint64_t counts[DEAD_OUTCOMES];
    bool seen[DEAD_IDS_MAX]; /* the ids of the request that are dead */
    bool decided[DEAD_IDS_MAX];
    uint64_t unknown; /* ids that exist neither as dead nor as decided records */
    struct buf lines; /* text: records that stay dead, and single records */
    uint64_t reported;
    json_t *stay; /* JSON: the same records; NULL: text */
    struct buf value;
};

static const char *const words[DEAD_OUTCOMES] = {
    [DEAD_OUTCOME_APPLIED] = "applied",
    [DEAD_OUTCOME_DUPLICATE] = "was in the log before",
    [DEAD_OUTCOME_STALE] = "is stale: it changes nothing",
    [DEAD_OUTCOME_DROPPED] = "dropped",
    [DEAD_OUTCOME_STAYS] = "stays dead",
    [DEAD_OUTCOME_WAITS] = "stays dead",
};

static bool stays_dead(enum dead_outcome outcome)
{
    return outcome == DEAD_OUTCOME_STAYS || outcome == DEAD_OUTCOME_WAITS;
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
    if (result->outcome == DEAD_OUTCOME_STAYS)
        buf_print(out, ": %s: %s", result->reason_class, result->reason);
    if (result->outcome == DEAD_OUTCOME_WAITS)
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

/* A record that is dropped is never applied, so a drop is confirmed also when ids select the
 * records; a replay only when options select them. Returns -1 to go on, otherwise the exit code. */
static int confirm_decision(const struct work *work)
{
    bool drop = work->request->action == DEAD_DROP;
    const char *plural = work->matched == 1 ? "" : "s";
    const char *verb_ending = work->matched == 1 ? "es" : "";
    const char *object = work->matched == 1 ? "it" : "them";
    char answer[16] = "";

    if ((!drop && !dead_request_is_bulk(work->request)) || work->request->options.yes ||
        work->matched == 0)
        return -1;
    if (!isatty(STDIN_FILENO)) {
        fprintf(stderr,
                "tallybox dead: %" PRIu64
                " dead record%s of group %s match%s; without a terminal, add --yes to %s %s\n",
                work->matched, plural, work->group, verb_ending, drop ? "drop" : "replay", object);
        return EXIT_USAGE;
    }
    fprintf(stderr, "%" PRIu64 " dead record%s of group %s match%s. %s %s? [y/N] ", work->matched,
            plural, work->group, verb_ending, drop ? "Drop" : "Replay", object);
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
    uint64_t stay = counts[DEAD_OUTCOME_STAYS] + counts[DEAD_OUTCOME_WAITS];
    struct buf out = {0};

    if (work->request->action == DEAD_DROP)
        buf_print(&out, "dropped %" PRIu64 " dead records\n", counts[DEAD_OUTCOME_DROPPED]);
    else
        buf_print(&out,
                  "applied %" PRIu64 ", in the log before %" PRIu64 ", stale %" PRIu64
                  ", still dead %" PRIu64 "\n",
                  counts[DEAD_OUTCOME_APPLIED], counts[DEAD_OUTCOME_DUPLICATE],
                  counts[DEAD_OUTCOME_STALE], stay);
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
        (json_int_t)counts[DEAD_OUTCOME_APPLIED], "duplicates",
        (json_int_t)counts[DEAD_OUTCOME_DUPLICATE], "stale", (json_int_t)counts[DEAD_OUTCOME_STALE],
        "dropped", (json_int_t)counts[DEAD_OUTCOME_DROPPED], "still_dead",
        (json_int_t)counts[DEAD_OUTCOME_STAYS] + (json_int_t)counts[DEAD_OUTCOME_WAITS],
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
        .rule = request->options.ignore_key ? RECORD_ANY_KEY : RECORD_KEY,
        .keep_lasts = work->keep_lasts,
        .records_max = request->options.limit > 0 ? (uint64_t)request->options.limit : 0,
        .on_result = on_result,
        .ctx = work,
    };
    struct dead dead;
    enum rc rc;

    if (request->options.value_path) {
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
    uint64_t stay = work->counts[DEAD_OUTCOME_STAYS] + work->counts[DEAD_OUTCOME_WAITS];
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

_Static_assert(HELD_SUBMIT_MAX <= VOTE_OPTIONS_IDS_MAX, "a page fits into one task");

/* The records of one key in a page. */
struct bundle {
    uint64_t hash; /* of the key; 0: none */
    struct vote_options options;
    char topic[VOTE_OPTIONS_TOPIC_SIZE];
    int32_t partition;
    char key[DEAD_KEY_BYTES_MAX];
    size_t key_len;
    struct vote_task task;
};

struct queue_work {
    const char *group;
    struct bundle *bundles; /* HELD_SUBMIT_MAX of them, the size of a page */
    size_t count;
    int64_t after;
    uint64_t rows; /* of the page */
    uint64_t records;
    uint64_t tasks;
    uint64_t made;
};

static struct bundle *find_bundle(struct queue_work *work, const struct dead_view *view)
{
    const struct dead_item item = {.topic = view->topic,
                                   .partition = view->partition,
                                   .key = view->key,
                                   .key_len = view->key_len};
    uint64_t hash = dead_key_of(&item);
    struct bundle *bundle;

    for (size_t i = 0; i < work->count; i++)
        if (work->bundles[i].hash == hash)
            return &work->bundles[i];
    bundle = &work->bundles[work->count++];
    bundle->hash = hash;
    bundle->options.has_dead = true;
    bundle->options.id_count = 0;
    bundle->partition = view->partition;
    bundle->key_len = view->key_len < DEAD_KEY_BYTES_MAX ? view->key_len : DEAD_KEY_BYTES_MAX;
    if (view->key)
        memcpy(bundle->key, view->key, bundle->key_len);
    snprintf(bundle->topic, sizeof(bundle->topic), "%s", view->topic);
    snprintf(bundle->options.group, sizeof(bundle->options.group), "%s", work->group);
    return bundle;
}

static enum rc on_queued_view(void *ctx, const struct dead_view *view, struct err *err)
{
    struct queue_work *work = ctx;
    struct vote_options *options = &find_bundle(work, view)->options;

    (void)err;
    options->ids[options->id_count++] = view->id;
    work->after = view->id;
    work->rows++;
    return RC_OK;
}

static enum rc submit_page(struct queue_work *work, const struct held_store *store, struct err *err)
{
    struct retry_new_task tasks[HELD_SUBMIT_MAX];
    size_t made = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < work->count; i++) {
        struct bundle *bundle = &work->bundles[i];
        const struct vote_task_place place = {bundle->topic, bundle->partition,
                                              bundle->hash != 0 ? bundle->key : NULL,
                                              bundle->key_len};

        rc = vote_task_make(&bundle->task, &bundle->options, &place, err);
        tasks[i] = vote_task_view(&bundle->task);
    }
    if (rc == RC_OK)
        rc = store->submit(store->ctx, tasks, work->count, &made, err);
    if (rc != RC_OK)
        return rc;
    work->records += work->rows;
    work->tasks += work->count;
    work->made += made;
    return RC_OK;
}

static enum rc submit_records(struct queue_work *work, struct dead_mysql *mysql,
                              const struct dead_request *request, const struct held_store *store,
                              struct err *err)
{
    uint64_t max = request->options.limit > 0 ? (uint64_t)request->options.limit : UINT64_MAX;
    enum rc rc;

    do {
        uint64_t left = max - work->records;
        size_t page = left < HELD_SUBMIT_MAX ? (size_t)left : HELD_SUBMIT_MAX;

        work->rows = 0;
        work->count = 0;
        if (page == 0)
            return RC_OK;
        rc = dead_mysql_list(mysql, &request->filter, false, work->after, page, on_queued_view,
                             work, err);
        if (rc == RC_OK && work->count > 0)
            rc = submit_page(work, store, err);
    } while (rc == RC_OK && work->rows > 0);
    return rc;
}

static int print_queued(const struct queue_work *work, bool json)
{
    struct buf out = {0};

    if (json)
        buf_print(&out,
                  "{\"records\": %" PRIu64 ", \"tasks\": %" PRIu64 ", \"made\": %" PRIu64 "}\n",
                  work->records, work->tasks, work->made);
    else
        buf_print(&out,
                  "%" PRIu64 " dead records are in the retry queue, in %" PRIu64
                  " tasks of scene " VOTE_TASK_SCENE "; %" PRIu64
                  " of these tasks existed before; `tallybox retry list` shows them\n",
                  work->records, work->tasks, work->tasks - work->made);
    return options_print(&out);
}

/* Makes one task for the records of each key, for each page of records that the request's filter
 * selects. Returns an enum exit_code. A second call with the same records makes no second task
 * while the first one is active. */
static int queue_records(struct dead_mysql *mysql, struct dead_request *request,
                         const struct settings *settings, const struct audit *audit)
{
    struct queue_work work = {.group = installation_group(settings)};
    struct held_mysql *held = NULL;
    struct err err = {0};
    enum rc rc = held_mysql_open(&held, settings, &err);
    int code;

    work.bundles = calloc(HELD_SUBMIT_MAX, sizeof(*work.bundles));
    if (rc == RC_OK && !work.bundles)
        rc = err_fail(&err, RC_FATAL, 0, "no memory for a page of dead records");
    if (rc == RC_OK)
        rc = submit_records(&work, mysql, request, held_mysql_store(held), &err);
    for (size_t i = 0; work.bundles && i < HELD_SUBMIT_MAX; i++)
        vote_task_done(&work.bundles[i].task);
    free(work.bundles);
    held_mysql_close(held);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    dead_audit_end(audit->db, audit->id, work.records);
    code = print_queued(&work, request->options.json);
    return code == EXIT_DONE && work.records == 0 && !dead_request_is_bulk(request) ? EXIT_FAILED
                                                                                    : code;
}

/* Records that are no longer dead because of this command. */
static uint64_t count_decided(const struct work *work)
{
    uint64_t decided = 0;

    for (unsigned i = 0; i < DEAD_OUTCOMES; i++)
        decided += stays_dead((enum dead_outcome)i) ? 0 : work->counts[i];
    return decided;
}

/* Connects and writes the row. The caller closes audit->db after any result. */
static enum rc begin_audit(struct audit *audit, const struct settings *settings,
                           const struct dead_request *request, struct err *err)
{
    const struct dead_options *options = &request->options;
    char by[OS_OPERATOR_SIZE];
    const struct dead_audit_entry entry = {
        .drop = request->action == DEAD_DROP,
        .group = installation_group(settings),
        .by = by,
        .via = "shell",
        .why = options->reason,
        .filter = &request->filter,
        .all = options->all,
        .records_max = options->limit > 0 ? (uint64_t)options->limit : 0,
        .has_value = options->value_path != NULL,
        .ignore_key = options->ignore_key,
        .queue = options->queue,
    };
    enum rc rc = db_open(&audit->db, &settings->mysql, err);

    os_operator_name(by);
    return rc == RC_OK ? dead_audit_begin(audit->db, &entry, &audit->id, err) : rc;
}

static int decide_with_audit(struct work *work, const struct settings *settings)
{
    struct dead_request *request = work->request;
    struct audit audit = {.db = NULL};
    struct err err = {0};
    enum rc rc = begin_audit(&audit, settings, request, &err);
    int code;

    if (rc != RC_OK) {
        code = options_fail(rc, &err);
    } else if (request->options.queue) {
        code = queue_records(work->mysql, request, settings, &audit);
    } else {
        if (work->matched > 0 || !dead_request_is_bulk(request))
            rc = decide_records(work, &err);
        if (rc == RC_OK)
            dead_audit_end(audit.db, audit.id, count_decided(work));
        code = print_result(work, rc, &err);
    }
    db_close(audit.db);
    return code;
}

int dead_decide(struct dead_mysql *mysql, struct dead_request *request,
                const struct settings *settings, int64_t now_ms)
{
    struct work work = {
        .mysql = mysql,
        .request = request,
        .group = installation_group(settings),
        .keep_lasts = strcmp(settings->consumer.votes_from, "anyone") == 0,
        .now_ms = now_ms,
    };
    struct err err = {0};
    int64_t id_max = 0;
    enum rc rc = RC_OK;
    int code;

    work.stay = request->options.json ? json_array() : NULL;
    if (request->options.value_path)
        rc = options_read_file(&work.value, "value", request->options.value_path, VALUE_BYTES_MAX,
                               &err);
    if (rc == RC_OK)
        rc = dead_mysql_count(mysql, &request->filter, &work.matched, &id_max, &err);
    if (rc != RC_OK) {
        free_work(&work);
        return options_fail(rc, &err);
    }
    if (request->options.limit > 0 && work.matched > (uint64_t)request->options.limit)
        work.matched = (uint64_t)request->options.limit;
    code = confirm_decision(&work);
    if (code < 0) {
        /* Excludes records that die after the confirmation. */
        request->filter.id_max = id_max;
        code = decide_with_audit(&work, settings);
    }
    free_work(&work);
    return code;
}
