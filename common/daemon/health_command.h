/* SPDX-License-Identifier: MIT */
/* `tallybox health`: whether a process on this machine is healthy or ready, for supervisors that
 * run a command instead of sending a request. Main thread. */
#ifndef COMMON_DAEMON_HEALTH_COMMAND_H
#define COMMON_DAEMON_HEALTH_COMMAND_H

int health_command(int argc, char **argv);

#endif
