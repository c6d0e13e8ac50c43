# SPDX-License-Identifier: MIT
foreach(name IN ITEMS bucket cron judge order_row policy span wait zone_rule)
  tallybox_test(test_retry_${name} unit unit/test_retry_${name}.c LINKS retry_core)
endforeach()
tallybox_test(test_retry_zone flow flow/test_retry_zone.c LINKS retry_core)
tallybox_test(test_retry flow flow/test_retry.c flow/retry_world.c LINKS retry_core)
tallybox_test(test_retry_request unit unit/test_retry_request.c LINKS retry_core)
tallybox_test(test_retry_text unit unit/test_retry_text.c LINKS retry_core dep::jansson)
