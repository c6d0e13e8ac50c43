# SPDX-License-Identifier: MIT
foreach(name IN ITEMS migrate_target migration shape statement vote_event)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS schema_core)
endforeach()
tallybox_test(test_migrate_report unit unit/test_migrate_report.c LINKS schema_core dep::jansson)
foreach(name IN ITEMS migrate migrate_state)
  tallybox_test(test_${name} flow flow/test_${name}.c flow/fake_migrate_store.c LINKS schema_core)
endforeach()
tallybox_test(test_grants unit unit/test_grants.c LINKS schema_core outbox_lanes)
