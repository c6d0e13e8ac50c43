/* SPDX-License-Identifier: MIT */
/* An HTTP server on the loopback whose faults are chosen by the path of the request; it runs on a
 * thread of its own and serves one connection at a time. */
#ifndef TESTS_FLOW_RAW_PEER_H
#define TESTS_FLOW_RAW_PEER_H

#include <pthread.h>
#include <stdatomic.h>

#define RAW_REQUEST_SIZE 8192

struct raw_peer {
    int fd;
    int port;
    pthread_t thread;
    atomic_bool over;
    atomic_int requests;
    atomic_int connections;
    char request[RAW_REQUEST_SIZE]; /* the one under way */
    pthread_mutex_t lock;           /* guards last */
    char last[RAW_REQUEST_SIZE];
};

/*  /ok        200 "done"                 /status/N   N, and nothing else
 *  /later     503, Retry-After: 7        /never      422, tallybox-no-retry
 *  /redirect  302 to /ok                 /huge       200 and 3 MiB
 *  /heads     headers without end        /half       a part of the body, then closed
 *  /silent    nothing                    /stall      the headers, and no body
 *  /rubbish   no HTTP                    /json      200 {"code": 7} */
void raw_peer_open(struct raw_peer *peer);
void raw_peer_close(struct raw_peer *peer);

/* Copies the last request that was read whole. */
void raw_peer_last(struct raw_peer *peer, char request[RAW_REQUEST_SIZE]);

#endif
