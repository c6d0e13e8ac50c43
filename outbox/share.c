/* SPDX-License-Identifier: MIT */
#include "outbox/share.h"

static size_t rounded_down(const struct share *share)
{
    return share->lanes / share->instances;
}

static size_t rounded_up(const struct share *share)
{
    return (share->lanes + share->instances - 1) / share->instances;
}

/* Lanes that others need for their share. */
static size_t others_lack(const struct share *share)
{
    size_t lack = 0;

    for (size_t i = 0; i < share->instances; i++) {
        if (i != share->me && share->held[i] < rounded_down(share))
            lack += rounded_down(share) - share->held[i];
    }
    return lack;
}

bool share_may_take(const struct share *share)
{
    size_t mine = share->held[share->me];

    if (mine < rounded_down(share))
        return true;
    return mine < rounded_up(share) && others_lack(share) == 0;
}

/* Of all that hold the most, the first one gives, so that not two give for one who lacks. */
static bool is_first_of_the_richest(const struct share *share)
{
    for (size_t i = 0; i < share->instances; i++) {
        if (share->held[i] > share->held[share->me] ||
            (share->held[i] == share->held[share->me] && i < share->me))
            return false;
    }
    return true;
}

bool share_must_give(const struct share *share)
{
    size_t mine = share->held[share->me];

    if (mine > rounded_up(share))
        return true;
    return mine > rounded_down(share) && others_lack(share) > share->free &&
           is_first_of_the_richest(share);
}
