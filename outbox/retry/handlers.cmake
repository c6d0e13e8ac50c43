# SPDX-License-Identifier: MIT
# retry_handler_core: what tasks of each handler say, and what is decided on the way.
house_library(
  retry_handler_core
  child.c
  endpoints.c
  exec_handler.c
  exec_options.c
  http_options.c
  kafka_options.c
  outcome.c
  steps_handler.c
  steps_options.c
  task_options.c
  LINKS
  retry_core)
target_link_libraries(retry_handler_core PRIVATE dep::jansson)

# retry_handlers: what runs the tasks; the producer's ways are the relay's.
house_library(
  retry_handlers
  call_http.c
  http_handler.c
  kafka_handler.c
  publisher_kafka.c
  LINKS
  retry_handler_core
  outbox
  common)
target_link_libraries(retry_handlers PRIVATE dep::curl dep::rdkafka)
