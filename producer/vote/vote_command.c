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

struct request {
    bool undo;
    bool json;
    const char *csv;
    int64_t voter_id;
    int64_t content_id;
};

__attribute__((format(printf, 1, 2))) static int fail_usage(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "tallybox vote: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry `tallybox vote --help`.\n");
    return EXIT_USAGE;
}

static int check_arguments(const struct options *options, struct request *request)
{
    char **arguments = options->arguments;

    if (request->csv && options->argument_count > 0)
        return fail_usage("--csv cannot be combined with \"%s\"", arguments[0]);
    if (request->csv && request->undo)
        return fail_usage(
            "--csv cannot be combined with --undo; the column voting takes votes back");
    if (request->csv)
        return -1;
    if (options->argument_count != 2)
        return fail_usage("expected VOTER and CONTENT, or --csv FILE");
    if (!vote_id_parse(arguments[0], strlen(arguments[0]), &request->voter_id))
        return fail_usage("VOTER must be a number, " VOTE_ID_RANGE ", not \"%s\"", arguments[0]);
    if (!vote_id_parse(arguments[1], strlen(arguments[1]), &request->content_id))
        return fail_usage("CONTENT must be a number, " VOTE_ID_RANGE ", not \"%s\"", arguments[1]);
    return -1;
}

static void print_item(const struct vote_item *item, bool json)
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

static int run_one_vote(const struct settings *settings, const struct request *request)
{
    struct vote_item item = {.voter_id = request->voter_id,
                             .content_id = request->content_id,
                             .voting = request->undo ? 0 : 1};
    struct vote_run run;
    struct err err = {0};
    enum rc rc = vote_run_open(&run, settings, &err);

    if (rc == RC_OK)
        rc = vote_run_items(&run, &item, 1, &err);
    vote_run_close(&run);
    if (rc != RC_OK)
        return vote_run_fail(rc, &err);
    if (item.outcome == VOTE_REFUSED)
        return EXIT_FAILED; /* the engine has logged the reason */
    print_item(&item, request->json);
    return EXIT_DONE;
}

int vote_command(int argc, char **argv)
{
    struct request request = {0};
    const struct option_entry entries[] = {
        {"undo", OPTION_FLAG, &request.undo, NULL, "take the vote back"},
        {"csv", OPTION_TEXT, &request.csv, "FILE",
         "vote for each line; \"-\" is standard input, gzip is unpacked"},
        {"json", OPTION_FLAG, &request.json, NULL, "print the outcome as JSON"},
    };
    const struct option_parse parse = {
        .command = "tallybox vote",
        .arguments = "VOTER CONTENT | --csv FILE",
        .about = "Votes for a content, or takes a vote back, in the database of [mysql]. Voting is "
                 "idempotent: a repeat changes nothing and makes no event. A CSV file names its "
                 "columns in the first line: voter_id, content_id and optionally voting (0 or "
                 "1). Bad lines are reported and skipped; the exit code is then 1.",
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
        code = check_arguments(&options, &request);
    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    code = request.csv ? vote_csv_run(config_settings(config), request.csv, request.json)
                       : run_one_vote(config_settings(config), &request);
    config_free(config);
    return code;
}
