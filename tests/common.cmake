# SPDX-License-Identifier: MIT
foreach(name IN ITEMS backoff base64 buf err host id list log loop metrics nearest ring said stop utc
        utf8 when)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS common_core)
endforeach()
foreach(name IN ITEMS config options)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS common)
endforeach()
tallybox_test(test_config_file flow flow/test_config_file.c LINKS common)
foreach(name IN ITEMS admin role)
  tallybox_test(test_${name} flow flow/test_${name}.c flow/daemon_fixture.c LINKS common)
endforeach()
tallybox_test(test_watch flow flow/test_watch.c LINKS common)
