/* SPDX-License-Identifier: MIT */
/* A daemon of two invented roles in a child process. The test reads its log while it runs and
 * requests its admin pages. No step waits for a fixed time: each waits for a line of the log. */
#ifndef TESTS_FLOW_DAEMON_FIXTURE_H
#define TESTS_FLOW_DAEMON_FIXTURE_H

#include "common/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Memory that the test and its child share. */
struct shared {
    atomic_int gate;     /* the answer of the gate, an enum rc */
    atomic_bool migrate; /* the argument of the gate */
    atomic_bool sick;    /* the first role is not ready */
    atomic_bool fail;    /* the roles stop the process */
    atomic_int raise;    /* the first role raises this signal; 0: none */
    atomic_bool join_waits;
    char admin_url[256]; /* of the child; written before it logs that it has started */
};

extern struct shared *shared;

/* How the child's roles behave; set before it starts. */
struct behaviour {
    enum rc open;  /* of the second role */
    enum rc start; /* of the second role */
    bool join_hangs;
    bool waits; /* the first role has waited for a minute when it starts */
};

extern struct behaviour behaviour;

struct child {
    pid_t pid;
    FILE *log;
    char line[1024]; /* the last one read */
    int port;        /* of the admin pages */
};

/* A list of texts for the functions below. */
#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Makes `shared`; of a group of tests. */
int daemon_group_setup(void **state);

/* Everything behaves; before each test. */
int daemon_setup(void **state);

/* arguments: NULL-ended, after the command's name, or NULL. */
void child_start(struct child *child, const char *const *arguments);

/* Reads the log up to a line with text in it. */
void child_says(struct child *child, const char *text);

/* Reads the lines that follow, which must be these. */
void child_says_next(struct child *child, const char *const *texts);

/* Waits for the admin pages, and for the pages and the roles. */
void child_listens(struct child *child);
void child_works(struct child *child, const char *const *arguments);

/* Reads the log to its end and returns the exit code. */
int child_end(struct child *child);

/* As child_end(), of a child that ends of a signal, which it returns. */
int child_crash(struct child *child);

/* The status of the answer, which child_answer() is then in whole, headers and all. host: of the
 * header Host, otherwise "localhost". */
int child_ask(const struct child *child, const char *method, const char *path);
int child_ask_as(const struct child *child, const char *host, const char *method, const char *path);
const char *child_answer(void);

#endif
