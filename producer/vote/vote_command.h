/* SPDX-License-Identifier: MIT */
/* `tallybox vote`: votes without HTTP, through the same engine. Main thread. */
#ifndef PRODUCER_VOTE_VOTE_COMMAND_H
#define PRODUCER_VOTE_VOTE_COMMAND_H

/* Returns an enum exit_code. */
int vote_command(int argc, char **argv);

#endif
