/* SPDX-License-Identifier: MIT */
/* The vote event on the wire: an accepted event keeps the rules and survives a round trip. */
#include "schema/vote_event.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static bool same(const struct vote_event *a, const struct vote_event *b)
{
    return memcmp(&a->event_id, &b->event_id, sizeof(a->event_id)) == 0 &&
           a->voter_id == b->voter_id && a->content_id == b->content_id && a->voting == b->voting &&
           a->votes == b->votes && a->occurred_ms == b->occurred_ms;
}

static void check_bounds(const struct vote_event *event)
{
    fuzz_must(event->voter_id >= 1 && event->content_id >= 1, "ids are above zero");
    fuzz_must(event->voting == 0 || event->voting == 1, "voting is 0 or 1");
    fuzz_must(event->votes >= 0 || event->votes == VOTE_EVENT_VOTES_UNKNOWN, "votes are counted");
    fuzz_must(event->occurred_ms >= VOTE_EVENT_OCCURRED_MS_MIN &&
                  event->occurred_ms < VOTE_EVENT_OCCURRED_MS_MAX,
              "the time is one of this century");
}

static void check_round(const struct vote_event *event)
{
    struct vote_event again;
    struct buf out = {0};

    vote_event_encode(event, &out);
    fuzz_must(!out.failed, "an event can be written");
    fuzz_must(vote_event_decode(&again, out.data, out.len, NULL) == RC_OK && same(event, &again),
              "what was written is read again");
    buf_done(&out);
}

/* A blank means nothing in JSON, but sends the reader the thorough way. */
static void check_thorough(const struct vote_event *event, const uint8_t *data, size_t size)
{
    struct vote_event again;
    uint8_t *spaced = malloc(size + 1);

    fuzz_must(spaced != NULL, "there is memory");
    spaced[0] = ' ';
    memcpy(spaced + 1, data, size);
    if (size < VOTE_EVENT_BYTES_MAX)
        fuzz_must(vote_event_decode(&again, spaced, size + 1, NULL) == RC_OK && same(event, &again),
                  "the quick way and the thorough way read the same");
    free(spaced);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct vote_event untouched = {.voter_id = -7, .votes = -7};
    struct vote_event event = untouched;
    struct err err = {0};
    enum rc rc = vote_event_decode(&event, data, size, &err);

    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a value is taken or refused");
    if (rc == RC_REJECT) {
        fuzz_must_be_sentence(err.text);
        fuzz_must(err.code == VOTE_EVENT_FAULT_DECODE || err.code == VOTE_EVENT_FAULT_RULE,
                  "a refusal has its class");
        fuzz_must(same(&event, &untouched), "a refusal leaves the event alone");
        return 0;
    }
    check_bounds(&event);
    check_round(&event);
    check_thorough(&event, data, size);
    return 0;
}
