# SPDX-License-Identifier: MIT
# outbox_lanes: which lane a key belongs to; for engines, too.
tallybox_library(outbox_lanes ${CMAKE_CURRENT_LIST_DIR}/lanes.c LINKS common_core)

# outbox_append: the public way to append events and tasks, for the other components and for C applications.
tallybox_library(
  outbox_append
  ${CMAKE_CURRENT_LIST_DIR}/lanes_mysql.c
  ${CMAKE_CURRENT_LIST_DIR}/retry/store/new_task_mysql.c
  ${CMAKE_CURRENT_LIST_DIR}/retry/store/new_task.c
  ${CMAKE_CURRENT_LIST_DIR}/outbox_mysql.c
  ${CMAKE_CURRENT_LIST_DIR}/retry/store/client_mysql.c
  ${CMAKE_CURRENT_LIST_DIR}/retry/store/group_mysql.c
  LINKS
  outbox_lanes
  retry_states
  common)
target_link_libraries(outbox_append PRIVATE dep::crypto dep::jansson)

# retry_states: the words for owners and states of tasks, the rules of groups, and whether a task could run.
# retry_find: tasks as people and programs see them.
tallybox_library(retry_states ${CMAKE_CURRENT_LIST_DIR}/retry/clients/client.c
                 ${CMAKE_CURRENT_LIST_DIR}/retry/http_url.c ${CMAKE_CURRENT_LIST_DIR}/retry/operate.c
                 ${CMAKE_CURRENT_LIST_DIR}/retry/retry.c LINKS common_core)
target_link_libraries(retry_states PRIVATE dep::jansson)
tallybox_library(retry_find ${CMAKE_CURRENT_LIST_DIR}/retry/store/find_mysql.c LINKS retry_states common)
