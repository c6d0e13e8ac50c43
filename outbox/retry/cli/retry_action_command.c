/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_action_command.h"

#include "common/db/db.h"
#include "common/options.h"
#include "common/os.h"
#include "outbox/retry/cli/retry_decide_command.h"
#include "outbox/retry/cli/retry_edit_command.h"
#include "outbox/retry/cli/retry_group_command.h"
#include "outbox/retry/cli/retry_list_command.h"
#include "outbox/retry/cli/retry_request.h"
#include "outbox/retry/cli/retry_scene_command.h"
#include "outbox/retry/cli/retry_tables.h"
#include "outbox/retry/store/task_admin_mysql.h"

#include <stdio.h>
#include <string.h>

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

static int run_action(struct db *db, struct retry_request *request, const char *by,
                      int64_t lease_ms)
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
        return retry_list(db, request, now_ms);
    case RETRY_SHOW:
        return retry_show(db, request, now_ms);
    case RETRY_RUN_NOW:
    case RETRY_CANCEL:
    case RETRY_UNPARK:
    case RETRY_REQUEUE:
        return retry_decide(db, request, by);
    case RETRY_EDIT:
        return retry_edit(db, request);
    case RETRY_GROUP_LIST:
    case RETRY_GROUP_SET:
    case RETRY_GROUP_ENABLE:
    case RETRY_GROUP_DISABLE:
        return retry_group(db, request);
    case RETRY_PAUSE:
    case RETRY_RESUME:
    case RETRY_SCENE_LIST:
    case RETRY_SCENE_SHOW:
    case RETRY_SCENE_SET:
    case RETRY_SCENE_FIELDS:
    case RETRY_SCENE_WAITS:
    case RETRY_HANDLERS:
        break;
    }
    return retry_scene(db, request, lease_ms);
}

static int run_with_database(const struct options *options, struct retry_request *request)
{
    struct config *config;
    struct err err = {0};
    struct db *db = NULL;
    char by[OS_OPERATOR_SIZE];
    int code = options_load(options, &config);
    enum rc rc;

    if (code >= 0)
        return code;
    os_operator_name(by);
    rc = db_open(&db, &config_settings(config)->mysql, &err);
    code = rc == RC_OK ? run_action(db, request, by, config_settings(config)->retry.lease_ms)
                       : options_fail(rc, &err);
    db_close(db);
    config_free(config);
    return code;
}

/* Prints a table that needs no database; -1: the request needs one. */
static int print_table(const struct retry_request *request, const struct retry_handlers *handlers)
{
    struct buf out = {0};

    if (request->action == RETRY_SCENE_FIELDS)
        retry_tables_fields(&out);
    else if (request->action == RETRY_SCENE_WAITS)
        retry_tables_waits(&out);
    else if (request->action == RETRY_HANDLERS)
        retry_tables_handlers(&out, handlers);
    else
        return -1;
    return options_print(&out);
}

static const char about[] =
    "Operator commands for the tasks of the retry queue. Without IDs, an action that changes tasks "
    "prints how many match and asks for confirmation; --yes confirms, and is required without a "
    "terminal. Every action may be repeated without harm. The exit code is 1 when a task was left "
    "unchanged, and 3 when a change of a scene is stored but not in force everywhere within "
    "--wait.\n\nWithout an ACTION this is the role that runs the tasks: tallybox help retry.";

static const char actions_and_examples[] =
    "Actions:\n"
    "  list [ID]...        one line for each active task, by id\n"
    "  show ID             one task with its attempts\n"
    "  history [ID]...     ended tasks\n"
    "  run-now [ID]...     makes waiting tasks due now; tries blocked tasks again\n"
    "  cancel [ID]...      moves tasks into the history; their keys continue\n"
    "  unpark [KEY]        continues a blocked or parked key\n"
    "  requeue [ID]...     creates a new task from one in the history\n"
    "  edit ID             replaces parameters or options of a task that has not ended\n"
    "  pause SCENE         begins no task of the scene\n"
    "  resume SCENE        begins its tasks again\n"
    "  scene list          every scene that has a row\n"
    "  scene show SCENE    its policy and options\n"
    "  scene set SCENE     checks and stores its policy and options\n"
    "  group list          what the tasks of each group may do\n"
    "  group set GROUP     creates a group, or changes its lists\n"
    "  group enable GROUP  runs its tasks\n"
    "  group disable GROUP lets its tasks wait; the API refuses new ones\n"
    "  scene fields        the fields of a policy, as a table\n"
    "  scene waits         the named waits\n"
    "  handlers            the handlers that a task may name\n\n"
    "Examples:\n"
    "  tallybox retry list --state blocked,parked\n"
    "  tallybox retry unpark order/4711\n"
    "  tallybox retry edit 17 --value corrected.json && tallybox retry run-now 17\n"
    "  tallybox retry requeue --scene mail --since 2h --yes\n"
    "  tallybox retry scene set mail --policy '{\"wait\": \"fixed 30s\", \"attempts\": 5}'\n";

int retry_action_command(const struct retry_handlers *handlers, int argc, char **argv)
{
    static struct retry_request request;
    struct retry_words words = {.limit = RETRY_LIMIT_ANY, .wait_s = RETRY_WAIT_UNSAID};
    const struct option_entry entries[] = {
        {"group", OPTION_TEXT, &words.group, "GROUP",
         "only tasks of this group; for scenes the default is \"default\""},
        {"scene", OPTION_TEXT, &words.scene, "SCENE", "only tasks of this scene"},
        {"handler", OPTION_TEXT, &words.handler, "HANDLER", "only tasks of this handler"},
        {"state", OPTION_TEXT, &words.state, "STATES",
         "only tasks in these states: waiting, running, queued, blocked, parked"},
        {"outcome", OPTION_TEXT, &words.outcome, "OUTCOME",
         "history, requeue: only tasks with this outcome: done, exhausted, cancelled"},
        {"key", OPTION_TEXT, &words.key, "KEY", "only tasks with this ordering key"},
        {"biz-no", OPTION_TEXT, &words.biz_no, "NUMBER", "only tasks with this business number"},
        {"reason-class", OPTION_TEXT, &words.reason_class, "CLASS",
         "only tasks whose last failure was: transient, refused, ours"},
        {"id", OPTION_NUMBER, &words.id, "ID", "the same as an ID"},
        {"since", OPTION_TEXT, &words.since, "TIME",
         "only tasks made (ended) at or after this time: 2h (ago), 7d, 2026-11-21T17:05:00Z"},
        {"until", OPTION_TEXT, &words.until, "TIME", "only tasks made (ended) before this time"},
        {"all", OPTION_FLAG, &words.all, NULL,
         "run-now, cancel ...: every task that the action can change"},
        {"limit", OPTION_NUMBER, &words.limit, "NUMBER",
         "at most this many (default of list and history: 50)"},
        {"after", OPTION_NUMBER, &words.after, "ID", "list, history: only tasks with greater ids"},
        {"params", OPTION_FLAG, &words.params, NULL,
         "show: write the parameters' bytes, and nothing else"},
        {"force", OPTION_FLAG, &words.force, NULL,
         "cancel: also running tasks; their attempts may still take effect"},
        {"skip", OPTION_FLAG, &words.skip, NULL,
         "unpark: cancel the blocked task and continue its key without it"},
        {"handlers", OPTION_TEXT, &words.handlers, "LIST",
         "group set: handlers that its tasks may name, as http,exec; a name may end in *"},
        {"scenes", OPTION_TEXT, &words.scenes, "LIST",
         "group set: scenes of its tasks; all when the group is new"},
        {"topics", OPTION_TEXT, &words.topics, "LIST",
         "group set: topics that its tasks may publish to; none when the group is new"},
        {"policy", OPTION_TEXT, &words.policy, "JSON|@FILE",
         "scene set: the policy after failures; empty: the default"},
        {"options", OPTION_TEXT, &words.options, "JSON|@FILE",
         "scene set, edit: the handler's options; empty: none"},
        {"value", OPTION_TEXT, &words.value_path, "FILE",
         "edit: the new parameters; - reads standard input"},
        {"wait", OPTION_NUMBER, &words.wait_s, "SECONDS",
         "scene set, pause, resume: how long to wait for the retry processes (default 10; 0: do "
         "not wait)"},
        {"yes", OPTION_FLAG, &words.yes, NULL, "do not ask"},
        {"json", OPTION_FLAG, &words.json, NULL, "print one JSON object"},
    };
    const struct option_parse parse = {
        .command = "tallybox retry",
        .arguments = "ACTION [ID|KEY|SCENE]...",
        .about = about,
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = actions_and_examples,
    };
    struct options options;
    struct err err = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (retry_request_read(&request, &words, (const char *const *)options.arguments,
                           (size_t)options.argument_count, &err) != RC_OK) {
        fprintf(stderr, "tallybox retry: %s\nTry `tallybox retry list --help`.\n", err.text);
        return EXIT_USAGE;
    }
    code = print_table(&request, handlers);
    return code >= 0 ? code : run_with_database(&options, &request);
}
