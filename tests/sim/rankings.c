/* SPDX-License-Identifier: MIT */
#include "tests/sim/rankings.h"

#include "common/hash.h"
#include "producer/serve_metrics.h"
#include "tests/fakes/fake_rollup.h"
#include "tests/sim/removals.h"
#include "tests/sim/sink.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MS INT64_C(2000)
#define REFRESH_MS 6000
#define SILENT_MS 5000
#define STALE_MS 20000
#define READERS_FIRST 1000 /* that ask for one item at once */
#define BUILDS_MAX 4       /* in one step */

/* After settle_ms() readers and an operator use lists for as long as a refresh takes. */
#define CALM_MS (REFRESH_MS + 3000)
/* Within this time processes use a roll-up or new weights, and a write, of which an item that was
 * built shortly before is told later. */
#define SEEN_MS 1000
#define WRITTEN_MS (SEEN_MS + RETRY_MS + 500)
#define SLOW_MS 400
#define REFRESHED_MS (REFRESH_MS + SEEN_MS)

int64_t rankings_item_of(int64_t content)
{
    return 1 + content % RANKING_ITEMS_FULL;
}

/* After the faults have ended, processes need this time until their lists are right: a build may
 * have failed just before. */
static int64_t settle_ms(const struct sim *sim)
{
    return sim->rankings->retry_max_ms + 2000;
}

/* The model */

/* Made when a remark is: a remark with a higher id is younger. */
static int64_t rank_points(const struct ranking_tables *tables, const struct rank_weights *weights,
                           int64_t content, int64_t votes)
{
    return votes * weights->votes + tables->scores[content] * weights->score +
           content * weights->age;
}

static bool is_listed(const struct sim *sim, int64_t content)
{
    const struct fake_removal_version *row = &sim->removals->remarks[content].old;

    return row->found && !row->deleted;
}

/* The list that is right now. */
static void rank_item(const struct sim *sim, int64_t item, struct ranking_version *version)
{
    const struct ranking_tables *tables = sim->rankings;
    int64_t points[SIM_CONTENTS];

    version->count = 0;
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        int64_t mine;
        size_t at = version->count;

        if (rankings_item_of(content) != item || !is_listed(sim, content))
            continue;
        mine = rank_points(tables, &tables->weights, content,
                           sim->sink->remarks[content].listed_votes);
        /* Contents come in the order of their ids: of equal ones the later is first. */
        for (; at > 0 && points[at - 1] <= mine; at--) {
            points[at] = points[at - 1];
            version->ids[at] = version->ids[at - 1];
        }
        points[at] = mine;
        version->ids[at] = content;
        version->count++;
    }
}

static bool is_version(const struct ranking_version *version, const int64_t *ids, size_t count)
{
    return version->count == count && memcmp(version->ids, ids, count * sizeof(ids[0])) == 0;
}

/* Readers of all processes get what is right now, or something later, after within_ms. */
static void need_item(struct sim *sim, struct ranking_item *item, int64_t within_ms)
{
    struct ranking_need *need = &item->needs[item->need_count];

    if (item->need_count == RANKING_NEEDS_MAX)
        return;
    *need = (struct ranking_need){sim_now(sim) + within_ms, item->version_count - 1,
                                  within_ms >= WRITTEN_MS};
    item->need_count++;
}

/* An item is written before a process has used a roll-up or new weights. If it was built shortly
 * before, the process builds it only after RETRY_MS, with all of them. A further write does not
 * delay that build. */
static void delay_needs(struct sim *sim, struct ranking_item *item)
{
    for (size_t i = 0; i < item->need_count; i++) {
        struct ranking_need *need = &item->needs[i];

        if (need->waits || need->due_ms < sim_now(sim))
            continue;
        need->due_ms = sim_now(sim) + WRITTEN_MS;
        need->waits = true;
    }
}

/* Returns whether the list has changed. */
static bool note_item(struct sim *sim, int64_t number)
{
    struct ranking_item *item = &sim->rankings->items[number];
    struct ranking_version *next = &item->versions[item->version_count];

    assert(item->version_count < RANKING_VERSIONS_MAX);
    rank_item(sim, number, next);
    if (item->version_count > 0 && is_version(next - 1, next->ids, next->count))
        return false;
    next->from_ms = sim_now(sim);
    item->version_count++;
    return true;
}

static int64_t seen_within_ms(const struct sim *sim, const struct ranking_item *item)
{
    return sim_now(sim) - item->written_ms < RETRY_MS + SEEN_MS ? WRITTEN_MS : SEEN_MS;
}

void rankings_note(struct sim *sim)
{
    struct ranking_tables *tables = sim->rankings;
    bool rolled_up = tables->finished != sim->sink->state.finished_window;

    if (!sim->plan.rankings)
        return;
    tables->finished = sim->sink->state.finished_window;
    for (int64_t i = 1; i <= RANKING_ITEMS; i++) {
        struct ranking_item *item = &tables->items[i];

        if (note_item(sim, i) && rolled_up)
            need_item(sim, item, seen_within_ms(sim, item));
    }
}

void rankings_begin_run(struct ranking_tables *tables, struct sim *sim)
{
    tables->weights = (struct rank_weights){.votes = 1};
    tables->weights_count = 0;
    tables->finished = 0;
    tables->healed_ms = 0;
    tables->retry_max_ms = sim_chance(sim, 300) ? 2 * RETRY_MS : RETRY_MS;
    tables->quiet = sim->plan.rankings && sim_chance(sim, 500);
    for (int64_t i = 1; i <= RANKING_ITEMS; i++) {
        struct ranking_item *item = &tables->items[i];

        item->version_count = item->need_count = item->needed = 0;
        item->written_ms = item->changed_db_ms = 0;
    }
    memset(tables->scores, 0, sizeof(tables->scores));
    rankings_note(sim);
}

static void change_weights(struct sim *sim)
{
    struct ranking_tables *tables = sim->rankings;

    tables->weights = (struct rank_weights){sim_between(sim, -1, 3), sim_between(sim, 0, 3),
                                            sim_between(sim, -1, 1)};
    tables->weights_count++;
    sim_tell(sim, "operator", STORY_ALL, "sets weights %lld, %lld, %lld", tables->weights.votes,
             tables->weights.score, tables->weights.age);
    for (int64_t i = 1; i <= RANKING_ITEMS; i++)
        if (note_item(sim, i))
            need_item(sim, &tables->items[i], seen_within_ms(sim, &tables->items[i]));
}

static bool is_calm(const struct ranking_process *ranking)
{
    const struct sim *sim = ranking->proc->sim;
    const struct ranking_tables *tables = sim->rankings;
    int64_t since_ms = ranking->proc->began_ms;

    if (tables->healed_ms == 0)
        return false;
    if (since_ms < tables->healed_ms)
        since_ms = tables->healed_ms;
    return sim_now(sim) - since_ms > settle_ms(sim);
}

/* The version that readers must have by now. */
static size_t find_needed(struct sim *sim, struct ranking_item *item)
{
    int64_t now_ms = sim_now(sim);
    int64_t calm_ms = sim->rankings->healed_ms + settle_ms(sim);
    size_t kept = 0;

    for (size_t i = 0; i < item->need_count; i++) {
        const struct ranking_need need = item->needs[i];

        if (need.due_ms >= now_ms)
            item->needs[kept++] = need;
        else if (need.version > item->needed)
            item->needed = need.version;
    }
    item->need_count = kept;
    for (size_t i = item->version_count - 1; i > item->needed; i--) {
        int64_t from_ms = item->versions[i].from_ms;

        if ((from_ms < calm_ms ? calm_ms : from_ms) + REFRESHED_MS < now_ms)
            item->needed = i;
    }
    return item->needed;
}

/* The promise P7: a reader sees one whole list that was right, never an earlier one than before,
 * and after the faults one that is right, or was within the time that the change takes. */
static void check_list(struct ranking_process *ranking, int64_t number,
                       const struct recommended_list *list)
{
    struct sim *sim = ranking->proc->sim;
    struct ranking_item *item = &sim->rankings->items[number];
    struct ranking_entry *entry = &ranking->entries[number];
    size_t first = entry->version;
    size_t last;

    while (first < item->version_count &&
           !is_version(&item->versions[first], list->ids, list->count))
        first++;
    if (first == item->version_count || list->item_id != number) {
        sim_fail(sim, STORY_ALL,
                 "P7: %s shows a list of %zu remarks for item %lld that was never right, or was "
                 "before the one it has shown",
                 ranking->proc->name, list->count, (long long)number);
        return;
    }
    entry->version = first;
    if (!is_calm(ranking))
        return;
    for (last = item->version_count - 1; !is_version(&item->versions[last], list->ids, list->count);
         last--)
        continue;
    if (last < find_needed(sim, item))
        sim_fail(sim, STORY_ALL,
                 "P7: %s shows a list for item %lld that has not been right since %lld",
                 ranking->proc->name, (long long)number,
                 (long long)(item->versions[last + 1].from_ms - SIM_START_MS));
}

/* The store */

static struct ranking_process *watcher_of(void *ctx)
{
    return ctx;
}

static void read_state(const struct sim *sim, const struct link *link,
                       struct recommended_state *state)
{
    const struct rollup_state *rollup = &sim->sink->state;

    *state = (struct recommended_state){.now_ms = db_clock(link->db),
                                        .finished = rollup->finished_window,
                                        .started = rollup->started_window,
                                        .finished_ms = rollup->finished_ms,
                                        .weights = sim->rankings->weights,
                                        .weights_stored = true};
}

static enum rc store_read_state(void *ctx, struct recommended_state *state, struct err *err)
{
    struct ranking_process *ranking = watcher_of(ctx);
    const struct sim *sim = ranking->proc->sim;
    enum rc rc = link_call(&ranking->watcher_link, err);

    if (rc != RC_OK)
        return rc;
    read_state(sim, &ranking->watcher_link, state);
    rc = link_answer(&ranking->watcher_link, err);
    if (rc == RC_OK) {
        ranking->watched = true;
        ranking->watched_state = *state;
    }
    return rc;
}

static int64_t find_newest(const struct sim *sim, int64_t item)
{
    int64_t window = 0;

    for (int64_t content = 1; content <= SIM_CONTENTS; content++)
        if (rankings_item_of(content) == item && sim->removals->remarks[content].old.found &&
            sim->sink->remarks[content].votes_window > window)
            window = sim->sink->remarks[content].votes_window;
    return window;
}

static enum rc store_newest(void *ctx, const int64_t *items, size_t count, int64_t *windows,
                            struct err *err)
{
    struct ranking_process *ranking = watcher_of(ctx);
    enum rc rc = link_call(&ranking->watcher_link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++)
        windows[i] = find_newest(ranking->proc->sim, items[i]);
    if (rc == RC_OK)
        rc = link_answer(&ranking->watcher_link, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        if (windows[i] > ranking->entries[items[i]].window)
            ranking->entries[items[i]].told = true;
    return rc;
}

static enum rc store_announce(void *ctx, const int64_t *items, size_t count, struct err *err)
{
    struct ranking_process *ranking = watcher_of(ctx);
    struct sim *sim = ranking->proc->sim;
    enum rc rc = link_call(&ranking->watcher_link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++)
        sim->rankings->items[items[i]].changed_db_ms = db_clock(ranking->watcher_link.db);
    if (rc == RC_OK)
        rc = link_answer(&ranking->watcher_link, err);
    for (size_t i = 0; rc != RC_OK && i < count; i++)
        ranking->entries[items[i]].told = true;
    return rc;
}

static enum rc store_read_changes(void *ctx, int64_t within_ms, recommended_on_change on_change,
                                  void *change_ctx, struct err *err)
{
    struct ranking_process *ranking = watcher_of(ctx);
    struct sim *sim = ranking->proc->sim;
    enum rc rc = link_call(&ranking->watcher_link, err);

    for (int64_t i = 1; rc == RC_OK && i <= RANKING_ITEMS; i++) {
        int64_t changed_ms = sim->rankings->items[i].changed_db_ms;

        if (changed_ms <= db_clock(ranking->watcher_link.db) - within_ms)
            continue;
        if (i == ranking->building && changed_ms > ranking->building_changed_ms)
            ranking->building_changed_ms = changed_ms;
        on_change(change_ctx, i, changed_ms);
    }
    return rc == RC_OK ? link_answer(&ranking->watcher_link, err) : rc;
}

static bool has_reason(const struct ranking_process *ranking, int64_t number)
{
    const struct sim *sim = ranking->proc->sim;
    const struct ranking_entry *entry = &ranking->entries[number];

    return sim_now(sim) >= entry->built_ms + REFRESH_MS || entry->told ||
           sim->rankings->weights_count != entry->weights_count ||
           find_newest(sim, number) > entry->window ||
           sim->rankings->items[number].changed_db_ms > entry->built_db_ms - 1;
}

/* The promise P8: a list is built once for all readers that ask for it, not before 2 s after a
 * failure, and again only for a reason. */
static void check_build(struct ranking_process *ranking, int64_t number)
{
    struct sim *sim = ranking->proc->sim;
    struct ranking_entry *entry = &ranking->entries[number];

    if (entry->step == ranking->steps) { /* a roll-up ended or the weights changed */
        if (++ranking->builds > BUILDS_MAX)
            sim_fail(sim, STORY_ALL, "P8: %s reads item %lld %d times in one step",
                     ranking->proc->name, (long long)number, ranking->builds);
        return;
    }
    entry->step = ranking->steps;
    ranking->builds = 1;
    ranking->building_changed_ms = 0;
    if (entry->failures > 0 && sim_now(sim) < entry->failed_ms + RETRY_MS)
        sim_fail(sim, STORY_ALL, "P8: %s builds item %lld again %lld ms after a failure",
                 ranking->proc->name, (long long)number,
                 (long long)(sim_now(sim) - entry->failed_ms));
    else if (entry->failures == 0 &&
             (entry->has_list ? !has_reason(ranking, number) : !entry->asked))
        sim_fail(sim, STORY_ALL,
                 "P8: %s builds item %lld without a reason: %s, the last build was at %lld",
                 ranking->proc->name, (long long)number,
                 entry->has_list ? "it has a list" : "no reader asked",
                 (long long)(entry->built_ms - SIM_START_MS));
    entry->told = false;
}

/* As the statement ranks them: by the votes and the weights of *with. */
static size_t read_ids(const struct sim *sim, int64_t item, const struct recommended_state *with,
                       size_t max, int64_t *ids)
{
    const struct rollup_state as_of = {.finished_window = with->finished};
    bool used[SIM_CONTENTS + 1] = {false};
    size_t count = 0;

    while (count < max) {
        int64_t best = 0;
        int64_t most = 0;

        for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
            int64_t points;

            if (used[content] || rankings_item_of(content) != item || !is_listed(sim, content))
                continue;
            points = rank_points(sim->rankings, &with->weights, content,
                                 fake_remark_listed_votes(&sim->sink->remarks[content], &as_of));
            if (best > 0 && points < most)
                continue;
            best = content;
            most = points;
        }
        if (best == 0)
            break;
        used[best] = true;
        ids[count++] = best;
    }
    return count;
}

static void end_build(struct ranking_process *ranking, int64_t number, enum rc rc,
                      const struct recommended_state *with, const struct recommended_state *seen)
{
    struct ranking_entry *entry = &ranking->entries[number];
    bool right = rc == RC_OK && with->finished == seen->finished &&
                 rank_weights_equal(&with->weights, &seen->weights);

    if (!right) {
        entry->failures++;
        entry->failed_ms = sim_now(ranking->proc->sim);
        return;
    }
    ranking->built = true;
    entry->failures = 0;
    entry->has_list = true;
    entry->asked = false;
    entry->built_ms = sim_now(ranking->proc->sim);
    entry->built_db_ms = seen->now_ms;
    /* The list has all that was announced before it was read. */
    if (ranking->building_changed_ms > seen->now_ms - 1)
        entry->told = true;
    /* Which of the two was read later is not known to the process: new weights may have been taken
     * back. The list is built again until both are the same. */
    if (ranking->watched && !recommended_state_equal(&ranking->watched_state, seen))
        entry->told = true;
    entry->window = seen->finished;
    entry->weights_count = ranking->building_weights;
}

/* A query that takes long; once the faults have ended, no two follow each other. */
static void pause_query(struct ranking_process *ranking)
{
    struct sim *sim = ranking->proc->sim;

    if (!sim_chance(sim, 100) || (sim->healed && sim_now(sim) - ranking->slow_ms < 2 * RETRY_MS))
        return;
    ranking->slow_ms = sim_now(sim);
    sched_pause(&sim->sched, sim_between(sim, 1, sim->healed ? SLOW_MS : 1500));
}

static enum rc store_build(void *ctx, int64_t item_id, const struct recommended_state *with,
                           size_t max, int64_t *ids, size_t *count, struct recommended_state *seen,
                           struct err *err)
{
    struct ranking_process *ranking = ctx;
    struct sim *sim = ranking->proc->sim;
    const struct recommended_state asked = *with;
    enum rc rc;

    check_build(ranking, item_id);
    ranking->building = item_id;
    ranking->watched = false;
    rc = link_call(&ranking->builder_link, err);
    pause_query(ranking);
    if (rc == RC_OK) {
        rankings_note(sim);
        ranking->building_weights = sim->rankings->weights_count;
        read_state(sim, &ranking->builder_link, seen);
        *count = read_ids(sim, item_id, with, max, ids);
        pause_query(ranking);
        rc = link_answer(&ranking->builder_link, err);
    }
    ranking->building = 0;
    end_build(ranking, item_id, rc, &asked, seen);
    return rc;
}

/* The threads */

static void wake_fiber(struct sim *sim, struct fiber *fiber)
{
    if (fiber)
        sched_wake(&sim->sched, fiber);
}

static void wake_builder(void *ctx)
{
    const struct ranking_process *ranking = ctx;

    wake_fiber(ranking->proc->sim, ranking->builder_fiber);
}

static void wake_watcher(void *ctx)
{
    const struct ranking_process *ranking = ctx;

    wake_fiber(ranking->proc->sim, ranking->watcher_fiber);
}

static void watcher_thread(void *arg)
{
    struct ranking_process *ranking = arg;
    struct sim *sim = ranking->proc->sim;

    while (!ranking->proc->stopping)
        sched_idle(&sim->sched, recommended_watcher_step(&ranking->watcher, sim_now(sim)));
}

/* The promise P8: the bounds hold, but the list that was built last always fits. */
static void check_memory(struct ranking_process *ranking)
{
    const struct recommended_config *config = &ranking->config;
    int64_t items = metric_value(&serve_recommended_items);
    int64_t empty = metric_value(&serve_recommended_empty);
    int64_t lists = items + empty;

    if (items > (int64_t)config->items_max || empty > (int64_t)config->empty_max ||
        (lists > 1 && metric_value(&serve_recommended_bytes) > (int64_t)config->bytes_max))
        sim_fail(ranking->proc->sim, STORY_ALL,
                 "P8: %s keeps %lld lists, %lld of them without remarks", ranking->proc->name,
                 (long long)lists, (long long)empty);
}

static void builder_thread(void *arg)
{
    struct ranking_process *ranking = arg;
    struct sim *sim = ranking->proc->sim;

    while (!ranking->proc->stopping) {
        int64_t wait_ms;

        ranking->steps++;
        ranking->built = false;
        wait_ms = recommended_builder_step(&ranking->builder, sim_now(sim));
        /* Nothing else ran since the list was kept, if one was. */
        if (ranking->built)
            check_memory(ranking);
        sched_idle(&sim->sched, wait_ms);
    }
}

static void check_absence(struct ranking_process *ranking, int64_t item,
                          enum recommended_found found)
{
    struct sim *sim = ranking->proc->sim;
    struct ranking_entry *entry = &ranking->entries[item];

    if (found == RECOMMENDED_BUILDING && !entry->asked) {
        entry->asked = true;
        entry->asked_ms = sim_now(sim);
        if (entry->has_list) { /* it was forgotten */
            entry->has_list = false;
            entry->failures = 0;
        }
    }
    if (!is_calm(ranking))
        return;
    if (found == RECOMMENDED_AWAY)
        sim_fail(sim, STORY_ALL, "P8: %s refuses item %lld, though the database answers",
                 ranking->proc->name, (long long)item);
    else if (sim_now(sim) - entry->asked_ms > WRITTEN_MS &&
             sim_now(sim) - sim->rankings->healed_ms > settle_ms(sim) + WRITTEN_MS)
        sim_fail(sim, STORY_ALL, "P8: %s has not built item %lld since %lld", ranking->proc->name,
                 (long long)item, (long long)(entry->asked_ms - SIM_START_MS));
}

/* Returns the list, which the caller holds, or NULL. */
static struct recommended_list *find_list(struct ranking_process *ranking, int64_t item)
{
    struct sim *sim = ranking->proc->sim;
    struct recommended_list *list = NULL;
    bool stale = false;
    enum recommended_found found =
        recommended_find(ranking->lists, item, sim_now(sim), &list, &stale);

    if (found == RECOMMENDED_LIST)
        check_list(ranking, item, list);
    else
        check_absence(ranking, item, found);
    if (stale && is_calm(ranking))
        sim_fail(sim, STORY_ALL, "P7: %s calls item %lld stale, though the database answers",
                 ranking->proc->name, (long long)item);
    return list;
}

/* Holds a list while other threads run: it must not change. */
static void read_slowly(struct ranking_process *ranking, size_t reader,
                        struct recommended_list *list)
{
    struct sim *sim = ranking->proc->sim;
    struct ranking_version kept = {.count = list->count};

    assert(list->count <= SIM_CONTENTS);
    memcpy(kept.ids, list->ids, list->count * sizeof(list->ids[0]));
    ranking->held[reader] = list;
    sched_pause(&sim->sched, sim_between(sim, 1, 1000));
    if (!is_version(&kept, list->ids, list->count) ||
        list->version != hash_bytes(HASH_START, list->ids, list->count * sizeof(list->ids[0])))
        sim_fail(sim, STORY_ALL, "P7: the list of item %lld changes while a reader of %s has it",
                 (long long)list->item_id, ranking->proc->name);
    ranking->held[reader] = NULL;
}

static void read_lists(struct ranking_process *ranking, size_t reader)
{
    struct sim *sim = ranking->proc->sim;

    while (!ranking->proc->stopping) {
        int64_t item = sim_between(sim, 1, RANKING_ITEMS);
        int readers = sim_chance(sim, 50) ? READERS_FIRST : 1;
        struct recommended_list *list = NULL;

        sched_pause(&sim->sched, sim_between(sim, 1, sim->healed ? 200 : 100));
        for (int i = 0; i < readers && !sim->failed; i++) {
            recommended_list_release(list);
            list = find_list(ranking, item);
        }
        if (list && sim_chance(sim, 200))
            read_slowly(ranking, reader, list);
        recommended_list_release(list);
    }
}

static void first_reader(void *arg)
{
    read_lists(arg, 0);
}

static void second_reader(void *arg)
{
    read_lists(arg, 1);
}

void ranking_written(void *ctx, int64_t number)
{
    struct ranking_process *ranking = ctx;
    struct sim *sim = ranking->proc->sim;
    struct ranking_item *item;

    if (!ranking->lists)
        return;
    rankings_note(sim);
    item = &sim->rankings->items[number];
    item->written_ms = sim_now(sim);
    delay_needs(sim, item);
    if (sim->healed)
        need_item(sim, item, WRITTEN_MS);
    recommended_written(ranking->lists, number, sim_now(sim));
}

/* Clients that write remarks, and now and then an operator who changes the weights. */
static void writer_thread(void *arg)
{
    struct ranking_process *ranking = arg;
    struct sim *sim = ranking->proc->sim;
    struct link *link = &ranking->writer_link;
    struct err err;

    while (!ranking->proc->stopping) {
        int64_t content = sim_between(sim, 1, SIM_CONTENTS);

        sched_pause(&sim->sched, sim_between(sim, 10, sim->healed ? 6000 : 2500));
        if (link_call(link, &err) != RC_OK)
            continue;
        if (sim_chance(sim, sim->healed ? 500 : 300) && !(sim->healed && sim->rankings->quiet)) {
            change_weights(sim);
            continue;
        }
        sim->rankings->scores[content] = sim_between(sim, 0, 5);
        rankings_note(sim);
        if (link_answer(link, &err) == RC_OK &&
            sim_chance(sim, sim->healed && sim->rankings->quiet ? 100 : 700))
            ranking_written(ranking, rankings_item_of(content));
    }
}

static void store_init(struct ranking_process *ranking)
{
    ranking->watcher_store = (struct recommended_store){.ctx = ranking,
                                                        .read_state = store_read_state,
                                                        .newest = store_newest,
                                                        .announce = store_announce,
                                                        .read_changes = store_read_changes};
    ranking->builder_store = (struct recommended_store){.ctx = ranking, .build = store_build};
}

void ranking_start(struct ranking_process *ranking, struct proc *proc)
{
    struct sim *sim = proc->sim;

    memset(ranking, 0, sizeof(*ranking));
    ranking->proc = proc;
    if (!sim->plan.rankings)
        return;
    ranking->config = (struct recommended_config){
        .items_max = sim_chance(sim, 500) ? 2 : RANKING_ITEMS,
        .empty_max = sim_chance(sim, 500) ? 1 : RANKING_ITEMS,
        .bytes_max = sim_chance(sim, 300) ? 700 : 1 << 20,
        .refresh_ms = REFRESH_MS,
        .retry_ms = RETRY_MS,
        .retry_max_ms = sim->rankings->retry_max_ms,
        .silent_ms = SILENT_MS,
        .stale_ms = STALE_MS,
        .wake_builder = wake_builder,
        .wake_watcher = wake_watcher,
        .wake_ctx = ranking,
    };
    link_init(&ranking->watcher_link, proc, sim->sink_db);
    link_init(&ranking->builder_link, proc, sim->sink_db);
    link_init(&ranking->writer_link, proc, sim->sink_db);
    store_init(ranking);
    if (recommended_open(&ranking->lists, &ranking->config, sim_now(sim), NULL) != RC_OK)
        abort(); /* no memory */
    recommended_watcher_init(&ranking->watcher, ranking->lists, &ranking->watcher_store);
    recommended_builder_init(&ranking->builder, ranking->lists, &ranking->builder_store,
                             SIM_CONTENTS, sim_clock_us, &ranking->stop);
    ranking->watcher_fiber = proc_thread(proc, watcher_thread, ranking);
    ranking->builder_fiber = proc_thread(proc, builder_thread, ranking);
    proc_thread(proc, first_reader, ranking);
    proc_thread(proc, second_reader, ranking);
    proc_thread(proc, writer_thread, ranking);
}

void ranking_end(struct ranking_process *ranking)
{
    if (!ranking->lists)
        return;
    ranking->watcher_fiber = ranking->builder_fiber = NULL;
    link_close(&ranking->watcher_link);
    link_close(&ranking->builder_link);
    link_close(&ranking->writer_link);
    for (size_t i = 0; i < RANKING_HELD_MAX; i++)
        recommended_list_release(ranking->held[i]);
    recommended_watcher_done(&ranking->watcher);
    recommended_free(ranking->lists);
    ranking->lists = NULL;
}

bool rankings_rest(const struct sim *sim, struct waiting *waiting)
{
    static const char text[] = "readers of recommended lists are not done";

    if (!sim->plan.rankings)
        return true;
    memcpy(waiting->text, text, sizeof(text));
    return sim_now(sim) - sim->rankings->healed_ms > settle_ms(sim) + CALM_MS;
}
