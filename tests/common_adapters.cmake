# SPDX-License-Identifier: MIT
foreach(name IN ITEMS db_cluster db_error db_literal http_connections http_frame db_tls kafka_config)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS common)
endforeach()
foreach(name IN ITEMS http http_guard http_limits)
  tallybox_test(test_${name} flow flow/test_${name}.c flow/http_fixture.c LINKS common)
endforeach()
tallybox_test(test_http_tokens flow flow/test_http_tokens.c LINKS common)
tallybox_test(test_kafka flow flow/test_kafka.c LINKS common dep::rdkafka)
