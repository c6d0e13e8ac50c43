/* SPDX-License-Identifier: MIT */
#include "outbox/relay/relay_metrics.h"

#include <assert.h>
#include <stdio.h>

struct kind {
    size_t offset;
    const char *name;
    enum metric_kind kind;
    const char *help;
};

#define AT(field) offsetof(struct relay_metrics, field)

static const struct kind kinds[] = {
    {AT(published), "tallybox_relay_published_total", METRIC_COUNTER,
     "Rows that the broker acknowledged."},
    {AT(deleted), "tallybox_relay_deleted_total", METRIC_COUNTER,
     "Published rows deleted from the outbox."},
    {AT(refused), "tallybox_relay_refused_total", METRIC_COUNTER,
     "Rows that the broker or the relay refused."},
    {AT(moved), "tallybox_relay_moved_total", METRIC_COUNTER,
     "Rows moved from the outbox into the retry queue: refused rows, and later rows of their "
     "keys."},
    {AT(resets), "tallybox_relay_resets_total", METRIC_COUNTER,
     "Times a lane dropped its rows in flight and read them again."},
    {AT(origins_lost), "tallybox_relay_database_changes_total", METRIC_COUNTER,
     "Times a lane started again because its database was restarted or replaced, or reused seqs."},
    {AT(gaps_closed), "tallybox_relay_gaps_closed_total", METRIC_COUNTER,
     "Gaps closed because no open transaction can fill them."},
    {AT(gaps_found), "tallybox_relay_gap_rows_total", METRIC_COUNTER,
     "Rows that were committed after the relay had read a row with a higher seq."},
    {AT(rows), "tallybox_outbox_rows", METRIC_GAUGE,
     "Rows waiting in the outbox, estimated: rolled back rows count until the reader passes them."},
    {AT(oldest_age), "tallybox_outbox_oldest_age_seconds", METRIC_GAUGE,
     "Age of the oldest row in the outbox; 0 when it is empty or another process holds the lane."},
    {AT(open_gaps), "tallybox_relay_open_gaps", METRIC_GAUGE,
     "Ranges of missing seqs that are still open."},
    {AT(in_flight), "tallybox_relay_inflight_rows", METRIC_GAUGE,
     "Rows sent and not yet acknowledged."},
    {AT(in_window), "tallybox_relay_window_rows", METRIC_GAUGE, "Rows read and not yet deleted."},
    {AT(diverted_keys), "tallybox_relay_diverted_keys", METRIC_GAUGE,
     "Keys whose rows go through the retry queue, because one of them was refused."},
    {AT(lease_held), "tallybox_relay_lease_held", METRIC_GAUGE,
     "1 while this process holds the lane."},
    {AT(lease_epoch), "tallybox_relay_lease_epoch", METRIC_GAUGE,
     "Epoch of the last lease that this process held."},
    {AT(send_seconds), "tallybox_relay_send_seconds", METRIC_SECONDS,
     "Time from sending to the acknowledgement, of a sample of rows."},
};

static struct relay_metrics all[RELAY_LANES_MAX];

struct relay_metrics *relay_metrics_of(size_t number, const char *lane)
{
    struct relay_metrics *metrics = &all[number];

    assert(number < RELAY_LANES_MAX);
    snprintf(metrics->labels, sizeof(metrics->labels), "lane=\"%s\"", lane);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct metric *metric = (struct metric *)(void *)((char *)metrics + kinds[i].offset);

        metric->name = kinds[i].name;
        metric->kind = kinds[i].kind;
        metric->help = kinds[i].help;
        metric->labels = metrics->labels;
        metrics_register(metric);
    }
    return metrics;
}

void relay_metrics_register(void)
{
    relay_metrics_of(0, "outbox");
}
