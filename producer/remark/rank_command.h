/* SPDX-License-Identifier: MIT */
/* `tallybox rank`: shows how the rank of a remark comes about, and shows and stores the weights. */
#ifndef PRODUCER_REMARK_RANK_COMMAND_H
#define PRODUCER_REMARK_RANK_COMMAND_H

/* Runs the command and returns its exit code. Main thread. */
int rank_command(int argc, char **argv);

#endif
