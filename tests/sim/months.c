/* SPDX-License-Identifier: MIT */
#include "tests/sim/months.h"

#include "consumer/apply/date.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MONTH_DAYS 31

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void parts_make(struct fake_parts *parts, int64_t day, bool no_limit)
{
    parts->count = 0;
    for (int64_t month = -1; month <= 1; month++) {
        struct housekeep_part *part = &parts->parts[parts->count++];
        struct date date = date_of(date_month_begin(day, month - 1));

        part->limit_day = date_month_begin(day, month);
        snprintf(part->name, sizeof(part->name), "p%04d%02d", date.year, date.month);
    }
    if (no_limit)
        parts->parts[parts->count++] = (struct housekeep_part){"p_later", HOUSEKEEP_NO_LIMIT};
}

void months_begin_run(struct months *months, struct sim *sim)
{
    memset(months, 0, sizeof(*months));
    housekeep_tables_init(&months->tables, sim);
    if (sim->plan.housekeepers == 0)
        return;
    /* Only held votes can wait for a partition that is missing. */
    parts_make(&months->tables.parts_now, SIM_WALL_MS / MS_PER_DAY,
               sim->plan.replayers == 0 || sim_chance(sim, 500));
    months->tables.parts_old = months->tables.parts_now;
    months->rules = (struct housekeep_rules){
        .months_ahead = sim_between(sim, 1, 3),
        .keep_months = sim_between(sim, 1, 2),
        .move_rows_max = sim_chance(sim, 300) ? sim_below(sim, 4) : SIM_EVENTS_MAX,
        .batch_rows_max = (size_t)sim_between(sim, 2, FAKE_FOLD_ROWS_MAX),
        .pause_ms = sim_between(sim, 0, 20),
    };
    for (int kind = 0; kind < HOUSEKEEP_KINDS; kind++)
        months->rules.keep_days[kind] =
            sim_chance(sim, 300) ? 0 : sim_between(sim, 10, 4L * MONTH_DAYS);
}

static enum rc share(struct link *link, struct fake_row readers[DB_SESSIONS_MAX], struct err *err)
{
    size_t number = link->session ? (size_t)(link->session - link->db->sessions) : 0;

    return link_lock(link, &readers[number], err);
}

enum rc months_keep_begin(struct link *link, int64_t *begin_day, struct err *err)
{
    const struct sim *sim = link->db->sim;
    struct months *months = sim->months;
    enum rc rc = RC_OK;

    *begin_day = 0;
    if (sim->plan.housekeepers == 0)
        return RC_OK;
    if (sim->fault != FAULT_BEGIN_UNLOCKED)
        rc = share(link, months->begin_readers, err);
    *begin_day = months->tables.old.state.begin_day;
    return rc;
}

enum rc months_use_log(struct link *link, struct err *err)
{
    const struct sim *sim = link->db->sim;

    return sim->plan.housekeepers == 0 ? RC_OK : share(link, sim->months->log_users, err);
}

enum rc months_lock_all(struct link *link, struct fake_row readers[DB_SESSIONS_MAX],
                        struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < DB_SESSIONS_MAX; i++)
        rc = link_lock(link, &readers[i], err);
    return rc;
}

bool months_have(const struct sim *sim, int64_t day)
{
    const struct fake_parts *parts = &sim->months->tables.parts_old;

    return sim->plan.housekeepers == 0 || day < parts->parts[parts->count - 1].limit_day;
}

void months_check_logged(struct sim *sim, size_t event)
{
    const struct sink_vote *vote = &sim->sink->votes[event];
    int64_t begin_day = sim->months->tables.old.state.begin_day;

    if (sim->plan.housekeepers > 0 && vote->base.day < begin_day)
        sim_fail(sim, sim->events[event].key,
                 "log_begin: event %zu of day %lld is logged, and the log begins on day %lld",
                 event, (long long)vote->base.day, (long long)begin_day);
}

void months_check_too_old(struct sim *sim, size_t event)
{
    int64_t day = sim->events[event].occurred_ms / MS_PER_DAY;
    int64_t begin_day = sim->months->tables.old.state.begin_day;

    if (day >= begin_day)
        sim_fail(sim, sim->events[event].key,
                 "log_begin: event %zu of day %lld is dead as too old, and the log begins on day "
                 "%lld",
                 event, (long long)day, (long long)begin_day);
}

void months_check_totals(struct sim *sim)
{
    const struct fake_housekeep_tables *tables = &sim->months->tables;
    struct fake_base sums[FAKE_BASES_MAX];
    struct fake_log_row row;

    memcpy(sums, tables->old.bases, sizeof(sums));
    for (size_t i = 0; i < sim->event_count; i++)
        if (tables->read_row(tables->ctx, i, &row) && sim->sink->votes[i].folded == 0)
            fake_base_add(&sums[row.content_id], &row);
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        const struct fake_tally *total = &sim->sink->totals[content];
        const struct fake_base *sum = &sums[content];

        if (sum->row_count == total->old.seq && sum->seq == total->old.seq &&
            sum->votes == total->old.votes && sum->vote_sum == total->old.votes)
            continue;
        sim_fail(sim, content,
                 "vote_base: content %lld has votes %lld and seq %lld; vote_base and the log "
                 "have %lld rows that add up to %lld, the last with votes %lld and seq %lld",
                 (long long)content, (long long)total->old.votes, (long long)total->old.seq,
                 (long long)sum->row_count, (long long)sum->vote_sum, (long long)sum->votes,
                 (long long)sum->seq);
    }
}

bool months_rest(const struct sim *sim, struct waiting *waiting)
{
    const struct months *months = sim->months;
    const struct fake_parts *parts = &months->tables.parts_old;
    int64_t today = db_calendar_ms(sim->sink_db) / MS_PER_DAY;
    int64_t newest = fake_housekeep_newest_day(&months->tables);
    int64_t last = 0;

    if (sim->plan.housekeepers == 0)
        return true;
    last = parts->parts[parts->count - 1].limit_day;
    if (last == HOUSEKEEP_NO_LIMIT)
        last = parts->count > 1 ? parts->parts[parts->count - 2].limit_day : 0;
    if (last <= today)
        return snprintf(waiting->text, sizeof(waiting->text),
                        "the partitions end before day %lld, and it is day %lld", (long long)last,
                        (long long)today) < 0;
    if (newest == INT64_MIN ||
        parts->parts[0].limit_day >
            date_month_begin(lesser(newest, today), -months->rules.keep_months))
        return true;
    return snprintf(waiting->text, sizeof(waiting->text),
                    "partition %s is still there, and the newest vote is of day %lld",
                    parts->parts[0].name, (long long)newest) < 0;
}

int64_t months_refused_votes(const struct sim *sim, int64_t content)
{
    int64_t votes = 0;

    for (size_t i = 0; i < sim->event_count; i++) {
        const struct event *event = &sim->events[i];
        const struct sink_vote *vote = &sim->sink->votes[i];

        if (event->kind == EVENT_VOTE && event->key == content && event->too_old > 0 &&
            !vote->base.old_found && !vote->dropped)
            votes += event->voting ? 1 : -1;
    }
    return votes;
}
