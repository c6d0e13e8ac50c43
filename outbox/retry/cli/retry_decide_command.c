/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_decide_command.h"

#include "common/backoff.h"
#include "common/id.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "common/progress_bar.h"
#include "outbox/retry/cli/retry_audit_command.h"
#include "outbox/retry/cli/task_text.h"
#include "outbox/retry/store/task_admin_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIES_MAX 8
#define RETRY_BASE_MS 100
#define RETRY_CAP_MS 2000
#define TOLD_MAX 20 /* lines in text */
#define TOLD_JSON_MAX 1000

struct work {
    struct db *db;
    struct retry_request *request;
    struct task_admin_order order;
    bool ended; /* search the history */
    uint64_t matched;
    int64_t id_max;
    uint64_t counts[TASK_ADMIN_OUTCOMES];
    uint64_t left; /* in another state than requested */
    uint64_t told;
    struct buf lines;
    struct progress_bar progress;
    int64_t page[TASK_ADMIN_ROWS_MAX]; /* ids of the current page */
    size_t page_count;
};

static const char *get_verb(const struct work *work)
{
    switch (work->order.action) {
    case TASK_ADMIN_RUN_NOW:
        return "run now";
    case TASK_ADMIN_CANCEL:
        return "cancel";
    case TASK_ADMIN_UNPARK:
        return "unpark";
    case TASK_ADMIN_SKIP:
        return "skip";
    case TASK_ADMIN_REQUEUE:
        break;
    }
    return "requeue";
}

/* The action on several tasks, for a question or a hint. */
static const char *get_order_words(const struct work *work)
{
    switch (work->order.action) {
    case TASK_ADMIN_RUN_NOW:
        return "run them now";
    case TASK_ADMIN_CANCEL:
        return "cancel them";
    case TASK_ADMIN_UNPARK:
        return "unpark them";
    case TASK_ADMIN_SKIP:
        return "skip them";
    case TASK_ADMIN_REQUEUE:
        break;
    }
    return "requeue them";
}

/* What was done, for a sentence about several tasks or one. */
static const char *get_done_word(const struct work *work)
{
    switch (work->order.action) {
    case TASK_ADMIN_RUN_NOW:
        return "due now";
    case TASK_ADMIN_CANCEL:
        return "cancelled";
    case TASK_ADMIN_UNPARK:
        return "out of the way of its key";
    case TASK_ADMIN_SKIP:
        return "skipped";
    case TASK_ADMIN_REQUEUE:
        break;
    }
    return "requeued";
}

static const char *get_outcome_word(enum task_admin_outcome outcome)
{
    static const char *const words[TASK_ADMIN_OUTCOMES] = {
        [TASK_ADMIN_DID] = "done",        [TASK_ADMIN_WAS_SO] = "was_so",
        [TASK_ADMIN_ACTIVE] = "active",   [TASK_ADMIN_RUNNING] = "running",
        [TASK_ADMIN_UNFIT] = "unfit",     [TASK_ADMIN_ENDED] = "ended",
        [TASK_ADMIN_UNKNOWN] = "unknown",
    };

    return words[outcome];
}

/* Returns whether the task was left in another state than requested. One that a filter selected and
 * that has ended meanwhile needs no action any more. */
static bool is_left(const struct work *work, const struct task_admin_result *result)
{
    if (result->outcome == TASK_ADMIN_ENDED && retry_request_is_bulk(work->request))
        return false;
    return task_admin_is_left(work->order.action, result);
}

static void put_sentence(struct work *work, const struct task_admin_result *result)
{
    struct buf *out = &work->lines;

    buf_print(out, "  %" PRId64 "  ", result->id);
    switch (result->outcome) {
    case TASK_ADMIN_DID:
        buf_text_put(out, get_done_word(work));
        if (result->other != 0)
            buf_print(out, " as %" PRId64, result->other);
        break;
    case TASK_ADMIN_WAS_SO:
        if (result->other != 0)
            buf_print(out, "was requeued before, as %" PRId64, result->other);
        else
            buf_text_put(out, "does not block a key");
        break;
    case TASK_ADMIN_ACTIVE:
        buf_print(out, "%" PRId64 " is active and has its idempotency key", result->other);
        break;
    case TASK_ADMIN_RUNNING:
        buf_text_put(out, work->order.action == TASK_ADMIN_CANCEL
                              ? "is running; --force cancels it nevertheless"
                              : "is running");
        break;
    case TASK_ADMIN_UNFIT:
        buf_print(out, "is %s and stays so%s", task_state_name(result->state),
                  result->state == TASK_PARKED   ? ": unpark its key, or requeue it"
                  : result->state == TASK_QUEUED ? " until its key goes on"
                                                 : "");
        break;
    case TASK_ADMIN_ENDED:
        if (task_admin_is_left(work->order.action, result))
            buf_print(out, "has ended as %s and stays so: tallybox retry history shows it",
                      result->ended);
        else
            buf_print(out, "has ended before, as %s", result->ended);
        break;
    case TASK_ADMIN_UNKNOWN:
        buf_text_put(out, work->ended ? "is not in the history" : "there is no such task");
        break;
    }
    buf_char(out, '\n');
}

static void put_result(struct work *work, const struct task_admin_result *result)
{
    bool named = !retry_request_is_bulk(work->request);
    bool left = is_left(work, result);

    work->counts[result->outcome]++;
    work->left += left;
    if (work->request->words.json) {
        if ((!named && !left) || work->told == TOLD_JSON_MAX)
            return;
        buf_print(&work->lines, "%s\n  {\"id\": %" PRId64 ", \"outcome\": \"%s\"",
                  work->told > 0 ? "," : "", result->id, get_outcome_word(result->outcome));
        if (result->other != 0)
            buf_print(&work->lines, ", \"task\": %" PRId64, result->other);
        if (result->outcome == TASK_ADMIN_UNFIT)
            buf_print(&work->lines, ", \"state\": \"%s\"", task_state_name(result->state));
        if (result->outcome == TASK_ADMIN_ENDED)
            buf_print(&work->lines, ", \"ended\": \"%s\"", result->ended);
        buf_char(&work->lines, '}');
        work->told++;
    } else if ((named || left) && work->told < TOLD_MAX) {
        put_sentence(work, result);
        work->told++;
    }
}

/* A page that fails is tried again a few times. */
static enum rc act_on_page(struct work *work, struct err *err)
{
    struct task_admin_result results[TASK_ADMIN_ROWS_MAX];
    struct backoff backoff = {.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    struct stop stop = {0};
    enum rc rc = stop_init(&stop, err);

    while (rc == RC_OK) {
        rc = task_admin_mysql_act(work->db, &work->order, work->page, work->page_count, results,
                                  err);
        if (rc != RC_RETRY || backoff.tries == TRIES_MAX)
            break;
        stop_wait(&stop, backoff_next_ms(&backoff, os_random_u64()));
        rc = RC_OK;
    }
    stop_done(&stop);
    for (size_t i = 0; rc == RC_OK && i < work->page_count; i++)
        put_result(work, &results[i]);
    if (rc == RC_OK)
        progress_bar_step(&work->progress, work->page_count, os_now_ms());
    work->page_count = 0;
    return rc;
}

static bool is_meant(const struct work *work, const struct retry_view *view)
{
    return !work->ended || view->requeued_as == 0;
}

static enum rc count_view(void *ctx, const struct retry_view *view, struct err *err)
{
    struct work *work = ctx;

    (void)err;
    if (!is_meant(work, view))
        return RC_OK;
    work->matched++;
    work->id_max = view->id;
    return RC_OK;
}

static enum rc view_page(void *ctx, const struct retry_view *view, struct err *err)
{
    struct work *work = ctx;

    (void)err;
    if (is_meant(work, view))
        work->page[work->page_count++] = view->id;
    return RC_OK;
}

/* Acts on tasks that a filter selects: counts them first and excludes tasks that are created
 * later. */
static enum rc count_matches(struct work *work, struct err *err)
{
    struct retry_filter *filter = &work->request->filter;
    uint64_t limit =
        work->request->words.limit > 0 ? (uint64_t)work->request->words.limit : UINT64_MAX;
    struct retry_page page = {.more = true};
    enum rc rc = RC_OK;

    while (rc == RC_OK && page.more && work->matched < limit) {
        filter->after = page.after;
        rc =
            retry_find(work->db, work->ended, filter, false,
                       limit - work->matched < RETRY_PAGE_ROWS_MAX ? (size_t)(limit - work->matched)
                                                                   : RETRY_PAGE_ROWS_MAX,
                       count_view, work, &page, err);
    }
    filter->id_max = work->id_max;
    filter->after = 0;
    return rc;
}

static enum rc act_on_matches(struct work *work, struct err *err)
{
    struct retry_filter *filter = &work->request->filter;
    struct retry_page page = {.more = work->matched > 0};
    enum rc rc = RC_OK;

    while (rc == RC_OK && page.more) {
        filter->after = page.after;
        rc = retry_find(work->db, work->ended, filter, false, TASK_ADMIN_ROWS_MAX, view_page, work,
                        &page, err);
        if (rc == RC_OK && work->page_count > 0)
            rc = act_on_page(work, err);
    }
    return rc;
}

static enum rc act_on_ids(struct work *work, struct err *err)
{
    const struct retry_filter *filter = &work->request->filter;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < filter->id_count; i++) {
        work->page[work->page_count++] = filter->ids[i];
        if (work->page_count == TASK_ADMIN_ROWS_MAX || i + 1 == filter->id_count)
            rc = act_on_page(work, err);
    }
    return rc;
}

struct explanation {
    const struct work *work;
    struct buf text;
};

/* A key that begins with "-" must not be taken as an option, and one that cannot be shown is named
 * by its task. */
static void put_unpark(struct buf *out, const struct retry_view *view, const char *effect)
{
    const char *key = view->ordering_key ? view->ordering_key : "";

    buf_text_put(out, key[0] == '-' ? "tallybox retry unpark -- " : "tallybox retry unpark ");
    if (!task_text_word(out, key))
        buf_print(out, "--id %" PRId64, view->id);
    buf_text_put(out, effect);
}

static void put_list(struct buf *out, const struct retry_view *view)
{
    struct buf key = {0};

    if (view->ordering_key && task_text_word(&key, view->ordering_key))
        buf_print(out, "tallybox retry list --key=%s", buf_text(&key));
    else
        buf_print(out, "tallybox retry list --group %s", view->group);
    out->failed |= key.failed;
    buf_done(&key);
}

/* What an operator can do about a task that the action does not change in its state. */
static enum rc explain_state(void *ctx, const struct retry_view *view, struct err *err)
{
    struct explanation *explanation = ctx;
    struct buf *out = &explanation->text;
    enum task_admin_action action = explanation->work->order.action;

    (void)err;
    buf_print(out, "task %" PRId64 " is %s: ", view->id, task_state_name(view->state));
    switch (view->state) {
    case TASK_RUNNING:
        buf_text_put(out, action == TASK_ADMIN_CANCEL ? "--force cancels it nevertheless"
                                                      : "its attempt is under way");
        break;
    case TASK_QUEUED:
        buf_text_put(out, "it waits for an earlier task of its key, see ");
        put_list(out, view);
        break;
    case TASK_WAITING:
        buf_print(out, "tallybox retry run-now %" PRId64 " makes it due", view->id);
        break;
    case TASK_PARKED:
        put_unpark(out, view, " continues its key");
        break;
    case TASK_BLOCKED:
        put_unpark(out, view, " tries it again");
        break;
    }
    return RC_OK;
}

/* An id was given where a key is expected. */
static enum rc explain_id(void *ctx, const struct retry_view *view, struct err *err)
{
    struct explanation *explanation = ctx;

    (void)err;
    buf_print(&explanation->text, "unpark takes a key; task %" PRId64, view->id);
    if (view->ordering_key) {
        buf_text_put(&explanation->text, " has the key ");
        task_text_line(&explanation->text, view->ordering_key);
    } else {
        buf_print(&explanation->text, " has none: tallybox retry run-now %" PRId64, view->id);
    }
    return RC_OK;
}

static const char *get_hint(const struct work *work)
{
    switch (work->order.action) {
    case TASK_ADMIN_RUN_NOW:
        return "tallybox retry list shows the active tasks, tallybox retry requeue creates a new "
               "one from an ended one";
    case TASK_ADMIN_CANCEL:
        return "tallybox retry list shows the active tasks";
    case TASK_ADMIN_UNPARK:
    case TASK_ADMIN_SKIP:
        return "tallybox retry list --state blocked,parked shows the keys that wait";
    case TASK_ADMIN_REQUEUE:
        break;
    }
    return "tallybox retry history shows the ended tasks; a task is requeued once";
}

/* Appends what to use instead when the request selects nothing that the action changes. */
static enum rc explain_nothing(struct explanation *explanation, struct err *err)
{
    const struct work *work = explanation->work;
    struct retry_filter filter = work->request->filter;
    const char *key = work->request->words.key ? NULL : filter.ordering_key;
    struct retry_page page = {.more = !work->ended};
    int64_t id;
    enum rc rc = RC_OK;

    filter.states = 0;
    filter.id_max = 0;
    while (rc == RC_OK && page.more && explanation->text.len == 0) {
        filter.after = page.after;
        rc = retry_find(work->db, false, &filter, false, 1, explain_state, explanation, &page, err);
    }
    if (rc == RC_OK && explanation->text.len == 0 && key &&
        id_parse_number(key, strlen(key), &id)) {
        const struct retry_filter by_id = {.ids = &id, .id_count = 1, .until_ms = INT64_MAX};

        rc = retry_find(work->db, false, &by_id, false, 1, explain_id, explanation, &page, err);
    }
    if (explanation->text.len == 0)
        buf_text_put(&explanation->text, get_hint(work));
    return rc;
}

/* Reports on stderr that there is nothing to do, and returns the exit code: 0 for --all. */
static int report_nothing(const struct work *work)
{
    struct explanation explanation = {.work = work};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (work->request->words.all)
        return EXIT_DONE;
    rc = explain_nothing(&explanation, &err);
    if (rc == RC_OK)
        fprintf(stderr, "tallybox retry: there is no such task to %s; %s\n", get_verb(work),
                buf_text(&explanation.text));
    buf_done(&explanation.text);
    return rc == RC_OK ? EXIT_FAILED : options_fail(rc, &err);
}

/* Returns -1 to continue, otherwise the exit code. */
static int confirm_action(const struct work *work)
{
    char answer[16] = "";

    if (!retry_request_is_bulk(work->request) || work->request->words.yes || work->matched == 0)
        return -1;
    if (!isatty(STDIN_FILENO)) {
        fprintf(stderr,
                "tallybox retry: %" PRIu64
                " tasks match; there is no terminal for a confirmation: use --yes to %s\n",
                work->matched, get_order_words(work));
        return EXIT_USAGE;
    }
    fprintf(stderr, "%" PRIu64 " tasks match. %c%s? [y/N] ", work->matched,
            get_order_words(work)[0] - 'a' + 'A', get_order_words(work) + 1);
    if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return -1;
    fprintf(stderr, "nothing was changed\n");
    return EXIT_FAILED;
}

static int print_results(struct work *work)
{
    struct buf out = {0};

    if (work->request->words.json) {
        buf_print(&out, "{\"matched\": %" PRIu64, work->matched);
        for (size_t i = 0; i < TASK_ADMIN_OUTCOMES; i++)
            buf_print(&out, ", \"%s\": %" PRIu64, get_outcome_word((enum task_admin_outcome)i),
                      work->counts[i]);
        buf_text_put(&out, ",\n\"tasks\": [");
        buf_put(&out, work->lines.data, work->lines.len);
        buf_text_put(&out, work->told > 0 ? "\n]}\n" : "]}\n");
    } else {
        if (work->matched == 0 && work->request->filter.id_count == 0)
            buf_text_put(&out, work->request->words.all ? "no task matches\n" : "");
        else
            buf_print(&out, "%" PRIu64 " %s\n", work->counts[TASK_ADMIN_DID], get_done_word(work));
        buf_put(&out, work->lines.data, work->lines.len);
        if (work->left > work->told)
            buf_print(&out, "  and %" PRIu64 " more that were left unchanged\n",
                      work->left - work->told);
    }
    out.failed = out.failed || work->lines.failed;
    return options_print(&out);
}

/* The states that the action can change, if the request names none. */
static unsigned get_states(const struct retry_request *request)
{
    unsigned blocked = 1U << TASK_BLOCKED;
    unsigned waiting = 1U << TASK_WAITING;

    switch (request->action) {
    case RETRY_RUN_NOW:
        return waiting | blocked;
    case RETRY_CANCEL:
        return waiting | blocked | 1U << TASK_QUEUED |
               (request->words.force ? 1U << TASK_RUNNING : 0);
    case RETRY_UNPARK:
        return blocked | 1U << TASK_PARKED;
    case RETRY_LIST:
    case RETRY_SHOW:
    case RETRY_HISTORY:
    case RETRY_REQUEUE:
    case RETRY_EDIT:
    case RETRY_CLIENTS:
    case RETRY_GROUP_LIST:
    case RETRY_GROUP_SHOW:
    case RETRY_GROUP_SET:
    case RETRY_GROUP_ENABLE:
    case RETRY_GROUP_DISABLE:
    case RETRY_PAUSE:
    case RETRY_RESUME:
    case RETRY_SCENE_LIST:
    case RETRY_SCENE_SHOW:
    case RETRY_SCENE_SET:
    case RETRY_SCENE_HISTORY:
    case RETRY_SCENE_REVERT:
    case RETRY_SCENE_FIELDS:
    case RETRY_SCENE_WAITS:
    case RETRY_SCENE_PRESETS:
    case RETRY_AUDIT:
    case RETRY_HANDLERS:
        break;
    }
    return 0;
}

static enum task_admin_action get_action(const struct retry_request *request)
{
    if (request->action == RETRY_RUN_NOW)
        return TASK_ADMIN_RUN_NOW;
    if (request->action == RETRY_CANCEL)
        return TASK_ADMIN_CANCEL;
    if (request->action == RETRY_UNPARK)
        return request->words.skip ? TASK_ADMIN_SKIP : TASK_ADMIN_UNPARK;
    return TASK_ADMIN_REQUEUE;
}

int retry_decide(struct db *db, struct retry_request *request, const char *by)
{
    bool named = request->filter.id_count > 0;
    struct work work = {
        .db = db,
        .request = request,
        .order = {.action = get_action(request),
                  .force = request->words.force,
                  .by = by,
                  .why = request->words.reason},
        .ended = request->action == RETRY_REQUEUE,
    };
    struct err err = {0};
    enum rc rc = RC_OK;
    int code;

    if (!named) {
        if (request->filter.states == 0)
            request->filter.states = get_states(request);
        work.order.states = request->filter.states;
        rc = count_matches(&work, &err);
    } else {
        work.matched = request->filter.id_count;
    }
    if (rc != RC_OK)
        return options_fail(rc, &err);
    code = confirm_action(&work);
    if (code >= 0)
        return code;
    if (work.matched > 0)
        rc = retry_audit_begin(db, request, by, &err);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    work.order.audit_id = request->audit_id;
    progress_bar_open(&work.progress, "tasks", work.matched, os_now_ms());
    rc = named ? act_on_ids(&work, &err) : act_on_matches(&work, &err);
    progress_bar_close(&work.progress, os_now_ms());
    code = print_results(&work);
    buf_done(&work.lines);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    if (code == EXIT_DONE && work.matched == 0)
        return report_nothing(&work);
    return code == EXIT_DONE && work.left > 0 ? EXIT_FAILED : code;
}
