/* SPDX-License-Identifier: MIT */
#include "consumer/apply/apply_group.h"

#include <string.h>

static bool is_in(const struct apply_group *group, const struct place *place)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->places[i].partition == place->partition &&
            strcmp(group->places[i].topic, place->topic) == 0)
            return true;
    return false;
}

static bool is_plain(const struct batch *batch)
{
    return !batch->whole && batch->dead_count == 0;
}

static bool may_share(const struct apply_group *group, size_t rows_max, const struct place *place,
                      const struct batch *batch)
{
    size_t rows = batch->row_count;

    if (group->count == APPLY_GROUP_MAX || !is_plain(batch) || !is_plain(group->batches[0]))
        return false;
    for (size_t i = 0; i < group->count; i++)
        rows += group->batches[i]->row_count;
    return rows <= rows_max && !is_in(group, place);
}

bool apply_group_add(struct apply_group *group, size_t rows_max, const struct place *place,
                     int64_t epoch, struct batch *batch)
{
    if (group->count > 0 && !may_share(group, rows_max, place, batch))
        return false;
    group->batches[group->count] = batch;
    group->places[group->count] = *place;
    group->epochs[group->count] = epoch;
    group->count++;
    return true;
}

static void skip_before(struct batch *batch, int64_t next_offset)
{
    for (size_t i = 0; i < batch->row_count; i++)
        batch->rows[i].skip = batch->rows[i].offset < next_offset;
}

struct vote_row *apply_group_rows(struct apply_group *group, struct vote_row *rows, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct batch *batch = group->batches[i];

        skip_before(group->batches[i], group->progress[i].next_offset);
        if (group->count == 1) {
            *count = batch->row_count;
            return batch->rows;
        }
        for (size_t k = 0; k < batch->row_count; k++)
            if (!batch->rows[k].skip)
                rows[(*count)++] = batch->rows[k];
    }
    return rows;
}
