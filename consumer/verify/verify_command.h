/* SPDX-License-Identifier: MIT */
/* `tallybox verify`: prints each check with what it looked at and found. Main thread. */
#ifndef CONSUMER_VERIFY_VERIFY_COMMAND_H
#define CONSUMER_VERIFY_VERIFY_COMMAND_H

/* EXIT_DONE only when every check held. */
int verify_command(int argc, char **argv);

#endif
