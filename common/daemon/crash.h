/* SPDX-License-Identifier: MIT */
/* Logs where the process crashed, before it ends of it. */
#ifndef COMMON_DAEMON_CRASH_H
#define COMMON_DAEMON_CRASH_H

/* From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT log the event `crashed` with the signal,
 * the address, the thread and the stack as offsets into each file (for addr2line -e FILE OFFSET).
 * Then the process ends of the signal as it would have done, with a core file where the system
 * writes one. A handler that is already there, as that of a sanitizer, stays. A thread whose stack
 * is exhausted ends without the event. Main thread only, before others start. */
void crash_init(void);

#endif
