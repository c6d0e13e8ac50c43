/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_action_command.h"

#include "common/db/db.h"
#include "common/options.h"
#include "common/os.h"
#include "outbox/retry/cli/retry_audit_command.h"
#include "outbox/retry/cli/retry_client_command.h"
#include "outbox/retry/cli/retry_decide_command.h"
#include "outbox/retry/cli/retry_edit_command.h"
#include "outbox/retry/cli/retry_group_command.h"
#include "outbox/retry/cli/retry_request.h"
#include "outbox/retry/cli/retry_scene_command.h"
#include "outbox/retry/cli/retry_tables.h"
#include "outbox/retry/cli/task_text.h"
#include "outbox/retry/store/task_admin_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* At most this many kinds of listed tasks are explained: each takes a query. */
#define KINDS_MAX 256

struct shown_kind {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char handler[RETRY_HANDLER_BYTES_MAX + 1];
    char origin[16];
};

struct task_list {
    struct buf out;
    const struct retry_handlers *handlers;
    struct shown_kind kinds[KINDS_MAX];
    size_t kind_count;
    bool more_kinds; /* than are explained */
    bool json;
    bool ended;
    int64_t now_ms;
    size_t rows;
};

static struct shown_kind make_kind(const struct retry_view *view)
{
    struct shown_kind kind;

    memset(&kind, 0, sizeof(kind));
    snprintf(kind.group, sizeof(kind.group), "%s", view->group);
    snprintf(kind.scene, sizeof(kind.scene), "%s", view->scene);
    snprintf(kind.handler, sizeof(kind.handler), "%s", view->handler);
    snprintf(kind.origin, sizeof(kind.origin), "%s", view->origin);
    return kind;
}

static void add_kind(struct task_list *task_list, const struct retry_view *view)
{
    struct shown_kind kind = make_kind(view);

    if (view->outcome || view->state != TASK_WAITING)
        return;
    for (size_t i = 0; i < task_list->kind_count; i++)
        if (memcmp(&task_list->kinds[i], &kind, sizeof(kind)) == 0)
            return;
    if (task_list->kind_count < KINDS_MAX)
        task_list->kinds[task_list->kind_count++] = kind;
    else
        task_list->more_kinds = true;
}

/* Appends why no task of this handler runs, and returns true, if the program has no such handler.
 */
static bool explain_unknown_handler(const struct retry_handlers *handlers, const char *name,
                                    struct buf *out)
{
    struct err why = {0};

    if (retry_handler_exists(handlers, name, &why))
        return false;
    buf_text_put(out, "no task of the handler ");
    task_text_line(out, name);
    buf_text_put(out, " runs: ");
    task_text_line(out, why.text);
    buf_char(out, '\n');
    return true;
}

/* Appends the reason why tasks of this kind do not run, if there is one. */
static enum rc explain_kind(struct db *db, const struct retry_handlers *handlers,
                            const struct shown_kind *kind, struct buf *out, struct err *err)
{
    const struct retry_view view = {.group = kind->group,
                                    .scene = kind->scene,
                                    .handler = kind->handler,
                                    .origin = kind->origin};

    if (explain_unknown_handler(handlers, kind->handler, out))
        return RC_OK;
    return retry_group_note(db, &view, out, err);
}

static enum rc explain_kinds(struct db *db, struct task_list *task_list, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < task_list->kind_count && rc == RC_OK; i++)
        rc = explain_kind(db, task_list->handlers, &task_list->kinds[i], &task_list->out, err);
    if (task_list->more_kinds)
        buf_print(&task_list->out,
                  "only the first %d kinds of these tasks were checked for a reason to wait; list "
                  "fewer with --group, --scene or --handler\n",
                  KINDS_MAX);
    return rc;
}

static enum rc print_row(void *ctx, const struct retry_view *view, struct err *err)
{
    struct task_list *task_list = ctx;

    (void)err;
    if (task_list->json) {
        buf_text_put(&task_list->out, task_list->rows == 0 ? "\n  " : ",\n  ");
        task_text_json(&task_list->out, view, false);
    } else {
        if (task_list->rows == 0)
            task_text_head(&task_list->out, task_list->ended);
        task_text_row(&task_list->out, view, task_list->now_ms);
    }
    add_kind(task_list, view);
    task_list->rows++;
    return RC_OK;
}

static void end_list(struct task_list *task_list, const struct retry_page *page)
{
    struct buf *out = &task_list->out;

    if (task_list->json) {
        task_text_page_end(out, task_list->rows > 0, page->more, page->after);
        return;
    }
    if (task_list->rows == 0)
        buf_print(out, "no task%s matches\n", task_list->ended ? " in the history" : "");
    else if (page->more)
        buf_print(out, "more tasks follow; continue with --after %" PRId64 "\n", page->after);
}

/* now_ms: the database's clock. */
static int list_tasks(struct db *db, const struct retry_handlers *handlers,
                      struct retry_request *request, int64_t now_ms)
{
    const struct retry_words *words = &request->words;
    struct task_list task_list = {
        .handlers = handlers,
        .json = words->json,
        .ended = request->action == RETRY_HISTORY,
        .now_ms = now_ms,
    };
    size_t rows_max = words->limit > 0 ? (size_t)words->limit : RETRY_LIST_ROWS;
    struct retry_page page = {.more = true, .after = words->after};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (rows_max > RETRY_LIST_ROWS_MAX)
        rows_max = RETRY_LIST_ROWS_MAX;
    if (task_list.json)
        buf_text_put(&task_list.out, "{\"tasks\": [");
    while (rc == RC_OK && page.more && task_list.rows < rows_max) {
        size_t left = rows_max - task_list.rows;

        request->filter.after = page.after;
        rc = retry_find(db, task_list.ended, &request->filter, false,
                        left < RETRY_PAGE_ROWS_MAX ? left : RETRY_PAGE_ROWS_MAX, print_row,
                        &task_list, &page, &err);
    }
    if (rc != RC_OK) {
        buf_done(&task_list.out);
        return options_fail(rc, &err);
    }
    end_list(&task_list, &page);
    if (!task_list.ended && !task_list.json)
        rc = retry_scene_notes(db, words->group, words->scene, &task_list.out, &err);
    if (rc == RC_OK && !task_list.ended && !task_list.json)
        rc = explain_kinds(db, &task_list, &err);
    if (rc != RC_OK) {
        buf_done(&task_list.out);
        return options_fail(rc, &err);
    }
    return options_print(&task_list.out);
}

struct task_show {
    struct buf out;
    const struct retry_handlers *handlers;
    const struct retry_words *words;
    int64_t now_ms;
    bool parked; /* its row still blocks its key */
    bool found;
    bool no_params;
    size_t attempts;
    struct shown_kind kind;
    bool waits;
};

static void show_json(struct task_show *task_show, const struct retry_view *view)
{
    buf_text_put(&task_show->out, "{\"task\": ");
    task_text_json(&task_show->out, view, true);
    buf_print(&task_show->out, ",\n\"parked\": %s,\n\"attempts\": [",
              task_show->parked ? "true" : "false");
}

static enum rc show_view(void *ctx, const struct retry_view *view, struct err *err)
{
    struct task_show *task_show = ctx;

    (void)err;
    if (!view->outcome && view->state == TASK_PARKED) {
        task_show->parked = true; /* the history has the whole task */
        return RC_OK;
    }
    task_show->found = true;
    task_show->kind = make_kind(view);
    task_show->waits = !view->outcome && view->state == TASK_WAITING;
    if (task_show->words->raw) {
        task_show->no_params = !view->params;
        buf_put(&task_show->out, view->params ? view->params : "", view->params_len);
    } else if (task_show->words->json) {
        show_json(task_show, view);
    } else {
        task_text_show(&task_show->out, view, task_show->now_ms);
        if (task_show->parked)
            buf_text_put(&task_show->out,
                         "parked          its key waits for `tallybox retry unpark`\n");
    }
    return RC_OK;
}

static enum rc show_attempt(void *ctx, const struct retry_attempt_view *attempt, struct err *err)
{
    struct task_show *task_show = ctx;

    (void)err;
    if (task_show->words->json) {
        buf_text_put(&task_show->out, task_show->attempts == 0 ? "\n  " : ",\n  ");
        task_text_attempt_json(&task_show->out, attempt);
    } else {
        task_text_attempt(&task_show->out, attempt, task_show->attempts == 0, task_show->now_ms);
    }
    task_show->attempts++;
    return RC_OK;
}

static int show_task(struct db *db, const struct retry_handlers *handlers,
                     struct retry_request *request, int64_t now_ms)
{
    struct task_show task_show = {.handlers = handlers, .words = &request->words, .now_ms = now_ms};
    struct retry_page page;
    struct err err = {0};
    enum rc rc =
        retry_find(db, false, &request->filter, true, 1, show_view, &task_show, &page, &err);

    if (rc == RC_OK && !task_show.found)
        rc = retry_find(db, true, &request->filter, true, 1, show_view, &task_show, &page, &err);
    if (rc == RC_OK && !task_show.found)
        rc = err_fail(&err, RC_FATAL, 0, "there is no task %" PRId64, request->ids[0]);
    if (rc == RC_OK && task_show.no_params)
        rc = err_fail(&err, RC_FATAL, 0, "task %" PRId64 " has no parameters", request->ids[0]);
    if (rc == RC_OK && !request->words.raw && !request->words.json)
        rc =
            retry_scene_notes(db, task_show.kind.group, task_show.kind.scene, &task_show.out, &err);
    if (rc == RC_OK && task_show.waits && !request->words.raw && !request->words.json)
        rc = explain_kind(db, task_show.handlers, &task_show.kind, &task_show.out, &err);
    if (rc == RC_OK && !request->words.raw)
        rc = retry_attempts(db, request->ids[0], show_attempt, &task_show, &err);
    if (rc != RC_OK) {
        buf_done(&task_show.out);
        return options_fail(rc, &err);
    }
    if (request->words.json)
        buf_print(&task_show.out, "%s]}\n", task_show.attempts > 0 ? "\n" : "");
    return options_print(&task_show.out);
}

/* Acts on scenes or groups. */
static int run_on_kinds(struct db *db, struct retry_request *request, const char *by)
{
    struct err err = {0};
    enum rc rc =
        retry_request_is_audited(request) ? retry_audit_begin(db, request, by, &err) : RC_OK;

    int code;

    if (rc != RC_OK)
        return options_fail(rc, &err);
    code = strncmp(retry_action_name(request->action), "group", strlen("group")) == 0
               ? retry_group(db, request)
               : retry_scene(db, request);
    if (code == EXIT_USAGE)
        retry_audit_refuse(db, request); /* it was refused */
    return code;
}

static int run_action(struct db *db, const struct retry_handlers *handlers,
                      struct retry_request *request, const char *by)
{
    struct err err = {0};
    int64_t now_ms = 0;
    enum rc rc = task_admin_mysql_now(db, &now_ms, &err);

    if (rc != RC_OK)
        return options_fail(rc, &err);
    retry_request_times(request, now_ms);
    switch (request->action) {
    case RETRY_LIST:
    case RETRY_HISTORY:
        return list_tasks(db, handlers, request, now_ms);
    case RETRY_SHOW:
        return show_task(db, handlers, request, now_ms);
    case RETRY_RUN_NOW:
    case RETRY_CANCEL:
    case RETRY_UNPARK:
    case RETRY_REQUEUE:
        return retry_request_has_content(request) ? retry_edit(db, handlers, request, by)
                                                  : retry_decide(db, request, by);
    case RETRY_EDIT:
        return retry_edit(db, handlers, request, by);
    case RETRY_GROUP_LIST:
    case RETRY_GROUP_SHOW:
    case RETRY_GROUP_SET:
    case RETRY_GROUP_ENABLE:
    case RETRY_GROUP_DISABLE:
        break;
    case RETRY_AUDIT:
        return retry_audit(db, request);
    case RETRY_CLIENTS:
        return retry_clients(db, request);
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
    case RETRY_HANDLERS:
        break;
    }
    return run_on_kinds(db, request, by);
}

static int run_with_database(const struct options *options, const struct retry_handlers *handlers,
                             struct retry_request *request)
{
    struct retry_handlers checking = *handlers;
    struct config *config;
    struct err err = {0};
    struct db *db = NULL;
    char by[OS_OPERATOR_SIZE];
    int code = options_load(options, &config);
    enum rc rc;

    if (code >= 0)
        return code;
    os_operator_name(by);
    checking.settings = config_settings(config);
    rc = db_open(&db, &config_settings(config)->mysql, &err);
    code = rc == RC_OK ? run_action(db, &checking, request, by) : options_fail(rc, &err);
    db_close(db);
    config_free(config);
    return code;
}

/* Prints a table that needs no database; -1: the request needs one. */
static int print_table(const struct retry_request *request, const struct retry_handlers *handlers)
{
    struct buf out = {0};

    if (request->action == RETRY_SCENE_FIELDS)
        retry_tables_put_fields(&out);
    else if (request->action == RETRY_SCENE_WAITS)
        retry_tables_put_waits(&out);
    else if (request->action == RETRY_SCENE_PRESETS)
        retry_tables_put_presets(&out);
    else if (request->action == RETRY_HANDLERS)
        retry_tables_put_handlers(&out, handlers);
    else
        return -1;
    return options_print(&out);
}

static const char about[] =
    "Operator commands for the tasks of the retry queue. Without IDs, an action that changes tasks "
    "prints how many match and asks for confirmation; --yes confirms, and is required without a "
    "terminal. Every action may be repeated without harm. The exit code is 1 when there was no "
    "such task or a task was left in another state than the one asked for, and 3 when a change of "
    "a scene is stored but not in "
    "force everywhere within --wait.\n\nWithout an ACTION this is the role that runs the tasks: "
    "tallybox help retry.";

const struct option_action retry_actions[] = {
    {"list", "[ID]...", "one line for each active task, by id"},
    {"show", "ID", "one task with its attempts"},
    {"history", "[ID]...", "ended tasks"},
    {"run-now", "[ID]...", "makes waiting tasks due now; tries blocked tasks again"},
    {"cancel", "[ID]...", "moves tasks into the history; their keys continue"},
    {"unpark", "[KEY]", "continues a blocked or parked key"},
    {"requeue", "[ID]...", "creates a new task from one in the history, corrected if you like"},
    {"edit", "ID", "replaces headers, parameters or options of a task that has not ended"},
    {"audit", "", "the actions of operators, oldest first"},
    {"clients", "", "the clients of each group, live and expired"},
    {"pause", "SCENE", "begins no task of the scene"},
    {"resume", "SCENE", "begins its tasks again"},
    {"scene list", "", "every scene that has a row"},
    {"scene show", "SCENE", "its policy and options"},
    {"scene set", "SCENE", "checks and stores its policy and options"},
    {"scene history", "SCENE", "its versions, the newest first: who, when, what changed"},
    {"scene revert", "SCENE", "stores the policy and options of an earlier version again"},
    {"scene fields", "", "the fields of a policy, as a table"},
    {"scene waits", "", "the named waits"},
    {"scene presets", "", "the named policies"},
    {"group list", "", "what the tasks of each group may do"},
    {"group show", "GROUP", "what its tasks may do, and its version"},
    {"group set", "GROUP", "creates a group, or changes what its tasks may do"},
    {"group enable", "GROUP", "runs its tasks"},
    {"group disable", "GROUP", "lets its tasks wait; the API refuses new ones"},
    {"handlers", "", "the handlers that a task may name"},
};
const size_t retry_action_count = sizeof(retry_actions) / sizeof(retry_actions[0]);

const char retry_examples[] =
    "Examples:\n"
    "  tallybox retry list --state blocked,parked\n"
    "  tallybox retry unpark order/4711\n"
    "  tallybox retry edit 17 --params corrected.json && tallybox retry run-now 17\n"
    "  tallybox retry requeue --scene mail --since 2h --yes\n"
    "  tallybox retry scene set mail --policy '{\"wait\": \"fixed 30s\", \"attempts\": 5}'\n";

bool retry_action_asked(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return true;
        if (strcmp(argv[i], "--config") == 0 || strcmp(argv[i], "--set") == 0)
            i++;
    }
    return false;
}

static int refuse_words(const struct err *err)
{
    fprintf(stderr, "tallybox retry: %s\nTry `tallybox retry --help`.\n", err->text);
    return EXIT_USAGE;
}

static int run_words(const struct options *options, const struct retry_handlers *handlers,
                     const struct retry_words *words)
{
    static struct retry_request request;
    struct err err = {0};
    int code;

    if (retry_request_read(&request, words, (const char *const *)options->arguments,
                           (size_t)options->argument_count, &err) != RC_OK)
        return refuse_words(&err);
    code = print_table(&request, handlers);
    return code >= 0 ? code : run_with_database(options, handlers, &request);
}

/* What the command line gives; a process runs one command. */
static struct retry_words words = {.limit = RETRY_LIMIT_ANY, .wait_s = RETRY_WAIT_UNSAID};

static const struct option_entry entries[] = {
    {"group", OPTION_TEXT, &words.group, "GROUP",
     "only tasks of this group; for scenes the default is \"default\"", NULL},
    {"scene", OPTION_TEXT, &words.scene, "SCENE", "only tasks of this scene", NULL},
    {"handler", OPTION_TEXT, &words.handler, "HANDLER", "only tasks of this handler", NULL},
    {"state", OPTION_TEXT, &words.state, "STATES",
     "only tasks in these states: waiting, running, queued, blocked, parked", NULL},
    {"outcome", OPTION_TEXT, &words.outcome, "OUTCOME",
     "history, requeue: only tasks with this outcome: done, exhausted, cancelled", NULL},
    {"key", OPTION_TEXT, &words.key, "KEY", "only tasks with this ordering key", NULL},
    {"biz-no", OPTION_TEXT, &words.biz_no, "NUMBER", "only tasks with this business number", NULL},
    {"biz-no-prefix", OPTION_TEXT, &words.biz_no_prefix, "TEXT",
     "only tasks whose business number begins with this", NULL},
    {"reason-class", OPTION_TEXT, &words.reason_class, "CLASS",
     "only tasks whose last failure was: transient, refused, ours", NULL},
    {"id", OPTION_NUMBER, &words.id, "ID", "the same as an ID", NULL},
    {"since", OPTION_TEXT, &words.since, "TIME",
     "only tasks made (ended) at or after this time: 2h (ago), 7d, 2026-11-21T17:05:00Z", NULL},
    {"until", OPTION_TEXT, &words.until, "TIME", "only tasks made (ended) before this time", NULL},
    {"all", OPTION_FLAG, &words.all, NULL,
     "run-now, cancel ...: every task that the action can change", NULL},
    {"limit", OPTION_NUMBER, &words.limit, "NUMBER",
     "at most this many (default of list and history: 50)", NULL},
    {"after", OPTION_NUMBER, &words.after, "ID", "list, history: only tasks with greater ids",
     NULL},
    {"to", OPTION_NUMBER, &words.to, "VERSION",
     "scene revert: the version of the scene, as scene history and scene show name it", NULL},
    {"raw", OPTION_FLAG, &words.raw, NULL, "show: write the parameters' bytes, and nothing else",
     NULL},
    {"force", OPTION_FLAG, &words.force, NULL,
     "cancel: also running tasks; their attempts may still take effect", NULL},
    {"skip", OPTION_FLAG, &words.skip, NULL,
     "unpark: cancel the blocked task and continue its key without it", NULL},
    {"handlers", OPTION_TEXT, &words.handlers, "LIST",
     "group set: handlers that its tasks may name, as http,exec; a name may end in *", NULL},
    {"scenes", OPTION_TEXT, &words.scenes, "LIST",
     "group set: scenes of its tasks; all when the group is new", NULL},
    {"topics", OPTION_TEXT, &words.topics, "LIST",
     "group set: topics that its tasks may publish to; none when the group is new", NULL},
    {"init-scene", OPTION_TEXT, &words.init_scene, "standard|refuse|preset:NAME|JSON|@FILE",
     "group set: what a scene without a row has: the default policy, no task, or this policy",
     NULL},
    {"route", OPTION_TEXT, &words.route, "ROUTE",
     "group set: which client gets a task: random, round_robin, consistent_hash, lru, two_choices",
     NULL},
    {"shards", OPTION_TEXT, &words.shards, "LIST",
     "group set: shards that its tasks run in, as 0-3; empty: all", NULL},
    {"description", OPTION_TEXT, &words.description, "TEXT", "group set: for operators", NULL},
    {"policy", OPTION_TEXT, &words.policy, "JSON|@FILE|preset:NAME",
     "scene set: the policy after failures; empty: the default; without the option it stays", NULL},
    {"options", OPTION_TEXT, &words.options, "JSON|@FILE",
     "scene set, edit, requeue: the handler's options; empty: none; without the option they stay. "
     "An event keeps what they do not name",
     NULL},
    {"headers", OPTION_TEXT, &words.headers, "FILE|JSON",
     "edit, requeue ID: the new headers; an event keeps those that the relay has made", NULL},
    {"params", OPTION_TEXT, &words.params_path, "FILE",
     "edit, requeue ID: the new parameters, of an event its payload; - reads standard input", NULL},
    {"no-params", OPTION_FLAG, &words.no_params, NULL,
     "edit, requeue ID: no parameters, of an event a tombstone", NULL},
    {"by", OPTION_TEXT, &words.by, "NAME", "audit: only actions of this operator", NULL},
    {"reason", OPTION_TEXT, &words.reason, "TEXT",
     "actions that change something: why, for the audit and the callbacks of cancelled tasks",
     NULL},
    {"wait", OPTION_NUMBER, &words.wait_s, "SECONDS",
     "scene set, scene revert, pause, resume: how long to wait for the retry processes (default "
     "10; 0: do "
     "not wait)",
     NULL},
    {"yes", OPTION_FLAG, &words.yes, NULL, "do not ask", NULL},
    {"json", OPTION_FLAG, &words.json, NULL,
     "print one JSON object; its names (made_ms, attempts, reason_class) are not those of the API "
     "(madeAt, failures, reasonClass)",
     NULL},
};

int retry_action_command(const struct retry_handlers *handlers, int argc, char **argv)
{
    const struct option_parse parse = {
        .command = "tallybox retry",
        .role = "retry_admin",
        .arguments = "ACTION [ID|KEY|SCENE]...",
        .about = about,
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .actions = retry_actions,
        .action_count = retry_action_count,
        .examples = retry_examples,
    };
    struct options options;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    return run_words(&options, handlers, &words);
}
