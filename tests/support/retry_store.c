/* SPDX-License-Identifier: MIT */
/* tallybox-retry-store: the retry queue's store as a process of its own, for tests that need it
 * without the engine. The argument is a JSON object: host, port, user, password, database, owner,
 * compareAndSet. Each line of standard input is a JSON object whose "do" names the call; each
 * answer is a line with "rc", "error" and the results of the call. */
#include "common/config/settings.h"
#include "common/db/db.h"
#include "outbox/retry/retry.h"
#include "outbox/retry/store/retry_mysql.h"
#include "outbox/retry/store/wake_mysql.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESULTS_MAX RETRY_UPDATES_MAX

struct asked {
    struct retry_store store;
    struct db *db;
    const json_t *request;
    json_t *answer;
};

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static int64_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static bool flag_of(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

static json_t *class_json(const struct task_class *class)
{
    return json_pack("{s:s, s:s, s:s, s:i}", "handler", class->handler, "group", class->group,
                     "scene", class->scene, "shard", (int)class->shard);
}

static json_t *list_of(struct asked *asked, const char *name)
{
    json_t *list = json_array();

    json_object_set_new(asked->answer, name, list);
    return list;
}

static void on_class(void *ctx, const struct task_class *class, int64_t due_in_ms)
{
    json_t *one = class_json(class);

    json_object_set_new(one, "due", json_integer(due_in_ms));
    json_array_append_new(ctx, one);
}

static enum rc do_look(struct asked *asked, struct err *err)
{
    return asked->store.look(asked->store.ctx, on_class, list_of(asked, "classes"), err);
}

static void on_scene(void *ctx, const struct scene_row *scene)
{
    json_array_append_new(ctx, json_pack("{s:s, s:s, s:s?, s:s?, s:b, s:I}", "group", scene->group,
                                         "scene", scene->scene, "policy", scene->policy, "options",
                                         scene->options, "paused", (int)scene->paused, "version",
                                         (json_int_t)scene->version));
}

static enum rc do_scenes(struct asked *asked, struct err *err)
{
    struct scene_change change = {0};
    enum rc rc =
        asked->store.scenes(asked->store.ctx, on_scene, list_of(asked, "scenes"), &change, err);

    json_object_set_new(asked->answer, "change", json_integer(change.number));
    json_object_set_new(asked->answer, "recorded", json_integer(change.recorded));
    return rc;
}

static enum rc do_record(struct asked *asked, struct err *err)
{
    return asked->store.record(asked->store.ctx, number_of(asked->request, "change"), err);
}

static void on_depth(void *ctx, const struct task_depth *depth)
{
    json_t *one = class_json(depth->class);

    json_object_set_new(one, "state", json_integer(depth->state));
    json_object_set_new(one, "count", json_integer(depth->count));
    json_object_set_new(one, "oldest", json_integer(depth->oldest_ms));
    json_array_append_new(ctx, one);
}

static enum rc do_depths(struct asked *asked, struct err *err)
{
    return asked->store.depths(asked->store.ctx, on_depth, list_of(asked, "depths"), err);
}

static void on_task(void *ctx, const struct task_row *task)
{
    json_array_append_new(
        ctx,
        json_pack("{s:I, s:I, s:I, s:s?, s:s?, s:s, s:s?, s:s?, s:i, s:s, s:I, s:I, s:I, s:s?}",
                  "id", (json_int_t)task->id, "epoch", (json_int_t)task->epoch, "sceneVersion",
                  (json_int_t)task->scene_version, "key", task->ordering_key, "idempotency",
                  task->idempotency_key, "hash", task->task_hash, "bizNo", task->biz_no, "options",
                  task->options, "bytes", task->params ? (int)task->params_len : -1, "type",
                  task->params_type, "attempts", (json_int_t)task->attempts, "age",
                  (json_int_t)(task->now_ms - task->made_ms), "step", (json_int_t)task->step,
                  "stepResult", (const char *)task->step_result));
}

static enum rc do_claim(struct asked *asked, struct err *err)
{
    struct task_class class = {.shard = (unsigned)number_of(asked->request, "shard")};
    bool full = false;
    enum rc rc;

    snprintf(class.handler, sizeof(class.handler), "%s", text_of(asked->request, "handler"));
    snprintf(class.group, sizeof(class.group), "%s", text_of(asked->request, "group"));
    snprintf(class.scene, sizeof(class.scene), "%s", text_of(asked->request, "scene"));
    rc = asked->store.claim(asked->store.ctx, &class, (size_t)number_of(asked->request, "rows"),
                            number_of(asked->request, "lease"), on_task, list_of(asked, "tasks"),
                            &full, err);
    json_object_set_new(asked->answer, "full", json_boolean(full));
    return rc;
}

static enum rc do_claim_expired(struct asked *asked, struct err *err)
{
    const struct task_age age = {.group = text_of(asked->request, "group"),
                                 .scene = text_of(asked->request, "scene"),
                                 .age_ms = number_of(asked->request, "age")};
    bool full = false;
    enum rc rc = asked->store.claim_expired(
        asked->store.ctx, &age, (size_t)number_of(asked->request, "rows"),
        number_of(asked->request, "lease"), on_task, list_of(asked, "tasks"), &full, err);

    json_object_set_new(asked->answer, "full", json_boolean(full));
    return rc;
}

static enum task_end end_of(const char *word)
{
    static const char *const words[] = {"done",  "again", "step", "back",
                                        "block", "park",  "skip", "duplicate"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (word && strcmp(word, words[i]) == 0)
            return (enum task_end)i;
    }
    fprintf(stderr, "unknown end\n");
    exit(2);
}

static void read_update(const json_t *one, struct task_update *update)
{
    *update = (struct task_update){
        .id = number_of(one, "id"),
        .epoch = number_of(one, "epoch"),
        .scene_version = number_of(one, "sceneVersion"),
        .end = end_of(text_of(one, "end")),
        .keep = flag_of(one, "keep"),
        .keep_ms = number_of(one, "keepMs"),
        .dedup_ms = number_of(one, "dedupMs"),
        .attempts = number_of(one, "attempts"),
        .delay_ms = number_of(one, "delay"),
        .reason_class = text_of(one, "class") ? text_of(one, "class") : "",
        .reason = text_of(one, "reason") ? text_of(one, "reason") : "",
        .step_result = text_of(one, "stepResult"),
        .step_result_len = text_of(one, "stepResult") ? strlen(text_of(one, "stepResult")) : 0,
        .outcome = text_of(one, "outcome"),
        .took_ms = number_of(one, "took"),
        .callback_scene = text_of(one, "callbackScene"),
        .callback_handler = text_of(one, "callbackHandler"),
        .callback_params = text_of(one, "callbackParams"),
    };
}

static void tell_flags(struct asked *asked, const char *name, const bool *flags, size_t count)
{
    json_t *list = list_of(asked, name);

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_boolean(flags[i]));
}

static enum rc do_finish(struct asked *asked, struct err *err)
{
    const json_t *list = json_object_get(asked->request, "results");
    struct task_update *results = calloc(RESULTS_MAX, sizeof(*results));
    enum task_written written[RESULTS_MAX] = {TASK_WRITTEN};
    bool lost[RESULTS_MAX];
    bool outdated[RESULTS_MAX];
    size_t count = json_array_size(list);
    enum rc rc;

    for (size_t i = 0; i < count; i++)
        read_update(json_array_get(list, i), &results[i]);
    rc = asked->store.finish(asked->store.ctx, results, count, written, err);
    for (size_t i = 0; i < count; i++) {
        lost[i] = written[i] == TASK_LOST;
        outdated[i] = written[i] == TASK_OUTDATED;
    }
    tell_flags(asked, "lost", lost, count);
    tell_flags(asked, "outdated", outdated, count);
    free(results);
    return rc;
}

static enum rc do_renew(struct asked *asked, struct err *err)
{
    const json_t *list = json_object_get(asked->request, "tasks");
    int64_t ids[RESULTS_MAX];
    int64_t epochs[RESULTS_MAX];
    bool lost[RESULTS_MAX] = {false};
    size_t count = json_array_size(list);
    enum rc rc;

    for (size_t i = 0; i < count; i++) {
        ids[i] = number_of(json_array_get(list, i), "id");
        epochs[i] = number_of(json_array_get(list, i), "epoch");
    }
    rc = asked->store.renew(asked->store.ctx, ids, epochs, count,
                            number_of(asked->request, "lease"), lost, err);
    tell_flags(asked, "lost", lost, count);
    return rc;
}

static enum rc do_rescue(struct asked *asked, struct err *err)
{
    size_t shortened = 0;
    size_t count = 0;
    enum rc rc = asked->store.rescue(asked->store.ctx, (size_t)number_of(asked->request, "rows"),
                                     &count, &shortened, err);

    json_object_set_new(asked->answer, "shortened", json_integer((json_int_t)shortened));
    json_object_set_new(asked->answer, "count", json_integer((json_int_t)count));
    return rc;
}

static enum rc do_forget(struct asked *asked, struct err *err)
{
    size_t count = 0;
    enum rc rc = asked->store.forget(asked->store.ctx, (size_t)number_of(asked->request, "rows"),
                                     &count, err);

    json_object_set_new(asked->answer, "count", json_integer((json_int_t)count));
    return rc;
}

static void read_task(const json_t *one, struct retry_new_task *task)
{
    const json_t *params = json_object_get(one, "params");

    *task = (struct retry_new_task){
        .group = text_of(one, "group"),
        .scene = text_of(one, "scene"),
        .handler = text_of(one, "handler"),
        .ordering_key = text_of(one, "key"),
        .idempotency_key = text_of(one, "idempotency"),
        .biz_no = text_of(one, "bizNo"),
        .options = text_of(one, "options"),
        .params = json_string_value(params),
        .params_len = json_string_length(params),
        .params_type = text_of(one, "type"),
        .delay_ms = number_of(one, "delay"),
        .parent_id = number_of(one, "parent"),
    };
}

/* In a transaction of its own, on a connection that the store does not know. */
static enum rc do_append(struct asked *asked, struct err *err)
{
    const json_t *list = json_object_get(asked->request, "tasks");
    size_t count = json_array_size(list);
    struct retry_new_task *tasks = calloc(count + 1, sizeof(*tasks));
    struct retry_ticket *tickets = calloc(count + 1, sizeof(*tickets));
    json_t *given = list_of(asked, "tickets");
    enum rc rc;

    for (size_t i = 0; i < count; i++)
        read_task(json_array_get(list, i), &tasks[i]);
    rc = db_begin(asked->db, err);
    if (rc == RC_OK)
        rc = retry_append(asked->db, tasks, count, tickets, err);
    if (rc == RC_OK)
        rc = db_commit(asked->db, err);
    else
        db_rollback(asked->db);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(given, json_pack("{s:I, s:b}", "id", (json_int_t)tickets[i].id,
                                               "existed", (int)tickets[i].existed));
    free(tickets);
    free(tasks);
    return rc;
}

struct ending {
    json_t *ids; /* that were there in one of the states */
    struct order_key keys[RESULTS_MAX];
    size_t count;
};

static enum rc ending_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct ending *ending = ctx;

    (void)err;
    json_array_append_new(ending->ids, json_integer(db_column_i64(row, 0)));
    if (row->columns[1])
        snprintf(ending->keys[ending->count++].hash, sizeof(ending->keys[0].hash), "%s",
                 row->columns[1]);
    return RC_OK;
}

static enum rc end_tasks(struct asked *asked, struct ending *ending, struct err *err)
{
    const char *ids = text_of(asked->request, "ids");
    char sql[4096];
    enum rc rc;

    snprintf(sql, sizeof(sql),
             "SELECT id, HEX(order_hash) FROM retry_task FORCE INDEX (PRIMARY) WHERE id IN (%s) "
             "AND state IN (%s) FOR UPDATE",
             ids, text_of(asked->request, "states"));
    rc = db_query(asked->db, sql, strlen(sql), ending_on_row, ending, err);
    if (rc != RC_OK || json_array_size(ending->ids) == 0)
        return rc;
    snprintf(sql, sizeof(sql), "%s WHERE id IN (%s) AND state IN (%s)",
             flag_of(asked->request, "again")
                 ? "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 0"
                 : "DELETE t FROM retry_task AS t FORCE INDEX (PRIMARY)",
             ids, text_of(asked->request, "states"));
    rc = db_run(asked->db, sql, err);
    return rc == RC_OK ? wake_keys(asked->db, ending->keys, ending->count, err) : rc;
}

/* As a person does it: deletes tasks, or lets them run again. */
static enum rc do_end(struct asked *asked, struct err *err)
{
    struct ending *ending = calloc(1, sizeof(*ending));
    enum rc rc = db_begin(asked->db, err);

    ending->ids = list_of(asked, "ended");
    if (rc == RC_OK)
        rc = end_tasks(asked, ending, err);
    if (rc == RC_OK)
        rc = db_commit(asked->db, err);
    else
        db_rollback(asked->db);
    free(ending);
    return rc;
}

static enum rc answer(struct asked *asked, struct err *err)
{
    static const struct {
        const char *name;
        enum rc (*run)(struct asked *asked, struct err *err);
    } calls[] = {
        {"look", do_look},
        {"scenes", do_scenes},
        {"record", do_record},
        {"claim", do_claim},
        {"claim_expired", do_claim_expired},
        {"forget", do_forget},
        {"finish", do_finish},
        {"renew", do_renew},
        {"rescue", do_rescue},
        {"depths", do_depths},
        {"append", do_append},
        {"end", do_end},
    };
    const char *name = text_of(asked->request, "do");

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (name && strcmp(name, calls[i].name) == 0)
            return calls[i].run(asked, err);
    }
    return err_fail(err, RC_FATAL, 0, "no such call");
}

static void serve(struct store *store, struct db *db)
{
    json_t *request;

    while ((request = json_loadf(stdin, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL)) != NULL) {
        struct asked asked = {retry_mysql_ops(store), db, request, json_object()};
        struct err err = {0};
        enum rc rc = answer(&asked, &err);

        json_object_set_new(asked.answer, "rc", json_string(rc_name(rc)));
        json_object_set_new(asked.answer, "error", json_string(rc == RC_OK ? "" : err.text));
        json_dumpf(asked.answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(asked.answer);
        json_decref(request);
    }
}

int main(int argc, char **argv)
{
    static struct settings settings;
    json_t *options = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    struct store store;
    struct db *db = NULL;
    struct err err;

    if (!options)
        return 2;
    snprintf(settings.mysql.host, sizeof(settings.mysql.host), "%s", text_of(options, "host"));
    snprintf(settings.mysql.database, sizeof(settings.mysql.database), "%s",
             text_of(options, "database"));
    snprintf(settings.mysql.user, sizeof(settings.mysql.user), "%s", text_of(options, "user"));
    snprintf(settings.mysql.password, sizeof(settings.mysql.password), "%s",
             text_of(options, "password"));
    snprintf(settings.mysql.tls, sizeof(settings.mysql.tls), "auto");
    settings.mysql.port = number_of(options, "port");
    settings.mysql.connect_timeout_ms = 5000;
    settings.mysql.query_timeout_ms = 30000;
    if (retry_mysql_open(&store, &settings, text_of(options, "owner"),
                         flag_of(options, "compareAndSet"), &err) != RC_OK ||
        db_open(&db, &settings.mysql, &err) != RC_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    serve(&store, db);
    db_close(db);
    retry_mysql_close(&store);
    json_decref(options);
    return 0;
}
