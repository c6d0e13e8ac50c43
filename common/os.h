/* SPDX-License-Identifier: MIT */
/* The only module that reads clocks, random bits, names and the environment of the service manager.
 * All other code gets time and randomness as parameters. Any thread. */
#ifndef COMMON_OS_H
#define COMMON_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Milliseconds and microseconds of a clock that is never set and continues while the machine is
 * suspended (CLOCK_BOOTTIME). Only differences are meaningful. */
int64_t os_now_ms(void);
int64_t os_now_us(void);

/* Milliseconds since 1970, UTC. May jump; never used to measure a duration. */
int64_t os_wall_ms(void);

/* Fills bytes from the kernel's generator; aborts the process if there is none. */
void os_random(void *bytes, size_t len);
uint64_t os_random_u64(void);

/* This host's name, cut to fit; "localhost" when the system has none. */
void os_host_name(char *name, size_t size);

/* "user@host" of this process, for the tables that record an operator's name. */
#define OS_OPERATOR_SIZE 128
void os_operator_name(char name[OS_OPERATOR_SIZE]);

long os_pid(void);
bool os_is_root(void);

/* Resident set of this process in bytes, from /proc; 0 where there is none. CPU time of the
 * process in microseconds (user + system). */
uint64_t os_rss_bytes(void);
uint64_t os_cpu_us(void);

/* Values that a service manager (systemd) has put into the environment of this process. */
struct os_service {
    const char *notify_socket; /* "" when there is no manager */
    int64_t watchdog_ms;       /* longest time between two notifications; 0: no watchdog */
};
struct os_service os_service(void);

/* The limit of open files and sockets, after raising it to the system's maximum. */
size_t os_files_max(void);

/* Lets all threads share few heaps, so that memory which one thread has freed serves another.
 * Without it the C library makes up to eight heaps per core, and what a burst left in each is never
 * given back. Before the first thread; MALLOC_ARENA_MAX in the environment wins. */
void os_share_heaps(void);

/* Names the calling thread for debuggers and top; 15 characters at most are kept. */
void os_thread_name(const char *name);

#endif
