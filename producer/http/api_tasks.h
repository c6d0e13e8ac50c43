/* SPDX-License-Identifier: MIT */
/* The handlers of tasks, for the table of routes. They run on the HTTP server's thread and only
 * put the request into a queue. */
#ifndef PRODUCER_HTTP_API_TASKS_H
#define PRODUCER_HTTP_API_TASKS_H

struct api_call;
struct api_config;

void api_post_tasks(const struct api_config *config, const struct api_call *call);
void api_get_tasks(const struct api_config *config, const struct api_call *call);
void api_get_task(const struct api_config *config, const struct api_call *call);

#endif
