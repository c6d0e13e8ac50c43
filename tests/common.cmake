# SPDX-License-Identifier: MIT
foreach(name IN ITEMS backoff buf err id log loop metrics nearest ring stop)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS common_core)
endforeach()
foreach(name IN ITEMS config options)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS common)
endforeach()
tallybox_test(test_config_file flow flow/test_config_file.c LINKS common)
tallybox_test(test_role flow flow/test_role.c LINKS common)
