/* SPDX-License-Identifier: MIT */
/* Logs where the process crashed, before it ends of it. */
#ifndef COMMON_DAEMON_CRASH_H
#define COMMON_DAEMON_CRASH_H

/* From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT log the event `crashed` with the signal,
 * the address (of a fault; otherwise a number that tells who sent the signal), the thread and the
 * stack as offsets into each file (for addr2line -e FILE OFFSET). Then the process ends of the
 * signal as it would have done, with a core file where the system writes one; if the event cannot
 * be written because of a lock of the crashed thread, it ends of SIGALRM after 10 s. A handler that
 * is already there, as that of a sanitizer, stays. A thread whose stack is exhausted, or that
 * blocks these signals, ends the process without the event. Main thread only, before others start.
 */
void crash_init(void);

/* Lets the calling thread, which blocks all signals, log a crash. For threads of libraries. */
void crash_unblock(void);

#endif
