/* SPDX-License-Identifier: MIT */
/* Which librdkafka the bench's programs, and tallybox beside them, are built with: one JSON
 * line. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>

int main(void)
{
    printf("{\"librdkafka\":\"%s\"}\n", rd_kafka_version_str());
    return 0;
}
