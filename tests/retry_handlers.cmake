# SPDX-License-Identifier: MIT
foreach(name IN ITEMS endpoints exec_options http_options kafka_options steps)
  tallybox_test(test_retry_${name} unit unit/test_retry_${name}.c LINKS retry_handler_core)
endforeach()
tallybox_test(test_retry_exec flow flow/test_retry_exec.c LINKS retry_handler_core)
tallybox_test(test_retry_kafka flow flow/test_retry_kafka.c LINKS retry_handlers mock_sockets
              dep::rdkafka)
tallybox_test(test_retry_http flow flow/test_retry_http.c flow/raw_peer.c LINKS retry_handlers
              dep::crypto)
