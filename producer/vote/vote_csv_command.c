/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_csv_command.h"

#include "common/options.h"
#include "common/os.h"
#include "common/progress.h"
#include "producer/vote/vote_csv.h"
#include "producer/vote/vote_run_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define READ_BYTES 65536
#define BAD_SHOWN_MAX 20

/* The import of one file. */
struct import {
    const char *name; /* of the file, for messages */
    gzFile file;
    off_t bytes; /* size of the file as stored; 0: unknown */
    struct vote_run run;
    struct vote_csv csv;
    struct progress progress;
    char chunk[READ_BYTES];
    struct vote_item items[VOTE_RUN_ITEMS_MAX];
    uint64_t lines[VOTE_RUN_ITEMS_MAX]; /* the line of each item */
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
    progress_clear(&import->progress);
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
    rc = vote_run_items(&import->run, import->items, import->count, err);
    if (rc != RC_OK)
        return rc;
    count_items(import);
    if (import->bytes > 0)
        progress_share(&import->progress, (double)gzoffset(import->file) / (double)import->bytes);
    progress_step(&import->progress, import->count, os_now_ms());
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
        return import->count == VOTE_RUN_ITEMS_MAX ? run_batch(import, err) : RC_OK;
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
    enum rc rc = vote_run_open(&import->run, settings, &err);

    progress_open(&import->progress, "votes", 0, start_ms);
    if (rc == RC_OK)
        rc = read_file(import, &err);
    progress_close(&import->progress, os_now_ms());
    if (import->csv.column_count > 0)
        print_summary(import, os_now_ms() - start_ms, json);
    if (rc != RC_OK && import->count > 0)
        fprintf(stderr,
                "tallybox: %s: all votes up to line %" PRIu64 " were counted; importing the "
                "whole file again is harmless\n",
                import->name, import->committed_line);
    if (rc != RC_OK)
        return vote_run_fail(rc, &err);
    return import->bad > 0 ? EXIT_FAILED : EXIT_DONE;
}

int vote_csv_run(const struct settings *settings, const char *path, bool json)
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
        vote_run_close(&import->run);
    }
    free(import);
    return code;
}
