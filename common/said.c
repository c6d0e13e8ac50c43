/* SPDX-License-Identifier: MIT */
#include "common/said.h"

/* FNV-1a over all that is no digit. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        if (*text < '0' || *text > '9')
            hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

bool said_now(struct said *said, const char *text, int64_t now_ms, int64_t again_ms)
{
    size_t kept = said->count < SAID_MAX ? said->count : SAID_MAX;
    uint64_t hash = hash_of(text);
    size_t at;

    for (at = 0; at < kept; at++)
        if (said->list[at].hash == hash)
            break;
    if (at < kept && now_ms - said->list[at].at_ms < again_ms)
        return false;
    if (at == kept)
        at = said->count++ % SAID_MAX;
    said->list[at].hash = hash;
    said->list[at].at_ms = now_ms;
    return true;
}
