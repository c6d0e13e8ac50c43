/* SPDX-License-Identifier: MIT */
#include "outbox/lanes_command.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "outbox/lanes.h"
#include "outbox/lanes_begin_command.h"
#include "outbox/lanes_mysql.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_S 60
#define POLL_MS 200
#define PROGRESS_MS 2000

struct change {
    struct db *db;
    int64_t count; /* wanted */
    int64_t wait_ms;
    struct lanes lanes;
};

static struct stop stop; /* requested by SIGINT or SIGTERM */

static void on_signal(int number)
{
    (void)number;
    stop_request(&stop);
}

static void handle_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Decides whether to repeat a step that returned rc: RC_RETRY is repeated until the deadline or a
 * signal, and every step may be repeated. Then waits and returns RC_OK. Otherwise returns rc. */
static enum rc wait_to_retry(enum rc rc, int64_t until_ms)
{
    if (rc != RC_RETRY || os_now_ms() >= until_ms || stop_requested(&stop))
        return rc;
    stop_wait(&stop, POLL_MS);
    return RC_OK;
}

static enum rc begin_change(struct change *change, int64_t until_ms, struct err *err)
{
    for (;;) {
        enum rc rc = lanes_begin(change->db, change->count, &change->lanes, err);

        if (rc == RC_OK || wait_to_retry(rc, until_ms) != RC_OK)
            return rc;
    }
}

/* Looks at every table that has been a lane or becomes one, since a future lane may hold rows of an
 * earlier change. text describes the first lane that is not empty. */
static enum rc find_nonempty_lane(struct change *change, char *text, size_t size, bool *empty,
                                  struct err *err)
{
    const struct lanes *lanes = &change->lanes;
    int64_t count = lanes->count > lanes->next ? lanes->count : lanes->next;

    *empty = true;
    for (int64_t i = 0; i < count; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];
        struct lanes_left left;
        enum rc rc = lanes_left(change->db, (size_t)i, &left, err);

        if (rc != RC_OK)
            return rc;
        if (left.rows == 0 && left.tasks == 0)
            continue;
        *empty = false;
        outbox_lane_name(name, (size_t)i);
        snprintf(text, size, "%s has %s%" PRId64 " rows, and %" PRId64 " tasks in the retry queue",
                 name, left.rows == LANES_LEFT_MAX ? "at least " : "", left.rows, left.tasks);
        return RC_OK;
    }
    return RC_OK;
}

static enum rc wait_empty(struct change *change, int64_t until_ms, struct err *err)
{
    int64_t progress_ms = os_now_ms() + PROGRESS_MS;

    for (;;) {
        char text[160] = "";
        bool empty = false;
        enum rc rc = find_nonempty_lane(change, text, sizeof(text), &empty, err);

        if (rc == RC_OK && empty)
            return RC_OK;
        if (rc != RC_OK && wait_to_retry(rc, until_ms) != RC_OK)
            return rc;
        if (rc != RC_OK)
            continue;
        if (stop_requested(&stop))
            return err_fail(err, RC_RETRY, 0, "stopped by a signal while %s", text);
        if (os_now_ms() >= until_ms)
            return err_fail(err, RC_RETRY, 0,
                            "%s after %" PRId64
                            " s: check that a relay runs (`tallybox status`) and "
                            "that no task is parked or exhausted (`tallybox retry list`)",
                            text, change->wait_ms / 1000);
        if (os_now_ms() >= progress_ms) {
            fprintf(stderr, "tallybox lanes: waiting: %s\n", text);
            progress_ms += PROGRESS_MS;
        }
        stop_wait(&stop, POLL_MS);
    }
}

static enum rc finish_change(struct change *change, int64_t until_ms, struct err *err)
{
    for (;;) {
        enum rc rc = lanes_finish(change->db, &change->lanes, err);

        if (rc == RC_OK || wait_to_retry(rc, until_ms) != RC_OK)
            return rc;
    }
}

static bool is_settled(const struct lanes *lanes, int64_t count)
{
    return lanes->count == count && lanes->next == 0;
}

static void print_undone(const struct change *change, const struct lanes *now)
{
    struct err err = {0};

    if (is_settled(now, change->lanes.count)) {
        fprintf(stderr, "tallybox lanes: undone: the number of lanes is %" PRId64 " as before\n",
                now->count);
        return;
    }
    lanes_fail_replaced(now, &err);
    fprintf(stderr, "tallybox lanes: not undone: %s\n", err.text);
}

/* Undoes the change after a step failed with rc, so that writers continue with the old number; no
 * event is lost, because the new number was not stored. Returns RC_OK when the new number turns out
 * to be stored: the answer to that statement was lost, or another command finished the same change.
 * Otherwise returns rc. */
static enum rc undo_after(struct change *change, enum rc rc)
{
    const struct lanes *lanes = &change->lanes;
    struct err err = {0};
    struct lanes now;

    if (rc == RC_REJECT)
        return rc; /* another command replaced the change */
    if (lanes->next == 0) {
        fprintf(stderr, "tallybox lanes: nothing was changed, the number of lanes is %" PRId64 "\n",
                lanes->count);
        return rc;
    }
    if (lanes_undo(change->db, lanes, &now, &err) != RC_OK) {
        fprintf(stderr,
                "tallybox lanes: whether the change is undone is unknown (%s): see `tallybox lanes "
                "show`; while the change is under way no votes are accepted, `tallybox lanes set "
                "%" PRId64 "` undoes it, `tallybox lanes set %" PRId64 "` finishes it\n",
                err.text, lanes->count, change->count);
        return rc;
    }
    if (is_settled(&now, change->count))
        return RC_OK;
    print_undone(change, &now);
    return rc;
}

/* Undoes a change that an earlier command left unfinished. */
static enum rc undo_unfinished(struct change *change, struct err *err)
{
    struct lanes now;
    enum rc rc = lanes_undo(change->db, &change->lanes, &now, err);

    if (rc != RC_OK)
        return rc;
    if (!is_settled(&now, change->count))
        return lanes_fail_replaced(&now, err);
    printf("the change to %" PRId64 " is undone: the number of lanes is %" PRId64 "\n",
           change->lanes.next, change->count);
    return RC_OK;
}

static enum rc make_tables(struct change *change, struct err *err)
{
    for (int64_t i = 1; i < change->count; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];
        bool made = false;
        enum rc rc = lanes_make_table(change->db, (size_t)i, &made, err);

        if (rc != RC_OK)
            return rc;
        outbox_lane_name(name, (size_t)i);
        if (made)
            printf("table %s created\n", name);
    }
    return RC_OK;
}

static enum rc print_unserved(struct change *change, int64_t count, const char *advice,
                              struct err *err)
{
    bool served[LANES_MAX];
    enum rc rc = lanes_served(change->db, 0, served, err);

    for (int64_t i = 0; rc == RC_OK && i < count; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        outbox_lane_name(name, (size_t)i);
        if (!served[i])
            printf("no live relay serves %s: add a lane with this table to relay.lanes%s\n", name,
                   advice);
    }
    return rc;
}

static enum rc set_lane_count(struct change *change, struct err *err)
{
    int64_t until_ms = os_now_ms() + change->wait_ms;
    enum rc rc;

    if (is_settled(&change->lanes, change->count)) {
        printf("the number of lanes is already %" PRId64 "\n", change->count);
        return RC_OK;
    }
    if (change->lanes.count == change->count)
        return undo_unfinished(change, err);
    rc = make_tables(change, err);
    if (rc == RC_OK)
        rc = print_unserved(change, change->count, " of a relay now", err);
    if (rc != RC_OK)
        return rc;
    fflush(stdout);
    rc = begin_change(change, until_ms, err);
    if (rc == RC_OK)
        rc = wait_empty(change, until_ms, err);
    if (rc == RC_OK)
        rc = finish_change(change, until_ms, err);
    if (rc != RC_OK)
        rc = undo_after(change, rc);
    if (rc != RC_OK)
        return rc;
    printf("the number of lanes is %" PRId64 ", it was %" PRId64
           "; restart the writers with api.lane_count = %" PRId64
           ", and grant their privileges on new tables (`tallybox migrate grants`)\n",
           change->count, change->lanes.count, change->count);
    return RC_OK;
}

static enum rc print_lanes(struct change *change, struct err *err)
{
    const struct lanes *lanes = &change->lanes;

    printf("lanes      %" PRId64 "\n", lanes->count);
    if (lanes->next != 0)
        printf("change     to %" PRId64
               " is under way or was interrupted: `tallybox lanes set %" PRId64
               "` finishes it, `tallybox lanes set %" PRId64 "` undoes it; no votes are accepted\n",
               lanes->next, lanes->next, lanes->count);
    return print_unserved(change, lanes->count, "", err);
}

static int run_command(const struct settings *settings, bool shows, int64_t count, int64_t wait_s)
{
    struct change change = {.count = count, .wait_ms = wait_s * 1000};
    struct err err = {0};
    enum rc rc = stop_init(&stop, &err);

    if (rc == RC_OK)
        rc = db_open(&change.db, &settings->mysql, &err);
    if (rc == RC_OK) {
        handle_signals();
        rc = lanes_read(change.db, &change.lanes, &err);
    }
    if (rc == RC_OK)
        rc = shows ? print_lanes(&change, &err) : set_lane_count(&change, &err);
    db_close(change.db);
    stop_done(&stop);
    return rc == RC_OK ? EXIT_DONE : options_fail(rc, &err);
}

/* What the command line asks for. */
struct request {
    int64_t wait_s;
    bool replaces;
    bool json;
    bool shows;
    int64_t count;     /* of set */
    const char *begun; /* the lane of begin; NULL: another action */
};

/* Returns -1 when the arguments are valid, else the exit code. */
static int check_arguments(const struct options *options, struct request *request)
{
    char **arguments = options->arguments;
    bool of_begin = request->replaces || request->json;
    char *end = NULL;

    request->shows = options->argument_count == 1 && strcmp(arguments[0], "show") == 0;
    if (options->argument_count == 2 && strcmp(arguments[0], "begin") == 0) {
        request->begun = arguments[1];
        return -1;
    }
    if (request->shows && !of_begin)
        return -1;
    if (options->argument_count == 2 && strcmp(arguments[0], "set") == 0)
        request->count = strtoll(arguments[1], &end, 10);
    if (end && *end == '\0' && request->count >= 1 && request->count <= LANES_MAX &&
        request->wait_s >= 0 && request->wait_s <= 86400 && !of_begin)
        return -1;
    fprintf(stderr,
            "tallybox lanes: expected show, or set N with a number from 1 to %d and --wait with "
            "seconds up to 86400, or begin LANE with --replace-position and --json\nTry `tallybox "
            "lanes --help`.\n",
            LANES_MAX);
    return EXIT_USAGE;
}

int lanes_command(int argc, char **argv)
{
    struct request request = {.wait_s = WAIT_S};
    const struct option_entry entries[] = {
        {"wait", OPTION_NUMBER, &request.wait_s, "SECONDS",
         "with set: how long to wait until the lanes are empty; default 60", NULL},
        {"replace-position", OPTION_FLAG, &request.replaces, NULL,
         "with begin: also if the lane has a position; rows between it and the end of the log are "
         "then not published",
         NULL},
        {"json", OPTION_FLAG, &request.json, NULL, "with begin: print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox lanes",
        .arguments = "show | set N | begin LANE",
        .about =
            "Shows or changes the number of lanes (outbox tables) that votes are distributed over. "
            "During a change writers answer 503 until every lane is empty and its rows are "
            "acknowledged: this keeps the order of each key. A change that takes longer than "
            "--wait is undone, and the exit code is 3. If this command was killed, run it again, "
            "or set the old number to undo the change. Missing tables are created.\n\n"
            "begin lets a lane with source = binlog begin at the present end of the binary log: "
            "the rows that its table has so far count as published. It is needed once if the table "
            "has rows and the lane has no position. No relay may hold the lane meanwhile.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox lanes show\n"
                    "  tallybox lanes set 4 --wait 300\n"
                    "  tallybox lanes begin outbox\n",
        .sections = "mysql,relay," SETTINGS_LANE,
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
    if (request.begun)
        code = lanes_begin_at_end(config_settings(config), request.begun, request.replaces,
                                  request.json);
    else
        code = run_command(config_settings(config), request.shows, request.count, request.wait_s);
    config_free(config);
    return code;
}
