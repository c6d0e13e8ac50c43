/* SPDX-License-Identifier: MIT */
/* Decides whether a submitted task is retry traffic: whether the application submits it while it
 * serves an attempt of the queue. The attempt is tried again by its own scene; a second task of it
 * would multiply the calls. The application passes on the headers that it got with the attempt
 * (outbox/retry/handler.h). Pure; any thread. */
#ifndef PRODUCER_TASK_RETRY_TRAFFIC_H
#define PRODUCER_TASK_RETRY_TRAFFIC_H

#include "producer/http/request_json.h"

#include <stdbool.h>

/* The headers of the request that submits. */
struct retry_traffic {
    bool no_retry;     /* it has HEADER_NO_RETRY, with any value */
    const char *scene; /* the value of HEADER_SCENE, or NULL */
};

/* True: a task of this group and scene is refused, for the reason in *fault. A request with
 * HEADER_NO_RETRY may submit no task at all, one with HEADER_SCENE alone none of this scene. */
bool retry_traffic_refuses(const struct retry_traffic *traffic, const char *group,
                           const char *scene, struct request_fault *fault);

#endif
