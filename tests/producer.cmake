# SPDX-License-Identifier: MIT
tallybox_test(test_progress unit unit/test_progress.c LINKS common)
foreach(name IN ITEMS lane_watch task_json vote_csv vote_json)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS producer_core)
endforeach()
tallybox_test(test_outbox unit unit/test_outbox.c ${PROJECT_SOURCE_DIR}/outbox/outbox_mysql.c LINKS
              outbox_lanes dep::jansson)
tallybox_test(test_vote flow flow/test_vote.c flow/fake_votes.c LINKS producer_core)
foreach(name IN ITEMS commit commit_trouble)
  tallybox_test(test_${name} flow flow/test_${name}.c flow/commit_bench.c flow/fake_votes.c LINKS
                producer_core)
endforeach()
foreach(name IN ITEMS api api_scopes)
  tallybox_test(test_${name} flow flow/test_${name}.c flow/api_bench.c flow/fake_votes.c LINKS producer)
endforeach()
tallybox_test(test_task_intake flow flow/test_task_intake.c LINKS producer_core)
