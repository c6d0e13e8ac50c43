/* SPDX-License-Identifier: MIT */
/* The handlers of votes and totals, for the table of routes. They run on the HTTP server's thread
 * and only put the request into a queue. */
#ifndef PRODUCER_HTTP_API_VOTES_H
#define PRODUCER_HTTP_API_VOTES_H

struct api_call;
struct api_config;

void api_post_votes(const struct api_config *config, const struct api_call *call);
void api_get_votes(const struct api_config *config, const struct api_call *call);
void api_get_content(const struct api_config *config, const struct api_call *call);

#endif
