/* SPDX-License-Identifier: MIT */
/* Votes as CSV: cut into pieces anywhere, a file is read as it is in one piece; and the command
 * that imports a file, plain or gzip, on an engine that takes every vote.
 *
 *     the first byte says how the pieces are cut, the rest is the file */
#include "producer/vote/vote_csv.h"
#include "common/options.h"

#include "producer/vote/vote_command.h"
#include "producer/vote/vote_runner.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <unistd.h>

struct seen {
    uint64_t count;
    uint64_t bad;
    uint64_t hash; /* of all votes, lines and reasons in their order */
};

static struct seen imported; /* the votes that the command's engine got */

static void hash_put(struct seen *seen, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        seen->hash = (seen->hash ^ at[i]) * UINT64_C(1099511628211);
}

static void check_vote(int64_t voter_id, int64_t content_id, uint8_t voting)
{
    fuzz_must(voter_id >= 1 && content_id >= 1 && voting <= 1, "a vote keeps its rules");
}

/* False: nothing can be read behind it. */
static bool look(struct seen *seen, enum vote_csv_found found, const struct vote_csv *csv,
                 const struct vote_csv_vote *vote)
{
    switch (found) {
    case VOTE_CSV_MORE:
        return true;
    case VOTE_CSV_VOTE:
        check_vote(vote->voter_id, vote->content_id, vote->voting);
        hash_put(seen, &vote->voter_id, sizeof(vote->voter_id));
        hash_put(seen, &vote->content_id, sizeof(vote->content_id));
        hash_put(seen, &vote->voting, sizeof(vote->voting));
        seen->count++;
        break;
    case VOTE_CSV_BAD:
    case VOTE_CSV_NO_HEADER:
        fuzz_must_be_sentence(csv->reason);
        hash_put(seen, csv->reason, strlen(csv->reason));
        seen->bad++;
        break;
    }
    hash_put(seen, &csv->line, sizeof(csv->line));
    return found != VOTE_CSV_NO_HEADER;
}

static bool feed(struct vote_csv *csv, const char *bytes, size_t len, struct seen *seen)
{
    size_t at = 0;

    while (at < len) {
        struct vote_csv_vote vote;
        size_t used = 0;
        enum vote_csv_found found = vote_csv_feed(csv, bytes + at, len - at, &used, &vote);

        fuzz_must(used > 0 && used <= len - at, "reading goes on and stays inside");
        at += used;
        if (!look(seen, found, csv, &vote))
            return false;
    }
    return true;
}

static struct seen read_in_pieces(const struct fuzz_input *input, size_t piece)
{
    struct vote_csv csv;
    struct vote_csv_vote vote;
    struct seen seen = {0};
    bool goes_on = true;

    vote_csv_init(&csv);
    for (size_t at = 0; goes_on && at < input->size; at += piece) {
        size_t left = input->size - at;

        goes_on = feed(&csv, (const char *)input->data + at, left < piece ? left : piece, &seen);
    }
    if (goes_on)
        look(&seen, vote_csv_end(&csv, &vote), &csv, &vote);
    return seen;
}

enum rc vote_runner_open(struct vote_runner *runner, const struct settings *settings,
                         struct err *err)
{
    (void)runner;
    (void)settings;
    (void)err;
    return RC_OK;
}

int vote_runner_fail(enum rc rc, const struct err *err)
{
    return options_fail(rc, err);
}

void vote_runner_close(struct vote_runner *runner)
{
    (void)runner;
}

enum rc vote_runner_run(struct vote_runner *runner, struct vote_item *items, size_t count,
                        struct err *err)
{
    (void)runner;
    (void)err;
    fuzz_must(count > 0 && count <= VOTE_RUNNER_ITEMS_MAX, "a batch keeps its bound");
    for (size_t i = 0; i < count; i++) {
        check_vote(items[i].voter_id, items[i].content_id, items[i].voting);
        items[i].outcome = VOTE_DONE;
    }
    imported.count += count;
    return RC_OK;
}

static void import_file(const struct fuzz_input *input, const struct seen *expected, bool packed)
{
    char path[FUZZ_PATH_SIZE];
    int fd = fuzz_file(input->data, input->size, path);
    int code;

    memset(&imported, 0, sizeof(imported));
    code = vote_import(NULL, path, false);
    close(fd);
    if (packed)
        return;
    fuzz_must(imported.count == expected->count, "the command counts what the reader finds");
    fuzz_must((code == 0) == (expected->bad == 0), "the exit code says whether lines were bad");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t how = fuzz_byte(&input);
    bool packed = input.size >= 2 && input.data[0] == 0x1f && input.data[1] == 0x8b;
    struct seen whole = read_in_pieces(&input, input.size + 1);
    struct seen pieces = read_in_pieces(&input, 1 + how % 64);

    fuzz_must(memcmp(&whole, &pieces, sizeof(whole)) == 0, "where pieces end does not matter");
    fuzz_silence();
    if (packed || how >= 128)
        import_file(&input, &whole, packed);
    return 0;
}
