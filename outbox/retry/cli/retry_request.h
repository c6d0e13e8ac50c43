/* SPDX-License-Identifier: MIT */
/* The request of `tallybox retry ACTION`: which tasks, keys or scenes, and what to do with them.
 * Decides whether the words form a valid request. Pure; one thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_REQUEST_H
#define OUTBOX_RETRY_CLI_RETRY_REQUEST_H

#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETRY_IDS_MAX 1000
#define RETRY_LIST_ROWS 50
#define RETRY_LIST_ROWS_MAX 10000
#define RETRY_LIMIT_ANY (-1)
#define RETRY_WAIT_UNSAID INT64_MIN
#define RETRY_WAIT_S 10 /* if the option is missing */
#define RETRY_WAIT_S_MAX 3600

enum retry_action {
    RETRY_LIST,
    RETRY_SHOW,
    RETRY_HISTORY,
    RETRY_RUN_NOW,
    RETRY_CANCEL,
    RETRY_UNPARK,
    RETRY_REQUEUE,
    RETRY_EDIT,
    RETRY_PAUSE,
    RETRY_RESUME,
    RETRY_SCENE_LIST,
    RETRY_SCENE_SHOW,
    RETRY_SCENE_SET,
    RETRY_SCENE_HISTORY,
    RETRY_SCENE_REVERT,
    RETRY_GROUP_LIST,
    RETRY_GROUP_SHOW,
    RETRY_GROUP_SET,
    RETRY_GROUP_ENABLE,
    RETRY_GROUP_DISABLE,
    RETRY_AUDIT,
    RETRY_CLIENTS,
    RETRY_SCENE_FIELDS, /* these four need no database */
    RETRY_SCENE_WAITS,
    RETRY_SCENE_PRESETS,
    RETRY_HANDLERS,
};

#define RETRY_ACTIONS (RETRY_HANDLERS + 1)

/* The words of the command line; NULL, false, 0 or the named value for a missing option. */
struct retry_words {
    const char *group;
    const char *scene;
    const char *handler;
    const char *state;
    const char *outcome;
    const char *key;
    const char *biz_no;
    const char *biz_no_prefix;
    const char *reason_class;
    const char *since;
    const char *until;
    const char *handlers; /* these three: lists as in retry.h */
    const char *scenes;
    const char *topics;
    const char *init_scene;
    const char *route;
    const char *shards;
    const char *description;
    const char *policy;
    const char *options;
    const char *headers;
    const char *params_path;
    const char *by;
    const char *reason; /* why the operator acts */
    int64_t id;
    int64_t limit; /* RETRY_LIMIT_ANY */
    int64_t after;
    int64_t to;     /* the number of a version */
    int64_t wait_s; /* RETRY_WAIT_UNSAID */
    bool all;
    bool yes;
    bool json;
    bool raw;
    bool no_params;
    bool force;
    bool skip;
};

struct retry_request {
    enum retry_action action;
    struct retry_words words;
    struct retry_filter filter; /* but for the times: retry_request_times() */
    const char *scene;          /* of pause, resume and the actions on scenes */
    const char *group;          /* of them, and of the actions on groups */
    int64_t audit_id;           /* the row of the action, when it has begun */
    int64_t wait_ms;            /* until a change of them is in force; 0: do not wait */
    int64_t ids[RETRY_IDS_MAX + 1];
};

/* arguments: the action and the words after it. The request points into words, arguments and
 * itself. RC_FATAL: err names the fault. */
enum rc retry_request_read(struct retry_request *request, const struct retry_words *words,
                           const char *const *arguments, size_t count, struct err *err);

/* Fills in the filter's times, as the clock is now_ms. */
void retry_request_times(struct retry_request *request, int64_t now_ms);

/* Returns whether a filter selects the tasks, not their ids or their key. */
bool retry_request_is_bulk(const struct retry_request *request);

/* The name of an action on the command line; static. */
const char *retry_action_name(enum retry_action action);

/* Returns whether the action changes something, and so has a row in the audit. */
bool retry_request_is_audited(const struct retry_request *request);

/* Returns whether the request gives new content for one task. */
bool retry_request_has_content(const struct retry_request *request);

#endif
