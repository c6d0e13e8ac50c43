/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_scene_command.h"

#include "common/loop.h"
#include "common/nearest.h"
#include "common/options.h"
#include "common/os.h"
#include "common/text.h"
#include "common/utc.h"
#include "outbox/retry/change.h"
#include "outbox/retry/cli/task_text.h"
#include "outbox/retry/policy/policy.h"
#include "outbox/retry/store/scene_mysql.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define WAIT_POLL_MS 100

struct scenes {
    struct buf out;
    bool json;
    bool whole;
    size_t count;
};

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static void make_scene_json(struct buf *out, const struct scene_row *row, const char *fault)
{
    json_t *object =
        json_pack("{s:s, s:s, s:b, s:I, s:o, s:o, s:o}", "group", row->group, "scene", row->scene,
                  "paused", row->paused, "version", (json_int_t)row->version, "policy",
                  text_or_null(row->policy), "options", text_or_null(row->options), "fault",
                  fault[0] ? json_string(fault) : json_null());

    task_text_put_object(out, object);
}

/* Many lines may be shown as they are, if they steer no terminal. */
static void put_lines(struct buf *out, const char *name, const char *text, const char *none)
{
    buf_print(out, "%-10s", name);
    if (!text)
        buf_text_put(out, none);
    else if (utf8_prints(text, strlen(text)))
        buf_text_put(out, text);
    else
        buf_text_put(out, "(not printable; --json shows it)");
    buf_char(out, '\n');
}

static void put_scene_text(struct scenes *scenes, const struct scene_row *row, const char *fault)
{
    struct buf *out = &scenes->out;

    if (scenes->whole) {
        buf_print(out, "%-10s%s\n%-10s%s\n%-10s%" PRId64 "%s\n", "group", row->group, "scene",
                  row->scene, "version", row->version, row->paused ? ", paused" : "");
        put_lines(out, "policy", row->policy, "(default)");
        put_lines(out, "options", row->options, "(none)");
        if (fault[0])
            buf_print(out, "%-10s%s\n", "fault", fault);
        return;
    }
    if (scenes->count == 0)
        buf_print(out, "%-40s  %7s  %-7s  %s\n", "group/scene", "version", "state", "policy");
    buf_print(out, "%s/%s", row->group, row->scene);
    buf_print(out, "%*s",
              (int)(40 > strlen(row->group) + 1 + strlen(row->scene)
                        ? 40 - strlen(row->group) - 1 - strlen(row->scene)
                        : 0),
              "");
    buf_print(out, "  %7" PRId64 "  %-7s  %s%s\n", row->version, row->paused ? "paused" : "",
              fault[0]      ? "is invalid, so no task of the scene runs: "
              : row->policy ? "its own"
                            : "default",
              fault);
}

static enum rc put_scene(void *ctx, const struct scene_row *row, struct err *err)
{
    struct scenes *scenes = ctx;
    struct err fault = {0};

    (void)err;
    retry_scene_find_fault(row->policy, row->options, &fault);
    if (scenes->json) {
        if (!scenes->whole)
            buf_text_put(&scenes->out, scenes->count == 0 ? "\n  " : ",\n  ");
        make_scene_json(&scenes->out, row, fault.text);
    } else {
        put_scene_text(scenes, row, fault.text);
    }
    scenes->count++;
    return RC_OK;
}

static int list_scenes(struct db *db, const struct retry_request *request)
{
    struct scenes scenes = {.json = request->words.json};
    struct err err = {0};
    enum rc rc;

    if (scenes.json)
        buf_text_put(&scenes.out, "{\"scenes\": [");
    rc = scene_mysql_each(db, request->words.group, NULL, put_scene, &scenes, &err);
    if (rc != RC_OK) {
        buf_done(&scenes.out);
        return options_fail(rc, &err);
    }
    if (scenes.json)
        buf_text_put(&scenes.out, scenes.count > 0 ? "\n]}\n" : "]}\n");
    else if (scenes.count == 0)
        buf_text_put(&scenes.out, "every scene has the default policy\n");
    return options_print(&scenes.out);
}

static int show_scene(struct db *db, const struct retry_request *request)
{
    struct scenes scenes = {.json = request->words.json, .whole = true};
    struct scene_row without_row = {.group = request->group, .scene = request->scene};
    struct err err = {0};
    enum rc rc = scene_mysql_each(db, request->group, request->scene, put_scene, &scenes, &err);

    if (rc == RC_OK && scenes.count == 0)
        rc = put_scene(&scenes, &without_row, &err);
    if (rc != RC_OK) {
        buf_done(&scenes.out);
        return options_fail(rc, &err);
    }
    if (scenes.json)
        buf_char(&scenes.out, '\n');
    return options_print(&scenes.out);
}

struct versions {
    struct buf out;
    bool json;
    size_t count;
};

static const struct {
    const char *name;
    size_t at;
} version_parts[] = {
    {"policy", offsetof(struct scene_version, policy_changed)},
    {"options", offsetof(struct scene_version, options_changed)},
    {"paused", offsetof(struct scene_version, paused_changed)},
};

static bool part_changed(const struct scene_version *version, size_t part)
{
    return *(const bool *)((const char *)version + version_parts[part].at);
}

static json_t *changed_parts(const struct scene_version *version)
{
    json_t *parts = json_array();

    for (size_t i = 0; i < sizeof(version_parts) / sizeof(version_parts[0]); i++)
        if (part_changed(version, i))
            json_array_append_new(parts, json_string(version_parts[i].name));
    return parts;
}

static void put_version_json(struct buf *out, const struct scene_version *version)
{
    json_t *object = json_pack(
        "{s:I, s:I, s:s, s:s, s:o, s:b, s:o, s:o}", "version", (json_int_t)version->version,
        "at_ms", (json_int_t)version->at_ms, "by", version->by, "why", version->why, "changed",
        changed_parts(version), "paused", version->paused, "policy", text_or_null(version->policy),
        "options", text_or_null(version->options));

    task_text_put_object(out, object);
}

static void put_version_text(struct versions *versions, const struct scene_version *version)
{
    struct buf *out = &versions->out;
    char when[WHEN_TEXT_SIZE];
    const char *comma = "";

    if (versions->count > 0)
        buf_char(out, '\n');
    when_text(when, version->at_ms);
    buf_print(out, "%-10s%" PRId64 "%s, of %s, by ", "version", version->version,
              version->paused ? ", paused" : "", when);
    if (version->by[0])
        task_text_line(out, version->by);
    else
        buf_text_put(out, "SQL");
    if (version->why[0]) {
        buf_text_put(out, ": ");
        task_text_line(out, version->why);
    }
    buf_print(out, "\n%-10s", "changed");
    if (version->first)
        buf_text_put(out, "created");
    for (size_t i = 0; i < sizeof(version_parts) / sizeof(version_parts[0]); i++) {
        if (version->first || !part_changed(version, i))
            continue;
        buf_print(out, "%s%s", comma, version_parts[i].name);
        comma = ", ";
    }
    buf_char(out, '\n');
    put_lines(out, "policy", version->policy, "(default)");
    put_lines(out, "options", version->options, "(none)");
}

static enum rc put_version(void *ctx, const struct scene_version *version, struct err *err)
{
    struct versions *versions = ctx;

    (void)err;
    if (versions->json) {
        buf_text_put(&versions->out, versions->count == 0 ? "\n  " : ",\n  ");
        put_version_json(&versions->out, version);
    } else {
        put_version_text(versions, version);
    }
    versions->count++;
    return RC_OK;
}

static int list_versions(struct db *db, const struct retry_request *request)
{
    struct versions versions = {.json = request->words.json};
    int64_t limit = request->words.limit > 0 ? request->words.limit : RETRY_LIST_ROWS;
    struct err err = {0};
    enum rc rc;

    if (limit > RETRY_LIST_ROWS_MAX)
        limit = RETRY_LIST_ROWS_MAX;
    if (versions.json)
        buf_text_put(&versions.out, "{\"versions\": [");
    rc = scene_mysql_versions(db, request->group, request->scene, 0, (size_t)limit, put_version,
                              &versions, &err);
    if (rc != RC_OK) {
        buf_done(&versions.out);
        return options_fail(rc, &err);
    }
    if (versions.json)
        buf_text_put(&versions.out, versions.count > 0 ? "\n]}\n" : "]}\n");
    else if (versions.count == 0)
        buf_print(&versions.out, "no command has changed scene %s/%s\n", request->group,
                  request->scene);
    return options_print(&versions.out);
}

/* The text itself, or what FILE holds for "@FILE" ("@-": standard input). */
static enum rc take_text(struct buf *text, const char *word, const char *option, struct err *err)
{
    if (word[0] == '@')
        return options_read_file(text, option, word + 1, POLICY_BYTES_MAX, err);
    buf_text_put(text, word);
    return RC_OK;
}

#define PRESET "preset:"

static enum rc fail_unknown_preset(const char *name, struct err *err)
{
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < policy_presets_count; i++)
        nearest_offer(&nearest, policy_presets[i].name);
    return err_fail(err, RC_REJECT, 0,
                    "there is no policy preset \"%.40s\"%s%s%s: tallybox retry scene presets lists "
                    "them",
                    name, nearest.word ? "; did you mean \"" : "", nearest.word ? nearest.word : "",
                    nearest.word ? "\"?" : "");
}

enum rc retry_scene_take_policy(struct buf *text, const char *word, struct err *err)
{
    const struct policy_preset *preset;

    if (strncmp(word, PRESET, strlen(PRESET)) != 0)
        return take_text(text, word, "policy", err);
    preset = policy_find_preset(word + strlen(PRESET));
    if (!preset)
        return fail_unknown_preset(word + strlen(PRESET), err);
    buf_text_put(text, preset->json);
    return RC_OK;
}

static bool is_whole_text(const struct buf *text)
{
    return text->len < POLICY_BYTES_MAX && utf8_fits(text->data ? text->data : "", text->len) &&
           !(text->data && memchr(text->data, '\0', text->len));
}

void scene_wait_init(struct scene_wait *wait, const struct scene_processes *processes,
                     int64_t change, int64_t until_ms)
{
    memset(wait, 0, sizeof(*wait));
    wait->processes = processes;
    wait->change = change;
    wait->until_ms = until_ms;
}

void scene_wait_done(struct scene_wait *wait)
{
    buf_done(&wait->names);
}

static void on_process(void *ctx, const char *name, bool in_force)
{
    struct scene_wait *wait = ctx;

    wait->live++;
    if (in_force)
        return;
    wait->behind++;
    if (wait->behind > SCENE_WAIT_NAMES_MAX)
        return;
    if (wait->behind > 1)
        buf_text_put(&wait->names, ", ");
    buf_text_put(&wait->names, name);
}

bool scene_wait_step(struct scene_wait *wait, int64_t now_ms)
{
    bool late = now_ms >= wait->until_ms;

    wait->live = wait->behind = 0;
    buf_reset(&wait->names);
    wait->rc =
        wait->processes->each(wait->processes->ctx, wait->change, on_process, wait, &wait->err);
    if (wait->rc == RC_OK)
        return wait->behind == 0 || late;
    return wait->rc != RC_RETRY || late;
}

static const char *plural_ending(size_t count)
{
    return count == 1 ? "" : "es";
}

bool scene_wait_text(const struct scene_wait *wait, struct buf *out)
{
    if (wait->live == 0) {
        buf_text_put(out, "no retry process is live; a process reads the change when it starts\n");
        return true;
    }
    if (wait->behind == 0) {
        buf_print(out, "in force in %zu retry process%s\n", wait->live, plural_ending(wait->live));
        return true;
    }
    buf_print(out, "stored, but not yet in force in %zu of %zu retry process%s: %.*s", wait->behind,
              wait->live, plural_ending(wait->live), (int)wait->names.len,
              wait->names.data ? wait->names.data : "");
    if (wait->behind > SCENE_WAIT_NAMES_MAX)
        buf_print(out, " and %zu more", wait->behind - SCENE_WAIT_NAMES_MAX);
    buf_text_put(out, "; see their logs, and repeat the command to wait again\n");
    return false;
}

/* The change is stored; is it in force? */
static int await_processes(struct db *db, const struct retry_request *request)
{
    struct scene_processes processes = scene_mysql_processes(db);
    struct scene_wait wait;
    struct stop pause;
    struct buf out = {0};
    struct err err = {0};
    int64_t change;
    bool in_force;
    enum rc rc;

    if (request->wait_ms == 0)
        return EXIT_DONE;
    rc = scene_mysql_change(db, &change, &err);
    if (rc == RC_OK)
        rc = stop_init(&pause, &err);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    scene_wait_init(&wait, &processes, change, os_now_ms() + request->wait_ms);
    while (!scene_wait_step(&wait, os_now_ms()))
        stop_wait(&pause, WAIT_POLL_MS);
    stop_done(&pause);
    rc = wait.rc;
    err = wait.err;
    in_force = rc == RC_OK && scene_wait_text(&wait, &out);
    scene_wait_done(&wait);
    if (rc != RC_OK) {
        fputs("tallybox retry: stored; whether it is in force cannot be read:\n", stderr);
        return options_fail(rc, &err);
    }
    if (in_force)
        return options_print(&out);
    fprintf(stderr, "tallybox retry: %s", buf_text(&out));
    buf_done(&out);
    return EXIT_UNAVAILABLE;
}

static void print_change(const struct retry_request *request, enum retry_change_kind kind,
                         bool changed)
{
    printf("scene %s/%s ", request->group, request->scene);
    if (kind == CHANGE_SCENE_SET)
        puts(changed ? "is set" : "was so before");
    else if (kind == CHANGE_SCENE_PAUSE)
        puts(changed ? "is paused: running attempts end, no task begins" : "was paused before");
    else
        puts(changed ? "goes on" : "was not paused");
}

static int print_refusal(enum rc rc, const struct err *err)
{
    if (rc != RC_REJECT)
        return options_fail(rc, err);
    fprintf(stderr, "tallybox retry: %s; nothing was changed\n", err->text);
    return EXIT_USAGE;
}

/* Checks and makes a change of the scene, and ends the command. */
static int make_change(struct db *db, const struct retry_request *request,
                       struct retry_change *change)
{
    struct retry_changed result = {.changed = false};
    const char *field;
    struct err err = {0};
    enum rc rc;

    change->group = request->group;
    change->scene = request->scene;
    change->via = "shell";
    change->audit_id = request->audit_id;
    rc = retry_change_check(change, &field, &err);
    if (rc == RC_OK)
        rc = retry_change_make(db, change, &result, &err);
    if (rc != RC_OK)
        return print_refusal(rc, &err);
    print_change(request, change->kind, result.changed);
    return await_processes(db, request);
}

static int set_scene(struct db *db, const struct retry_request *request)
{
    const struct retry_words *words = &request->words;
    struct retry_change change = {.kind = CHANGE_SCENE_SET};
    struct buf policy = {0};
    struct buf options = {0};
    struct err err = {0};
    enum rc rc = RC_OK;
    int code;

    if (words->policy)
        rc = retry_scene_take_policy(&policy, words->policy, &err);
    if (rc == RC_OK && words->options)
        rc = take_text(&options, words->options, "options", &err);
    if (rc == RC_OK && (!is_whole_text(&policy) || !is_whole_text(&options)))
        rc = err_fail(&err, RC_REJECT, 0,
                      "policy and options must be UTF-8 texts of less than %d bytes",
                      POLICY_BYTES_MAX);
    change.policy = words->policy ? buf_text(&policy) : NULL;
    change.options = words->options ? buf_text(&options) : NULL;
    code = rc == RC_OK ? make_change(db, request, &change) : print_refusal(rc, &err);
    buf_done(&policy);
    buf_done(&options);
    return code;
}

struct old_version {
    struct buf policy;
    struct buf options;
    bool found;
};

static enum rc take_version(void *ctx, const struct scene_version *version, struct err *err)
{
    struct old_version *old = ctx;

    old->found = true;
    buf_text_put(&old->policy, version->policy ? version->policy : "");
    buf_text_put(&old->options, version->options ? version->options : "");
    return old->policy.failed || old->options.failed
               ? err_fail(err, RC_FATAL, 0, "no memory for a version of a scene")
               : RC_OK;
}

/* A version may be paused or not; reverting to it neither pauses nor resumes the scene. */
static int revert_scene(struct db *db, const struct retry_request *request)
{
    struct retry_change change = {.kind = CHANGE_SCENE_SET};
    struct old_version old = {.found = false};
    struct err err = {0};
    enum rc rc = scene_mysql_versions(db, request->group, request->scene, request->words.to, 1,
                                      take_version, &old, &err);
    int code;

    if (rc == RC_OK && !old.found)
        rc = err_fail(&err, RC_REJECT, 0,
                      "scene %s/%s has no version %" PRId64
                      " in its history; tallybox retry scene history %s --group %s lists them",
                      request->group, request->scene, request->words.to, request->scene,
                      request->group);
    change.policy = buf_text(&old.policy);
    change.options = buf_text(&old.options);
    code = rc == RC_OK ? make_change(db, request, &change) : print_refusal(rc, &err);
    buf_done(&old.policy);
    buf_done(&old.options);
    return code;
}

static int set_scene_paused(struct db *db, const struct retry_request *request)
{
    struct retry_change change = {.kind = request->action == RETRY_PAUSE ? CHANGE_SCENE_PAUSE
                                                                         : CHANGE_SCENE_RESUME};

    return make_change(db, request, &change);
}

int retry_scene(struct db *db, const struct retry_request *request)
{
    if (request->action == RETRY_SCENE_LIST)
        return list_scenes(db, request);
    if (request->action == RETRY_SCENE_SHOW)
        return show_scene(db, request);
    if (request->action == RETRY_SCENE_SET)
        return set_scene(db, request);
    if (request->action == RETRY_SCENE_HISTORY)
        return list_versions(db, request);
    if (request->action == RETRY_SCENE_REVERT)
        return revert_scene(db, request);
    return set_scene_paused(db, request);
}

static enum rc put_note(void *ctx, const struct scene_row *row, struct err *err)
{
    struct buf *out = ctx;
    struct err fault = {0};

    (void)err;
    retry_scene_find_fault(row->policy, row->options, &fault);
    if (fault.text[0])
        buf_print(out, "no task of scene %s/%s runs: %s\n", row->group, row->scene, fault.text);
    else if (row->paused)
        buf_print(out, "scene %s/%s is paused\n", row->group, row->scene);
    return RC_OK;
}

enum rc retry_scene_notes(struct db *db, const char *group, const char *scene, struct buf *out,
                          struct err *err)
{
    return scene_mysql_each(db, group, scene, put_note, out, err);
}
