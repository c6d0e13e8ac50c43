# SPDX-License-Identifier: MIT
foreach(name IN ITEMS db_error db_literal)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS common)
endforeach()
tallybox_test(test_http flow flow/test_http.c LINKS common)
tallybox_test(test_kafka flow flow/test_kafka.c LINKS common dep::rdkafka)
