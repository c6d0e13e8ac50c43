/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_request.h"

#include "common/id.h"
#include "common/nearest.h"
#include "common/text.h"
#include "common/utc.h"

#include <stdlib.h>
#include <string.h>

#define BIT(action) (1U << (action))
/* Which actions take what. */
#define ON_TASKS                                                                     \
    (BIT(RETRY_LIST) | BIT(RETRY_HISTORY) | BIT(RETRY_RUN_NOW) | BIT(RETRY_CANCEL) | \
     BIT(RETRY_UNPARK) | BIT(RETRY_REQUEUE))
#define CHANGES (BIT(RETRY_RUN_NOW) | BIT(RETRY_CANCEL) | BIT(RETRY_UNPARK) | BIT(RETRY_REQUEUE))
#define PAGES (BIT(RETRY_LIST) | BIT(RETRY_HISTORY))
#define ON_HISTORY (BIT(RETRY_HISTORY) | BIT(RETRY_REQUEUE))
#define CHANGES_SCENES \
    (BIT(RETRY_PAUSE) | BIT(RETRY_RESUME) | BIT(RETRY_SCENE_SET) | BIT(RETRY_SCENE_REVERT))
#define ON_SCENES (CHANGES_SCENES | BIT(RETRY_SCENE_SHOW) | BIT(RETRY_SCENE_HISTORY))
#define CHANGES_GROUPS (BIT(RETRY_GROUP_SET) | BIT(RETRY_GROUP_ENABLE) | BIT(RETRY_GROUP_DISABLE))
#define ON_GROUPS (CHANGES_GROUPS | BIT(RETRY_GROUP_SHOW))
#define CONTENT (BIT(RETRY_EDIT) | BIT(RETRY_REQUEUE))
#define AUDITED (CHANGES | BIT(RETRY_EDIT) | CHANGES_SCENES | CHANGES_GROUPS)
#define ALONE                                                                                \
    (BIT(RETRY_SCENE_LIST) | BIT(RETRY_GROUP_LIST) | BIT(RETRY_AUDIT) | BIT(RETRY_CLIENTS) | \
     BIT(RETRY_SCENE_FIELDS) | BIT(RETRY_SCENE_WAITS) | BIT(RETRY_SCENE_PRESETS) |           \
     BIT(RETRY_HANDLERS))
#define WITH_JSON                                                                                  \
    (ON_TASKS | BIT(RETRY_SHOW) | BIT(RETRY_EDIT) | BIT(RETRY_SCENE_LIST) |                        \
     BIT(RETRY_GROUP_LIST) | BIT(RETRY_SCENE_SHOW) | BIT(RETRY_SCENE_HISTORY) | BIT(RETRY_AUDIT) | \
     BIT(RETRY_CLIENTS) | BIT(RETRY_GROUP_SHOW))

static const char *const names[RETRY_ACTIONS] = {
    [RETRY_LIST] = "list",
    [RETRY_SHOW] = "show",
    [RETRY_HISTORY] = "history",
    [RETRY_RUN_NOW] = "run-now",
    [RETRY_CANCEL] = "cancel",
    [RETRY_UNPARK] = "unpark",
    [RETRY_REQUEUE] = "requeue",
    [RETRY_EDIT] = "edit",
    [RETRY_PAUSE] = "pause",
    [RETRY_RESUME] = "resume",
    [RETRY_SCENE_LIST] = "scene list",
    [RETRY_SCENE_SHOW] = "scene show",
    [RETRY_SCENE_SET] = "scene set",
    [RETRY_SCENE_HISTORY] = "scene history",
    [RETRY_SCENE_REVERT] = "scene revert",
    [RETRY_GROUP_LIST] = "group list",
    [RETRY_GROUP_SHOW] = "group show",
    [RETRY_GROUP_SET] = "group set",
    [RETRY_GROUP_ENABLE] = "group enable",
    [RETRY_GROUP_DISABLE] = "group disable",
    [RETRY_AUDIT] = "audit",
    [RETRY_CLIENTS] = "clients",
    [RETRY_SCENE_FIELDS] = "scene fields",
    [RETRY_SCENE_WAITS] = "scene waits",
    [RETRY_SCENE_PRESETS] = "scene presets",
    [RETRY_HANDLERS] = "handlers",
};

/* "scene" or "group" and the next word are one action; taken is the number of its words. */
static bool find_action(const char *const *arguments, size_t count, enum retry_action *action,
                        size_t *taken)
{
    bool two = strcmp(arguments[0], "scene") == 0 || strcmp(arguments[0], "group") == 0;
    size_t len = strlen(arguments[0]);

    *taken = two ? 2 : 1;
    for (size_t i = 0; i < RETRY_ACTIONS && *taken <= count; i++) {
        const char *name = names[i];

        if (two && strncmp(name, arguments[0], len) == 0 && name[len] == ' ')
            name += len + 1;
        else if (two || strchr(name, ' '))
            continue;
        if (strcmp(name, arguments[*taken - 1]) != 0)
            continue;
        *action = (enum retry_action)i;
        return true;
    }
    return false;
}

/* The names of actions of two words are offered with their second words. second: NULL for an action
 * of one word. */
static enum rc fail_unknown(const char *first, const char *second, struct err *err)
{
    struct nearest nearest = {.typed = second ? second : first};
    size_t len = strlen(first);

    for (size_t i = 0; i < RETRY_ACTIONS; i++)
        if (!second)
            nearest_offer(&nearest, names[i]);
        else if (strncmp(names[i], first, len) == 0 && names[i][len] == ' ')
            nearest_offer(&nearest, names[i] + len + 1);
    return err_fail(err, RC_FATAL, 0, "unknown action \"%.64s%s%.64s\"%s%s%s%s", first,
                    second ? " " : "", second ? second : "", nearest.word ? "; did you mean " : "",
                    nearest.word && second ? first : "", nearest.word && second ? " " : "",
                    nearest.word ? nearest.word : "");
}

static enum rc read_action(struct retry_request *request, const char *const *arguments,
                           size_t count, size_t *taken, struct err *err)
{
    if (find_action(arguments, count, &request->action, taken))
        return RC_OK;
    if (count > 1 && (strcmp(arguments[0], "scene") == 0 || strcmp(arguments[0], "group") == 0))
        return fail_unknown(arguments[0], arguments[1], err);
    if (strcmp(arguments[0], "scene") == 0)
        return err_fail(
            err, RC_FATAL, 0,
            "an action is missing: scene list, scene show SCENE, scene set SCENE, scene "
            "history SCENE or scene revert SCENE");
    if (strcmp(arguments[0], "group") == 0)
        return err_fail(
            err, RC_FATAL, 0,
            "an action is missing: group list, group show GROUP, group set GROUP, group "
            "enable GROUP or group disable GROUP");
    return fail_unknown(arguments[0], NULL, err);
}

/* Drops repeated ids and returns how many are left. */
static size_t drop_repeated_ids(int64_t *ids, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        bool said = false;

        for (size_t n = 0; n < kept && !said; n++)
            said = ids[n] == ids[i];
        if (!said)
            ids[kept++] = ids[i];
    }
    return kept;
}

static enum rc read_ids(struct retry_request *request, const char *const *arguments, size_t count,
                        struct err *err)
{
    if (count > RETRY_IDS_MAX)
        return err_fail(err, RC_FATAL, 0, "more than %d ids; select them with --scene, --key ...",
                        RETRY_IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!id_parse_number(arguments[i], strlen(arguments[i]), &request->ids[i]))
            return err_fail(err, RC_FATAL, 0, "\"%.64s\" is not the id of a task, such as 17",
                            arguments[i]);
    }
    if (request->words.id > 0)
        request->ids[count++] = request->words.id;
    request->filter.ids = request->ids;
    request->filter.id_count = drop_repeated_ids(request->ids, count);
    return RC_OK;
}

static enum rc check_group_name(const char *name, struct err *err)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    size_t len = strlen(name);

    if (len == 0 || len > RETRY_NAME_BYTES_MAX || strspn(name, letters) != len)
        return err_fail(err, RC_FATAL, 0, "a group's name has 1 to %d letters, digits and _.:-",
                        RETRY_NAME_BYTES_MAX);
    return RC_OK;
}

/* The columns of names hold ASCII, and a server refuses to compare them with other characters. Keys
 * and numbers are UTF-8. */
static enum rc check_texts(const struct retry_words *words, struct err *err)
{
    const struct {
        const char *name;
        const char *text;
        bool ascii;
    } texts[] = {
        {"group", words->group, true},     {"scene", words->scene, true},
        {"handler", words->handler, true}, {"reason-class", words->reason_class, true},
        {"outcome", words->outcome, true}, {"key", words->key, false},
        {"biz-no", words->biz_no, false},  {"biz-no-prefix", words->biz_no_prefix, false},
        {"reason", words->reason, false},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].text && texts[i].ascii && !text_is_ascii(texts[i].text))
            return err_fail(err, RC_FATAL, 0, "--%s takes ASCII characters: no task has another",
                            texts[i].name);
        if (texts[i].text && !utf8_fits(texts[i].text, strlen(texts[i].text)))
            return err_fail(err, RC_FATAL, 0, "--%s takes UTF-8", texts[i].name);
    }
    return RC_OK;
}

/* Reads the words after the action: ids, one key, one group or one scene. */
static enum rc read_rest(struct retry_request *request, const char *const *arguments, size_t count,
                         struct err *err)
{
    const char *name = names[request->action];

    if ((ON_SCENES & BIT(request->action)) != 0) {
        if (count != 1)
            return err_fail(err, RC_FATAL, 0, "%s takes one SCENE", name);
        request->scene = arguments[0];
        if (strlen(request->scene) > RETRY_NAME_BYTES_MAX || request->scene[0] == '\0' ||
            !text_is_ascii(request->scene))
            return err_fail(err, RC_FATAL, 0, "a scene's name has 1 to %d ASCII characters",
                            RETRY_NAME_BYTES_MAX);
        return RC_OK;
    }
    if ((ON_GROUPS & BIT(request->action)) != 0) {
        if (count != 1)
            return err_fail(err, RC_FATAL, 0, "%s takes one GROUP", name);
        request->group = arguments[0];
        return check_group_name(request->group, err);
    }
    if ((ALONE & BIT(request->action)) != 0 && count > 0)
        return err_fail(err, RC_FATAL, 0, "%s stands alone", name);
    if (request->action != RETRY_UNPARK)
        return read_ids(request, arguments, count, err);
    if (count > 1)
        return err_fail(err, RC_FATAL, 0, "unpark takes one KEY; --scene ... selects several");
    if (count == 1 && request->words.key)
        return err_fail(err, RC_FATAL, 0, "the KEY is given twice");
    if (count == 1 && !utf8_fits(arguments[0], strlen(arguments[0])))
        return err_fail(err, RC_FATAL, 0, "the KEY is not UTF-8");
    if (count == 1)
        request->filter.ordering_key = arguments[0];
    return read_ids(request, NULL, 0, err);
}

static bool is_outcome(const char *word, size_t len)
{
    static const char *const outcomes[] = {"done", "exhausted", "cancelled"};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        if (strlen(outcomes[i]) == len && memcmp(outcomes[i], word, len) == 0)
            return true;
    return false;
}

static bool has_filter(const struct retry_words *words)
{
    return words->group || words->scene || words->handler || words->state || words->outcome ||
           words->key || words->biz_no || words->biz_no_prefix || words->reason_class ||
           words->since || words->until;
}

/* Active tasks have a state, and those of the history an outcome. Refuses the one with the other,
 * and names the command that takes it. */
static enum rc check_ends(const struct retry_request *request, struct err *err)
{
    const char *state = request->words.state;
    const char *outcome = request->words.outcome;

    if (outcome && request->action == RETRY_LIST)
        return err_fail(err, RC_FATAL, 0,
                        "--outcome has no meaning for list, which has active tasks: tallybox retry "
                        "history --outcome %.64s lists ended ones",
                        outcome);
    if (state && request->action == RETRY_HISTORY && is_outcome(state, strlen(state)))
        return err_fail(err, RC_FATAL, 0, "--state has no meaning for history: use --outcome %.64s",
                        state);
    if (state && request->action == RETRY_HISTORY)
        return err_fail(err, RC_FATAL, 0,
                        "--state has no meaning for history, which has ended tasks: tallybox retry "
                        "list --state %.64s lists active ones",
                        state);
    if (outcome && !is_outcome(outcome, strlen(outcome)))
        return err_fail(err, RC_FATAL, 0,
                        "--outcome takes done, exhausted or cancelled, not \"%.64s\"", outcome);
    return RC_OK;
}

/* An option that means nothing with this action is a mistake, not to be passed over. */
static enum rc check_options(const struct retry_request *request, struct err *err)
{
    const struct retry_words *words = &request->words;
    const struct {
        const char *name;
        bool said;
        unsigned fits;
    } options[] = {
        {"group", words->group != NULL,
         ON_TASKS | ON_SCENES | BIT(RETRY_SCENE_LIST) | BIT(RETRY_AUDIT) | BIT(RETRY_CLIENTS)},
        {"by", words->by != NULL, BIT(RETRY_AUDIT)},
        {"scene", words->scene != NULL, ON_TASKS | BIT(RETRY_AUDIT)},
        {"handler", words->handler != NULL, ON_TASKS},
        {"state", words->state != NULL, ON_TASKS & ~ON_HISTORY},
        {"outcome", words->outcome != NULL, ON_HISTORY},
        {"key", words->key != NULL, ON_TASKS},
        {"biz-no", words->biz_no != NULL, ON_TASKS},
        {"biz-no-prefix", words->biz_no_prefix != NULL, ON_TASKS},
        {"reason-class", words->reason_class != NULL, ON_TASKS},
        {"id", words->id != 0, ON_TASKS},
        {"since", words->since != NULL, ON_TASKS | BIT(RETRY_AUDIT)},
        {"until", words->until != NULL, ON_TASKS | BIT(RETRY_AUDIT)},
        {"limit", words->limit != RETRY_LIMIT_ANY,
         ON_TASKS | BIT(RETRY_AUDIT) | BIT(RETRY_SCENE_HISTORY)},
        {"to", words->to != 0, BIT(RETRY_SCENE_REVERT)},
        {"after", words->after != 0, PAGES | BIT(RETRY_AUDIT)},
        {"all", words->all, CHANGES},
        {"yes", words->yes, CHANGES},
        {"raw", words->raw, BIT(RETRY_SHOW)},
        {"force", words->force, BIT(RETRY_CANCEL)},
        {"skip", words->skip, BIT(RETRY_UNPARK)},
        {"wait", words->wait_s != RETRY_WAIT_UNSAID, CHANGES_SCENES},
        {"handlers", words->handlers != NULL, BIT(RETRY_GROUP_SET)},
        {"scenes", words->scenes != NULL, BIT(RETRY_GROUP_SET)},
        {"topics", words->topics != NULL, BIT(RETRY_GROUP_SET)},
        {"init-scene", words->init_scene != NULL, BIT(RETRY_GROUP_SET)},
        {"route", words->route != NULL, BIT(RETRY_GROUP_SET)},
        {"shards", words->shards != NULL, BIT(RETRY_GROUP_SET)},
        {"description", words->description != NULL, BIT(RETRY_GROUP_SET)},
        {"policy", words->policy != NULL, BIT(RETRY_SCENE_SET)},
        {"options", words->options != NULL, BIT(RETRY_SCENE_SET) | CONTENT},
        {"headers", words->headers != NULL, CONTENT},
        {"params", words->params_path != NULL, CONTENT},
        {"no-params", words->no_params, CONTENT},
        {"reason", words->reason != NULL, AUDITED},
        {"json", words->json, words->raw ? 0 : WITH_JSON},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].said && (options[i].fits & BIT(request->action)) == 0)
            return err_fail(err, RC_FATAL, 0, "--%s has no meaning for %s", options[i].name,
                            names[request->action]);
    return RC_OK;
}

static enum rc check_values(const struct retry_words *words, struct err *err)
{
    int64_t ms;

    if (words->limit != RETRY_LIMIT_ANY && words->limit < 1)
        return err_fail(err, RC_FATAL, 0, "--limit takes a number from 1");
    if (words->wait_s != RETRY_WAIT_UNSAID &&
        (words->wait_s < 0 || words->wait_s > RETRY_WAIT_S_MAX))
        return err_fail(err, RC_FATAL, 0, "--wait takes 0 to %d seconds", RETRY_WAIT_S_MAX);
    if (words->to < 0)
        return err_fail(err, RC_FATAL, 0,
                        "--to takes a version of the scene, as scene history lists it");
    if (words->after < 0 || words->id < 0)
        return err_fail(err, RC_FATAL, 0, "--%s takes the id of a task",
                        words->after < 0 ? "after" : "id");
    if ((words->since && !when_read(words->since, INT64_MAX / 2, &ms)) ||
        (words->until && !when_read(words->until, INT64_MAX / 2, &ms)))
        return err_fail(err, RC_FATAL, 0,
                        "--since and --until take 30s, 15m, 2h or 7d before now, or a time in UTC "
                        "such as 2026-11-21T17:05:00Z");
    return RC_OK;
}

static enum rc read_states(struct retry_filter *filter, const char *text, struct err *err)
{
    size_t len;

    for (const char *word; (word = list_next(&text, ',', &len));) {
        bool known = false;

        for (unsigned i = 0; i < TASK_STATES; i++) {
            const char *name = task_state_name((enum task_state)i);

            if (strlen(name) != len || strncmp(name, word, len) != 0)
                continue;
            filter->states |= BIT(i);
            known = true;
        }
        if (!known && is_outcome(word, len))
            return err_fail(
                err, RC_FATAL, 0,
                "--state takes the states of active tasks, not \"%.*s\": tallybox retry "
                "history --outcome %.*s lists ended ones",
                (int)len, word, (int)len, word);
        if (!known)
            return err_fail(err, RC_FATAL, 0,
                            "--state takes waiting, running, queued, blocked or parked, not "
                            "\"%.*s\"",
                            (int)(len < 64 ? len : 64), word);
    }
    return RC_OK;
}

const char *retry_action_name(enum retry_action action)
{
    return names[action];
}

bool retry_request_is_audited(const struct retry_request *request)
{
    return (AUDITED & BIT(request->action)) != 0;
}

bool retry_request_has_content(const struct retry_request *request)
{
    const struct retry_words *words = &request->words;

    return (CONTENT & BIT(request->action)) != 0 &&
           (words->options || words->headers || words->params_path || words->no_params);
}

static enum rc check_edit(const struct retry_request *request, struct err *err)
{
    const struct retry_words *words = &request->words;

    if (request->filter.id_count != 1 || has_filter(words))
        return err_fail(err, RC_FATAL, 0, "%s takes one ID%s", names[request->action],
                        request->action == RETRY_REQUEUE
                            ? " with --options, --headers, --params or --no-params"
                            : "");
    if (!retry_request_has_content(request))
        return err_fail(err, RC_FATAL, 0,
                        "nothing to replace: use --headers, --params, --no-params or --options");
    if (words->params_path && words->no_params)
        return err_fail(err, RC_FATAL, 0, "use --params or --no-params, not both");
    return RC_OK;
}

static enum rc check_choice(const struct retry_request *request, struct err *err)
{
    const struct retry_words *words = &request->words;
    size_t ids = request->filter.id_count;
    bool said = has_filter(words) || request->filter.ordering_key;

    if (request->action == RETRY_SHOW && (ids != 1 || words->id > 0))
        return err_fail(err, RC_FATAL, 0, "show takes one ID");
    if (request->action == RETRY_EDIT || retry_request_has_content(request))
        return check_edit(request, err);
    if (words->all && (ids > 0 || said))
        return err_fail(err, RC_FATAL, 0, "--all stands alone");
    if ((CHANGES & BIT(request->action)) != 0 && ids == 0 && !said && !words->all)
        return err_fail(err, RC_FATAL, 0,
                        "no tasks are selected: use %s, or --scene, --group, --handler, --key, "
                        "--biz-no, --reason-class, --since, --until, or --all",
                        request->action == RETRY_UNPARK ? "a KEY" : "an ID");
    if ((CHANGES & BIT(request->action)) != 0 && ids > 0 && said)
        return err_fail(err, RC_FATAL, 0, "use IDs, or --scene, --key ..., not both");
    if (request->action == RETRY_SCENE_REVERT && words->to == 0)
        return err_fail(err, RC_FATAL, 0,
                        "--to is missing: a version of the scene, as scene history lists it");
    if (request->action == RETRY_SCENE_SET && !words->policy && !words->options)
        return err_fail(
            err, RC_FATAL, 0,
            "nothing to set: use --policy JSON|@FILE|preset:NAME, --options JSON|@FILE");
    return RC_OK;
}

enum rc retry_request_read(struct retry_request *request, const struct retry_words *words,
                           const char *const *arguments, size_t count, struct err *err)
{
    size_t taken = 0;
    enum rc rc;

    memset(request, 0, sizeof(*request));
    request->words = *words;
    request->group = words->group ? words->group : RETRY_GROUP_DEFAULT;
    request->filter = (struct retry_filter){
        .group = words->group,
        .scene = words->scene,
        .handler = words->handler,
        .ordering_key = words->key,
        .biz_no = words->biz_no,
        .biz_no_prefix = words->biz_no_prefix,
        .reason_class = words->reason_class,
        .outcome = words->outcome,
        .until_ms = INT64_MAX,
        .after = words->after,
    };
    if (count == 0)
        return err_fail(err, RC_FATAL, 0, "expected an ACTION: list, show, history ...");
    rc = read_action(request, arguments, count, &taken, err);
    if (rc == RC_OK)
        rc = check_ends(request, err);
    if (rc == RC_OK)
        rc = check_options(request, err);
    if (rc == RC_OK)
        rc = check_values(words, err);
    if (rc == RC_OK)
        rc = check_texts(words, err);
    if (rc == RC_OK)
        rc = read_states(&request->filter, words->state, err);
    if (rc == RC_OK)
        rc = read_rest(request, arguments + taken, count - taken, err);
    if (rc == RC_OK)
        rc = check_choice(request, err);
    if (rc == RC_OK)
        request->wait_ms =
            1000 * (words->wait_s == RETRY_WAIT_UNSAID ? RETRY_WAIT_S : words->wait_s);
    return rc;
}

void retry_request_times(struct retry_request *request, int64_t now_ms)
{
    struct retry_filter *filter = &request->filter;

    if (request->words.since)
        when_read(request->words.since, now_ms, &filter->since_ms);
    if (request->words.until)
        when_read(request->words.until, now_ms, &filter->until_ms);
    /* Before 1970 there were no tasks. */
    if (filter->since_ms < 0)
        filter->since_ms = 0;
    if (filter->until_ms < 0)
        filter->until_ms = 0;
}

bool retry_request_is_bulk(const struct retry_request *request)
{
    bool names_key =
        request->action == RETRY_UNPARK && request->filter.ordering_key && !request->words.key;

    return request->filter.id_count == 0 && !names_key;
}
