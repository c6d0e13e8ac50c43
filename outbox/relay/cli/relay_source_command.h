/* SPDX-License-Identifier: MIT */
/* `tallybox relay source LANE table|binlog`: changes from where a lane is read, so that no row is
 * lost and none is published twice. Main thread.
 *
 * To the binary log: under the lane's lease, a cut is made between table and log
 * (table_cut_mysql.h). The source is changed, and an old position deleted, in one transaction. The
 * rows before the cut that are not saved as published are published from the table and saved as
 * published, then the position of the cut is saved. The same continues a lane whose log was
 * deleted. To the table: the rows that are saved as published are deleted, then the source is
 * changed and the position deleted in one transaction.
 *
 * Invariant R17: a table lane runs only while its lane has neither a position nor rows saved as
 * published, and a lane that reads the log only with a position or an empty table. So after a kill
 * between the steps of a change no relay publishes a row that is published, and the same command,
 * or the one back, goes on. Guarded by tests/e2e/test_relay_source.py. */
#ifndef OUTBOX_RELAY_CLI_RELAY_SOURCE_COMMAND_H
#define OUTBOX_RELAY_CLI_RELAY_SOURCE_COMMAND_H

/* argv[0] is "relay". Returns an enum exit_code. */
int relay_source_command(int argc, char **argv);

#endif
