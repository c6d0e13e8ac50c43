/* SPDX-License-Identifier: MIT */
#include "producer/task/retry_traffic.h"

#include "outbox/retry/handler.h"

#include <string.h>

/* The header is "group/scene"; neither name contains a slash. */
static bool is_of_scene(const char *header, const char *group, const char *scene)
{
    size_t len = strlen(group);

    return strncmp(header, group, len) == 0 && header[len] == '/' &&
           strcmp(header + len + 1, scene) == 0;
}

/* Invariant Q11. */
bool retry_traffic_refuses(const struct retry_traffic *traffic, const char *group,
                           const char *scene, struct request_fault *fault)
{
    if (traffic->scene && is_of_scene(traffic->scene, group, scene)) {
        request_fault_set(fault, REQUEST_FAULT_RETRY_TRAFFIC,
                          "it comes from within an attempt of its own scene (header " HEADER_SCENE
                          "): answer the attempt with a failure instead, and it is tried again");
        return true;
    }
    if (traffic->no_retry) {
        request_fault_set(fault, REQUEST_FAULT_RETRY_TRAFFIC,
                          "the header " HEADER_NO_RETRY " forbids a retry by its receiver: answer "
                          "the call with a failure instead, and its sender tries again");
        return true;
    }
    return false;
}
