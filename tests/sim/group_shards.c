/* SPDX-License-Identifier: MIT */
#include "tests/sim/group_shards.h"

#include "outbox/retry/pool.h"
#include "tests/sim/task_work.h"
#include "tests/sim/tasks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A process whose calls are not slow uses a new list within this time, as it hears of a pause. */
#define LIST_HEARD_MS 8000

void group_shards_begin_run(struct group_shards *shards)
{
    memset(shards, 0, sizeof(*shards));
}

/* As an operator writes it, with ranges. */
static void write_list(char *text, size_t size, unsigned bits)
{
    size_t len = 0;

    text[0] = '\0';
    for (unsigned from = 0; from < TASK_SHARDS; from++) {
        unsigned to = from;

        if ((bits >> from & 1) == 0)
            continue;
        while (to + 1 < TASK_SHARDS && (bits >> (to + 1) & 1) != 0)
            to++;
        len += (size_t)snprintf(text + len, size - len, to > from ? "%s%u-%u" : "%s%u",
                                len > 0 ? "," : "", from, to);
        from = to;
    }
    assert(len < size);
}

static void replace_list(struct sim *sim, unsigned bits, bool bad)
{
    struct group_shards *shards = &sim->tasks->shards;
    struct group_list *list;

    assert(shards->newest + 1 < GROUP_LISTS_MAX);
    shards->lists[shards->newest].ended_ms = sim_now(sim);
    list = &shards->lists[++shards->newest];
    *list = (struct group_list){.bits = bits, .bad = bad};
    write_list(list->text, sizeof(list->text), bits);
    if (bad)
        snprintf(list->text, sizeof(list->text), "1-99");
    sim_tell(sim, "operator", STORY_ALL, "gives the group the shards %lld, list %lld, bad %lld",
             bits, (int64_t)shards->newest, bad);
}

/* All shards, one, or some. */
static unsigned draw_bits(struct sim *sim)
{
    if (sim_chance(sim, 150))
        return 0;
    if (sim_chance(sim, 350))
        return 1U << sim_below(sim, TASK_SHARDS);
    return (unsigned)sim_between(sim, 1, (1 << TASK_SHARDS) - 1) &
           (unsigned)sim_between(sim, 1, (1 << TASK_SHARDS) - 1);
}

static void change_lists(void *arg)
{
    struct sim *sim = arg;

    while (!sim->healed) {
        sched_pause(&sim->sched, sim_between(sim, 1, sim->plan.shard_lists_ms));
        /* The last place is of the list at the end. */
        if (!sim->healed && sim->tasks->shards.newest + 2 < GROUP_LISTS_MAX)
            replace_list(sim, draw_bits(sim), sim_chance(sim, 80));
    }
}

void group_shards_start(struct sim *sim)
{
    if (sim->plan.shard_lists_ms == 0)
        return;
    replace_list(sim, draw_bits(sim), false);
    sched_start(&sim->sched, change_lists, sim, NULL);
}

void group_shards_heal(struct sim *sim)
{
    const struct group_shards *shards = &sim->tasks->shards;

    if (shards->lists[shards->newest].bad)
        replace_list(sim, 1, false);
}

void group_shards_fix(const struct sim *sim, size_t process, char *text, size_t size)
{
    unsigned bits = 0;

    for (unsigned shard = 0; shard < TASK_SHARDS; shard++)
        if (shard % sim->plan.retries == process)
            bits |= 1U << shard;
    write_list(text, size, bits);
}

/* The (shard modulo N)-th of the list's N shards. */
static unsigned map_shard(const struct group_list *list, unsigned shard)
{
    unsigned numbers[TASK_SHARDS];
    unsigned count = 0;

    for (unsigned i = 0; i < TASK_SHARDS; i++)
        if ((list->bits >> i & 1) != 0)
            numbers[count++] = i;
    return count > 0 ? numbers[shard % count] : shard;
}

static size_t find_handler(const char *name)
{
    size_t at = 0;

    while (at < TASK_HANDLERS && strcmp(task_handlers[at]->name, name) != 0)
        at++;
    return at;
}

void group_shards_check(const struct task_adapter *adapter, const struct task_class *class)
{
    const struct proc *proc = adapter->link.proc;
    struct sim *sim = proc->sim;
    const struct group_shards *shards = &sim->tasks->shards;
    const struct group_list *list = &shards->lists[adapter->list_looked];
    unsigned shard = map_shard(list, class->shard);
    size_t handler = find_handler(class->handler);
    int64_t from_ms = proc->slowed_ms > list->ended_ms ? proc->slowed_ms : list->ended_ms;

    if (list->bad)
        sim_fail(sim, STORY_ALL, "shards: %s claims, and the shards of the group are no list",
                 proc->name);
    else if (handler == TASK_HANDLERS ||
             !pool_holds(adapter->pool, handler, shard, adapter->step_ms))
        sim_fail(sim, STORY_ALL,
                 "shards: %s claims of %s in shard %u, and does not hold shard %u of the group, "
                 "which has \"%s\"",
                 proc->name, class->handler, class->shard, shard, list->text);
    else if (adapter->list_looked != shards->newest && sim_now(sim) - from_ms > LIST_HEARD_MS)
        sim_fail(sim, STORY_ALL, "shards: %s claims by a list that was replaced %lld ms ago",
                 proc->name, (long long)(sim_now(sim) - list->ended_ms));
}
