/* SPDX-License-Identifier: MIT */
#include "producer/http/openapi_command.h"

#include "common/options.h"
#include "common/text.h"
#include "common/trace.h"
#include "outbox/retry/handler.h"
#include "producer/http/api_routes.h"
#include "producer/http/request_json.h"

#include <stdbool.h>
#include <string.h>

/* The schemas of bodies and answers, by name. They are part of a YAML document: two more blanks
 * indent each level. vote_json.c and task_json.c read and write what they describe;
 * tests/e2e/test_openapi.py compares the two on a running server. */
#define ID_TEXT "type: integer, format: int64, minimum: 1, maximum: 9223372036854775807"
#define NAME_TEXT(size) \
    "{type: string, minLength: 1, maxLength: " size ", pattern: \"^[A-Za-z0-9_.:-]+$\"}"
#define MAYBE_TEXT "{type: [string, \"null\"]}"
#define MAYBE_NUMBER "{type: [integer, \"null\"], format: int64}"
#define PAGE_AFTER                                                                                \
    "{type: [integer, \"null\"], format: int64, minimum: 1, description: By which the next page " \
    "is "                                                                                         \
    "asked for; null if there is none.}"

static const char schemas_text[] =
    "    Id: {" ID_TEXT "}\n"
    "    Error:\n"
    "      type: object\n"
    "      required: [error]\n"
    "      properties:\n"
    "        error:\n"
    "          type: object\n"
    "          required: [code, message]\n"
    "          properties:\n"
    "            code: {$ref: \"#/components/schemas/ErrorCode\"}\n"
    "            message: {type: string, description: For people.}\n"
    "            at:\n"
    "              type: string\n"
    "              description: A JSON pointer into the body, or the name of a query parameter.\n";

static const char vote_schemas_text[] =
    "    Voting: {type: integer, enum: [0, 1], description: 1 votes for the content; 0 takes the "
    "vote back.}\n"
    "    Vote:\n"
    "      type: object\n"
    "      required: [voterId, contentId, voting]\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        voterId: {$ref: \"#/components/schemas/Id\"}\n"
    "        contentId: {$ref: \"#/components/schemas/Id\"}\n"
    "        voting: {$ref: \"#/components/schemas/Voting\"}\n"
    "    VoteRequest:\n"
    "      oneOf:\n"
    "        - $ref: \"#/components/schemas/Vote\"\n"
    "        - {type: array, minItems: 1, maxItems: 1000, "
    "items: {$ref: \"#/components/schemas/Vote\"}}\n"
    "    VoteResult:\n"
    "      type: object\n"
    "      required: [voterId, contentId, voting, changed, votes, eventId]\n"
    "      properties:\n"
    "        voterId: {$ref: \"#/components/schemas/Id\"}\n"
    "        contentId: {$ref: \"#/components/schemas/Id\"}\n"
    "        voting: {$ref: \"#/components/schemas/Voting\"}\n"
    "        changed: {type: boolean, description: Whether this vote changed anything.}\n"
    "        votes: {type: integer, format: int64, minimum: 0, "
    "description: The total of the content right after this vote.}\n"
    "        eventId:\n"
    "          type: [string, \"null\"]\n"
    "          format: uuid\n"
    "          description: The event of the voter's last change; null if there never was one.\n"
    "    VoteResponse:\n"
    "      oneOf:\n"
    "        - $ref: \"#/components/schemas/VoteResult\"\n"
    "        - type: array\n"
    "          minItems: 1\n"
    "          maxItems: 1000\n"
    "          items:\n"
    "            oneOf:\n"
    "              - $ref: \"#/components/schemas/VoteResult\"\n"
    "              - $ref: \"#/components/schemas/Error\"\n"
    "    Total:\n"
    "      type: object\n"
    "      required: [contentId, votes]\n"
    "      dependentRequired: {voterId: [voting], voting: [voterId]}\n"
    "      properties:\n"
    "        contentId: {$ref: \"#/components/schemas/Id\"}\n"
    "        votes: {type: integer, format: int64, minimum: 0}\n"
    "        voterId: {$ref: \"#/components/schemas/Id\"}\n"
    "        voting: {$ref: \"#/components/schemas/Voting\"}\n"
    "    Totals:\n"
    "      type: array\n"
    "      minItems: 1\n"
    "      maxItems: 200\n"
    "      items: {$ref: \"#/components/schemas/Total\"}\n";

static const char remark_schemas_text[] =
    "    Remark:\n"
    "      type: object\n"
    "      required: [id, itemId, consumerId, orderId, score, header, content, images, userName, "
    "userFace, status, createdAt, votes]\n"
    "      properties:\n"
    "        id: {type: integer, format: int64, description: The contentId of its votes.}\n"
    "        itemId: {type: integer, format: int64}\n"
    "        consumerId: {type: integer, format: int64}\n"
    "        orderId: {type: integer, format: int64}\n"
    "        score: {type: integer}\n"
    "        header: {type: string}\n"
    "        content: " MAYBE_TEXT "\n"
    "        images: " MAYBE_TEXT "\n"
    "        userName: {type: string}\n"
    "        userFace: {type: string}\n"
    "        status: {type: integer}\n"
    "        createdAt: {type: integer, format: int64, description: In ms since 1970.}\n"
    "        votes: {type: integer, format: int64, description: The total.}\n"
    "        voting: {$ref: \"#/components/schemas/Voting\"}\n"
    "    RemarkRequest:\n"
    "      type: object\n"
    "      required: [itemId]\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        id:\n"
    "          type: integer\n"
    "          format: int64\n"
    "          minimum: 1\n"
    "          maximum: 9223372032559808511\n"
    "          description: Chosen by the client, so that the request can be repeated.\n"
    "        itemId: {$ref: \"#/components/schemas/Id\"}\n"
    "        consumerId: {type: integer, format: int64, minimum: 0}\n"
    "        orderId: {type: integer, format: int64, minimum: 0}\n"
    "        score: {type: integer, minimum: -128, maximum: 127}\n"
    "        header: {type: string, maxLength: 255}\n"
    "        content: {type: [string, \"null\"], maxLength: 65535}\n"
    "        images: {type: [string, \"null\"], maxLength: 65535}\n"
    "        userName: {type: string, maxLength: 64}\n"
    "        userFace: {type: string, maxLength: 255}\n"
    "        status: {type: integer, minimum: -128, maximum: 127}\n"
    "    RemarkChange:\n"
    "      type: object\n"
    "      minProperties: 1\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        score: {type: integer, minimum: -128, maximum: 127}\n"
    "        header: {type: string, maxLength: 255}\n"
    "        content: {type: [string, \"null\"], maxLength: 65535}\n"
    "        images: {type: [string, \"null\"], maxLength: 65535}\n"
    "        status: {type: integer, minimum: -128, maximum: 127}\n"
    "    RemarkId:\n"
    "      type: object\n"
    "      required: [id]\n"
    "      properties:\n"
    "        id: {$ref: \"#/components/schemas/Id\"}\n"
    "    RemarkTicket:\n"
    "      type: object\n"
    "      required: [id, existed]\n"
    "      properties:\n"
    "        id: {$ref: \"#/components/schemas/Id\"}\n"
    "        existed: {type: boolean, description: Whether there was a remark with this id.}\n"
    "    RemarkPage:\n"
    "      type: object\n"
    "      required: [remarks, next, totalsAgeMs, stale]\n"
    "      properties:\n"
    "        remarks:\n"
    "          type: array\n"
    "          maxItems: 100\n"
    "          items: {$ref: \"#/components/schemas/Remark\"}\n"
    "          description: May be fewer than `limit` although `next` is not null, because a page "
    "ends at about 1 MiB.\n"
    "        next:\n"
    "          type: [string, \"null\"]\n"
    "          description: The cursor of the next page; null if this is the last one.\n"
    "        totalsAgeMs:\n"
    "          type: [integer, \"null\"]\n"
    "          minimum: 0\n"
    "          description: How old the totals are; null if they are those of the last roll-up.\n"
    "        stale:\n"
    "          type: boolean\n"
    "          description: The database cannot be read, and this is the page as it was read "
    "last.\n";

static const char recommended_text[] =
    "    RecommendedRemark:\n"
    "      allOf:\n"
    "        - $ref: \"#/components/schemas/Remark\"\n"
    "        - type: object\n"
    "          required: [rank]\n"
    "          properties:\n"
    "            rank: {type: integer, minimum: 1, maximum: 1000, description: The position in "
    "the list.}\n"
    "    RecommendedPage:\n"
    "      type: object\n"
    "      required: [remarks, count, building, list, window, next, totalsAgeMs, stale]\n"
    "      properties:\n"
    "        remarks:\n"
    "          type: array\n"
    "          maxItems: 100\n"
    "          items: {$ref: \"#/components/schemas/RecommendedRemark\"}\n"
    "          description: May end before `stop`, because an answer ends at about 1 MiB; see "
    "`next`.\n"
    "        count: {type: integer, minimum: 0, maximum: 1000, description: Remarks in the "
    "list.}\n"
    "        building:\n"
    "          type: boolean\n"
    "          description: The item was never asked for, and its list is being built; ask "
    "again.\n"
    "        list:\n"
    "          type: [string, \"null\"]\n"
    "          description: Pages with the same value are of one list; null while it is built.\n"
    "        window:\n"
    "          type: [integer, \"null\"]\n"
    "          format: int64\n"
    "          description: The roll-up whose votes ranked the list; null while it is built.\n"
    "        next:\n"
    "          type: [integer, \"null\"]\n"
    "          minimum: 1\n"
    "          description: Send it as `start` to get the rest of the list; null if there is none "
    "or while it is built.\n"
    "        totalsAgeMs:\n"
    "          type: [integer, \"null\"]\n"
    "          minimum: 0\n"
    "          description: How old the totals are; null if they are those of the last roll-up.\n"
    "        stale:\n"
    "          type: boolean\n"
    "          description: The database cannot be read, and the list may be old.\n";

static const char task_request_text[] =
    "    Task:\n"
    "      type: object\n"
    "      required: [scene, handler]\n"
    "      additionalProperties: false\n"
    "      not: {required: [params, paramsBase64]}\n"
    "      properties:\n"
    "        group: " NAME_TEXT(
        "64") "\n"
              "        scene: " NAME_TEXT(
                  "64") "\n"
                        "        handler: " NAME_TEXT(
                            "32") "\n"
                                  "        orderingKey: {type: [string, \"null\"], minLength: 1, "
                                  "maxLength: 512}\n"
                                  "        idempotencyKey: {type: [string, \"null\"], minLength: "
                                  "1, maxLength: 255}\n"
                                  "        bizNo: {type: [string, \"null\"], minLength: 1, "
                                  "maxLength: 64}\n"
                                  "        options: {type: object, description: At most 65535 "
                                  "bytes.}\n"
                                  "        params: {description: Any JSON value; its text is kept "
                                  "as it was sent.}\n"
                                  "        paramsType: {type: string, minLength: 1, maxLength: "
                                  "128, "
                                  "pattern: \"^[ -~]+$\"}\n"
                                  "        paramsBase64: {type: string, contentEncoding: base64}\n"
                                  "        delayMs: {type: integer, format: int64, minimum: 0, "
                                  "maximum: 315360000000}\n"
                                  "    TaskRequest:\n"
                                  "      oneOf:\n"
                                  "        - $ref: \"#/components/schemas/Task\"\n"
                                  "        - {type: array, minItems: 1, maxItems: 1000, "
                                  "items: {$ref: \"#/components/schemas/Task\"}}\n"
                                  "    TaskTicket:\n"
                                  "      type: object\n"
                                  "      required: [id, existed]\n"
                                  "      properties:\n"
                                  "        id: {$ref: \"#/components/schemas/Id\"}\n"
                                  "        existed: {type: boolean, "
                                  "description: Whether a task with this idempotency key was "
                                  "active already, or has ended and dedup of its scene still "
                                  "refuses the key.}\n"
                                  "        outcome: {type: string, enum: [done, exhausted], "
                                  "description: How the task with this idempotency key has "
                                  "ended; absent if it is active.}\n"
                                  "    TaskResponse:\n"
                                  "      oneOf:\n"
                                  "        - $ref: \"#/components/schemas/TaskTicket\"\n"
                                  "        - type: array\n"
                                  "          minItems: 1\n"
                                  "          maxItems: 1000\n"
                                  "          items:\n"
                                  "            oneOf:\n"
                                  "              - $ref: \"#/components/schemas/TaskTicket\"\n"
                                  "              - $ref: \"#/components/schemas/Error\"\n";

static const char operate_text[] =
    "    ReasonRequest:\n"
    "      type: object\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        reason: {type: string, minLength: 1, maxLength: 512, description: Why; it is in the "
    "audit.}\n"
    "        by: {type: string, minLength: 1, maxLength: 64, description: Who; the audit has it "
    "with "
    "the name of the token.}\n"
    "    CancelRequest:\n"
    "      type: object\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        reason: {type: string, minLength: 1, maxLength: 512, description: Why; it is in the "
    "audit.}\n"
    "        by: {type: string, minLength: 1, maxLength: 64, description: Who; the audit has it "
    "with "
    "the name of the token.}\n"
    "        force: {type: boolean, description: Also a running task.}\n"
    "    UnparkRequest:\n"
    "      type: object\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        reason: {type: string, minLength: 1, maxLength: 512, description: Why; it is in the "
    "audit.}\n"
    "        by: {type: string, minLength: 1, maxLength: 64, description: Who; the audit has it "
    "with "
    "the name of the token.}\n"
    "        skip: {type: boolean, description: Cancel a blocked task.}\n"
    "    ContentRequest:\n"
    "      type: object\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        reason: {type: string, minLength: 1, maxLength: 512, description: Why; it is in the "
    "audit.}\n"
    "        by: {type: string, minLength: 1, maxLength: 64, description: Who; the audit has it "
    "with "
    "the name of the token.}\n"
    "        options: {type: object, description: At most 65535 bytes.}\n"
    "        headers: {description: An object or a list of pairs., oneOf: [{type: object}, "
    "{type: array}]}\n"
    "        params: {description: Any JSON value; its text is kept as it was sent.}\n"
    "        paramsBase64: {type: string, contentEncoding: base64}\n"
    "        noParams: {type: boolean, description: The task has no parameters.}\n"
    "    Operated:\n"
    "      type: object\n"
    "      required: [id, action, changed]\n"
    "      properties:\n"
    "        id: {$ref: \"#/components/schemas/Id\"}\n"
    "        action: {type: string, enum: [run-now, cancel, unpark, requeue, edit]}\n"
    "        changed: {type: boolean, description: False if the task was so before.}\n"
    "        task: {type: integer, format: int64, description: Of requeue the new task.}\n";

static const char audit_text[] =
    "    Action:\n"
    "      type: object\n"
    "      required: [id, at, by, via, action, group, scene, what, why, changed]\n"
    "      properties:\n"
    "        id: {$ref: \"#/components/schemas/Id\"}\n"
    "        at: {type: integer, format: int64, description: In ms since 1970.}\n"
    "        by: {type: string}\n"
    "        via: {type: string, enum: [shell, http]}\n"
    "        action: {type: string}\n"
    "        group: " MAYBE_TEXT "\n"
    "        scene: " MAYBE_TEXT "\n"
    "        what: " MAYBE_TEXT "\n"
    "        why: " MAYBE_TEXT "\n"
    "        changed: {type: [integer, \"null\"], minimum: 0, description: Tasks or scenes or "
    "groups; null if it is unknown.}\n"
    "    AuditPage:\n"
    "      type: object\n"
    "      required: [actions, more, after]\n"
    "      properties:\n"
    "        actions: {type: array, maxItems: 200, "
    "items: {$ref: \"#/components/schemas/Action\"}}\n"
    "        more: {type: boolean, description: Whether there is a next page.}\n"
    "        after: " PAGE_AFTER "\n";

static const char client_text[] =
    "    BeatRequest:\n"
    "      type: object\n"
    "      required: [address]\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        group: " NAME_TEXT(
        "64") "\n"
              "        address: {type: string, minLength: 8, maxLength: 255, description: \"Where "
              "it takes "
              "tasks: http://host[:port][/path] or https://. retry.http_hosts must allow the "
              "host.\"}\n"
              "        version: {type: string, minLength: 1, maxLength: 64, description: Of the "
              "application.}\n"
              "        failedReports: {type: integer, minimum: 0, maximum: 1000000000, "
              "description: Reports "
              "that it could not send since its last beat.}\n"
              "    Beat:\n"
              "      type: object\n"
              "      required: [configVersion, beatMs, expiresMs]\n"
              "      properties:\n"
              "        configVersion: {type: string, description: Of the configuration of the "
              "group.}\n"
              "        beatMs: {type: integer, minimum: 1, description: The time between two "
              "beats.}\n"
              "        expiresMs: {type: integer, minimum: 1}\n"
              "    GroupConfig:\n"
              "      type: object\n"
              "      required: [group, version, enabled, handlers, scenes, topics, route, "
              "initScene, "
              "policies]\n"
              "      properties:\n"
              "        group: {type: string}\n"
              "        version: {type: string}\n"
              "        enabled: {type: boolean}\n"
              "        handlers: {type: string, description: Separated by commas.}\n"
              "        scenes: {type: string}\n"
              "        topics: {type: string}\n"
              "        route: {type: string}\n"
              "        initScene: {type: string, description: What a scene without a row has.}\n"
              "        policies:\n"
              "          type: array\n"
              "          maxItems: 1024\n"
              "          items:\n"
              "            type: object\n"
              "            required: [scene, paused, policy]\n"
              "            properties:\n"
              "              scene: {type: string}\n"
              "              paused: {type: boolean}\n"
              "              policy: {type: [object, string, \"null\"], description: null is the "
              "default "
              "policy.}\n";

static const char task_answer_text[] =
    "    TaskSummary:\n"
    "      type: object\n"
    "      required: [id, group, scene, handler, state, orderingKey, idempotencyKey, bizNo, "
    "failures, reasonClass, reason, nextAt, madeAt, endedAt, parentId, requeuedAs, step]\n"
    "      properties:\n"
    "        id: {$ref: \"#/components/schemas/Id\"}\n"
    "        group: {type: string}\n"
    "        scene: {type: string}\n"
    "        handler: {type: string}\n"
    "        state:\n"
    "          type: string\n"
    "          enum: [waiting, running, queued, blocked, parked, done, exhausted, cancelled]\n"
    "        orderingKey: " MAYBE_TEXT "\n"
    "        idempotencyKey: " MAYBE_TEXT "\n"
    "        bizNo: " MAYBE_TEXT "\n"
    "        failures: {type: integer, minimum: 0}\n"
    "        reasonClass: " MAYBE_TEXT "\n"
    "        reason: " MAYBE_TEXT "\n"
    "        nextAt: " MAYBE_NUMBER "\n"
    "        madeAt: {type: integer, format: int64, description: In ms since 1970.}\n"
    "        endedAt: " MAYBE_NUMBER "\n"
    "        parentId: " MAYBE_NUMBER "\n"
    "        requeuedAs: " MAYBE_NUMBER "\n"
    "        step: {type: integer, minimum: 0}\n"
    "    TaskPage:\n"
    "      type: object\n"
    "      required: [tasks, more, after]\n"
    "      properties:\n"
    "        tasks: {type: array, maxItems: 200, "
    "items: {$ref: \"#/components/schemas/TaskSummary\"}}\n"
    "        more: {type: boolean, description: Whether there is a next page.}\n"
    "        after: " PAGE_AFTER "\n"
    "    TaskDetails:\n"
    "      allOf:\n"
    "        - $ref: \"#/components/schemas/TaskSummary\"\n"
    "        - type: object\n"
    "          required: [options, paramsType, parked, waitsFor, attempts]\n"
    "          oneOf: [{required: [params]}, {required: [paramsBase64]}]\n"
    "          properties:\n"
    "            options: {type: [object, string, \"null\"]}\n"
    "            paramsType: " MAYBE_TEXT "\n"
    "            params: {}\n"
    "            paramsBase64: {type: string, contentEncoding: base64}\n"
    "            parked: {type: boolean}\n"
    "            waitsFor:\n"
    "              type: [string, \"null\"]\n"
    "              description: Why a waiting task does not begin when it is due, as a group that "
    "is "
    "disabled.\n"
    "            attempts: {type: array, items: {$ref: \"#/components/schemas/Attempt\"}}\n"
    "    Attempt:\n"
    "      type: object\n"
    "      required: [at, tookMs, by, step, outcome, reasonClass, reason]\n"
    "      properties:\n"
    "        at: {type: integer, format: int64, description: In ms since 1970.}\n"
    "        tookMs: {type: integer, minimum: 0}\n"
    "        by: {type: string}\n"
    "        step: {type: integer, minimum: 0}\n"
    "        outcome: {type: string}\n"
    "        reasonClass: " MAYBE_TEXT "\n"
    "        reason: " MAYBE_TEXT "\n";

#define REASON_FIELDS                                                                              \
    "        reason: {type: string, minLength: 1, maxLength: 512, description: Why; it is in the " \
    "audit.}\n"                                                                                    \
    "        by: {type: string, minLength: 1, maxLength: 64, description: Who; the audit has it "  \
    "with the name of the token.}\n"

static const char scene_text[] =
    "    Version: {type: integer, format: int64, minimum: 0, maximum: 9223372036854775807, "
    "description: Of the row; it grows with every change. 0 is that of a new row.}\n"
    "    SceneRequest:\n"
    "      type: object\n"
    "      required: [version]\n"
    "      anyOf: [{required: [policy]}, {required: [options]}]\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        version: {$ref: \"#/components/schemas/Version\"}\n"
    "        policy: {type: [object, string, \"null\"], description: \"A policy, preset:NAME, or "
    "null "
    "for the default one.\"}\n"
    "        options: {type: [object, \"null\"], description: For the handler.}\n" REASON_FIELDS
    "    GroupRequest:\n"
    "      type: object\n"
    "      required: [version]\n"
    "      minProperties: 2\n"
    "      additionalProperties: false\n"
    "      properties:\n"
    "        version: {$ref: \"#/components/schemas/Version\"}\n"
    "        handlers: {type: string, maxLength: 255, description: Separated by commas.}\n"
    "        scenes: {type: string, maxLength: 1000}\n"
    "        topics: {type: string, maxLength: 1000}\n"
    "        initScene: {type: [object, string], description: \"What a scene without a row has: "
    "standard, refuse, preset:NAME or a policy.\"}\n"
    "        route: {type: string, enum: [random, round_robin, consistent_hash, lru, "
    "two_choices]}\n"
    "        shards: {type: string, maxLength: 64, description: \"The only shards in which its "
    "tasks "
    "run, like 0-3,7; empty: all.\"}\n"
    "        description: {type: string, maxLength: 255}\n" REASON_FIELDS "    Changed:\n"
    "      type: object\n"
    "      required: [group, action, changed, version]\n"
    "      properties:\n"
    "        group: {type: string}\n"
    "        scene: {type: string}\n"
    "        action: {type: string, enum: [pause, resume, scene set, group set, group enable, "
    "group disable]}\n"
    "        changed: {type: boolean, description: False if it was so before.}\n"
    "        version: {$ref: \"#/components/schemas/Version\"}\n";

static const char scene_answer_text[] =
    "    Scene:\n"
    "      type: object\n"
    "      required: [group, scene, version, paused, policy, options, fault]\n"
    "      properties:\n"
    "        group: {type: string}\n"
    "        scene: {type: string}\n"
    "        version: {$ref: \"#/components/schemas/Version\"}\n"
    "        paused: {type: boolean}\n"
    "        policy: {type: [object, string, \"null\"], description: null is the default policy.}\n"
    "        options: {type: [object, string, \"null\"]}\n"
    "        fault: {type: [string, \"null\"], description: Why no task of the scene runs.}\n"
    "    SceneDetails:\n"
    "      allOf:\n"
    "        - $ref: \"#/components/schemas/Scene\"\n"
    "        - type: object\n"
    "          required: [tasks]\n"
    "          properties:\n"
    "            tasks:\n"
    "              type: object\n"
    "              description: Tasks in the queue, each number up to 10000; active ones wait or "
    "run.\n"
    "              required: [active, queued, blocked, parked]\n"
    "              properties:\n"
    "                active: {type: integer, minimum: 0, maximum: 10000}\n"
    "                queued: {type: integer, minimum: 0, maximum: 10000}\n"
    "                blocked: {type: integer, minimum: 0, maximum: 10000}\n"
    "                parked: {type: integer, minimum: 0, maximum: 10000}\n"
    "    ScenePage:\n"
    "      type: object\n"
    "      required: [scenes, more, after]\n"
    "      properties:\n"
    "        scenes: {type: array, maxItems: 200, "
    "items: {$ref: \"#/components/schemas/Scene\"}}\n"
    "        more: {type: boolean, description: Whether there is a next page.}\n"
    "        after: {type: [string, \"null\"], description: By which the next page is "
    "asked for; null if there is none.}\n"
    "    Group:\n"
    "      type: object\n"
    "      required: [group, owner, enabled, version, handlers, scenes, topics, initScene, "
    "route, shards, description]\n"
    "      properties:\n"
    "        group: {type: string}\n"
    "        owner: {type: string, enum: [client, relay, consumer, unknown]}\n"
    "        enabled: {type: boolean}\n"
    "        version: {$ref: \"#/components/schemas/Version\"}\n"
    "        handlers: {type: string, description: Separated by commas.}\n"
    "        scenes: {type: string}\n"
    "        topics: {type: string}\n"
    "        initScene: {type: [object, string], description: What a scene without a row has.}\n"
    "        route: {type: string}\n"
    "        shards: {type: string}\n"
    "        description: {type: string}\n"
    "    GroupPage:\n"
    "      type: object\n"
    "      required: [groups, more, after]\n"
    "      properties:\n"
    "        groups: {type: array, maxItems: 200, "
    "items: {$ref: \"#/components/schemas/Group\"}}\n"
    "        more: {type: boolean, description: Whether there is a next page.}\n"
    "        after: {type: [string, \"null\"], description: By which the next page is "
    "asked for; null if there is none.}\n";

static const struct {
    const char *schema;
    const char *example;
    const char *description;
} parameters[API_PARAMETERS] = {
    [API_VOTER_ID] = {"{" ID_TEXT "}", "1",
                      "Also answer whether this voter votes for the content."},
    [API_CONTENT_IDS] = {"{type: array, minItems: 1, maxItems: 200, items: {" ID_TEXT "}}",
                         "[1, 2]", "Content ids, separated by commas."},
    [API_BIZ_NO] = {"{type: string, minLength: 1, maxLength: 64}", "\"815\"",
                    "Tasks with this bizNo."},
    [API_SCENE] = {NAME_TEXT("64"), "mail", "Tasks of this scene."},
    [API_GROUP] = {NAME_TEXT("64"), "default",
                   "Tasks of this group, which the token must have; default: all of its groups."},
    [API_STATE] = {"{type: string, default: active, enum: [active, ended, waiting, running, "
                   "queued, blocked, parked, done, exhausted, cancelled]}",
                   "waiting", "Tasks in this state."},
    [API_LIMIT] = {"{type: integer, minimum: 1, maximum: 200, default: 50}", "10",
                   "Tasks of one page."},
    [API_AFTER] = {"{type: integer, format: int64, minimum: 0, maximum: 9223372036854775807}", "0",
                   "The `after` of the page before."},
    [API_ITEM_ID] = {"{" ID_TEXT "}", "1", "Remarks of this item."},
    [API_CURSOR] = {"{type: string, maxLength: 95}", "n1.1.21",
                    "The `next` of the page before, for the same itemId and sort."},
    [API_SORT] = {"{type: string, default: newest, enum: [newest, votes]}", "newest",
                  "newest: the highest id first. votes: the most votes of the last roll-up first."},
    [API_PAGE_LIMIT] = {"{type: integer, minimum: 1, maximum: 100, default: 20}", "20",
                        "Remarks of one page."},
    [API_BIZ_NO_PREFIX] = {"{type: string, minLength: 1, maxLength: 64}", "\"8\"",
                           "Tasks whose bizNo begins with this."},
    [API_HANDLER] = {NAME_TEXT("32"), "http", "Tasks of this handler."},
    [API_REASON_CLASS] = {"{type: string, enum: [transient, refused, ours]}", "transient",
                          "Tasks whose last failure is of this class."},
    [API_SINCE] = {"{type: integer, format: int64, minimum: 0, maximum: 253402300799999}", "0",
                   "At or after this time, in ms since 1970: tasks were made, or ended if ended "
                   "ones are asked for; actions began."},
    [API_UNTIL] = {"{type: integer, format: int64, minimum: 0, maximum: 253402300799999}",
                   "253402300799999", "Before this time, as since."},
    [API_BY] = {"{type: string, minLength: 1, maxLength: 128}", "ann@host",
                "Actions of this operator."},
    [API_START] = {"{type: integer, minimum: 0, maximum: 999, default: 0}", "0",
                   "The first position of the list that is wanted, from 0."},
    [API_CONFIG_GROUP] = {NAME_TEXT("64"), "default", "The group, which the token must have."},
    [API_STOP] = {"{type: integer, minimum: 1, maximum: 1099}", "20",
                  "The position behind the last one that is wanted, at most 100 after start; "
                  "default: 20 after start."},
    [API_AFTER_SCENE] = {"{type: string, pattern: "
                         "\"^[A-Za-z0-9_.:-]{1,64}/[A-Za-z0-9_.:-]{1,64}$\"}",
                         "default/mail", "The `after` of the page before."},
    [API_AFTER_GROUP] = {NAME_TEXT("64"), "default", "The `after` of the page before."},
};

static void put_line(struct buf *out, const char *head, const char *text)
{
    buf_text_put(out, head);
    json_text_put(out, text);
    buf_char(out, '\n');
}

static void put_parameter(struct buf *out, const char *name, const char *place, bool required,
                          const char *schema, const char *example, const char *description)
{
    buf_print(out, "        - name: %s\n          in: %s\n          required: %s\n", name, place,
              required ? "true" : "false");
    if (strncmp(schema, "{type: array", strlen("{type: array")) == 0)
        buf_text_put(out, "          style: form\n          explode: false\n");
    put_line(out, "          description: ", description);
    buf_print(out, "          schema: %s\n          example: %s\n", schema, example);
}

/* Without examples: a request with the first two of them is refused. */
static void put_retry_headers(struct buf *out)
{
    static const struct {
        const char *name;
        const char *schema;
        const char *description;
    } headers[] = {
        {HEADER_NO_RETRY, "{type: string, enum: [\"1\"]}",
         "Of the call that causes this request. No task is taken."},
        {HEADER_SCENE, "{type: string, pattern: \"^[A-Za-z0-9_.:-]{1,64}/[A-Za-z0-9_.:-]{1,64}$\"}",
         "Of the call that causes this request, as default/mail. No task of this group and scene "
         "is taken."},
        {TRACE_HEADER, "{type: string, pattern: \"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$\"}",
         "W3C Trace Context: the calls of the tasks carry it."},
    };

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        buf_print(out, "        - name: %s\n          in: header\n          required: false\n",
                  headers[i].name);
        put_line(out, "          description: ", headers[i].description);
        buf_print(out, "          schema: %s\n", headers[i].schema);
    }
}

static void put_parameters(struct buf *out, const struct api_route *route)
{
    bool has_group = strstr(route->path, "{group}") != NULL;

    if (!route->id && !has_group && route->parameters == 0 && !route->retry_headers)
        return;
    buf_text_put(out, "      parameters:\n");
    if (route->id)
        put_parameter(out, "id", "path", true, "{" ID_TEXT "}", "1", "The id.");
    if (has_group)
        put_parameter(out, "group", "path", true, NAME_TEXT("64"), "default", "The group.");
    if (strstr(route->path, "{scene}"))
        put_parameter(out, "scene", "path", true, NAME_TEXT("64"), "mail", "The scene.");
    for (unsigned i = 0; i < API_PARAMETERS; i++)
        if ((route->parameters & 1U << i) != 0)
            put_parameter(out, api_parameter_name(i), "query", (route->required & 1U << i) != 0,
                          parameters[i].schema, parameters[i].example, parameters[i].description);
    if (route->retry_headers)
        put_retry_headers(out);
}

/* The other value of api.deleted_status. */
#define DELETED_STATUS_GONE 410

static bool has_status(enum request_fault_code code, int status)
{
    return request_fault_status(code) == status ||
           (code == REQUEST_FAULT_DELETED && status == DELETED_STATUS_GONE);
}

/* Statuses that no condition excludes are those of all routes. */
static bool route_can_fail(const struct api_route *route, enum request_fault_code code)
{
    int status = request_fault_status(code);

    if (code == REQUEST_FAULT_METHOD)
        return false; /* answered before a route is chosen */
    if (code == REQUEST_FAULT_NOT_FOUND)
        return route->may_find_nothing;
    if (code == REQUEST_FAULT_DELETED)
        return route->may_be_deleted;
    if (code == REQUEST_FAULT_RETRY_TRAFFIC)
        return route->retry_headers;
    if (code == REQUEST_FAULT_CONFLICT)
        return route->may_conflict;
    if (code == REQUEST_FAULT_EXPIRED)
        return (route->parameters & 1U << API_CURSOR) != 0;
    if (status == request_fault_status(REQUEST_FAULT_MEDIA_TYPE) ||
        status == request_fault_status(REQUEST_FAULT_REFUSED))
        return route->body != NULL;
    return true;
}

static bool route_can_answer(const struct api_route *route, int status)
{
    for (unsigned code = 0; code < REQUEST_FAULT_CODES; code++)
        if (has_status(code, status) && route_can_fail(route, code))
            return true;
    return false;
}

static void put_responses(struct buf *out, const struct api_route *route)
{
    buf_text_put(out, "      responses:\n");
    for (size_t i = 0; i < 2 && route->results[i].status != 0; i++) {
        const struct api_result *result = &route->results[i];

        buf_print(out, "        \"%d\":\n", result->status);
        put_line(out, "          description: ", result->description);
        if (result->schema)
            buf_print(out,
                      "          content:\n            application/json:\n"
                      "              schema: {$ref: \"#/components/schemas/%s\"}\n",
                      result->schema);
    }
    for (int status = 400; status < 600; status++)
        if (route_can_answer(route, status))
            buf_print(out, "        \"%d\": {$ref: \"#/components/responses/Error%d\"}\n", status,
                      status);
}

static void put_operation(struct buf *out, const struct api_route *route)
{
    buf_text_put(out, "    ");
    for (const char *c = route->method; *c; c++)
        buf_char(out, (char)(*c - 'A' + 'a'));
    buf_print(out, ":\n      operationId: %s\n", route->operation);
    put_line(out, "      summary: ", route->summary);
    put_line(out, "      description: ", route->description);
    buf_print(out, "      security: [{bearer: [\"%s\"]}]\n", api_route_scope_name(route->scope));
    put_parameters(out, route);
    if (route->body)
        buf_print(out,
                  "      requestBody:\n        required: true\n        content:\n"
                  "          application/json:\n"
                  "            schema: {$ref: \"#/components/schemas/%s\"}\n"
                  "            example: %s\n",
                  route->body, route->example);
    put_responses(out, route);
}

static void put_paths(struct buf *out)
{
    buf_text_put(out, "paths:\n");
    for (size_t i = 0; i < api_route_count; i++) {
        if (i == 0 || strcmp(api_routes[i].path, api_routes[i - 1].path) != 0)
            buf_print(out, "  %s:\n", api_routes[i].path);
        put_operation(out, &api_routes[i]);
    }
}

static void put_error_headers(struct buf *out, int status)
{
    if (status == request_fault_status(REQUEST_FAULT_NO_TOKEN))
        buf_text_put(out, "      headers:\n"
                          "        WWW-Authenticate: {schema: {type: string}, required: true}\n");
    if (status == request_fault_status(REQUEST_FAULT_FULL) ||
        status == request_fault_status(REQUEST_FAULT_UNAVAILABLE))
        buf_text_put(out, "      headers:\n"
                          "        Retry-After:\n"
                          "          description: In seconds.\n"
                          "          required: true\n"
                          "          schema: {type: integer, minimum: 1}\n");
}

static void put_error_responses(struct buf *out)
{
    buf_text_put(out, "  responses:\n");
    for (int status = 400; status < 600; status++) {
        struct buf text = {0};

        for (unsigned code = 0; code < REQUEST_FAULT_CODES; code++)
            if (has_status(code, status) && code != REQUEST_FAULT_METHOD)
                buf_print(&text, "%s`%s`: %s.", text.len > 0 ? " " : "", request_fault_name(code),
                          request_fault_about(code));
        if (text.len > 0) {
            buf_print(out, "    Error%d:\n", status);
            put_line(out, "      description: ", buf_text(&text));
            put_error_headers(out, status);
            buf_text_put(out, "      content:\n        application/json:\n"
                              "          schema: {$ref: \"#/components/schemas/Error\"}\n");
        }
        buf_done(&text);
    }
}

static void put_error_codes(struct buf *out)
{
    buf_text_put(out, "    ErrorCode:\n      type: string\n"
                      "      description: For programs; a code never changes its meaning.\n"
                      "      enum:\n");
    for (unsigned code = 0; code < REQUEST_FAULT_CODES; code++)
        buf_print(out, "        - %s\n", request_fault_name(code));
}

void openapi_put(struct buf *out)
{
    buf_text_put(
        out,
        "# Generated by scripts/reference from `tallybox openapi`; test_reference checks "
        "it.\n"
        "openapi: 3.1.0\n"
        "info:\n"
        "  title: tallybox\n"
        "  version: \"1\"\n"
        "  license: {name: MIT, identifier: MIT}\n"
        "  description: >-\n"
        "    Votes, totals, remarks and tasks of the retry queue over HTTP. A body has at most "
        "api.body_bytes_max bytes.\n"
        "    Without api.token_file votes and totals need no token. HEAD works as GET; "
        "other methods are answered with 405\n"
        "    and Allow. A later version may add fields to answers.\n"
        "servers:\n"
        "  - url: http://127.0.0.1:8080\n");
    put_paths(out);
    buf_text_put(
        out, "components:\n"
             "  securitySchemes:\n"
             "    bearer:\n"
             "      type: http\n"
             "      scheme: bearer\n"
             "      description: A token of api.token_file; its line there lists its scopes.\n");
    put_error_responses(out);
    buf_text_put(out, "  schemas:\n");
    buf_text_put(out, schemas_text);
    put_error_codes(out);
    buf_text_put(out, vote_schemas_text);
    buf_text_put(out, remark_schemas_text);
    buf_text_put(out, recommended_text);
    buf_text_put(out, task_request_text);
    buf_text_put(out, operate_text);
    buf_text_put(out, scene_text);
    buf_text_put(out, scene_answer_text);
    buf_text_put(out, audit_text);
    buf_text_put(out, client_text);
    buf_text_put(out, task_answer_text);
}

int openapi_command(int argc, char **argv)
{
    const struct option_parse parse = {
        .command = "tallybox openapi",
        .arguments = "",
        .about = "Prints the OpenAPI document of the HTTP API, as docs/openapi.yaml.",
    };
    struct options options;
    struct buf out = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    openapi_put(&out);
    return options_print(&out);
}
