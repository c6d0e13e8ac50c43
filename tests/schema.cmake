# SPDX-License-Identifier: MIT
foreach(name IN ITEMS shape statement vote_event)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS schema_core)
endforeach()
