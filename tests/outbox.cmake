# SPDX-License-Identifier: MIT
foreach(name IN ITEMS deleter flight gaps note ordering_key relay_row sender share diverted_keys topics window)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS outbox_core)
endforeach()

foreach(name IN ITEMS relay relay_lease relay_moves relay_trouble)
  tallybox_test(test_${name} flow flow/test_${name}.c flow/relay_rig.c flow/relay_world.c
                flow/relay_world_table.c flow/relay_world_tasks.c LINKS outbox_core)
endforeach()

tallybox_test(test_leases flow flow/test_leases.c LINKS outbox_core)
tallybox_test(test_new_task_row unit unit/test_new_task_row.c LINKS outbox_append)
tallybox_test(test_retry_group unit unit/test_retry_group.c LINKS retry_states)
