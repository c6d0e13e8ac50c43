/* SPDX-License-Identifier: MIT */
/* The routes of the HTTP API. One table decides which method of which path there is, which handler
 * answers it, which scope its token needs, which query parameters it has and whether it takes a
 * body; docs/openapi.yaml is generated from the same table (openapi_command.h). Any thread. */
#ifndef PRODUCER_HTTP_API_ROUTES_H
#define PRODUCER_HTTP_API_ROUTES_H

#include "common/config/settings.h"
#include "common/http/http.h"
#include "producer/queue.h"

#include <stdbool.h>
#include <stddef.h>

/* The end of the year 9999: the greatest time in a query, in ms since 1970. */
#define API_TIME_MS_MAX INT64_C(253402300799999)

struct page_cache;
struct recommended;
struct retry_handlers;

/* What the handlers use. */
struct api_config {
    const struct settings *settings;       /* [api]; borrowed until the close */
    struct queue *votes;                   /* committer_request; borrowed, as reads */
    struct queue *reads;                   /* totals_request */
    struct queue *remarks;                 /* remark_request; NULL: api.lists is off, as pages */
    struct queue *removals;                /* removal_request; NULL as remarks */
    struct page_cache *pages;              /* borrowed until the close */
    struct recommended *recommended;       /* borrowed until the close; NULL: api.lists is off */
    struct queue *tasks;                   /* task_intake_request */
    struct queue *dead;                    /* dead_worker_request */
    struct queue *tries;                   /* the same with first_try; NULL: api.try_max is 0 */
    const struct retry_handlers *handlers; /* that tasks may name; NULL: any name */
    size_t shards;                         /* of each queue */
};

/* The scope that a route needs; common/http/tokens.h has the scopes that a token gives.
 * API_ROUTE_SCOPE_TASKS is tasks:GROUP for any group; the handler checks
 * the group itself. */
enum api_route_scope {
    API_ROUTE_SCOPE_VOTES,
    API_ROUTE_SCOPE_READ,
    API_ROUTE_SCOPE_TASKS,
    API_ROUTE_SCOPE_REMARKS,
    API_ROUTE_SCOPE_OPERATE,
    API_ROUTE_SCOPE_FIND, /* as API_ROUTE_SCOPE_TASKS, or API_ROUTE_SCOPE_OPERATE if api.operate is
                             on */
    API_ROUTE_SCOPES
};

/* What an operator can turn off: api.votes, api.tasks, api.lists and api.operate. */
enum api_feature {
    API_FEATURE_VOTES,
    API_FEATURE_TASKS,
    API_FEATURE_LISTS,
    API_FEATURE_OPERATE,
    API_FEATURE_DEAD, /* with api.operate and api.votes */
};

enum api_parameter {
    API_VOTER_ID,
    API_CONTENT_IDS,
    API_BIZ_NO,
    API_SCENE,
    API_GROUP,
    API_STATE,
    API_LIMIT,
    API_AFTER,
    API_ITEM_ID,
    API_CURSOR,
    API_SORT,
    API_PAGE_LIMIT,
    API_BIZ_NO_PREFIX,
    API_HANDLER,
    API_REASON_CLASS,
    API_SINCE,
    API_UNTIL,
    API_BY,
    API_START,
    API_STOP,
    API_CONFIG_GROUP,
    API_AFTER_SCENE,
    API_AFTER_GROUP,
    API_AFTER_ADDRESS,
    API_TOPIC,
    API_PARTITION,
    API_DEAD_CLASS,
    API_KEY,
    API_DECIDED,
    API_TRY,
    API_PARAMETERS,
};

/* One request for a route. Everything is borrowed until the request is answered. */
struct api_call {
    struct http_request *http;
    const char *id;                         /* the segment of the path at {id} or {group}, or "" */
    const char *second;                     /* that at {scene} */
    const char *parameters[API_PARAMETERS]; /* of the query; NULL: not given */
};

/* What a successful answer is. */
struct api_result {
    int status;         /* 0: no further result */
    const char *schema; /* NULL: the answer has no body */
    const char *description;
};

#define API_RESULTS_MAX 3

struct api_route {
    const char *method; /* GET serves HEAD, too */
    const char *path;   /* {id}, {group} and {scene} stand for one segment that is not empty */
    /* Answers the call, at once or later; the call itself lasts until the return. */
    void (*handle)(const struct api_config *config, const struct api_call *call);
    enum api_route_scope scope;
    enum api_feature feature;
    /* The limit of the body: offset in struct settings of an int64_t in bytes. 0: the route takes
     * no body. A body is always application/json. */
    size_t body_max_at;
    unsigned parameters; /* bits 1 << enum api_parameter that may be given */
    unsigned required;   /* those of them that must be given */

    /* For the reference page. */
    const char *operation;
    const char *summary;
    const char *description;
    const char *id;      /* schema of {id}, or NULL: there is none */
    const char *body;    /* schema of the body, or NULL */
    const char *example; /* of the body, as JSON, or NULL */
    struct api_result results[API_RESULTS_MAX];
    bool retry_headers;  /* reads the headers of the calls of the queue (outbox/retry/handler.h) */
    bool may_conflict;   /* the state of the task may not allow the action */
    bool may_be_deleted; /* answers api.deleted_status for what was deleted */
    bool may_find_nothing; /* answers 404 for an id that does not exist */
};

/* The handlers: api_votes.c, api_tasks.c, api_operate.c, api_scenes.c, api_clients.c, api_dead.c,
 * api_remarks.c, api_recommended.c and api_write_remarks.c. They run on the HTTP server's thread
 * and only put the request into a queue. */
void api_post_votes(const struct api_config *config, const struct api_call *call);
void api_get_votes(const struct api_config *config, const struct api_call *call);
void api_get_content(const struct api_config *config, const struct api_call *call);
void api_get_remarks(const struct api_config *config, const struct api_call *call);
void api_get_recommended(const struct api_config *config, const struct api_call *call);
void api_post_remarks(const struct api_config *config, const struct api_call *call);
void api_delete_remark(const struct api_config *config, const struct api_call *call);
void api_patch_remark(const struct api_config *config, const struct api_call *call);
void api_post_tasks(const struct api_config *config, const struct api_call *call);
void api_get_tasks(const struct api_config *config, const struct api_call *call);
void api_get_task(const struct api_config *config, const struct api_call *call);
void api_run_task(const struct api_config *config, const struct api_call *call);
void api_cancel_task(const struct api_config *config, const struct api_call *call);
void api_unpark_task(const struct api_config *config, const struct api_call *call);
void api_requeue_task(const struct api_config *config, const struct api_call *call);
void api_get_audit(const struct api_config *config, const struct api_call *call);
void api_edit_task(const struct api_config *config, const struct api_call *call);
void api_post_beat(const struct api_config *config, const struct api_call *call);
void api_get_clients(const struct api_config *config, const struct api_call *call);
void api_get_config(const struct api_config *config, const struct api_call *call);
void api_get_scenes(const struct api_config *config, const struct api_call *call);
void api_get_scene(const struct api_config *config, const struct api_call *call);
void api_patch_scene(const struct api_config *config, const struct api_call *call);
void api_pause_scene(const struct api_config *config, const struct api_call *call);
void api_resume_scene(const struct api_config *config, const struct api_call *call);
void api_get_groups(const struct api_config *config, const struct api_call *call);
void api_get_group(const struct api_config *config, const struct api_call *call);
void api_patch_group(const struct api_config *config, const struct api_call *call);
void api_enable_group(const struct api_config *config, const struct api_call *call);
void api_disable_group(const struct api_config *config, const struct api_call *call);
void api_get_dead(const struct api_config *config, const struct api_call *call);
void api_get_dead_record(const struct api_config *config, const struct api_call *call);
void api_post_dead(const struct api_config *config, const struct api_call *call);
void api_replay_dead(const struct api_config *config, const struct api_call *call);
void api_drop_dead(const struct api_config *config, const struct api_call *call);

/* The table: routes of one path stand together, in the order of their methods in Allow. */
extern const struct api_route api_routes[];
extern const size_t api_route_count;

/* The names of the scopes and of the query parameters; static. */
const char *api_route_scope_name(enum api_route_scope scope);
const char *api_parameter_name(enum api_parameter parameter);

#define API_SEGMENTS_MAX 2
#define API_SEGMENT_SIZE 65 /* of an id, or of the longest name of a group or scene */

/* What the table says of a request. */
struct api_match {
    const struct api_route *route; /* NULL: none takes this method */
    /* Those of the path in their order; "" where there is none, or a longer one. */
    char segments[API_SEGMENTS_MAX][API_SEGMENT_SIZE];
    char allow[48]; /* methods of the path for the header Allow; "": no such path */
};

void api_routes_match(struct api_match *match, const char *method, const char *path);

/* The paths of the table, separated by commas. */
void api_routes_list(char *text, size_t size);

#endif
