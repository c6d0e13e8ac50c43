/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_command.h"

#include "common/buf.h"
#include "common/options.h"
#include "producer/vote/vote_csv_command.h"
#include "producer/vote/vote_id.h"
#include "producer/vote/vote_json.h"
#include "producer/vote/vote_run_command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct wish {
    bool undo;
    bool json;
    const char *csv;
    int64_t voter_id;
    int64_t content_id;
};

__attribute__((format(printf, 1, 2))) static int usage_fail(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "tallybox vote: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry `tallybox vote --help`.\n");
    return EXIT_USAGE;
}

static int arguments_check(const struct options *options, struct wish *wish)
{
    char **arguments = options->arguments;

    if (wish->csv && options->argument_count > 0)
        return usage_fail("--csv and \"%s\" exclude each other", arguments[0]);
    if (wish->csv && wish->undo)
        return usage_fail("with --csv the column voting takes votes back, not --undo");
    if (wish->csv)
        return -1;
    if (options->argument_count != 2)
        return usage_fail("expected VOTER and CONTENT, or --csv FILE");
    if (!vote_id_parse(arguments[0], strlen(arguments[0]), &wish->voter_id))
        return usage_fail("VOTER must be a number, " VOTE_ID_RANGE ", not \"%s\"", arguments[0]);
    if (!vote_id_parse(arguments[1], strlen(arguments[1]), &wish->content_id))
        return usage_fail("CONTENT must be a number, " VOTE_ID_RANGE ", not \"%s\"", arguments[1]);
    return -1;
}

static void item_print(const struct vote_item *item, bool json)
{
    struct buf out = {0};

    if (json) {
        vote_json_put(&out, item);
        printf("%s\n", buf_text(&out));
        buf_done(&out);
        return;
    }
    printf("voter %" PRId64 " %s content %" PRId64 "%s; it has %" PRId64 " vote%s\n",
           item->voter_id, item->voting == 1 ? "votes for" : "does not vote for", item->content_id,
           item->changed ? "" : ", as before", item->votes, item->votes == 1 ? "" : "s");
}

static int vote_one(const struct settings *settings, const struct wish *wish)
{
    struct vote_item item = {
        .voter_id = wish->voter_id, .content_id = wish->content_id, .voting = wish->undo ? 0 : 1};
    struct vote_run run;
    struct err err = {0};
    enum rc rc = vote_run_open(&run, settings, &err);

    if (rc == RC_OK)
        rc = vote_run_items(&run, &item, 1, &err);
    vote_run_close(&run);
    if (rc != RC_OK)
        return vote_run_fail(rc, &err);
    if (item.outcome == VOTE_REFUSED)
        return EXIT_FAILED; /* the engine has said why */
    item_print(&item, wish->json);
    return EXIT_DONE;
}

int vote_command(int argc, char **argv)
{
    struct wish wish = {0};
    const struct option_entry entries[] = {
        {"undo", OPTION_FLAG, &wish.undo, NULL, "take the vote back"},
        {"csv", OPTION_TEXT, &wish.csv, "FILE",
         "vote line by line; \"-\" is standard input, gzip is fine"},
        {"json", OPTION_FLAG, &wish.json, NULL, "print the outcome as JSON"},
    };
    const struct option_parse parse = {
        .command = "tallybox vote",
        .arguments = "VOTER CONTENT | --csv FILE",
        .about = "Votes for a content, or takes a vote back, in the database of [mysql]. Voting is "
                 "idempotent: a repeat changes nothing and makes no event. A CSV file names its "
                 "columns in the first line: voter_id, content_id and, if it is there, voting (0 "
                 "or 1). Bad lines are named and left out; the exit code is then 1.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox vote 7 42\n"
                    "  tallybox vote 7 42 --undo\n"
                    "  zcat votes.csv.gz | tallybox vote --csv -\n",
    };
    struct options options;
    struct config *config = NULL;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = arguments_check(&options, &wish);
    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    code = wish.csv ? vote_csv_run(config_settings(config), wish.csv, wish.json)
                    : vote_one(config_settings(config), &wish);
    config_free(config);
    return code;
}
