/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_command.h"

#include "common/buf.h"
#include "common/id.h"
#include "common/options.h"
#include "common/os.h"
#include "common/progress_bar.h"
#include "producer/vote/vote_csv.h"
#include "producer/vote/vote_json.h"
#include "producer/vote/vote_runner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

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
    if (!id_parse_number(arguments[0], strlen(arguments[0]), &request->voter_id))
        return fail_usage("VOTER must be a number, " ID_NUMBER_RANGE ", not \"%s\"", arguments[0]);
    if (!id_parse_number(arguments[1], strlen(arguments[1]), &request->content_id))
        return fail_usage("CONTENT must be a number, " ID_NUMBER_RANGE ", not \"%s\"",
                          arguments[1]);
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
    struct vote_runner runner;
    struct err err = {0};
    enum rc rc = vote_runner_open(&runner, settings, &err);

    if (rc == RC_OK)
        rc = vote_runner_run(&runner, &item, 1, &err);
    vote_runner_close(&runner);
    if (rc != RC_OK)
        return vote_runner_fail(rc, &err);
    if (item.outcome == VOTE_REFUSED)
        return EXIT_FAILED; /* the engine has logged the reason */
    if (item.outcome == VOTE_DELETED) {
        fprintf(stderr, "tallybox: content %" PRId64 " is deleted and takes no more votes\n",
                item.content_id);
        return EXIT_FAILED;
    }
    print_item(&item, request->json);
    return EXIT_DONE;
}

#define READ_BYTES 65536
#define BAD_SHOWN_MAX 20

/* `vote --csv`: the import of one file. */
struct import {
    const char *name; /* of the file, for messages */
    gzFile file;
    off_t bytes; /* size of the file as stored; 0: unknown */
    struct vote_runner runner;
    struct vote_csv csv;
    struct progress_bar progress;
    char chunk[READ_BYTES];
    struct vote_item items[VOTE_RUNNER_ITEMS_MAX];
    uint64_t lines[VOTE_RUNNER_ITEMS_MAX]; /* the line of each item */
    size_t count;
    uint64_t changed;
    uint64_t unchanged;
    uint64_t bad;
    uint64_t committed_line; /* all lines up to this one have their outcome */
};

static void report_bad_line(struct import *import, uint64_t line, const char *reason)
{
    if (import->bad++ >= BAD_SHOWN_MAX)
        return;
    progress_bar_clear(&import->progress);
    fprintf(stderr, "tallybox: %s, line %" PRIu64 ": %s\n", import->name, line, reason);
    if (import->bad == BAD_SHOWN_MAX)
        fprintf(stderr, "tallybox: %s: further bad lines are counted but not shown\n",
                import->name);
}

static void count_items(struct import *import)
{
    for (size_t i = 0; i < import->count; i++) {
        const struct vote_item *item = &import->items[i];

        if (item->outcome == VOTE_REFUSED)
            report_bad_line(import, import->lines[i], "refused by the database");
        else if (item->outcome == VOTE_DELETED)
            report_bad_line(import, import->lines[i], "the content is deleted");
        else if (item->changed)
            import->changed++;
        else
            import->unchanged++;
    }
}

static enum rc run_batch(struct import *import, struct err *err)
{
    enum rc rc;

    if (import->count == 0)
        return RC_OK;
    rc = vote_runner_run(&import->runner, import->items, import->count, err);
    if (rc != RC_OK)
        return rc;
    count_items(import);
    if (import->bytes > 0)
        progress_bar_set_share(&import->progress,
                               (double)gzoffset(import->file) / (double)import->bytes);
    progress_bar_step(&import->progress, import->count, os_now_ms());
    import->committed_line = import->lines[import->count - 1];
    import->count = 0;
    return RC_OK;
}

static enum rc take_found(struct import *import, enum vote_csv_found found,
                          const struct vote_csv_vote *vote, struct err *err)
{
    switch (found) {
    case VOTE_CSV_MORE:
        return RC_OK;
    case VOTE_CSV_VOTE:
        import->items[import->count] = (struct vote_item){
            .voter_id = vote->voter_id, .content_id = vote->content_id, .voting = vote->voting};
        import->lines[import->count++] = import->csv.line;
        return import->count == VOTE_RUNNER_ITEMS_MAX ? run_batch(import, err) : RC_OK;
    case VOTE_CSV_BAD:
        report_bad_line(import, import->csv.line, import->csv.reason);
        return RC_OK;
    case VOTE_CSV_NO_HEADER:
        return err_fail(err, RC_FATAL, 0, "%s: %s", import->name, import->csv.reason);
    }
    return RC_FATAL;
}

static enum rc take_chunk(struct import *import, size_t len, struct err *err)
{
    struct vote_csv_vote vote;
    size_t at = 0;

    while (at < len) {
        size_t used = 0;
        enum vote_csv_found found =
            vote_csv_feed(&import->csv, import->chunk + at, len - at, &used, &vote);
        enum rc rc = take_found(import, found, &vote, err);

        if (rc != RC_OK)
            return rc;
        at += used;
    }
    return RC_OK;
}

static enum rc fail_read(struct import *import, struct err *err)
{
    int code = Z_OK;
    const char *text = gzerror(import->file, &code);

    if (code == Z_ERRNO)
        text = strerror(errno);
    else if (code == Z_BUF_ERROR)
        text = "the gzip data is incomplete";
    return err_fail(err, RC_FATAL, 0, "%s: cannot be read after line %" PRIu64 ": %s", import->name,
                    import->csv.line, text);
}

static enum rc read_file(struct import *import, struct err *err)
{
    struct vote_csv_vote vote;
    int code = Z_OK;
    int len;
    enum rc rc;

    while ((len = gzread(import->file, import->chunk, READ_BYTES)) > 0) {
        rc = take_chunk(import, (size_t)len, err);
        if (rc != RC_OK)
            return rc;
    }
    gzerror(import->file, &code);
    if (len < 0 || code != Z_OK) {
        /* Complete lines count, the incomplete one does not. */
        rc = run_batch(import, err);
        return rc == RC_OK ? fail_read(import, err) : rc;
    }
    rc = take_found(import, vote_csv_end(&import->csv, &vote), &vote, err);
    return rc == RC_OK ? run_batch(import, err) : rc;
}

/* False: the file cannot be opened, which has been reported. */
static bool open_file(struct import *import, const char *path)
{
    bool piped = strcmp(path, "-") == 0;
    struct stat about;
    int fd = -1;

    import->name = piped ? "standard input" : path;
    if (piped)
        fd = dup(STDIN_FILENO);
    errno = 0;
    import->file = piped ? gzdopen(fd, "rb") : gzopen(path, "rb");
    if (!import->file) {
        fprintf(stderr, "tallybox: %s: %s\n", import->name,
                errno ? strerror(errno) : "out of memory");
        if (fd >= 0)
            close(fd);
        return false;
    }
    gzbuffer(import->file, READ_BYTES);
    if (!piped && stat(path, &about) == 0 && S_ISREG(about.st_mode))
        import->bytes = about.st_size;
    return true;
}

static void print_summary(const struct import *import, int64_t spent_ms, bool json)
{
    uint64_t votes = import->changed + import->unchanged;
    double seconds = (double)(spent_ms > 0 ? spent_ms : 1) / 1000;
    double rate = (double)votes / seconds;

    if (json)
        printf("{\"read\":%" PRIu64 ",\"changed\":%" PRIu64 ",\"unchanged\":%" PRIu64
               ",\"bad\":%" PRIu64 ",\"lines\":%" PRIu64 ",\"seconds\":%.3f,\"perSecond\":%.0f}\n",
               votes + import->bad, import->changed, import->unchanged, import->bad,
               import->csv.line, seconds, rate);
    else
        printf("read       %" PRIu64 " votes in %" PRIu64 " lines\nchanged    %" PRIu64
               "\nunchanged  %" PRIu64 "\nbad        %" PRIu64
               "\ntime       %.1f s, %.0f votes/s\n",
               votes + import->bad, import->csv.line, import->changed, import->unchanged,
               import->bad, seconds, rate);
}

static int run_import(struct import *import, const struct settings *settings, bool json)
{
    struct err err = {0};
    int64_t start_ms = os_now_ms();
    enum rc rc = vote_runner_open(&import->runner, settings, &err);

    progress_bar_open(&import->progress, "votes", 0, start_ms);
    if (rc == RC_OK)
        rc = read_file(import, &err);
    progress_bar_close(&import->progress, os_now_ms());
    if (import->csv.column_count > 0)
        print_summary(import, os_now_ms() - start_ms, json);
    if (rc != RC_OK && import->count > 0)
        fprintf(stderr,
                "tallybox: %s: all votes up to line %" PRIu64 " were counted; importing the "
                "whole file again is harmless\n",
                import->name, import->committed_line);
    if (rc != RC_OK)
        return vote_runner_fail(rc, &err);
    return import->bad > 0 ? EXIT_FAILED : EXIT_DONE;
}

int vote_import(const struct settings *settings, const char *path, bool json)
{
    struct import *import = calloc(1, sizeof(*import));
    struct err err = {0};
    int code = EXIT_USAGE;

    if (!import) {
        err_set(&err, "no memory to read %s", path);
        return options_fail(RC_FATAL, &err);
    }
    vote_csv_init(&import->csv);
    if (open_file(import, path)) {
        code = run_import(import, settings, json);
        gzclose_r(import->file);
        vote_runner_close(&import->runner);
    }
    free(import);
    return code;
}

int vote_command(int argc, char **argv)
{
    struct request request = {0};
    const struct option_entry entries[] = {
        {"undo", OPTION_FLAG, &request.undo, NULL, "take the vote back", NULL},
        {"csv", OPTION_TEXT, &request.csv, "FILE",
         "vote for each line; \"-\" is standard input, gzip is unpacked", NULL},
        {"json", OPTION_FLAG, &request.json, NULL, "print the outcome as JSON", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox vote",
        .role = "serve",
        .arguments = "VOTER CONTENT | --csv FILE",
        .about = "Votes for a content, or takes a vote back, in the database of [mysql]. Voting is "
                 "idempotent: a repeat changes nothing and makes no event. A CSV file names its "
                 "columns in the first line: voter_id, content_id and optionally voting (0 or "
                 "1). Bad lines and votes on deleted contents are reported and skipped; the exit "
                 "code is then 1.",
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
    code = request.csv ? vote_import(config_settings(config), request.csv, request.json)
                       : run_one_vote(config_settings(config), &request);
    config_free(config);
    return code;
}
