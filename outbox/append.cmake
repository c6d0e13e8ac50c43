# SPDX-License-Identifier: MIT
# outbox_append: the public way to append events, for our own producer and for C applications.
house_library(outbox_append ${CMAKE_CURRENT_LIST_DIR}/outbox_mysql.c LINKS common)
target_link_libraries(outbox_append PRIVATE dep::jansson)
