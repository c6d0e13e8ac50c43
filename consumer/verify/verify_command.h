/* SPDX-License-Identifier: MIT */
/* `tallybox verify`: runs the checks and prints their results. Main thread. */
#ifndef CONSUMER_VERIFY_VERIFY_COMMAND_H
#define CONSUMER_VERIFY_VERIFY_COMMAND_H

/* Returns EXIT_DONE only if no check found a violation. */
int verify_command(int argc, char **argv);

#endif
