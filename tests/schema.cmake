# SPDX-License-Identifier: MIT
foreach(name IN ITEMS shape statement vote_event)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS schema_core)
endforeach()
tallybox_test(test_migrate flow flow/test_migrate.c flow/fake_migrate_store.c LINKS schema_core)
