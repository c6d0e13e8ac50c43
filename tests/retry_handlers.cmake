# SPDX-License-Identifier: MIT
tallybox_test(test_retry_kafka_options unit unit/test_retry_kafka_options.c LINKS
              retry_handler_core)
tallybox_test(test_retry_kafka flow flow/test_retry_kafka.c LINKS retry_handlers mock_sockets
              dep::rdkafka)
