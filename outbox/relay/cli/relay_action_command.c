/* SPDX-License-Identifier: MIT */
#include "outbox/relay/cli/relay_action_command.h"

#include "common/nearest.h"
#include "outbox/relay/cli/relay_missing_command.h"
#include "outbox/relay/cli/relay_replay_command.h"
#include "outbox/relay/cli/relay_source_command.h"

#include <stdio.h>
#include <string.h>

/* runners[i] runs relay_actions[i]: argv[0] is "relay", and the word of the action is left out.
 * Both lists end with an entry without a name. */
typedef int action_runner(int argc, char **argv);

const struct option_action relay_actions[] = {
    {"replay", "LANE", "publishes events again that the lane keeps"},
    {"publish-missing", "LANE", "publishes rows that never came through the binary log"},
    {"source", "LANE table|binlog", "changes from where a lane is read"},
    {NULL, NULL, NULL},
};
const size_t relay_action_count = sizeof(relay_actions) / sizeof(relay_actions[0]) - 1;

static action_runner *const runners[] = {
    relay_replay_command,
    relay_missing_command,
    relay_source_command,
    NULL,
};
_Static_assert(sizeof(runners) / sizeof(runners[0]) ==
                   sizeof(relay_actions) / sizeof(relay_actions[0]),
               "each action has a runner");

/* Returns the index of the first word that is neither an option nor the value of one; 0: none. */
static int find_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return i;
        if (strcmp(argv[i], "--config") == 0 || strcmp(argv[i], "--set") == 0)
            i++;
    }
    return 0;
}

bool relay_action_asked(int argc, char **argv)
{
    return find_word(argc, argv) > 0;
}

static int refuse_word(const char *word)
{
    struct nearest nearest = {.typed = word};

    for (size_t i = 0; i < relay_action_count; i++)
        nearest_offer(&nearest, relay_actions[i].name);
    fprintf(stderr, "tallybox relay: there is no action \"%s\"", word);
    if (nearest.word)
        fprintf(stderr, "; did you mean \"%s\"?", nearest.word);
    fprintf(stderr, "\nTry `tallybox relay --help`.\n");
    return EXIT_USAGE;
}

int relay_action_command(int argc, char **argv)
{
    int at = find_word(argc, argv);
    const char *word = argv[at];

    for (size_t i = 0; i < relay_action_count; i++) {
        if (strcmp(relay_actions[i].name, word) != 0)
            continue;
        for (int j = at; j < argc; j++)
            argv[j] = argv[j + 1]; /* with the NULL at the end */
        return runners[i](argc - 1, argv);
    }
    return refuse_word(word);
}
