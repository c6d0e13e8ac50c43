/* SPDX-License-Identifier: MIT */
/* What the parts of the fetching step share: fetch.c reads and sends, fetch_return.c takes back,
 * fetch_watch.c looks after what nobody tells. */
#ifndef CONSUMER_INGEST_FETCH_INSIDE_H
#define CONSUMER_INGEST_FETCH_INSIDE_H

#include "common/err.h"
#include "consumer/ingest/fetch.h"

#include <stdint.h>

/* The step cannot go on: it ends after this call. */
void fetch_fail(struct fetch *fetch, const struct err *err);

void fetch_broker_good(struct fetch *fetch, int64_t now_ms);
void fetch_broker_bad(struct fetch *fetch, int64_t now_ms, const struct err *err);

void fetch_release_job(struct fetch *fetch, struct job *job);
void fetch_drop_filling(struct fetch *fetch, struct part *part);
void fetch_stop_part(struct fetch *fetch, struct part *part, const struct err *err, int64_t now_ms);
void fetch_say_recovered(struct part *part);

/* Takes in all that the appliers have done. */
void fetch_take_back(struct fetch *fetch, int64_t now_ms);
void fetch_watch_links(struct fetch *fetch, int64_t now_ms);

/* Topics that were made again, partitions that recovered or went quiet. */
void fetch_watch_parts(struct fetch *fetch, int64_t now_ms);
/* Nobody tells when a broker is back: it must be asked. */
void fetch_watch_broker(struct fetch *fetch, int64_t now_ms);
/* Warns while a topic's configuration lets Kafka remove records that were not read. */
void fetch_watch_topics(struct fetch *fetch, int64_t now_ms);
/* Sets the gauges, and fetch->partitions. */
void fetch_count_up(struct fetch *fetch, int64_t now_ms);

#endif
