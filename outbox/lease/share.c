/* SPDX-License-Identifier: MIT */
#include "outbox/lease/share.h"

#include <assert.h>

static size_t weight_of(const struct share *share, size_t i)
{
    return share->weights ? (size_t)share->weights[i] : 1;
}

static size_t weight_of_all(const struct share *share)
{
    size_t sum = 0;

    for (size_t i = 0; i < share->instances; i++)
        sum += weight_of(share, i);
    assert(sum > 0);
    return sum;
}

static size_t rounded_down(const struct share *share, size_t i)
{
    return share->lanes * weight_of(share, i) / weight_of_all(share);
}

static size_t rounded_up(const struct share *share, size_t i)
{
    size_t all = weight_of_all(share);

    return (share->lanes * weight_of(share, i) + all - 1) / all;
}

/* Lanes that others need for their share. */
static size_t others_lack(const struct share *share)
{
    size_t lack = 0;

    for (size_t i = 0; i < share->instances; i++) {
        size_t down = rounded_down(share, i);

        if (i != share->me && share->held[i] < down)
            lack += down - share->held[i];
    }
    return lack;
}

/* Does one hold more than two, beside its share? */
static bool is_richer(const struct share *share, size_t one, size_t two)
{
    size_t all = weight_of_all(share);

    return share->held[one] * all + share->lanes * weight_of(share, two) >
           share->held[two] * all + share->lanes * weight_of(share, one);
}

bool share_may_take(const struct share *share)
{
    size_t mine = share->held[share->me];

    if (mine < rounded_down(share, share->me))
        return true;
    return mine < rounded_up(share, share->me) && others_lack(share) == 0;
}

/* Of all that hold the most beside their share, the first one gives, so that not two give for one
 * who lacks. */
static bool is_first_of_the_richest(const struct share *share)
{
    for (size_t i = 0; i < share->instances; i++) {
        if (is_richer(share, i, share->me) || (i < share->me && !is_richer(share, share->me, i)))
            return false;
    }
    return true;
}

size_t share_surplus(const struct share *share)
{
    size_t mine = share->held[share->me];
    size_t up = rounded_up(share, share->me);

    if (mine > up)
        return mine - up;
    return mine > rounded_down(share, share->me) && others_lack(share) > share->free &&
           is_first_of_the_richest(share);
}
