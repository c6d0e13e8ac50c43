# SPDX-License-Identifier: MIT
tallybox_test(test_broker_kafka flow flow/test_broker_kafka.c LINKS outbox mock_sockets
              dep::rdkafka)
tallybox_test(test_writers unit unit/test_writers.c LINKS outbox)
tallybox_test(test_record unit unit/test_record.c LINKS outbox)
