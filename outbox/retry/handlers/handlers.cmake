# SPDX-License-Identifier: MIT
# retry_handler_core: what tasks of each handler say, and what is decided on the way.
tallybox_library(
  retry_handler_core
  handlers/child.c
  handlers/endpoints.c
  handlers/exec_handler.c
  handlers/exec_options.c
  handlers/http_options.c
  handlers/kafka_options.c
  handlers/attempt.c
  handlers/steps_handler.c
  handlers/steps_options.c
  handlers/task_options.c
  LINKS
  retry_core)
target_link_libraries(retry_handler_core PRIVATE dep::jansson)

# retry_handlers: what runs the tasks; the producer's ways are the relay's.
tallybox_library(
  retry_handlers
  handlers/call_http.c
  handlers/http_handler.c
  handlers/kafka_handler.c
  handlers/publisher_kafka.c
  LINKS
  retry_handler_core
  outbox
  common)
target_link_libraries(retry_handlers PRIVATE dep::curl dep::rdkafka)
