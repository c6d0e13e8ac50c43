/* SPDX-License-Identifier: MIT */
#include "producer/remark/rank_command.h"

#include "common/buf.h"
#include "common/id.h"
#include "common/options.h"
#include "producer/remark/recommended_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Not given on the command line. */
#define NOT_GIVEN INT64_MIN
#define DAY_MS 86400000.0

struct request {
    const struct settings *settings;
    struct recommended_mysql *store;
    struct buf out;
    bool json;
    int64_t remark_id;
    struct rank_weights weights;
};

static void put_weights_json(struct buf *out, const struct recommended_state *state)
{
    buf_print(out,
              "\"weights\": {\"votes\": %" PRId64 ", \"score\": %" PRId64 ", \"age\": %" PRId64
              ", \"stored\": %s}",
              state->weights.votes, state->weights.score, state->weights.age,
              state->weights_stored ? "true" : "false");
}

static void put_weights(struct buf *out, const struct recommended_state *state)
{
    buf_print(out, "weights     votes %" PRId64 ", score %" PRId64 ", age %" PRId64 " (%s)\n",
              state->weights.votes, state->weights.score, state->weights.age,
              state->weights_stored
                  ? "stored by tallybox rank set"
                  : "of the settings api.rank_votes, api.rank_score and api.rank_age");
}

static enum rc show_weights(struct request *request, struct err *err)
{
    const struct recommended_store *store = recommended_mysql_store(request->store);
    struct recommended_state state;
    enum rc rc = store->read_state(store->ctx, &state, err);

    if (rc != RC_OK)
        return rc;
    if (!request->json) {
        put_weights(&request->out, &state);
        return RC_OK;
    }
    buf_char(&request->out, '{');
    put_weights_json(&request->out, &state);
    buf_text_put(&request->out, "}\n");
    return RC_OK;
}

static enum rc set_weights(struct request *request, struct err *err)
{
    enum rc rc = rank_mysql_set(request->store, &request->weights, err);

    return rc == RC_OK ? show_weights(request, err) : rc;
}

static enum rc reset_weights(struct request *request, struct err *err)
{
    enum rc rc = rank_mysql_set(request->store, NULL, err);

    return rc == RC_OK ? show_weights(request, err) : rc;
}

/* NULL: the list has the remark. */
static const char *explain_absence(const struct request *request,
                                   const struct rank_explanation *explanation)
{
    if (explanation->deleted)
        return "the remark is being deleted";
    if (explanation->status != 1)
        return "its status is not 1";
    if (explanation->better >= request->settings->api.recommended_max)
        return "the list ends before it: api.recommended_max";
    return NULL;
}

static void put_explanation_json(struct request *request,
                                 const struct rank_explanation *explanation)
{
    struct buf *out = &request->out;

    buf_print(out,
              "{\"remark\": %" PRId64 ", \"item\": %" PRId64 ", \"status\": %" PRId64
              ", \"deleted\": %s, \"listed\": %s, \"rank\": %" PRId64 ", \"of\": %" PRId64
              ", \"window\": %" PRId64 ", \"votes\": %" PRId64 ", \"score\": %" PRId64
              ", \"ageMs\": %" PRId64 ", ",
              request->remark_id, explanation->item_id, explanation->status,
              explanation->deleted ? "true" : "false",
              explain_absence(request, explanation) ? "false" : "true", explanation->better + 1,
              explanation->listed, explanation->state.finished, explanation->votes,
              explanation->score, explanation->age_ms);
    buf_print(out, "\"points\": {\"votes\": %s, \"score\": %s, \"age\": %s, \"rank\": %s}, ",
              explanation->votes_points, explanation->score_points, explanation->age_points,
              explanation->points);
    put_weights_json(out, &explanation->state);
    buf_text_put(out, "}\n");
}

static void put_explanation(struct request *request, const struct rank_explanation *explanation)
{
    const struct rank_weights *weights = &explanation->state.weights;
    const char *absence = explain_absence(request, explanation);
    struct buf *out = &request->out;

    buf_print(out, "remark      %" PRId64 " of item %" PRId64 "\n", request->remark_id,
              explanation->item_id);
    if (absence)
        buf_print(out, "rank        not in the list: %s\n", absence);
    else
        buf_print(out, "rank        %" PRId64 " of %" PRId64 "\n", explanation->better + 1,
                  explanation->listed);
    buf_print(out, "points      %s\n", explanation->points);
    buf_print(
        out, "  votes     %s = %" PRId64 " votes as of roll-up %" PRId64 ", times %" PRId64 "\n",
        explanation->votes_points, explanation->votes, explanation->state.finished, weights->votes);
    buf_print(out, "  score     %s = a score of %" PRId64 ", times %" PRId64 "\n",
              explanation->score_points, explanation->score, weights->score);
    buf_print(out, "  less age  %s = %.3f days at the end of that roll-up, times %" PRId64 "\n",
              explanation->age_points, (double)explanation->age_ms / DAY_MS, weights->age);
    put_weights(out, &explanation->state);
}

static enum rc explain_remark(struct request *request, struct err *err)
{
    struct rank_explanation explanation;
    enum rc rc = rank_mysql_explain(request->store, request->remark_id, &explanation, err);

    if (rc != RC_OK)
        return rc;
    if (!explanation.found)
        return err_fail(err, RC_REJECT, 0, "there is no remark %" PRId64, request->remark_id);
    if (request->json)
        put_explanation_json(request, &explanation);
    else
        put_explanation(request, &explanation);
    return RC_OK;
}

struct action {
    const char *name;
    int argument_count;
    bool weights; /* takes --votes, --score and --age */
    enum rc (*run)(struct request *request, struct err *err);
};

static const struct action actions[] = {
    {"explain", 1, false, explain_remark},
    {"weights", 0, false, show_weights},
    {"set", 0, true, set_weights},
    {"reset", 0, false, reset_weights},
};

static const struct option_action described[] = {
    {"explain", "REMARK", "how the rank of a remark comes about"},
    {"weights", "", "the weights, and where they are from"},
    {"set", "--votes N --score N --age N", "store weights: all lists are ranked again"},
    {"reset", "", "remove the stored weights: those of the settings hold"},
};

static bool weight_fits(int64_t weight)
{
    return weight >= -RANK_WEIGHT_MAX && weight <= RANK_WEIGHT_MAX;
}

static bool weights_fit(const struct action *action, const struct rank_weights *weights)
{
    if (!action->weights)
        return weights->votes == NOT_GIVEN && weights->score == NOT_GIVEN &&
               weights->age == NOT_GIVEN;
    return weight_fits(weights->votes) && weight_fits(weights->score) && weight_fits(weights->age);
}

/* NULL: the arguments are wrong, which was printed. */
static const struct action *find_action(const struct options *options, struct request *request)
{
    char **arguments = options->arguments;

    for (size_t i = 0; options->argument_count > 0 && i < sizeof(actions) / sizeof(actions[0]);
         i++) {
        const struct action *action = &actions[i];

        if (strcmp(arguments[0], action->name) == 0 &&
            options->argument_count == action->argument_count + 1 &&
            weights_fit(action, &request->weights) &&
            (action->argument_count == 0 ||
             id_parse_number(arguments[1], strlen(arguments[1]), &request->remark_id)))
            return action;
    }
    fprintf(
        stderr,
        "tallybox rank: expected explain REMARK with the id of a remark, weights, reset, or set "
        "with --votes, --score and --age, each from -%d to %d\nTry `tallybox rank --help`.\n",
        RANK_WEIGHT_MAX, RANK_WEIGHT_MAX);
    return NULL;
}

static int run_action(const struct action *action, struct request *request)
{
    struct err err = {0};
    enum rc rc = recommended_mysql_open(&request->store, request->settings, 0, &err);

    if (rc == RC_OK)
        rc = action->run(request, &err);
    recommended_mysql_close(request->store);
    if (rc == RC_OK)
        return options_print(&request->out);
    buf_done(&request->out);
    return options_fail(rc, &err);
}

int rank_command(int argc, char **argv)
{
    struct request request = {.weights = {NOT_GIVEN, NOT_GIVEN, NOT_GIVEN}};
    const struct option_entry entries[] = {
        {"votes", OPTION_NUMBER, &request.weights.votes, "N", "set: points for each rolled-up vote",
         NULL},
        {"score", OPTION_NUMBER, &request.weights.score, "N",
         "set: points for each point of the score", NULL},
        {"age", OPTION_NUMBER, &request.weights.age, "N", "set: points lost with each day of age",
         NULL},
        {"json", OPTION_FLAG, &request.json, NULL, "print one JSON object", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox rank",
        .arguments = "ACTION",
        .about = "Shows how the rank of a remark in the recommended list of its item comes about, "
                 "and shows and changes the weights. The rank is votes * weight + score * weight - "
                 "days of age * weight, with the votes and the age as of the last roll-up that "
                 "ended; of equal remarks the one with the higher id is first. Every serve process "
                 "uses new weights within a second and ranks its lists again.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .actions = described,
        .action_count = sizeof(described) / sizeof(described[0]),
        .examples = "Examples:\n"
                    "  tallybox rank explain 815\n"
                    "  tallybox rank set --votes 10 --score 2 --age 1\n",
        .sections = "sink,api",
    };
    const struct action *action;
    struct options options;
    struct config *config = NULL;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    action = find_action(&options, &request);
    if (!action)
        return EXIT_USAGE;
    code = options_load(&options, &config);
    if (code >= 0)
        return code;
    request.settings = config_settings(config);
    code = run_action(action, &request);
    config_free(config);
    return code;
}
