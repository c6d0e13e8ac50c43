# SPDX-License-Identifier: MIT
# retry_handler_core: the handlers without a broker or HTTP, and what all share.
tallybox_library(
  retry_handler_core
  handlers/child.c
  handlers/exec_handler.c
  handlers/steps_handler.c
  handlers/task_options.c
  handler.c
  LINKS
  retry_core)
target_link_libraries(retry_handler_core PRIVATE dep::jansson)

# retry_handlers: the handlers that use a library; the producer's settings are the relay's.
tallybox_library(
  retry_handlers
  handlers/call_http.c
  handlers/exact_publisher_kafka.c
  handlers/http_handler.c
  handlers/kafka_handler.c
  handlers/publisher_kafka.c
  handlers/record_topics_kafka.c
  LINKS
  retry_handler_core
  outbox
  common)
target_link_libraries(retry_handlers PRIVATE dep::curl dep::jansson dep::rdkafka)
