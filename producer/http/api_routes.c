/* SPDX-License-Identifier: MIT */
#include "producer/http/api_routes.h"

#include "common/text.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(parameter) (1U << (parameter))
#define PAGE_ABOUT "One page; if more is true, send its `after` to get the next one."
#define BODY_MAX offsetof(struct settings, api.body_bytes_max)

const struct api_route api_routes[] = {
    {
        .method = "GET",
        .path = "/v1/votes",
        .handle = api_get_votes,
        .scope = API_ROUTE_SCOPE_READ,
        .parameters = BIT(API_VOTER_ID) | BIT(API_CONTENT_IDS),
        .required = BIT(API_CONTENT_IDS),
        .operation = "readTotals",
        .summary = "The totals of up to 200 contents",
        .description = "One element per id of contentIds, in their order. With voterId each "
                       "element also says whether this voter votes for the content.",
        .results = {{200, "Totals", "The totals, all of the same moment."}},
    },
    {
        .method = "POST",
        .path = "/v1/votes",
        .handle = api_post_votes,
        .scope = API_ROUTE_SCOPE_VOTES,
        .body_max_at = BODY_MAX,
        .operation = "vote",
        .summary = "One vote or an array of votes",
        .description = "The answer is sent after the COMMIT. Voting is idempotent: a vote may be "
                       "sent again after any error. An array is answered by an array in the same "
                       "order, with status 200; an error stands in the place of a bad item.",
        .body = "VoteRequest",
        .example = "{\"voterId\": 1, \"contentId\": 1, \"voting\": 1}",
        .results = {{200, "VoteResponse", "The votes are committed."}},
        .may_be_deleted = true,
    },
    {
        .method = "GET",
        .path = "/v1/contents/{id}/votes",
        .handle = api_get_content,
        .scope = API_ROUTE_SCOPE_READ,
        .parameters = BIT(API_VOTER_ID),
        .operation = "readTotal",
        .summary = "The total of one content",
        .description = "A content without votes has the total 0.",
        .id = "Id",
        .results = {{200, "Total", "The total, and the vote of voterId if it was given."}},
    },
    {
        .method = "GET",
        .path = "/v1/remarks",
        .handle = api_get_remarks,
        .scope = API_ROUTE_SCOPE_READ,
        .feature = API_FEATURE_LISTS,
        .parameters = BIT(API_ITEM_ID) | BIT(API_CURSOR) | BIT(API_PAGE_LIMIT) | BIT(API_SORT) |
                      BIT(API_VOTER_ID),
        .required = BIT(API_ITEM_ID),
        .operation = "listRemarks",
        .summary = "The remarks of an item, page by page, with live totals",
        .description = "No remark is twice in a list or missing, although remarks and votes are "
                       "added meanwhile. The order by votes is that of the last finished roll-up; "
                       "a cursor of that order expires when the roll-up after the next one begins "
                       "(status 410). With voterId each remark also says whether this voter votes "
                       "for it.",
        .results = {{200, "RemarkPage",
                     "One page; send its `next` as cursor to get the next "
                     "one. It may be shorter than `limit`."}},
    },
    {
        .method = "POST",
        .path = "/v1/remarks",
        .handle = api_post_remarks,
        .scope = API_ROUTE_SCOPE_REMARKS,
        .feature = API_FEATURE_LISTS,
        .body_max_at = BODY_MAX,
        .operation = "makeRemark",
        .summary = "Makes a remark",
        .description = "The answer is sent after the COMMIT. With an id the request may be sent "
                       "again after any error: a remark of the same item that exists is left as "
                       "it is and answered with status 200, and one that was deleted meanwhile is "
                       "not made again, but answered with the code `deleted`. Without one a second "
                       "request makes a second remark.",
        .body = "RemarkRequest",
        .example = "{\"itemId\": 1, \"header\": \"good\", \"content\": \"I liked it\"}",
        .results = {{200, "RemarkTicket", "There was a remark with this id."},
                    {201, "RemarkTicket", "The remark was made."}},
        .may_be_deleted = true,
    },
    {
        .method = "PATCH",
        .path = "/v1/remarks/{id}",
        .handle = api_patch_remark,
        .scope = API_ROUTE_SCOPE_REMARKS,
        .feature = API_FEATURE_LISTS,
        .body_max_at = BODY_MAX,
        .operation = "changeRemark",
        .summary = "Changes fields of a remark",
        .description = "Fields that are not given stay as they are. The request may be sent again "
                       "after any error.",
        .body = "RemarkChange",
        .example = "{\"status\": 1}",
        .id = "Id",
        .results = {{200, "RemarkId", "The remark has these values."}},
        .may_find_nothing = true,
    },
    {
        .method = "DELETE",
        .path = "/v1/remarks/{id}",
        .handle = api_delete_remark,
        .scope = API_ROUTE_SCOPE_REMARKS,
        .feature = API_FEATURE_LISTS,
        .operation = "deleteRemark",
        .summary = "Deletes a remark and its votes",
        .description = "After the answer no list of this process shows the remark, those of other "
                       "processes may for `api.page_cache_ms`, and votes on it are refused "
                       "with the code `deleted`. Its votes and the remark itself are removed in "
                       "the background. The request may be sent again after any error, also when "
                       "the remark has been removed. Never use the id again: votes on it stay "
                       "refused.",
        .id = "Id",
        .results = {{200, "RemarkId", "The remark is deleted."}},
        .may_find_nothing = true,
    },
    {
        .method = "GET",
        .path = "/v1/items/{id}/recommended",
        .handle = api_get_recommended,
        .scope = API_ROUTE_SCOPE_READ,
        .feature = API_FEATURE_LISTS,
        .parameters = BIT(API_START) | BIT(API_STOP) | BIT(API_VOTER_ID),
        .operation = "listRecommended",
        .summary = "The best remarks of an item, by their rank, with live totals",
        .description =
            "The list has remarks with status 1, ranked by votes as of a finished "
            "roll-up, score and age, with the weights that tallybox rank shows. It is "
            "replaced as a whole; pages with the same `list` are of one list. If an item "
            "was never asked for, `building` is true and there are no remarks: ask "
            "again. A remark that was hidden or deleted since is left out. An answer ends at "
            "about 1 MiB, also before `stop`: `next` is the `start` of the rest.",
        .id = "Id",
        .results = {{200, "RecommendedPage", "The remarks from start to before stop."}},
    },
    {
        .method = "GET",
        .path = "/v1/tasks",
        .handle = api_get_tasks,
        .scope = API_ROUTE_SCOPE_FIND,
        .feature = API_FEATURE_TASKS,
        .parameters = BIT(API_BIZ_NO) | BIT(API_SCENE) | BIT(API_GROUP) | BIT(API_STATE) |
                      BIT(API_LIMIT) | BIT(API_AFTER) | BIT(API_BIZ_NO_PREFIX) | BIT(API_HANDLER) |
                      BIT(API_REASON_CLASS) | BIT(API_SINCE) | BIT(API_UNTIL),
        .operation = "findTasks",
        .summary = "Tasks that match, page by page",
        .description = "Only tasks of the token's groups that were submitted by clients are found; "
                       "with a token of an operator all tasks.",
        .results = {{200, "TaskPage", PAGE_ABOUT}},
    },
    {
        .method = "POST",
        .path = "/v1/tasks",
        .handle = api_post_tasks,
        .scope = API_ROUTE_SCOPE_TASKS,
        .feature = API_FEATURE_TASKS,
        .body_max_at = BODY_MAX,
        .parameters = BIT(API_TRY),
        .operation = "submitTasks",
        .summary = "One task or an array of tasks for the retry queue",
        .description = "The answer is sent after the COMMIT. An array is answered by an array in "
                       "the same order, with status 200; an error stands in the place of a bad "
                       "item. A request that an attempt of the queue causes passes on the headers "
                       "of the attempt. With try=1, which takes one task, the server runs the "
                       "task at once and answers with the result, or with the id of the task if "
                       "it waits for a retry process; the queue has the task in either case.",
        .body = "TaskRequest",
        .example = "{\"scene\": \"mail\", \"handler\": \"kafka\", \"options\": {\"topic\": "
                   "\"mails\"}, \"params\": {\"to\": \"a@example.org\"}}",
        .results = {{200, "TaskResponse",
                     "An array, or a task that was active already; with try=1, also a task that "
                     "has ended or is blocked."},
                    {201, "TaskTicket", "The task was made."},
                    {202, "TaskTry",
                     "Only with try=1: the task was made, and waits or runs: `reason` says why."}},
        .retry_headers = true,
    },
    {
        .method = "GET",
        .path = "/v1/tasks/{id}",
        .handle = api_get_task,
        .scope = API_ROUTE_SCOPE_FIND,
        .feature = API_FEATURE_TASKS,
        .operation = "readTask",
        .summary = "One task with its attempts, also after it has ended",
        .description = "A task of another group than those of the token does not exist for it.",
        .id = "Id",
        .results = {{200, "TaskDetails", "The task."}},
        .may_find_nothing = true,
    },
    {
        .method = "POST",
        .path = "/v1/tasks/{id}/cancel",
        .handle = api_cancel_task,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "cancelTask",
        .summary = "Moves a task into the history; its key continues",
        .description = "A running task is left as it is unless force is true; its attempt may "
                       "still take effect. The request may be sent again after any error.",
        .id = "Id",
        .body = "CancelRequest",
        .example = "{\"reason\": \"the customer left\"}",
        .results = {{200, "Operated", "The task is as requested."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "POST",
        .path = "/v1/tasks/{id}/edit",
        .handle = api_edit_task,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "editTask",
        .summary = "Replaces options, headers or parameters of a task that has not ended",
        .description = "The handler checks the result before it is stored. Running and parked "
                       "tasks are left as they are.",
        .id = "Id",
        .body = "ContentRequest",
        .example = "{\"params\": {\"invoice\": 815}, \"reason\": \"the number was mistyped\"}",
        .results = {{200, "Operated", "The task is as requested."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "POST",
        .path = "/v1/tasks/{id}/requeue",
        .handle = api_requeue_task,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "requeueTask",
        .summary = "Makes a new task of one that has ended, corrected if content is given",
        .description = "A task is requeued once: another request answers the same new task.",
        .id = "Id",
        .body = "ContentRequest",
        .example = "{\"reason\": \"the host works again\"}",
        .results = {{200, "Operated", "The task is as requested."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "POST",
        .path = "/v1/tasks/{id}/run-now",
        .handle = api_run_task,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "runTask",
        .summary = "Makes a waiting task due now, or tries a blocked one again",
        .description = "The request may be sent again after any error.",
        .id = "Id",
        .body = "ReasonRequest",
        .example = "{\"reason\": \"the customer waits\"}",
        .results = {{200, "Operated", "The task is as requested."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "POST",
        .path = "/v1/tasks/{id}/unpark",
        .handle = api_unpark_task,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "unparkTask",
        .summary = "Continues the key of a blocked or parked task",
        .description = "A blocked task is tried again, or cancelled if skip is true. The request "
                       "may be sent again after any error.",
        .id = "Id",
        .body = "UnparkRequest",
        .example = "{\"skip\": true}",
        .results = {{200, "Operated", "The task is as requested."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "GET",
        .path = "/v1/clients",
        .handle = api_get_clients,
        .scope = API_ROUTE_SCOPE_FIND,
        .feature = API_FEATURE_TASKS,
        .parameters = BIT(API_CONFIG_GROUP) | BIT(API_LIMIT) | BIT(API_AFTER_ADDRESS),
        .required = BIT(API_CONFIG_GROUP),
        .operation = "listClients",
        .summary = "The clients that take tasks of a group, by address, page by page",
        .description = "An expired client gets no tasks, and is listed for a day. With a token of "
                       "an operator any group may be asked for.",
        .results = {{200, "ClientPage", "One page; send its `after` to get the next one."}},
    },
    {
        .method = "POST",
        .path = "/v1/clients/beat",
        .handle = api_post_beat,
        .scope = API_ROUTE_SCOPE_TASKS,
        .feature = API_FEATURE_TASKS,
        .body_max_at = BODY_MAX,
        .operation = "beat",
        .summary = "Registers the caller as a client that takes tasks of its group",
        .description = "Sent every beatMs. A client without a beat for expiresMs gets no more "
                       "tasks. If configVersion differs from the one before, GET /v1/config "
                       "has the new configuration. The request may be sent again after any error.",
        .body = "BeatRequest",
        .example = "{\"address\": \"http://127.0.0.1:8081/jobs\", \"version\": \"1.4.2\"}",
        .results = {{200, "Beat", "The client is registered."}},
    },
    {
        .method = "GET",
        .path = "/v1/config",
        .handle = api_get_config,
        .scope = API_ROUTE_SCOPE_TASKS,
        .feature = API_FEATURE_TASKS,
        .parameters = BIT(API_CONFIG_GROUP),
        .required = BIT(API_CONFIG_GROUP),
        .operation = "readConfig",
        .summary = "The configuration of a group: what its tasks may do, and the policies of its "
                   "scenes",
        .description = "The header ETag is the version in quotes; a request with it as "
                       "If-None-Match is answered with 304 until something changes.",
        .results = {{200, "GroupConfig", "The configuration."},
                    {304, NULL, "If-None-Match names the current version."}},
        .may_find_nothing = true,
    },
    {
        .method = "GET",
        .path = "/v1/scenes",
        .handle = api_get_scenes,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .parameters = BIT(API_GROUP) | BIT(API_LIMIT) | BIT(API_AFTER_SCENE),
        .operation = "listScenes",
        .summary = "Scenes that have a row, by group and scene, page by page",
        .description = "A scene without a row has what initScene of its group says.",
        .results = {{200, "ScenePage", PAGE_ABOUT}},
    },
    {
        .method = "GET",
        .path = "/v1/scenes/{group}/{scene}",
        .handle = api_get_scene,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .operation = "readScene",
        .summary = "One scene that has a row, with the numbers of its tasks",
        .description =
            "A scene without a row is not found: it has what initScene of its group says.",
        .results = {{200, "SceneDetails", "The scene."}},
        .may_find_nothing = true,
    },
    {
        .method = "PATCH",
        .path = "/v1/scenes/{group}/{scene}",
        .handle = api_patch_scene,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "setScene",
        .summary = "Sets policy and options of a scene",
        .description = "What is not given stays as it is. If the row has another version than the "
                       "one that the change is based on, nothing is changed, unless the scene is "
                       "as requested already. Retry processes read the scenes again within "
                       "two seconds. The request may be sent again after any error.",
        .body = "SceneRequest",
        .example =
            "{\"version\": 0, \"policy\": {\"attempts\": 5}, \"reason\": \"the host is slow\"}",
        .results = {{200, "Changed", "The scene is as requested."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "POST",
        .path = "/v1/scenes/{group}/{scene}/pause",
        .handle = api_pause_scene,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "pauseScene",
        .summary = "Pauses a scene: running attempts end, no task begins",
        .description =
            "A scene without a row gets one. The request may be sent again after any error.",
        .body = "ReasonRequest",
        .example = "{\"reason\": \"the host is away\", \"by\": \"ann\"}",
        .results = {{200, "Changed", "The scene is paused."}},
        .may_find_nothing = true,
    },
    {
        .method = "POST",
        .path = "/v1/scenes/{group}/{scene}/resume",
        .handle = api_resume_scene,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "resumeScene",
        .summary = "Resumes a paused scene",
        .description = "The request may be sent again after any error.",
        .body = "ReasonRequest",
        .example = "{\"reason\": \"the host is away\", \"by\": \"ann\"}",
        .results = {{200, "Changed", "The scene is not paused."}},
        .may_find_nothing = true,
    },
    {
        .method = "GET",
        .path = "/v1/groups",
        .handle = api_get_groups,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .parameters = BIT(API_LIMIT) | BIT(API_AFTER_GROUP),
        .operation = "listGroups",
        .summary = "Groups of tasks by name, page by page",
        .description = "The groups of the relay and the consumer have another owner than client.",
        .results = {{200, "GroupPage", PAGE_ABOUT}},
    },
    {
        .method = "GET",
        .path = "/v1/groups/{group}",
        .handle = api_get_group,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .operation = "readGroup",
        .summary = "One group of tasks",
        .description = "What its tasks may do.",
        .results = {{200, "Group", "The group."}},
        .may_find_nothing = true,
    },
    {
        .method = "PATCH",
        .path = "/v1/groups/{group}",
        .handle = api_patch_group,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "setGroup",
        .summary = "Sets values of a group of clients; with version 0 it makes one",
        .description = "What is not given stays as it is; in a new group it is empty, but for "
                       "scenes, which are all there. If the row has another version than the one "
                       "that the change is based on, nothing is changed, unless the group is as "
                       "requested already. The request may be sent again after any error.",
        .body = "GroupRequest",
        .example = "{\"version\": 1, \"handlers\": \"http\", \"reason\": \"no more exec\"}",
        .results = {{200, "Changed", "The group is as requested."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "POST",
        .path = "/v1/groups/{group}/disable",
        .handle = api_disable_group,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "disableGroup",
        .summary = "Disables a group: running attempts end, no task begins",
        .description = "The request may be sent again after any error.",
        .body = "ReasonRequest",
        .example = "{\"reason\": \"the host is away\", \"by\": \"ann\"}",
        .results = {{200, "Changed", "The group is disabled."}},
        .may_find_nothing = true,
    },
    {
        .method = "POST",
        .path = "/v1/groups/{group}/enable",
        .handle = api_enable_group,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .body_max_at = BODY_MAX,
        .operation = "enableGroup",
        .summary = "Enables a group",
        .description = "The request may be sent again after any error.",
        .body = "ReasonRequest",
        .example = "{\"reason\": \"the host is away\", \"by\": \"ann\"}",
        .results = {{200, "Changed", "The group is enabled."}},
        .may_find_nothing = true,
    },
    {
        .method = "GET",
        .path = "/v1/dead",
        .handle = api_get_dead,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_DEAD,
        .parameters = BIT(API_SINCE) | BIT(API_UNTIL) | BIT(API_LIMIT) | BIT(API_AFTER) |
                      BIT(API_TOPIC) | BIT(API_PARTITION) | BIT(API_DEAD_CLASS) | BIT(API_KEY) |
                      BIT(API_DECIDED),
        .operation = "listDead",
        .summary = "Dead records of the consumer group, by id, page by page",
        .description = "Without payload and headers.",
        .results = {{200, "DeadPage", "One page; send its `after` to get the next one."}},
    },
    {
        .method = "POST",
        .path = "/v1/dead",
        .handle = api_post_dead,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_DEAD,
        .body_max_at = BODY_MAX,
        .operation = "changeDead",
        .summary = "Replays or drops the dead records that a filter selects",
        .description = "At most limit records, in the order of topic, partition and offset. With "
                       "dryRun the records are only counted. If more is true, send the request "
                       "again, but records that stay dead are tried again, too. A replay applies "
                       "the records to the log; nothing is published to Kafka. The request may be "
                       "sent again after any error: what was done stays done.",
        .body = "DeadManyRequest",
        .example = "{\"action\": \"replay\", \"reasonClass\": \"refused\", \"dryRun\": true}",
        .results = {{200, "DeadDone", "What became of the records."}},
    },
    {
        .method = "GET",
        .path = "/v1/dead/{id}",
        .handle = api_get_dead_record,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_DEAD,
        .operation = "readDead",
        .summary = "One dead record with payload and headers, also after it was decided",
        .description = "Bytes that are no UTF-8 are in the member whose name ends in Base64.",
        .id = "Id",
        .results = {{200, "DeadRecord", "The record."}},
        .may_find_nothing = true,
    },
    {
        .method = "POST",
        .path = "/v1/dead/{id}/drop",
        .handle = api_drop_dead,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_DEAD,
        .body_max_at = BODY_MAX,
        .operation = "dropDead",
        .summary = "Gives a dead record up",
        .description = "It is kept in dead_history. The request may be sent again after any error.",
        .id = "Id",
        .body = "ReasonRequest",
        .example = "{\"reason\": \"a test of the load generator\", \"by\": \"ann\"}",
        .results = {{200, "DeadDecided", "The record is not dead."}},
        .may_find_nothing = true,
    },
    {
        .method = "POST",
        .path = "/v1/dead/{id}/replay",
        .handle = api_replay_dead,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_DEAD,
        .body_max_at = BODY_MAX,
        .operation = "replayDead",
        .summary = "Applies a dead record to the log, corrected if a value is given",
        .description = "Nothing is published to Kafka. If the record still cannot be applied it "
                       "stays dead (422), also behind an older record of its key (409). The "
                       "request may be sent again after any error.",
        .id = "Id",
        .body = "DeadReplayRequest",
        .example = "{\"reason\": \"the table works again\", \"by\": \"ann\"}",
        .results = {{200, "DeadDecided", "The record is not dead."}},
        .may_find_nothing = true,
        .may_conflict = true,
    },
    {
        .method = "GET",
        .path = "/v1/audit",
        .handle = api_get_audit,
        .scope = API_ROUTE_SCOPE_OPERATE,
        .feature = API_FEATURE_OPERATE,
        .parameters = BIT(API_SCENE) | BIT(API_GROUP) | BIT(API_BY) | BIT(API_SINCE) |
                      BIT(API_UNTIL) | BIT(API_LIMIT) | BIT(API_AFTER),
        .operation = "findActions",
        .summary = "Actions of operators, oldest first, page by page",
        .description = "Each action that changes something has a row, from the shell or over HTTP.",
        .results = {{200, "AuditPage", PAGE_ABOUT}},
    },
};

const size_t api_route_count = COUNT(api_routes);

const char *api_route_scope_name(enum api_route_scope scope)
{
    static const char *const names[API_ROUTE_SCOPES] = {
        [API_ROUTE_SCOPE_VOTES] = "votes",       [API_ROUTE_SCOPE_READ] = "read",
        [API_ROUTE_SCOPE_TASKS] = "tasks:GROUP", [API_ROUTE_SCOPE_REMARKS] = "remarks",
        [API_ROUTE_SCOPE_OPERATE] = "operate",   [API_ROUTE_SCOPE_FIND] = "tasks:GROUP",
    };

    return names[scope];
}

const char *api_parameter_name(enum api_parameter parameter)
{
    static const char *const names[API_PARAMETERS] = {
        [API_VOTER_ID] = "voterId",
        [API_CONTENT_IDS] = "contentIds",
        [API_BIZ_NO] = "bizNo",
        [API_SCENE] = "scene",
        [API_GROUP] = "group",
        [API_STATE] = "state",
        [API_LIMIT] = "limit",
        [API_AFTER] = "after",
        [API_ITEM_ID] = "itemId",
        [API_CURSOR] = "cursor",
        [API_SORT] = "sort",
        [API_PAGE_LIMIT] = "limit",
        [API_BIZ_NO_PREFIX] = "bizNoPrefix",
        [API_HANDLER] = "handler",
        [API_REASON_CLASS] = "reasonClass",
        [API_SINCE] = "since",
        [API_UNTIL] = "until",
        [API_BY] = "by",
        [API_START] = "start",
        [API_STOP] = "stop",
        [API_CONFIG_GROUP] = "group",
        [API_AFTER_SCENE] = "after",
        [API_AFTER_GROUP] = "after",
        [API_AFTER_ADDRESS] = "after",
        [API_TOPIC] = "topic",
        [API_PARTITION] = "partition",
        [API_DEAD_CLASS] = "reasonClass",
        [API_KEY] = "key",
        [API_DECIDED] = "decided",
        [API_TRY] = "try",
    };

    return names[parameter];
}

/* Longer than any number; a name may be longer. */
#define ID_BYTES_MAX 31

/* A segment that does not fit is kept as "", which no handler takes for a number or a name. */
static bool match_path(const char *pattern, const char *path, struct api_match *match)
{
    char segments[API_SEGMENTS_MAX][API_SEGMENT_SIZE] = {{0}};
    size_t count = 0;

    while (*pattern) {
        size_t len = strcspn(path, "/");
        size_t max = strncmp(pattern, "{id}", 4) == 0 ? ID_BYTES_MAX : API_SEGMENT_SIZE - 1;

        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        if (len == 0 || count == API_SEGMENTS_MAX)
            return false;
        if (len <= max)
            memcpy(segments[count], path, len);
        count++;
        path += len;
        pattern += strcspn(pattern, "}") + 1;
    }
    if (*path != '\0')
        return false;
    memcpy(match->segments, segments, sizeof(segments));
    return true;
}

void api_routes_match(struct api_match *match, const char *method, const char *path)
{
    *match = (struct api_match){0};
    for (size_t i = 0; i < api_route_count; i++) {
        const struct api_route *route = &api_routes[i];
        bool reads = strcmp(route->method, "GET") == 0;

        if (!match_path(route->path, path, match))
            continue;
        text_list_add(match->allow, sizeof(match->allow), reads ? "GET, HEAD" : route->method);
        if (strcmp(method, route->method) == 0 || (reads && strcmp(method, "HEAD") == 0))
            match->route = route;
    }
    if (match->allow[0])
        text_list_add(match->allow, sizeof(match->allow), "OPTIONS");
}

void api_routes_list(char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < api_route_count; i++)
        if (i == 0 || strcmp(api_routes[i].path, api_routes[i - 1].path) != 0)
            text_list_add(text, size, api_routes[i].path);
}
