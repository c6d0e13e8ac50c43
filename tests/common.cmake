# SPDX-License-Identifier: MIT
foreach(name IN ITEMS backoff buf err id ring stop)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS common_core)
endforeach()
