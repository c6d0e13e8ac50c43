# SPDX-License-Identifier: MIT
tallybox_test(test_progress unit unit/test_progress.c LINKS common)
foreach(name IN ITEMS vote_csv vote_json)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS producer_core)
endforeach()
tallybox_test(test_vote flow flow/test_vote.c flow/fake_votes.c LINKS producer_core)
