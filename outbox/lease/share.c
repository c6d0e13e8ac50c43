/* SPDX-License-Identifier: MIT */
#include "outbox/lease/share.h"

#include <assert.h>

static size_t weight_of(const struct share *share, size_t i)
{
    return share->weights ? (size_t)share->weights[i] : 1;
}

static size_t sum_weights(const struct share *share)
{
    size_t sum = 0;

    for (size_t i = 0; i < share->instances; i++)
        sum += weight_of(share, i);
    assert(sum > 0);
    return sum;
}

static size_t share_rounded_down(const struct share *share, size_t i)
{
    return share->lanes * weight_of(share, i) / sum_weights(share);
}

static size_t share_rounded_up(const struct share *share, size_t i)
{
    size_t all = sum_weights(share);

    return (share->lanes * weight_of(share, i) + all - 1) / all;
}

/* Lanes that the other instances lack for their share, rounded down. */
static size_t count_missing_of_others(const struct share *share)
{
    size_t lack = 0;

    for (size_t i = 0; i < share->instances; i++) {
        size_t down = share_rounded_down(share, i);

        if (i != share->me && share->held[i] < down)
            lack += down - share->held[i];
    }
    return lack;
}

/* Compares how far two instances are above their exact share. */
static bool holds_more_than(const struct share *share, size_t one, size_t two)
{
    size_t all = sum_weights(share);

    return share->held[one] * all + share->lanes * weight_of(share, two) >
           share->held[two] * all + share->lanes * weight_of(share, one);
}

bool share_may_take(const struct share *share)
{
    size_t mine = share->held[share->me];

    if (mine < share_rounded_down(share, share->me))
        return true;
    return mine < share_rounded_up(share, share->me) && count_missing_of_others(share) == 0;
}

/* Of the instances that are furthest above their share only the first one releases a lane, so that
 * not two instances release one each for a single missing lane. */
static bool is_first_with_most(const struct share *share)
{
    for (size_t i = 0; i < share->instances; i++) {
        if (holds_more_than(share, i, share->me) ||
            (i < share->me && !holds_more_than(share, share->me, i)))
            return false;
    }
    return true;
}

size_t share_surplus(const struct share *share)
{
    size_t mine = share->held[share->me];
    size_t up = share_rounded_up(share, share->me);

    if (mine > up)
        return mine - up;
    return mine > share_rounded_down(share, share->me) &&
           count_missing_of_others(share) > share->free && is_first_with_most(share);
}
